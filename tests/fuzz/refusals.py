"""Which errors of a task are right, for what. Pure.

A task that stops with code X is right only if a line here gives X to a feature that the history has.
"""

from __future__ import annotations

from collections.abc import Collection
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


TABLE: tuple[Refusal, ...] = (
    _one(36014, "rows are in the binlog as statements", "binlog_format=MIXED"),
    _one(36014, "rows are in the binlog as statements", "binlog_format=STATEMENT"),
    _one(11126, "the binlog has only a part of a row", "row image=MINIMAL"),
    _one(11126, "the binlog has only a part of a row", "row image=NOBLOB"),
    _one(
        44006,
        "the upstream's structure when the task began is that after the statement",
        "mode=incremental",
        words="exists already",
    ),
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
    _one(10006, "the target's column takes no NULL", "target=not null", words="cannot be null"),
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
    _one(36067, "which rows stay depends on the server's order of them", "statement=alter ignore add unique"),
    _one(
        36061,
        "MariaDB 10.11 has no WITHOUT VALIDATION",
        "servers=mysql to mariadb",
        "statement=exchange partition",
        words="VALIDATION",
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
    _one(36069, "the upstream no longer has the binlog that the task had read", "event=reset"),
    _one(
        36068,
        "rows get numbers in an order that a keyless table does not keep",
        "statement=add auto increment",
        "primary key=none",
    ),
    *(
        _one(
            20070,
            "a tool's new table lacks the foreign key, which the target keeps",
            f"statement={tool}",
            f"foreign key={way}",
        )
        for tool in ("pt-osc", "gh-ost")
        for way in ("cascade", "set null")
    ),
    *(
        _one(
            44019,
            "the target's structure differs, so the upstream's past one is not certain",
            "mode=incremental",
            f"target={way}",
        )
        for way in ("narrow", "not null", "wide", "extra column", "on update", "fewer keys")
    ),
)


def reason(code: int, text: str, features: Collection[str]) -> str | None:
    """Why stopping with the code is right for a history with these features; None where it is a finding."""
    have = frozenset(features)
    return next((one.why for one in TABLE if one.code == code and one.features <= have and one.words in text), None)
