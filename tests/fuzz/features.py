"""The catalogue of features: parameters and their values, and which server has which. Pure.

A feature is written ``parameter=value``. A history has one value of some parameters (its primary key) and several of
others (its statements).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations

from tests.fuzz import tidb
from tests.fuzz.values import NARROWER, WIDER

_MARIADB = frozenset(
    {
        "mariadb", "check", "period", "invisible", "analyze update", "alter ignore", "default expression", "inet6",
        "virtual in key", "limit in delete", "statement format", "sequence", "text key default",
        "returning", "many charsets", "many collations", "row metadata",
    }
)  # fmt: skip
_MYSQL_8 = frozenset(
    {
        "mysql", "default expression", "functional key", "statement format", "mysql 8", "json", "many charsets", "with",
        "without validation", "many collations", "row metadata",
    }
)  # fmt: skip
#: What kinds of servers can do. Names of kinds are those of PAIR=.
ABILITIES: Mapping[str, frozenset[str]] = {
    "mariadb": _MARIADB | {"uuid"},
    "mariadb-11.8": _MARIADB | {"uuid", "uca1400", "without validation"},
    "mysql-5.7": frozenset(
        {"mysql", "json", "statement format", "many charsets", "without validation", "many collations"}
    ),
    "mysql-8.0": _MYSQL_8 - {"default expression", "functional key"},
    "mysql-8.0-newest": _MYSQL_8 | {"check", "invisible"},
    "mysql-8.4": _MYSQL_8 | {"check", "invisible"},
    "mysql-9.7": _MYSQL_8 | {"check", "invisible"},
    "tidb": frozenset({"mysql", "json", "tidb"}),
}


@dataclass(frozen=True)
class Pair:
    """Two servers: ``upstream:target``."""

    upstream: str
    target: str

    @staticmethod
    def parse(text: str) -> Pair:
        upstream, colon, target = text.partition(":")
        target = target if colon else upstream
        for kind in (upstream, target):
            if kind not in ABILITIES:
                raise ValueError(f"PAIR={text}: no server {kind!r}; there are {', '.join(ABILITIES)}")
        if upstream == "tidb":
            raise ValueError(f"PAIR={text}: TiDB has no binlog, so it can only be a target")
        return Pair(upstream, target)

    def __str__(self) -> str:
        return f"{self.upstream}:{self.target}"

    @property
    def families(self) -> str:
        """As the table of refusals names them: ``mysql to mariadb``."""
        return " to ".join(kind.split("-")[0] for kind in (self.upstream, self.target))

    def has(self, ability: str) -> bool:
        """Whether the upstream has it, and the target too where structures must be equal."""
        both = ability in ABILITIES[self.target] or ability in _UPSTREAM_ALONE
        return ability in ABILITIES[self.upstream] and both


#: Abilities of statements and sessions: the target never sees them.
_UPSTREAM_ALONE = frozenset(
    {"analyze update", "alter ignore", "statement format", "limit in delete", "returning", "with", "row metadata"}
)


@dataclass(frozen=True)
class Parameter:
    """``needs``: value → the ability without which a pair lacks it. ``several``: a history may have more than one."""

    name: str
    values: Sequence[str]
    needs: Mapping[str, str] = field(default_factory=dict)
    several: bool = False

    def of(self, pair: Pair) -> list[str]:
        """The values that a pair of servers has."""
        return [value for value in self.values if value not in self.needs or pair.has(self.needs[value])]


TYPES = (
    "tinyint", "smallint unsigned", "int", "bigint unsigned", "decimal", "float", "double", "bit", "year", "date",
    "datetime", "datetime(6)", "timestamp", "timestamp(3)", "time", "time(6)", "char", "varchar", "text", "binary",
    "varbinary", "blob", "enum", "set", "json", "inet6", "uuid", "mediumint", "longtext", "longblob", "point",
)  # fmt: skip
COLLATIONS = (
    "utf8mb4_bin", "utf8mb4_general_ci", "utf8mb4_unicode_ci", "utf8mb4_czech_ci", "utf8mb4_danish_ci",
    "latin1_swedish_ci", "utf8mb4_uca1400_ai_ci", "utf8mb4_0900_ai_ci", "gbk_chinese_ci", "utf8mb4_nopad_bin",
    "sjis_japanese_ci", "cp1250_general_ci", "utf16_unicode_ci",
)  # fmt: skip
ATTRIBUTES = (
    "none", "not null", "default", "default expression", "on update", "stored", "virtual", "virtual with zone",
    "stored with zone", "invisible", "check",
)  # fmt: skip
STATEMENTS = (
    "insert", "insert many", "insert ignore", "insert select", "replace", "on duplicate key", "update", "update same",
    "update key", "update ignore", "update all", "update joined", "delete", "delete joined", "delete all",
    "swap values", "reuse value", "restore value", "delete and insert", "load data",
    "truncate", "add column", "drop column", "modify column", "rename column", "change default", "add index",
    "drop index", "add unique", "alter ignore add unique", "add primary key", "rename table", "rename swap",
    "rename to other schema", "exchange partition", "add partition", "drop partition", "truncate partition",
    "create like", "create select", "drop and create", "create or replace", "drop table", "drop database", "analyze",
    "analyze update", "optimize", "temporary create", "temporary shadow", "temporary truncate", "temporary alter",
    "temporary rename", "temporary drop", "pt-osc", "gh-ost", "xa", "savepoint", "add auto increment",
    "convert charset", "create index", "rename index", "drop primary key", "foreign key", "add check", "schema charset",
    "table option", "partition by", "add generated", "several clauses", "move column", "view", "trigger", "procedure",
    "returning", "with", "create if not exists", "sequence", "replace select", "for portion of", "drop tables",
    "alter rename", "if exists", "add default",
)  # fmt: skip

CATALOGUE: tuple[Parameter, ...] = (
    # The task.
    Parameter("mode", ("all", "incremental", "load&sync", "full")),
    Parameter("gtid", ("off", "on")),
    Parameter("safe", ("off", "on")),
    Parameter("compact", ("default", "off")),
    Parameter("multiple", ("default", "off")),
    Parameter("workers", ("16", "1")),
    Parameter("route", ("none", "schema", "table")),
    Parameter("rule", ("none", "drop database", "drop table")),
    Parameter(
        "event",
        (
            "none",
            "pause",
            "crash before",
            "crash after",
            "kill",
            "cut target",
            "cut upstream",
            "reset",
            "restart target",
            "restart upstream",
            "failover",
            "transfer",
            "relay restart",
            "relay killed",
            "relay purge",
        ),
    ),
    Parameter(
        "target",
        ("same", "narrow", "not null", "wide", "other charset", "extra column", "on update", "fewer keys"),
        {"on update": "mariadb", "other charset": "many charsets"},
    ),
    Parameter(
        "merge",
        (
            "none",
            "schemas",
            "tables",
            "sources",
            "pessimistic schemas",
            "pessimistic tables",
            "pessimistic sources",
        ),
    ),
    Parameter("mapping", ("none", "partition id", "prefix")),
    Parameter("extract", ("none", "table", "schema", "source")),
    Parameter("row filter", ("none", "insert", "update old", "update new", "delete")),
    Parameter("relay", ("off", "on")),
    # The upstream as a whole.
    Parameter("server zone", ("+00:00", "+08:00", "-05:00")),
    Parameter("server sql_mode", ("default", "none", "ansi quotes", "no zero date off")),
    Parameter("row metadata", ("default", "FULL"), {"FULL": "row metadata"}),
    # Its sessions.
    Parameter("session zone", ("default", "+00:00", "+05:30", "-11:00"), several=True),
    Parameter("session sql_mode", ("default", "none", "no_auto_value_on_zero", "ansi"), several=True),
    Parameter("binlog_format", ("ROW", "MIXED", "STATEMENT"), {"MIXED": "statement format"}, several=True),
    Parameter("row image", ("FULL", "MINIMAL", "NOBLOB"), several=True),
    Parameter("connection", ("utf8mb4", "latin1", "gbk"), several=True),
    Parameter("increment", ("1", "7", "7 from 3"), several=True),
    Parameter("foreign checks", ("1", "0"), several=True),
    Parameter("unique checks", ("1", "0"), several=True),
    Parameter("transaction", ("autocommit", "begin", "savepoint", "xa", "rollback"), several=True),
    # The table.
    Parameter("type", TYPES, {"inet6": "inet6", "uuid": "uuid", "point": "many charsets"}),
    Parameter(
        "collation",
        ("none", *COLLATIONS),
        {
            "utf8mb4_uca1400_ai_ci": "uca1400",
            "utf8mb4_0900_ai_ci": "mysql 8",
            "utf8mb4_nopad_bin": "mariadb",
            **dict.fromkeys(("utf8mb4_czech_ci", "utf8mb4_danish_ci", "latin1_swedish_ci"), "many collations"),
            **dict.fromkeys(("sjis_japanese_ci", "cp1250_general_ci", "utf16_unicode_ci"), "many charsets"),
        },
    ),
    Parameter(
        "attribute",
        ATTRIBUTES,
        {"default expression": "default expression", "invisible": "invisible", "check": "check"},
    ),
    Parameter("primary key", ("id", "value", "id and value", "none", "auto")),
    Parameter(
        "further key",
        (
            "none",
            "unique",
            "unique pair",
            "unique prefix",
            "two unique",
            "three unique",
            "soft delete",
            "functional",
            "index",
            "without overlaps",
        ),
        {"functional": "functional key", "without overlaps": "period"},
    ),
    Parameter("partition", ("none", "hash", "key", "range", "list")),
    Parameter("foreign key", ("none", "restrict", "cascade", "set null")),
    Parameter(
        "statement",
        STATEMENTS,
        {
            "alter ignore add unique": "alter ignore",
            "analyze update": "analyze update",
            "create or replace": "mariadb",
            "returning": "returning",
            "with": "with",
            "sequence": "sequence",
            "for portion of": "period",
            "if exists": "mariadb",
        },
        several=True,
    ),
    Parameter("moment", ("snapshot", "chunk", "dumped", "live"), several=True),
)
PARAMETERS: Mapping[str, Parameter] = {parameter.name: parameter for parameter in CATALOGUE}

#: Pairs that no history can have, each with one feature and all that exclude it.
_TEXT = frozenset({"char", "varchar", "text", "longtext", "enum", "set"})
_TIMES = frozenset({"datetime", "datetime(6)", "timestamp", "timestamp(3)"})
_ZONED = frozenset({"timestamp", "timestamp(3)"})
_WITHOUT_KEY = frozenset({"text", "blob", "json", "longtext", "longblob", "point"})


def feature(parameter: str, value: str) -> str:
    return f"{parameter}={value}"


@cache
def exclusions(one: str) -> frozenset[str]:
    """The features of other parameters that no history has together with this one."""
    every = (feature(parameter.name, value) for parameter in CATALOGUE for value in parameter.values)
    return frozenset(other for other in every if excluded(one, other))


def excluded(a: str, b: str) -> bool:
    """Whether no history has both features."""
    return _excluded(a, b) or _excluded(b, a)


def lacking(pair: Pair, one: str) -> frozenset[str]:
    """As :func:`exclusions`, with what only these servers exclude."""
    found = exclusions(one)
    if pair.upstream.startswith("mariadb") and one in _BULK:
        found |= _BULK - {one}
    if "mariadb" in (pair.upstream.split("-")[0], pair.target.split("-")[0]):
        found |= _NOT_IN_MARIADB.get(one, frozenset())
    if pair.target == "tidb":
        found |= tidb.LACKING.get(one, frozenset())
    return found


#: In a session with both, a MariaDB writes an empty table in bulk: at a duplicate key that IGNORE skips, it
#: empties the table, and the rows stay in the binlog. No replica can have what the upstream has.
_BULK = frozenset({feature("foreign checks", "0"), feature("unique checks", "0")})
_VALUES_IN_KEY = frozenset({feature("primary key", "value"), feature("primary key", "id and value")})
_STORED = frozenset({feature("attribute", "stored"), feature("attribute", "stored with zone")})
#: It has no primary keys of generated columns.
_NOT_IN_MARIADB = {**dict.fromkeys(_VALUES_IN_KEY, _STORED), **dict.fromkeys(_STORED, _VALUES_IN_KEY)}


#: What a task without replication does not have, or does not depend on.
_OF_REPLICATION: Mapping[str, Sequence[str]] = {
    "safe": ("on",),
    "compact": ("off",),
    "multiple": ("off",),
    "workers": ("1",),
    "rule": ("drop database", "drop table"),
    "relay": ("on",),
    "merge": ("pessimistic schemas", "pessimistic tables", "pessimistic sources"),
    "row filter": ("insert", "update old", "update new", "delete"),
}

_GENERATED = frozenset({"stored", "virtual", "stored with zone", "virtual with zone"})
#: What a target changes of the column in question.
_OF_COLUMN = frozenset({"narrow", "not null", "wide", "other charset", "on update"})
#: Texts that differ in spaces at the end are equal in the other charset's collation.
_WITHOUT_PAD = frozenset({"utf8mb4_0900_ai_ci", "utf8mb4_nopad_bin"})


def _excluded(a: str, b: str) -> bool:
    (left, value), (right, other) = a.split("=", 1), b.split("=", 1)
    if left in RULED and value != "none":
        return _excluded_by_rules(left, value, right, other)
    if "statement" in (left, right):
        return _excluded_by_statement(left, value, right, other)
    match left, right:
        case "type", "collation":
            # Their elements have an é.
            lacks = other == "sjis_japanese_ci" and value in ("enum", "set")
            return lacks or (value in _TEXT) == (other == "none")
        case "type", "attribute":
            return not fits(other, value)
        case "type", "primary key":
            return value in _WITHOUT_KEY and other in ("value", "id and value")
        case "type", "further key":
            return not key_fits(other, value)
        case "type", "target":
            return not target_fits(other, value)
        case "collation", "target":
            return other == "other charset" and (value == "none" or value in _WITHOUT_PAD)
        case "attribute", "target":
            # A target changes the column's type, which is that of a generated column's expression.
            no_null = value in ("not null", "on update") and other == "not null"
            return no_null or (value in _GENERATED and other in _OF_COLUMN)
        case "primary key", "target":
            return other == "not null" and value in ("value", "id and value")
        case "further key", "target":
            return other == "fewer keys" and value in ("none", "index")
        case "further key", "partition":
            return value == "without overlaps" and other != "none"
        case "mode", "target":
            return value != "incremental" and other != "same"
        case "mode", "moment":
            return other == "live" if value == "full" else value == "incremental" and other != "live"
        case "mode", "event":
            return value == "full" and other != "none"
        case "mode", _:
            return value == "full" and other in _OF_REPLICATION.get(right, ())
        case "partition", "foreign key":
            return value != "none" and other != "none"
        case "relay", "event":
            return other.startswith("relay") if value == "off" else other == "reset"
        case "event", "moment":
            # What is written before makes the new binlog's positions others than the old one's.
            return value == "reset" and other != "live"
        case "gtid", "event":
            return value == "off" and other == "failover"
        case "attribute", "primary key":
            return value in ("virtual", "virtual with zone") and other in ("value", "id and value")
    return False


def _excluded_by_statement(left: str, value: str, right: str, other: str) -> bool:
    match left, right:
        case "statement", "partition":
            # Only RANGE has a last partition that can be cut in two.
            named = ("range",) if value == "add partition" else ("range", "list")
            return value.endswith("partition") and other not in named
        case "statement", "rule":
            return other == "drop table" and value in ("drop and create", "create or replace")
        case "statement", "moment":
            return value == "drop database" and other != "live"
        case "statement", "mode":
            return value == "drop database" and other == "full"
        case "attribute", "statement":
            # No server takes a virtual column's expression away.
            return other == "modify column" and value in ("virtual", "virtual with zone")
        case "further key", "statement":
            # MariaDB refuses both for a table with a key of periods.
            if other == "for portion of":
                return value != "without overlaps"
            return value == "without overlaps" and other in ("replace", "on duplicate key", "replace select")
        case "primary key", "statement":
            return value == "auto" and other == "add auto increment"
    return False


#: Parameters whose values beside "none" make the target something else than a copy.
RULED = ("merge", "mapping", "extract", "row filter")
#: Statements about rows that may come to the shards of a merged table in any order.
ROWS_OF_SHARDS = frozenset(
    {
        "insert", "insert many", "insert ignore", "insert select", "replace", "on duplicate key", "update",
        "update same", "update key", "update ignore", "update all", "update joined", "delete", "delete joined",
        "delete all", "swap values", "reuse value", "restore value", "delete and insert", "analyze", "optimize",
    }
)  # fmt: skip
#: They are in a binlog of any format as statements, with which a task goes on after nearly all of them.
LOGGED_AS_STATEMENTS = frozenset(
    {
        "truncate", "add column", "add default", "drop column", "modify column", "change default", "add index",
        "drop index",
        "add unique", "alter ignore add unique", "rename swap", "exchange partition", "drop partition",
        "truncate partition",
        "create or replace", "analyze", "analyze update", "optimize", "temporary create", "temporary shadow",
        "temporary truncate", "temporary alter", "temporary rename", "temporary drop", "convert charset",
    }
)  # fmt: skip
#: DDL that each shard executes with equal success, whatever rows it has.
DDL_OF_SHARDS = frozenset(
    {
        "add column", "add default", "drop column", "modify column", "rename column", "change default", "add index",
        "drop index",
    }
)  # fmt: skip
#: DDL of shards without coordination: the slower ones' rows get the target's default of the moment.
UNCOORDINATED_DDL = "add default"
#: Statements of which a comparison of the rows before and after shows each row that was written.
_PLAIN_ROWS = frozenset(
    {
        "insert", "insert many", "insert ignore", "insert select", "on duplicate key", "update", "update same",
        "update ignore", "update all", "delete", "delete all", "reuse value", "restore value", "delete and insert",
        "analyze", "optimize", "change default", "add index",
    }
)  # fmt: skip
#: What keeps rows apart by their number alone: a further unique key would bring those of two shards together.
_NOT_UNIQUE = frozenset({"none", "index"})
_PREFIXED = frozenset({"char", "varchar", "text"})


def _excluded_by_rules(left: str, value: str, right: str, other: str) -> bool:
    """``left`` is one of the parameters in ``RULED``, its value not "none"."""
    match right:
        case "rule" | "foreign key":
            return other != "none"
        case "target":
            return other != "same"
        case "event":
            return other == "reset" or (left == "row filter" and other in ("restart upstream", "failover"))
        case "route":
            return left in ("merge", "extract") and other != "none"
        case "statement" if left == "row filter":
            return other not in _PLAIN_ROWS
        case "statement":
            return other not in ROWS_OF_SHARDS and (
                other not in DDL_OF_SHARDS
                or (left == "merge" and not value.startswith("pessimistic") and other != UNCOORDINATED_DDL)
            )
        case "moment":
            return other != "live" and (left == "row filter" or value.startswith("pessimistic"))
        case "further key":
            return (left in ("merge", "row filter") and other not in _NOT_UNIQUE) or (
                value == "prefix" and other in ("unique prefix", "functional")
            )
        case "primary key":
            return (left == "merge" and other == "value") or (left == "row filter" and other not in ("id", "auto"))
        case "transaction":
            return left == "row filter" and other not in ("autocommit", "begin")
        case "type":
            return value == "prefix" and other not in _PREFIXED
        case "collation":
            # The prefix has an é.
            return value == "prefix" and other == "sjis_japanese_ci"
        case "attribute":
            return value == "prefix" and other in ("stored", "virtual", "stored with zone", "virtual with zone")
        case "merge" | "mapping" | "extract":
            return left == "row filter" and other != "none"
    return False


def fits(attribute: str, kind: str) -> bool:
    """Whether a column of this type can have the attribute."""
    match attribute:
        case "on update":
            return kind in _TIMES
        case "stored with zone" | "virtual with zone":
            return kind in _ZONED
        case "default":
            return kind not in _WITHOUT_KEY
        case "default expression":
            return kind in (*_TIMES, "int", "bigint unsigned", "varchar", "double")
        case "stored" | "virtual":
            return kind in ("int", "bigint unsigned", "varchar", "char", "datetime", "decimal", "date")
        case "check":
            return kind in ("int", "varchar", "datetime", "decimal")
    return True


def key_fits(key: str, kind: str) -> bool:
    """Whether a further key of this form can have a column of this type."""
    match key:
        case "unique prefix":
            return kind in ("char", "varchar", "text", "longtext", "binary", "varbinary", "blob", "longblob")
        case "unique" | "unique pair" | "two unique" | "three unique" | "soft delete" | "index":
            return kind not in _WITHOUT_KEY
        case "functional":
            return kind in ("int", "varchar", "char")
        case "without overlaps":
            # MariaDB itself lets rows overlap (known.py).
            return kind != "bit"
    return True


def target_fits(way: str, kind: str) -> bool:
    """Whether a target can differ in this way in a column of this type."""
    match way:
        case "narrow":
            return kind in NARROWER
        case "wide":
            return kind in WIDER
        case "other charset":
            return kind in _TEXT
        case "on update":
            return kind in ("timestamp", "datetime")
    return True


@cache
def features_of(pair: Pair) -> tuple[str, ...]:
    """Every feature that histories of these servers may have."""
    return tuple(feature(one.name, value) for one in CATALOGUE for value in one.of(pair))


@cache
def apart(pair: Pair, one: str) -> frozenset[str]:
    """The features of these servers that no history has together with this one: those that exclude it, and those that
    leave some parameter no value (a column that is ON UPDATE has a type without a collation)."""
    parameter = PARAMETERS[one.split("=", 1)[0]]
    values = () if parameter.several else (feature(parameter.name, value) for value in parameter.values)
    found = (lacking(pair, one) | frozenset(values)) - {one}
    return found | {other for other in features_of(pair) if other not in found and _blocked(pair, one, other)}


def _blocked(pair: Pair, one: str, other: str) -> bool:
    """Whether the two exclude, together, every value of a parameter that each history has."""
    excluded_by_both = lacking(pair, one) | lacking(pair, other)
    given = {one.split("=", 1)[0], other.split("=", 1)[0]}
    return any(name not in given and values <= excluded_by_both for name, values in _single(pair))


@cache
def _single(pair: Pair) -> tuple[tuple[str, frozenset[str]], ...]:
    """The parameters of which each history has one value, with the features that they may be."""
    single = (one for one in CATALOGUE if not one.several)
    return tuple((one.name, frozenset(feature(one.name, value) for value in one.of(pair))) for one in single)


def possible_pairs(pair: Pair) -> Iterator[tuple[str, str]]:
    """Every pair of features that a history may have, each in alphabetical order."""
    for a, b in combinations(sorted(features_of(pair)), 2):
        if b not in apart(pair, a):
            yield a, b
