"""Which errors of a task are right, for what. Pure.

A task that stops with code X is right only if a line here gives X to a feature that the history has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Refusal:
    """``code`` is right for histories with all of ``features``; ``why`` is for readers of the report."""

    code: int
    features: frozenset[str]
    why: str
    #: Words that the error must have.
    words: str = ""


def _one(code: int, why: str, *features: str, words: str = "") -> Refusal:
    return Refusal(code, frozenset(features), why, words)


#: A history has it if the target did not take a table that the search prepared there.
NO_TABLE = "target table=refused"

#: What TiDB refuses, by its own error's words. Each statement stops the task with its place.
_OF_TIDB: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "TiDB changes no column's type in a partitioned table",
        "table is partition table",
        ("modify column", "rename column", "move column"),
    ),
    (
        "TiDB changes no column's collation in a key",
        "when index is defined on it",
        ("modify column", "convert charset"),
    ),
    (
        "TiDB does not convert between utf8mb4 and other charsets",
        "Unsupported modify charset",
        ("convert charset", "modify column"),
    ),
    (
        "TiDB does not convert between utf8mb4 and other charsets",
        "Unsupported modifying collation",
        ("modify column",),
    ),
    ("TiDB changes no column of a primary key", "primary key flag", ("modify column", "convert charset")),
    (
        "TiDB takes no column of a key of several columns away",
        "composite index covered",
        ("drop column", "several clauses"),
    ),
    ("TiDB numbers no rows that are there", "AUTO_INCREMENT when altering", ("add auto increment",)),
    ("TiDB adds no stored generated column", "stored column through ALTER TABLE", ("add generated",)),
    (
        "a clustered primary key stays in TiDB",
        "when the table is using clustered index",
        ("add primary key", "drop primary key"),
    ),
)


def _refused_by_tidb() -> Iterator[Refusal]:
    for why, words, statements in _OF_TIDB:
        for family in ("mariadb", "mysql"):
            for statement in statements:
                yield _one(36061, why, f"servers={family} to tidb", f"statement={statement}", words=words)


#: How the target's table may be of another form.
_DIFFERING = ("narrow", "not null", "wide", "other charset", "extra column", "on update", "fewer keys")

TABLE: tuple[Refusal, ...] = (
    *_refused_by_tidb(),
    *(_one(code, "the target has refused the table, so it has none", NO_TABLE) for code in (36070, 44019)),
    _one(36014, "rows are in the binlog as statements", "binlog_format=MIXED"),
    _one(36014, "rows are in the binlog as statements", "binlog_format=STATEMENT"),
    _one(11126, "the binlog has only a part of a row", "row image=MINIMAL"),
    _one(11126, "the binlog has only a part of a row", "row image=NOBLOB"),
    _one(11126, "in MIXED, MariaDB logs only the written columns of some statements", "binlog_format=MIXED"),
    *(
        _one(
            44019,
            "the upstream has moved or replaced a column since",
            "mode=incremental",
            f"statement={kind}",
            words="not certain",
        )
        for kind in ("move column", "several clauses")
    ),
    *(
        _one(
            44019,
            "the upstream has given a column another charset, other members or another expression since",
            "mode=incremental",
            f"statement={kind}",
            words="other definitions",
        )
        for kind in ("modify column", "convert charset")
    ),
    _one(
        44019,
        "the upstream has moved the table since, and MariaDB's JSON is another type",
        "servers=mysql to mariadb",
        "mode=incremental",
        "type=json",
        "statement=rename to other schema",
        words="no structure of the upstream table",
    ),
    *(
        _one(10006, "the target's column takes no NULL", f"target={way}", words="cannot be null")
        for way in ("not null", "on update")
    ),
    *(
        _one(
            10006,
            "IGNORE upstream kept a zero in a key, where the generated column's expression gives NULL",
            f"attribute={way}",
            f"primary key={key}",
            words="cannot be null",
        )
        for way in ("stored", "stored with zone")
        for key in ("value", "id and value")
    ),
    _one(
        36068,
        "an XA transaction was prepared before the task's start",
        "transaction=xa",
        words="are in the binlog before the task's start",
    ),
    *(
        _one(
            code,
            "the mapped number is outside of the column's CHECK",
            "mapping=partition id",
            "attribute=check",
            words="CONSTRAINT",
        )
        for code in (34019, 10006)
    ),
    _one(
        34019,
        "a MariaDB gave rows an empty text in a new JSON column, which the CHECK of their copies refuses",
        "servers=mariadb to mariadb",
        "statement=add column",
        words="Error 4025 (23000): CONSTRAINT `t.y",
    ),
    _one(
        10006,
        "IGNORE upstream kept bytes that are no geometry where the input had no value",
        "type=point",
        "statement=load data",
        words="Cannot get geometry object",
    ),
    _one(10006, "the value does not fit the target's narrower type", "target=narrow", words="Out of range"),
    _one(10006, "the value does not fit the target's narrower type", "target=narrow", words="Data too long"),
    *(
        _one(36027, "the target's type would store another value", f"target={way}")
        for way in ("narrow", "not null", "on update")
    ),
    *(
        _one(
            code,
            "the target would compute other values of a generated column",
            f"attribute={way} with zone",
            words="comput",
        )
        for code in (34001, 36027)
        for way in ("stored", "virtual")
    ),
    *(
        _one(
            34001,
            "MariaDB has no generated columns that depend on the session's time zone",
            "servers=mysql to mariadb",
            f"attribute={way} with zone",
            words="1901",
        )
        for way in ("stored", "virtual")
    ),
    *(
        _one(
            10006,
            "the target computes one value for rows to which sessions with other time zones gave several",
            f"attribute={way} with zone",
            words="two rows may have one value at the target",
        )
        for way in ("stored", "virtual")
    ),
    _one(
        34019,
        "the target computes one value for rows to which sessions with other time zones gave several",
        "attribute=virtual with zone",
        words="Duplicate entry",
    ),
    _one(
        36061,
        "a tool's new table lacks the foreign key, which the target keeps, and a CHECK may not be of its column",
        "statement=foreign key",
        "statement=add check",
        words="cannot be used in the CHECK clause",
    ),
    *(
        _one(
            36061,
            "a tool's new table lacks the foreign key, which the target keeps, and a table with one has no partitions",
            f"statement={tool}",
            "statement=partition by",
            key,
            words="foreign key constraint fails",
        )
        for tool in ("pt-osc", "gh-ost")
        for key in (*(f"foreign key={way}" for way in ("restrict", "cascade", "set null")), "statement=foreign key")
    ),
    _one(10006, "a row that a filter left at the target is inserted again", "row filter=delete", words="Duplicate"),
    *(
        _one(
            34019,
            "the target that was prepared for extracted names lacks a column that came while the dump ran",
            f"extract={way}",
            f"moment={moment}",
            words="Unknown column",
        )
        for way in ("table", "schema", "source")
        for moment in ("snapshot", "chunk")
    ),
    *(
        _one(
            36067,
            "the binlog has the statement in place of its rows",
            f"binlog_format={way}",
            "statement=create select",
            words="CREATE TABLE … SELECT",
        )
        for way in ("MIXED", "STATEMENT")
    ),
    _one(36067, "sequences are not replicated", "statement=sequence", words="SEQUENCE"),
    # The upstream may have refused what follows the CREATE, for which the feature stands.
    _one(36067, "sequences are not replicated", words="unknown statement; statement: CREATE SEQUENCE"),
    _one(36067, "which rows stay depends on the server's order of them", "statement=alter ignore add unique"),
    _one(
        36061,
        "MariaDB 10.11 has no WITHOUT VALIDATION",
        "servers=mysql to mariadb",
        "statement=exchange partition",
        words="VALIDATION",
    ),
    _one(
        34001,
        "MariaDB 10.11 has none of MySQL 8's collations",
        "servers=mysql to mariadb",
        "statement=convert charset",
        words="Unknown collation",
    ),
    *(
        _one(
            34001,
            "MariaDB has no primary key of generated columns",
            "servers=mysql to mariadb",
            f"attribute={way}",
            words="1903",
        )
        for way in ("stored", "stored with zone")
    ),
    *(
        _one(
            36061,
            "the target's table is of another form than the one that it is exchanged with",
            "statement=exchange partition",
            f"target={way}",
            words="different definitions",
        )
        for way in _DIFFERING
    ),
    _one(
        34001,
        "MariaDB lacks the collation that utf8mb4 stands for in MySQL 8",
        "servers=mysql to mariadb",
        "statement=convert charset",
        words="Unknown collation",
    ),
    _one(36069, "the upstream no longer has the binlog that the task had read", "event=reset"),
    _one(
        36068,
        "rows get numbers in an order that a keyless table does not keep",
        "statement=add auto increment",
        "primary key=none",
    ),
    _one(
        36068,
        "rows get numbers in an order that a keyless table does not keep",
        "statement=add auto increment",
        "statement=drop primary key",
        words="no primary key that is the same",
    ),
    *(
        _one(
            36068,
            "keys of the upstream may be equal at the target, where a key's column has another type",
            "statement=add auto increment",
            f"target={way}",
            words="no primary key that is the same",
        )
        for way in ("narrow", "wide", "other charset")
    ),
    _one(
        36068,
        "the table was altered again since, so its primary key of then is not known",
        "statement=add auto increment",
        "mode=incremental",
        words="not known which primary key",
    ),
    *(
        _one(
            36068,
            "without shard-mode, the slower shard's rows got the default that the faster one has changed since",
            "statement=add default",
            f"merge={way}",
            words="already has the column",
        )
        for way in ("schemas", "tables", "sources")
    ),
    *(
        _one(
            34019,
            "one shard was copied with a column that the other one did not have yet",
            "statement=add default",
            f"merge={way}",
            words="Unknown column 'y",
        )
        for way in ("schemas", "tables", "sources")
    ),
    *(
        _one(
            20070,
            "a tool's new table lacks the foreign key, which the target keeps",
            f"statement={tool}",
            key,
        )
        for tool in ("pt-osc", "gh-ost")
        for key in ("foreign key=cascade", "foreign key=set null", "statement=foreign key")
    ),
    *(
        _one(
            44019,
            "the target's structure differs, so the upstream's past one is not certain",
            "mode=incremental",
            f"target={way}",
        )
        for way in _DIFFERING
    ),
)


#: A task that reads such a binlog nearly always stops, whatever else the history has.
STOPPING: frozenset[str] = frozenset(
    {
        "binlog_format=MIXED", "binlog_format=STATEMENT", "row image=MINIMAL", "row image=NOBLOB", "event=reset",
        "statement=sequence",
    }
)  # fmt: skip


def refusal(code: int, text: str, features: Collection[str]) -> Refusal | None:
    """What makes stopping with the code right for a history with these features; None where it is a finding."""
    have = frozenset(features)
    return next((one for one in TABLE if one.code == code and one.features <= have and one.words in text), None)


def reason(code: int, text: str, features: Collection[str]) -> str | None:
    """As :func:`refusal`, in words."""
    found = refusal(code, text, features)
    return None if found is None else found.why
