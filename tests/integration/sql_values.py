"""Column types and SQL expressions for values of them, the extreme ones often: what tests write into upstreams."""

from __future__ import annotations

import random

COMMON_COLUMNS = {
    "t1": "TINYINT",
    "t2": "TINYINT UNSIGNED",
    "s1": "SMALLINT",
    "s2": "SMALLINT UNSIGNED",
    "m1": "MEDIUMINT",
    "m2": "MEDIUMINT UNSIGNED",
    "i1": "INT",
    "i2": "INT UNSIGNED",
    "b1": "BIGINT",
    "b2": "BIGINT UNSIGNED",
    "d1": "DECIMAL(65,30)",
    "d2": "DECIMAL(10,2)",
    "d3": "DECIMAL(1,0)",
    "d4": "DECIMAL(18,9)",
    "d5": "DECIMAL(5,5)",
    "f1": "FLOAT",
    "f2": "DOUBLE",
    "f3": "FLOAT(7,3)",
    "f4": "DOUBLE(15,4)",
    "bit1": "BIT(1)",
    "bit2": "BIT(13)",
    "bit3": "BIT(64)",
    "y": "YEAR",
    "da": "DATE",
    **{f"ti{n}": f"TIME({n})" for n in range(7)},
    **{f"dt{n}": f"DATETIME({n})" for n in range(7)},
    **{f"ts{n}": f"TIMESTAMP({n}) NULL" for n in range(7)},
    "c1": "CHAR(20) CHARACTER SET utf8mb4",
    "c2": "VARCHAR(300) CHARACTER SET utf8mb4",
    "c3": "CHAR(9) CHARACTER SET gbk",
    "c4": "VARCHAR(40) CHARACTER SET latin1",
    "c5": "TEXT CHARACTER SET utf8",
    "c6": "VARCHAR(10) CHARACTER SET ascii",
    "c7": "VARCHAR(20) CHARACTER SET ucs2",
    "c8": "VARCHAR(20) CHARACTER SET sjis",
    "c9": "CHAR(255) CHARACTER SET utf8mb4",
    "c10": "TINYTEXT CHARACTER SET big5",
    "c11": "MEDIUMTEXT CHARACTER SET utf8mb4",
    "c12": "LONGTEXT CHARACTER SET cp1251",
    "c13": "CHAR(5) CHARACTER SET utf16",
    "bi1": "BINARY(7)",
    "bi2": "VARBINARY(300)",
    "bi3": "TINYBLOB",
    "bi4": "BLOB",
    "bi5": "MEDIUMBLOB",
    "bi6": "LONGBLOB",
    "bi7": "BINARY(255)",
    "e1": "ENUM('a','b''c','ü','')",
    "e2": "SET('x','y','z')",
    "e3": "SET(" + ",".join(f"'v{n}'" for n in range(64)) + ")",
    "e4": "SET(" + ",".join(f"'v{n}'" for n in range(20)) + ")",
    "e5": "ENUM(" + ",".join(f"'m{n}'" for n in range(300)) + ")",
    "g1": "GEOMETRY",
    "g2": "POINT",
}
MARIADB_COLUMNS = {
    "j1": "JSON",
    "u1": "UUID",
    "u2": "INET6",
    "u3": "INET4",
    "z1": "VARCHAR(500) COMPRESSED CHARACTER SET utf8mb4",
    "z2": "BLOB COMPRESSED",
    "gen1": "INT AS (i1 DIV 2) VIRTUAL",
    "gen2": "BIGINT AS (t1 + 1) PERSISTENT",
}

_TEXT = "aZ09 ,'\\\"%_\n\r\t\x00\x1aäöüß€語😀"


def _text(rnd: random.Random, alphabet: str, longest: int) -> str:
    return "".join(rnd.choice(alphabet) for _ in range(rnd.choice((0, 1, 2, rnd.randrange(longest + 1), longest))))


def _hex(data: bytes) -> str:
    return f"x'{data.hex()}'"


def _quoted(charset: str, text: str) -> str:
    codec = {"utf8": "utf-8", "utf8mb4": "utf-8", "ucs2": "utf-16-be", "utf16": "utf-16-be", "sjis": "shift_jis"}
    return f"_{charset} {_hex(text.encode(codec.get(charset, charset)))}" if text else "''"


def _integer(bits: int, unsigned: bool, rnd: random.Random) -> str:
    low, high = (0, (1 << bits) - 1) if unsigned else (-(1 << bits - 1), (1 << bits - 1) - 1)
    return str(rnd.choice((low, high, 0, 1, rnd.randint(low, high))))


def _decimal(precision: int, scale: int, rnd: random.Random) -> str:
    digits = rnd.choice(("9" * precision, "0" * precision, "".join(rnd.choice("0123456789") for _ in range(precision))))
    whole, fraction = digits[: precision - scale], digits[precision - scale :]
    return rnd.choice(("", "-")) + (whole or "0") + ("." + fraction if fraction else "")


def _moment(rnd: random.Random, digits: int) -> str:
    if rnd.random() < 0.1:
        return "0000-00-00 00:00:00"
    day = f"{rnd.choice((1, 1000, 1969, 2024, 9999))}-{rnd.randint(0, 12)}-{rnd.randint(0, 31)}"
    fraction = f".{rnd.randrange(10**digits):0{digits}d}" if digits else ""
    return f"{day} {rnd.randint(0, 23)}:{rnd.randint(0, 59)}:{rnd.randint(0, 59)}{fraction}"


