"""Mapped literals, read by a real server. Hazard: an affix that a charset or an sql_mode turns into other text."""

from __future__ import annotations

from binascii import hexlify

import pytest

from deploy.local.mysql import MariaDBServer
from pkg.binlog.charsets import encode_text
from pkg.mysql.schema import Column
from pkg.rules.column_mapping import ColumnMapper
from pkg.rules.model import ColumnMappingRule

_COLUMNS = ("utf8mb4", "latin1", "gbk", "ucs2", "binary")
_TEXTS = ("", "abc", "it's", "a\\b", "é", "\\'", "汉字")
_AFFIXES = ("s1-", "it's", "\\", "\\'", "é", "汉")


def _literals(text: str, charset: str, *, backslash: bool) -> list[bytes]:
    """Every form that the row decoder, our dumps and others' dumps give to the text in a column of this charset."""
    raw = encode_text(text, charset)
    plain = text.replace("'", "''")
    forms = [b"_%b x'%b'" % (charset.encode(), hexlify(raw))]
    if charset == "binary":
        return [b"x'%b'" % hexlify(raw), *([b"0x" + hexlify(raw)] if raw else [])]
    if backslash:
        forms += [b"'%b'" % text.replace("\\", "\\\\").replace("'", "\\'").encode()]
        forms += [b"'%b'" % plain.replace("\\", "\\\\").encode()]
    elif "\\" not in text:
        forms += [b"'%b'" % plain.encode()]
    return forms


def _holds(charset: str, *texts: str) -> bool:
    return not (charset == "latin1" and "汉" in "".join(texts)) and not (charset == "gbk" and "é" in "".join(texts))


@pytest.mark.target_with("every charset")
@pytest.mark.parametrize("sql_mode", ["", "NO_BACKSLASH_ESCAPES"])
def test_a_mapped_literal_is_the_concatenation_that_the_server_makes(target: MariaDBServer, sql_mode: str) -> None:
    types = {name: "VARBINARY(60)" if name == "binary" else f"VARCHAR(60) CHARACTER SET {name}" for name in _COLUMNS}
    body = ", ".join(f"`{name}` {kind}, `want_{name}` {kind}" for name, kind in types.items())
    target.execute("CREATE DATABASE mapped", f"CREATE TABLE mapped.t (id INT PRIMARY KEY, {body})")
    checked = 0
    conn = target.connect()
    with conn.cursor() as cursor:
        cursor.execute(f"SET NAMES utf8mb4, sql_mode='STRICT_ALL_TABLES,{sql_mode}'")
        for charset in _COLUMNS:
            kind = "varbinary" if charset == "binary" else "varchar"
            column = Column("c", kind, kind + "(60)", charset="" if charset == "binary" else charset)
            for text in _TEXTS:
                for affix in _AFFIXES:
                    if not _holds(charset, text, affix):
                        continue
                    rules = [
                        ColumnMappingRule("*", "c", kind, "", "", (affix,)) for kind in ("add prefix", "add suffix")
                    ]
                    for rule in rules:
                        mapping = ColumnMapper([rule], True).compile("s", "t", [column])
                        assert mapping is not None
                        before = rule.expression == "add prefix"
                        want = encode_text(affix + text if before else text + affix, charset)
                        assert mapping.values([encode_text(text, charset)]) == [want]
                        for literal in _literals(text, charset, backslash=not sql_mode):
                            (made,) = mapping.literals([literal])
                            checked += 1
                            cursor.execute(
                                b"INSERT INTO mapped.t (id, `%b`, `want_%b`) VALUES (%d, %b, %b)"
                                % (charset.encode(), charset.encode(), checked, made, _sql(want, charset))
                            )
        conn.commit()
        for charset in _COLUMNS:
            cursor.execute(
                f"SELECT id, HEX(`{charset}`), HEX(`want_{charset}`) FROM mapped.t "
                f"WHERE NOT (HEX(`{charset}`) <=> HEX(`want_{charset}`)) LIMIT 3"
            )
            assert cursor.fetchall() == (), charset
    conn.close()
    assert checked > 400


def _sql(raw: bytes, charset: str) -> bytes:
    return b"_%b x'%b'" % (charset.encode(), hexlify(raw))


def test_partition_ids_are_those_that_the_server_computes(target: MariaDBServer) -> None:
    rule = ColumnMappingRule("*", "id", "partition id", "", "", ("1", "schema_", "table_"))
    mapping = ColumnMapper([rule], True).compile("schema_2", "table_3", [Column("id", "bigint", "bigint(20)")])
    assert mapping is not None
    literals = [b"0", b"123", b"'123'", b"17592186044415"]
    mapped = [mapping.literals([literal])[0] for literal in literals]
    conn = target.connect()
    with conn.cursor() as cursor:
        for literal, made in zip(literals, mapped, strict=True):
            cursor.execute(b"SELECT %b = (1<<59 | 2<<52 | 3<<44 | %b), %b < (1<<63)" % (made, literal, made))
            assert cursor.fetchone() == (1, 1), literal
    conn.close()
