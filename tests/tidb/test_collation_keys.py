"""Hazards: two keys that TiDB calls equal get different writers; keys that cannot be compared leave one writer."""

from __future__ import annotations

import random
import unicodedata
from typing import Any

import pytest
from pymysql.connections import Connection

from deploy.local.tidb import TiDBServer
from dm_worker.syncer.rows.key_normalization import TEXT, TargetCharsets, normalize_function, normalizer_of
from pkg.binlog.rows.literals import escape
from pkg.mysql.collation_weights import fetch_characters, fetch_collation_weights
from pkg.mysql.schema import Column

SEED = 7
SINGLE, WORDS = 6000, 2500
#: Characters of Unicode's first plane, and of the others those that are in use.
_POINTS = (*range(1, 0xD800), *range(0xE000, 0x10000), *range(0x1D400, 0x1D500), *range(0x1F600, 0x1F640))
_FAR = (0x20000, 0x2A6D6, 0x2CEA0, 0x2F800, 0x30000, 0xE0041, 0xF0000, 0x10FFFD)
_CLOSE = (
    "aAáÁäÄåæÆａsSßẞŠoOöÖøœnNñeEéiIıİ１1½ＡﬁfΩω\u2126иЙй"
    "\u0301\u0308\u00ad\u200b゛あアｱがｶﾞ中\u3000 \u00a0-_'\\😀😁\U00020000"
)
COLLATIONS = {
    "utf8mb4_bin": _CLOSE,
    "utf8mb4_0900_bin": _CLOSE,
    "utf8mb4_general_ci": _CLOSE,
    "utf8mb4_unicode_ci": _CLOSE,
    "utf8mb4_0900_ai_ci": _CLOSE,
    "utf8_general_ci": "".join(char for char in _CLOSE if char <= "\uffff"),
    "utf8_unicode_ci": "".join(char for char in _CLOSE if char <= "\uffff"),
    "latin1_bin": "aAáÁäÄ '\\ß€",
    "ascii_bin": "aA '\\zZ_",
    "gbk_chinese_ci": "aA中文啊阿ＡａωΩ '\\",
    "gbk_bin": "aA中文啊阿ＡａωΩ '\\",
}


def texts(chance: random.Random, collation: str) -> list[str]:
    """Single characters, and words with others that some collation calls equal to them."""
    charset, close = collation.partition("_")[0], COLLATIONS[collation]
    codec = {"utf8mb4": "utf-8", "utf8": "utf-8", "latin1": "cp1252"}.get(charset, charset)
    points = chance.sample(_POINTS, SINGLE) + (list(_FAR) if charset == "utf8mb4" else [])
    found = [char for char in map(chr, points) if _fits(char, codec) and (charset != "utf8" or char <= "\uffff")]
    for _ in range(WORDS // 5):
        word = "".join(chance.choice(close) for _ in range(chance.randint(0, 4)))
        other = "".join(chance.choice((str.upper, str.lower, str.swapcase))(char) for char in word)
        made = (word, f"{word} ", other, f"{other}  ", unicodedata.normalize(chance.choice(("NFC", "NFKD")), word))
        found += [one for one in made if _fits(one, codec) and len(one) <= 20]
    return found


def _fits(text: str, codec: str) -> bool:
    try:
        text.encode(codec)
    except UnicodeEncodeError:
        return False
    return True


def equal_to(tidb: TiDBServer, collation: str, found: list[str]) -> list[int]:
    """For each text the number of the one that a unique index took in its place; its own for those that came in."""
    charset = collation.partition("_")[0]
    type_ = f"VARCHAR(40) CHARACTER SET {charset} COLLATE {collation}"
    conn = tidb.connect(database="k")
    rows = [f"({number},'{escape(text.encode()).decode()}')" for number, text in enumerate(found)]
    with conn.cursor() as cursor:
        for table, key in (("asked", ""), ("kept", ", UNIQUE KEY v (v)")):
            cursor.execute(f"DROP TABLE IF EXISTS {table}")
            cursor.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, v {type_} NOT NULL{key})")
            for first in range(0, len(rows), 1000):
                cursor.execute(f"INSERT IGNORE INTO {table} VALUES {','.join(rows[first : first + 1000])}")
        cursor.execute("SELECT /*+ INL_JOIN(k) */ a.id, k.id FROM asked a JOIN kept k USE INDEX (v) ON k.v = a.v")
        same = {int(one): int(other) for one, other in cursor.fetchall()}
    conn.close()
    return [same[number] for number in range(len(found))]


def charsets(conn: Connection[Any]) -> TargetCharsets:
    return TargetCharsets(
        lambda *names: fetch_collation_weights(conn, *names), lambda charset: fetch_characters(conn, charset)
    )


@pytest.mark.parametrize(
    "collation",
    [pytest.param(name, marks=[pytest.mark.core] if name == "utf8mb4_general_ci" else []) for name in COLLATIONS],
)
def test_keys_that_the_server_calls_equal_have_equal_bytes_and_few_others_do(tidb: TiDBServer, collation: str) -> None:
    tidb.execute("CREATE DATABASE k")
    here = Column("v", "varchar", "varchar(40)", charset="utf8mb4", collation="utf8mb4_bin")
    there = Column("v", "varchar", "varchar(40)", charset=collation.partition("_")[0], collation=collation)
    conn = tidb.connect()
    made = normalizer_of(here, there, 0, charsets(conn))
    conn.close()
    assert made.kind == TEXT
    found = texts(random.Random(SEED), collation)
    normalize = normalize_function(made)
    ours = [normalize(b"'%b'" % escape(text.encode())) for text in found]
    equal = equal_to(tidb, collation, found)
    finer = [(ascii(found[i]), ascii(found[j])) for i, j in enumerate(equal) if ours[i] != ours[j]]
    assert not finer, finer[:10]
    assert len(set(equal)) < len(found), "nothing was equal"
    # Those of MySQL 8 tell trailing spaces.
    assert len(set(ours)) >= len(set(equal)) * (0.9 if "0900" in collation else 0.98), "uselessly coarse"