def _timestamp(rnd: random.Random, digits: int) -> str:
    if rnd.random() < 0.1:
        return "'0000-00-00 00:00:00'"
    fraction = f".{rnd.randrange(10**digits):0{digits}d}" if digits else ""
    day = f"{rnd.randint(1970, 2037)}-{rnd.randint(1, 12):02d}-{rnd.randint(2, 28):02d}"
    return f"'{day} {rnd.randint(0, 23)}:{rnd.randint(0, 59)}:{rnd.randint(0, 59)}{fraction}'"


def _time(rnd: random.Random, digits: int) -> str:
    hours, minutes, seconds = rnd.choice(((0, 0, 0), (838, 59, 58), (rnd.randint(0, 838), rnd.randint(0, 59), 7)))
    fraction = f".{rnd.randrange(10**digits):0{digits}d}" if digits else ""
    return f"'{rnd.choice(('', '-'))}{hours}:{minutes}:{seconds}{fraction}'"


def binary(rnd: random.Random, longest: int) -> str:
    return _hex(rnd.randbytes(rnd.choice((0, 1, longest, rnd.randint(0, longest)))))


def _uuid(rnd: random.Random) -> str:
    text = rnd.randbytes(16).hex()
    if rnd.random() < 0.8:
        text = text[:12] + rnd.choice("0123456789f") + text[13:16] + rnd.choice("89ab0f") + text[17:]
    return f"'{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}'"


_INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "MEDIUMINT": 24, "INT": 32, "BIGINT": 64}
_ALPHABETS = {
    "gbk": "a'\\ 語中",
    "latin1": "a'\\éü ",
    "utf8": _TEXT[:-1],
    "utf8mb4": _TEXT,
    "ascii": _TEXT[:15],
    "ucs2": "a'é語 ",
    "big5": "a中'\\ ",
    "sjis": "aあ表'\\ ",
    "cp1251": "aЖ'\\ ",
    "utf16": "a语😀 ",
}


def value_for(kind: str, rnd: random.Random) -> str:
    """An SQL expression for a value of the column, often an extreme one."""
    if rnd.random() < 0.12:
        return "NULL"
    base, _, rest = kind.partition("(")
    word = base.split()[0]
    number = int(rest.split(")")[0].split(",")[0]) if rest[:1].isdigit() else 0
    for of_group in (_number_for, _time_for, _object_for):
        found = of_group(word, number, kind, rnd)
        if found is not None:
            return found
    if word in ("BINARY", "VARBINARY", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB"):
        return binary(rnd, number or (255 if word == "TINYBLOB" else 3000))
    charset = kind.partition("CHARACTER SET ")[2]
    longest = number or (60 if word == "TINYTEXT" else 900)
    return _quoted(charset, _text(rnd, _ALPHABETS[charset], longest // 2 if charset == "utf16" else longest))


def _number_for(word: str, number: int, kind: str, rnd: random.Random) -> str | None:
    if word in _INTEGERS:
        return _integer(_INTEGERS[word], "UNSIGNED" in kind, rnd)
    if word == "DECIMAL":
        return _decimal(number, int(kind.split(",")[1].split(")")[0]), rnd)
    if word == "FLOAT":
        scale = 1.0 if number else 10.0 ** rnd.randint(-30, 30)
        return rnd.choice(("-0e0", repr(rnd.uniform(-9999, 9999) * scale), repr(rnd.uniform(-1, 1) * scale)))
    if word == "DOUBLE":
        if number:
            return rnd.choice(("-0e0", "1.7", repr(rnd.uniform(-1e9, 1e9))))
        return rnd.choice(("-0e0", repr(rnd.uniform(-1, 1) * 10.0 ** rnd.randint(-300, 300)), "1.7976931348623157e308"))
    if word == "BIT":
        return str(rnd.choice((0, 1, (1 << number) - 1, rnd.getrandbits(number))))
    count = kind.count(",") + 1
    if word == "ENUM":
        return str(rnd.randint(1, count))
    if word == "SET":
        return str(rnd.choice((0, (1 << count) - 1, rnd.getrandbits(count))))
    return None


def _time_for(word: str, number: int, _: str, rnd: random.Random) -> str | None:
    if word == "YEAR":
        return str(rnd.choice((0, 1901, 2155, 2000)))
    if word == "DATE":
        return f"'{_moment(rnd, 0).split()[0]}'"
    if word == "TIME":
        return _time(rnd, number)
    if word == "DATETIME":
        return f"'{_moment(rnd, number)}'"
    if word == "TIMESTAMP":
        return _timestamp(rnd, number)
    return None


def _object_for(word: str, _: int, __: str, rnd: random.Random) -> str | None:
    if word == "GEOMETRY":
        text = rnd.choice(("POINT(1 2)", "LINESTRING(0 0,1 1.5,-3 1e10)", "POLYGON((0 0,0 5,5 5,0 0))"))
        # MySQL 8 looks whether it is a place on Earth.
        return f"ST_GeomFromText('{text}', {0 if '1e10' in text else rnd.choice((0, 4326))})"
    if word == "POINT":
        return f"ST_GeomFromText('POINT({rnd.uniform(-180, 180)!r} 0.1)')"
    if word == "JSON":
        return rnd.choice(('\'{"a": [1, 2.50, "\\\\u00e4\\\'x"]}\'', "'[]'", "'null'"))
    if word == "UUID":
        return _uuid(rnd)
    if word == "INET6":
        return rnd.choice(("'::'", "'2001:db8::1'", "'::ffff:1.2.3.4'", "'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'"))
    if word == "INET4":
        return rnd.choice(("'0.0.0.0'", "'10.0.0.255'", "'255.255.255.255'"))
    return None
