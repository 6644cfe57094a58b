"""Column types with values at their limits, and how a server is asked for a value so that nothing of it is lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: Characters of charsets that TiDB has, keeps as UTF-8, or lacks.
_TEXTS = {
    "utf8mb4": ("", "a", "A", "a b", "ä", "'", "\\", "\\'", "\t\n", "語", "😀", "ß", "0", "ｱ"),
    "utf8": ("", "a", "ä'\\", "語"),
    "latin1": ("", "a", "ä", "é'", "\\ÿ", "€", "Ä\\'"),
    "latin2": ("", "ł", "Ž'"),
    "cp1251": ("", "Ж", "ж\\", "я'"),
    "greek": ("", "Ω", "ά"),
    "koi8r": ("", "Ж", "Ю"),
    "swe7": ("", "å", "Ö'"),
    "ascii": ("", "a'\\", "~"),
    "gbk": ("", "中", "文'\\", "誠"),
    "big5": ("", "功", "許'"),
    "euckr": ("", "한", "글\\"),
    "sjis": ("", "表", "ソ'", "ｱ"),
    "cp932": ("", "表", "①"),
    "ujis": ("", "語", "ｱ"),
    "eucjpms": ("", "語", "①"),
    "ucs2": ("", "ä", "語'\\"),
    "utf16": ("", "ä", "😀'"),
    "utf32": ("", "ä", "😀\\"),
}
#: Charsets of MySQL alone.
_TEXTS_OF_MYSQL = {"gb18030": ("", "中", "😀", "ḿ")}
_CODECS = {"utf8mb4": "utf-8", "utf8": "utf-8"}
#: What TiDB has of these.
TIDB_CHARSETS = frozenset({"utf8mb4", "utf8", "latin1", "ascii", "gbk", "gb18030"})


@dataclass(frozen=True, slots=True)
class TypeCase:
    """A column type with values as SQL. ``there``: the type at the target; ``read``: the expression that shows a value
    of the column ``v``; ``key``: what a key has of the column, '' for a type that no key has."""

    name: str
    here: str
    values: Sequence[str]
    there: str = ""
    read: str = "CAST(v AS CHAR)"
    key: str = "v"
    json: bool = False
    only: str = ""

    @property
    def target(self) -> str:
        return self.there or self.here


def _text_cases() -> list[TypeCase]:
    cases = []
    for charset, texts in {**_TEXTS, **_TEXTS_OF_MYSQL}.items():
        values = tuple(
            f"CONVERT(_utf8mb4 x'{text.encode().hex()}' USING {charset})" if text else "''" for text in texts
        )
        there = charset if charset in TIDB_CHARSETS else "utf8mb4"
        only = "mysql" if charset in _TEXTS_OF_MYSQL else ""
        for kind, key in (("VARCHAR(40)", "v"), ("CHAR(10)", "v"), ("TEXT", "v(20)")):
            here, target = (f"{kind} CHARACTER SET {one} COLLATE {one}_bin" for one in (charset, there))
            name = f"{charset}_{kind.partition('(')[0].lower()}"
            cases.append(TypeCase(name, here, values, target, "HEX(CONVERT(v USING utf8mb4))", key, only=only))
    return cases


def _bits(width: int) -> TypeCase:
    top = (1 << width) - 1
    values = sorted({0, 1, top, top >> 1, (1 << width - 1), 0x0102030405060708 & top, 0x27 & top})
    return TypeCase(f"bit{width}", f"BIT({width})", tuple(map(str, values)), read="v+0")


def _integers() -> list[TypeCase]:
    cases = []
    for kind, bits in (("TINYINT", 8), ("SMALLINT", 16), ("MEDIUMINT", 24), ("INT", 32), ("BIGINT", 64)):
        low, high = -(1 << bits - 1), (1 << bits - 1) - 1
        cases.append(TypeCase(kind.lower(), kind, tuple(map(str, (low, -1, 0, 1, high)))))
        cases.append(TypeCase(f"{kind.lower()}_u", f"{kind} UNSIGNED", tuple(map(str, (0, 1, high + 1, 2 * high + 1)))))
    cases.append(TypeCase("int_zerofill", "INT(5) ZEROFILL", ("0", "7", "4294967295"), read="v+0"))
    return cases


_MEMBERS = "'a','b''c','ü','A b'"
_MANY = ",".join(f"'v{n}'" for n in range(64))
_DOUBLES = ("0", "1.5", "-1e-30", "1.7976931348623157e308", "5e-324", "0.1", "-0e0")
_JSON = (
    *("'null'", "'true'", "'1'", "'-5'", "'1.5'", "'\"x\"'", "'[]'", "'{}'", "'[1, 2.5, \"ä\", null]'", "'0.1'"),
    *('\'{"a": {"b": [true, false]}, "k\\\'": "\\\\\\\\ 😀"}\'', "'18446744073709551615'", "'1e100'"),
)

CASES: Sequence[TypeCase] = (
    *_integers(),
    *map(_bits, (1, 8, 13, 32, 56, 57, 60, 63, 64)),
    TypeCase("decimal", "DECIMAL(65,30)", ("0", "-0.5", "1" * 35 + "." + "9" * 30, "-1e-30")),
    TypeCase("decimal5", "DECIMAL(5,2)", ("0", "999.99", "-999.99", "0.01")),
    TypeCase(
        "float", "FLOAT", ("0", "1.5", "-3.4028234e38", "1e-45", "0.1", "16777217", "344.221435", "-0e0"), read="v*1e0"
    ),
    TypeCase("double", "DOUBLE", _DOUBLES, read="v*1e0"),
    TypeCase("year", "YEAR", ("0", "1901", "2155", "2024")),
    TypeCase("date", "DATE", ("'0000-00-00'", "'1000-01-01'", "'9999-12-31'", "'2024-02-30'", "'2024-00-00'")),
    TypeCase("time", "TIME", ("'00:00:00'", "'-838:59:59'", "'838:59:59'", "'12:34:56'")),
    TypeCase("time6", "TIME(6)", ("'00:00:00.000001'", "'-00:00:00.5'", "'838:59:58.999999'")),
    TypeCase("datetime", "DATETIME", ("'0000-00-00 00:00:00'", "'9999-12-31 23:59:59'", "'2024-02-31 01:02:03'")),
    TypeCase("datetime6", "DATETIME(6)", ("'1000-01-01 00:00:00.000001'", "'2024-06-01 12:00:00.5'")),
    TypeCase(
        "timestamp", "TIMESTAMP NULL", ("'0000-00-00 00:00:00'", "'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'")
    ),
    TypeCase("timestamp3", "TIMESTAMP(3) NULL", ("'2024-03-31 01:30:00.123'", "'2024-10-27 01:30:00.5'")),
    TypeCase("binary", "BINARY(5)", ("''", "x'00'", "x'0000000000'", "x'ff27005c41'"), read="HEX(v)"),
    TypeCase("varbinary", "VARBINARY(300)", ("''", "x'00'", "x'0000'", "x'ff275c'", "REPEAT('x', 300)"), read="HEX(v)"),
    TypeCase("blob", "BLOB", ("''", "x'00ff27'", "REPEAT(x'5c', 5000)"), read="HEX(v)", key="v(20)"),
    TypeCase("longblob", "LONGBLOB", ("''", "x'80'"), read="HEX(v)", key=""),
    TypeCase("enum", f"ENUM({_MEMBERS})", ("1", "2", "3", "4"), read="HEX(CONVERT(CAST(v AS CHAR) USING utf8mb4))"),
    TypeCase(
        "enum_latin1",
        f"ENUM({_MEMBERS}) CHARACTER SET latin1 COLLATE latin1_bin",
        ("1", "3", "4"),
        read="HEX(CONVERT(CAST(v AS CHAR) USING utf8mb4))",
    ),
    TypeCase(
        "enum_other",
        f"ENUM({_MEMBERS})",
        ("1", "2", "3"),
        f"ENUM('ü',{_MEMBERS.replace(',' + chr(39) + 'ü' + chr(39), '')})",
        "HEX(CONVERT(CAST(v AS CHAR) USING utf8mb4))",
        "",
    ),
    TypeCase("set", f"SET({_MEMBERS})", ("0", "1", "3", "15", "4"), read="HEX(CONVERT(CAST(v AS CHAR) USING utf8mb4))"),
    TypeCase("set64", f"SET({_MANY})", ("0", "1", str(1 << 63), str((1 << 64) - 1), str(1 << 62))),
    TypeCase("json", "JSON", _JSON, key="", json=True),
    *_text_cases(),
)
