"""Types, their SQL, and literals that collide often and sit at the edges. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

#: Feature → type in SQL. Texts get their collation behind it.
SQL_TYPES: Mapping[str, str] = {
    "tinyint": "TINYINT",
    "smallint unsigned": "SMALLINT UNSIGNED",
    "int": "INT",
    "bigint unsigned": "BIGINT UNSIGNED",
    "decimal": "DECIMAL(12,4)",
    "float": "FLOAT",
    "double": "DOUBLE",
    "bit": "BIT(9)",
    "year": "YEAR",
    "date": "DATE",
    "datetime": "DATETIME",
    "datetime(6)": "DATETIME(6)",
    "timestamp": "TIMESTAMP",
    "timestamp(3)": "TIMESTAMP(3)",
    "time": "TIME",
    "time(6)": "TIME(6)",
    "char": "CHAR(8)",
    "varchar": "VARCHAR(20)",
    "text": "TEXT",
    "binary": "BINARY(4)",
    "varbinary": "VARBINARY(8)",
    "blob": "BLOB",
    "enum": "ENUM('a','b','B2','ch','é')",
    "set": "SET('a','b','c','é')",
    "json": "JSON",
    "inet6": "INET6",
    "uuid": "UUID",
    "mediumint": "MEDIUMINT",
    "longtext": "LONGTEXT",
    "longblob": "LONGBLOB",
    "point": "POINT",
}

_DATES = ("'2024-02-29'", "'1970-01-02'", "'9999-12-31'", "'2023-03-26'", "'2024-01-01'")
_TIMES = (
    "'2024-02-29 12:34:56'", "'2001-09-09 01:46:40'", "'2023-10-29 02:30:00'", "'2024-03-10 20:00:01'",
    "'1970-01-02 23:59:59'",
)  # fmt: skip
_EXACT = ("'2024-02-29 12:34:56.654321'", "'2001-09-09 01:46:40.5'", "'2024-03-10 20:00:01.0005'", *_TIMES[2:])
_WORDS = ("'a'", "'A'", "'b'", "'ch'", "'c'", "'aa'", "''", "'a '", "'é'", "'e'", "'ß'")
LITERALS: Mapping[str, Sequence[str]] = {
    "tinyint": ("0", "1", "-128", "127", "5"),
    "smallint unsigned": ("0", "1", "65535", "300", "7"),
    "int": ("0", "1", "-1", "2147483647", "1000", "300"),
    "bigint unsigned": ("0", "1", "18446744073709551615", "9007199254740993", "42"),
    "decimal": ("0", "1.5", "-99999999.9999", "0.0001", "1.50", "12.3456"),
    "float": ("0", "1.5", "-3.25", "16777217", "0.1", "1e30"),
    "double": ("0", "0.1", "-0.1", "1e300", "3.141592653589793", "-0e0"),
    "bit": ("0", "1", "b'111111111'", "b'101'", "7"),
    "year": ("1901", "2155", "2024", "0", "1970"),
    "date": _DATES,
    "datetime": _TIMES,
    "datetime(6)": _EXACT,
    "timestamp": _TIMES,
    "timestamp(3)": _EXACT,
    "time": ("'00:00:00'", "'-838:59:59'", "'838:59:59'", "'12:34:56'", "'-00:00:01'"),
    "time(6)": ("'00:00:00.000001'", "'-12:34:56.5'", "'12:34:56'", "'838:59:58.999999'", "'0:0:0'"),
    "char": _WORDS,
    "varchar": _WORDS,
    "text": _WORDS,
    "binary": ("'a'", "'a\\0'", "''", "'abcd'", "x'ff00fe01'"),
    "varbinary": ("'a'", "'a\\0'", "''", "'a '", "x'ff00fe01'"),
    "blob": ("'a'", "x'00'", "''", "'a '", "x'ff00fe01'"),
    "enum": ("'a'", "'b'", "'B2'", "'ch'", "2"),
    "set": ("'a'", "'a,b'", "''", "'c'", "7"),
    "json": ("'{\"a\": 1}'", "'[]'", "'[1.5, \"x\"]'", "'null'", "'{\"a\": {\"b\": true}}'"),
    "mediumint": ("0", "1", "-8388608", "8388607", "5"),
    "longtext": ("'a'", "'A'", "REPEAT('ab', 9000)", "''", "'a '"),
    "longblob": ("'a'", "x'00'", "REPEAT(x'ff27', 9000)", "''"),
    "point": ("ST_GeomFromText('POINT(1 2)')", "ST_GeomFromText('POINT(-1.5 0.25)')", "ST_GeomFromText('POINT(0 0)')"),
    "inet6": ("'::1'", "'::ffff:1.2.3.4'", "'2001:db8::ff00:42:8329'", "'::'", "'fe80::1'"),
    "uuid": (
        "'123e4567-e89b-12d3-a456-426655440000'", "'123e4567-e89b-12d3-a456-426655440001'",
        "'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-4fff-bfff-ffffffffffff'",
        "'0190163d-8694-739b-aea5-966c26f8ad91'",
    ),
}  # fmt: skip

#: Texts that most collations take for the same as this one, though their bytes differ.
SPELLINGS: Mapping[str, Sequence[str]] = {
    "'a'": ("'A'", "'A '"), "'A'": ("'a'",), "'b'": ("'B'",), "'ch'": ("'CH'", "'Ch'"), "'c'": ("'C'",),
    "'aa'": ("'AA'",), "''": ("' '",), "'a '": ("'a'", "'A'"), "'é'": ("'É'", "'e'"), "'e'": ("'E'", "'é'"),
}  # fmt: skip


def told_apart(literals: Sequence[str]) -> list[str]:
    """The values that are no two spellings of one text, and no NULL: a unique key takes all of them."""
    found: list[str] = []
    for one in literals:
        same = {one, *SPELLINGS.get(one, ())}
        if one != "NULL" and not any(other in same or one in SPELLINGS.get(other, ()) for other in found):
            found.append(one)
    return found


def respelled(literals: Sequence[str]) -> list[str]:
    """Those that have another spelling with more than other spaces at its end; all if these are not two."""
    found = [one for one in literals if any(other.rstrip(" '") != one.rstrip(" '") for other in SPELLINGS.get(one, ()))]
    return found if len(found) > 1 else list(literals)


#: Types of such texts.
SPELLED = frozenset({"char", "varchar", "text", "longtext"})

#: Expressions of generated columns over the base column ``b``, by the type of the generated one.
GENERATED: Mapping[str, tuple[str, str]] = {
    # type of the generated column → (type of the base column, expression)
    "int": ("INT", "(`b` + 1)"),
    "bigint unsigned": ("INT", "(`b` * 2 + 3000000)"),
    "varchar": ("VARCHAR(10)", "(CONCAT(`b`, 'x'))"),
    "char": ("VARCHAR(6)", "(CONCAT('x', `b`))"),
    "datetime": ("DATETIME", "(DATE_ADD(`b`, INTERVAL 1 DAY))"),
    "decimal": ("DECIMAL(10,2)", "(`b` / 4)"),
    "date": ("DATETIME", "(DATE(`b`))"),
}
#: Those that depend on the session's time zone, over a TIMESTAMP.
ZONED = ("DATE", "DATE(`b`)"), ("INT", "HOUR(`b`)"), ("DATETIME", "`b`")
#: Literals of the base column by its type.
BASES: Mapping[str, Sequence[str]] = {
    "INT": LITERALS["int"][:3],
    "VARCHAR(10)": ("'a'", "'A'", "'b'", "''"),
    "VARCHAR(6)": ("'a'", "'A'", "'b'", "''"),
    "DATETIME": _TIMES,
    "DECIMAL(10,2)": ("0", "1.5", "-7.25", "3"),
    "TIMESTAMP": _TIMES,
    "TIMESTAMP(3)": _EXACT,
}

#: A type of a target that holds less, and one that holds more.
NARROWER: Mapping[str, str] = {
    "datetime(6)": "DATETIME", "timestamp(3)": "TIMESTAMP", "decimal": "DECIMAL(12,2)", "double": "FLOAT",
    "varchar": "CHAR(20)", "time(6)": "TIME", "bigint unsigned": "INT", "int": "SMALLINT", "text": "TINYTEXT",
    "blob": "TINYBLOB", "varbinary": "BINARY(8)", "datetime": "DATE", "bit": "BIT(3)",
}  # fmt: skip
WIDER: Mapping[str, str] = {
    "tinyint": "INT", "int": "BIGINT", "decimal": "DECIMAL(20,6)", "float": "DOUBLE", "datetime": "DATETIME(6)",
    "timestamp": "TIMESTAMP(3)", "varchar": "VARCHAR(60)", "text": "LONGTEXT", "blob": "LONGBLOB",
    "varbinary": "VARBINARY(30)", "time": "TIME(6)",
}  # fmt: skip
#: Other types for ALTER TABLE … MODIFY, which keep most values.
MODIFIED: Mapping[str, str] = {**WIDER, "datetime(6)": "DATETIME", "char": "VARCHAR(30)", "enum": "VARCHAR(10)"}
