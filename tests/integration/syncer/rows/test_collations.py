"""Hazard: values that the target calls equal fall into different buckets, where two writers fight over one row."""

from __future__ import annotations

import os
import random
import unicodedata
from typing import Any

import pytest
from pymysql.connections import Connection

from deploy.local.mysql import MySQLServer, SQLServer
from dm_worker.syncer.rows import key_normalization
from dm_worker.syncer.rows.key_normalization import INCOMPARABLE, TEXT, TargetCharsets, normalizer_of
from pkg.mysql.collation_weights import fetch_characters, fetch_collation_weights
from pkg.mysql.introspect import query
from pkg.mysql.schema import Column
from tests.sweeps import LONG

PAIRS = int(os.environ.get("DM_TEST_PAIRS", "1500" if LONG else "500"))
TEXTS = PAIRS // 20
SEED = int(os.environ.get("DM_TEST_SEED", "7"))
#: One of each kind: simple weights, Unicode's, a language's own, byte order, one and two bytes a character.
COLLATIONS = (
    *("utf8mb4_general_ci", "utf8mb4_unicode_520_ci", "utf8mb4_bin", "utf8mb4_swedish_ci"),
    *("latin1_german2_ci", "latin1_general_cs", "gbk_chinese_ci"),
)
ONLY_MARIADB = ("utf8mb4_general_nopad_ci", "latin1_swedish_nopad_ci")
ONLY_MYSQL_8 = ("utf8mb4_0900_ai_ci", "utf8mb4_0900_as_cs")
#: The others.
FURTHER = (
    *("utf8mb4_unicode_ci", "utf8_general_ci", "utf8_unicode_ci", "utf8mb4_german2_ci", "utf8mb4_spanish_ci"),
    *("latin1_swedish_ci", "latin1_german1_ci", "latin1_bin", "latin2_general_ci", "cp1251_general_ci"),
    *("utf16_unicode_ci", "ascii_general_ci"),
)
FURTHER_MARIADB = ("utf8mb4_unicode_nopad_ci", "utf8mb4_nopad_bin")
FURTHER_MYSQL_8 = ("utf8mb4_0900_as_ci",)
#: Those with contractions, by server: one of each kind, and the others.
CONTRACTING = {
    "mariadb": ("utf8mb4_uca1400_danish_nopad_as_cs", "utf8mb4_myanmar_ci"),
    "11.8": ("utf8mb4_uca1400_ai_ci",),
    "8.0": ("utf8mb4_cs_0900_as_cs",),
}
FURTHER_CONTRACTING = {
    "mariadb": ("utf8mb4_uca1400_ai_ci", "utf8mb4_czech_ci", "utf8mb4_thai_520_w2", "utf8_croatian_ci"),
    "8.0": ("utf8mb4_hu_0900_ai_ci", "utf8mb4_ja_0900_as_cs_ks"),
}
#: Characters of contractions, and what some collation calls equal to these.
CLOSE = (
    "aAáåÅ\u030a\u0301\u0308\u0306\u030c\u0302 \u00ad\u200dcChHčČdDžŽǆzZlLnNǉgGyYsStTjJeEoOöuUü·\u0387иИйЙь"
    "ß\u1e9e\u0e40\u0e010 1'-ー\u3000中"
)
#: Those of one script each.
SCRIPTS = (
    *("กคงเแำาํ", "ກຂເແໍາຳ", "かきカあアーゝゞヽｶｰﾞ\u3099", "\u0f71\u0f72\u0f80\u0f81\u0fb2\u0fb3\u0f76\u0f79\u0f77"),
    *(
        "\u1000\u1004\u1039\u103a\u1025\u102e\u1026",
        "\u0cc6\u0cc2\u0cd5\u0ccb\u0cca",
        "\u0627\u0653\u0622\u0648\u0654\u0624",
    ),
    *("\u0dd9\u0ddc\u0dcf\u0dca\u0ddd", "abcdhlnsyz", "AaCcHhDdZzSsYy"),
)
#: Not by the weights of characters: several passes over a text, and multi-byte charsets other than Unicode's.
REFUSED = {"mariadb": ("latin2_czech_cs", "sjis_japanese_ci"), "mysql": ("latin2_czech_cs", "big5_chinese_ci")}
#: Each string: what some collation calls equal, or what could be mistaken for it.
# fmt: off
FAMILIES = [
    *(
        "aAáÁàâäÄåÅæÆ\u0101\u1eb7ａＡ\U0001d400",
        "sSśŠßſ\u1e9e\u0161",
        "oOöÖøØ\u0151œŒ",
        "eEéÈ\u0119ë\u1ec7",
        "nNñÑ\u0144",
    ),
    *(" \u00a0\u3000\t\u2003\u00a8", "\u00ad\u200b\u200d\ufeff\u0000\u0001\u0301\u0308\u034f", "lL\u0142\u0141\u013f·"),
    *("uUüÜyY\u0171vVwW", "иИйЙ\u0306", "ьЬъ", "\u0431\u0411", "12\u00b2①１\u00bd", "iIıİ\u0130", "\u01c4\u01c5dDzZž"),
    *(
        "中\u4e00一",
        "日\uf9c3",
        "ぁあアｱァ゛\u3099",
        "がか",
        "\u1100\u1161가",
        "กเก",
        "😀😁\U0001f600",
        "\ud55c\U00020000",
    ),
    *("\U0010fffd\U000e0041", "_-.'\\\"`", "?�", "\ufb01fi", "\u2126Ω\u03c9ωΏ", "\u0390\u1fd3", "\u0958\u0915\u093c"),
]
# fmt: on


def column(collation: str) -> Column:
    charset = collation.partition("_")[0]
    return Column("v", "varchar", "varchar(200)", charset=charset, collation=collation)


HERE = Column("v", "varchar", "varchar(200)", charset="utf8mb4", collation="utf8mb4_bin")


def charsets(conn: Connection[Any]) -> TargetCharsets:
    return TargetCharsets(
        lambda *names: fetch_collation_weights(conn, *names), lambda charset: fetch_characters(conn, charset)
    )


def word(chance: random.Random) -> str:
    families = chance.sample(FAMILIES, chance.randint(1, 3))
    return "".join(chance.choice(chance.choice(families)) for _ in range(chance.randint(0, 5)))


def variant(chance: random.Random, text: str) -> str:
    """Another way to write ``text``, for some collation."""
    out = []
    for char in text:
        family = next((f for f in FAMILIES if char in f), char)
        out.append(chance.choice(family) if chance.random() < 0.5 else char)
    made = "".join(out)
    roll = chance.random()
    if roll < 0.3:
        made = chance.choice((str.upper, str.lower, str.swapcase, str.casefold))(made)
    elif roll < 0.5:
        made = unicodedata.normalize(chance.choice(("NFC", "NFD", "NFKC")), made)
    return made + chance.choice(("", "", " ", "  ", "\u00ad", "\u00a0"))


def pairs(chance: random.Random, collation: str, encoding: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    while len(found) < PAIRS:
        one = word(chance)
        other = variant(chance, one)
        try:
            (one + other).encode(encoding)
        except UnicodeEncodeError:
            continue
        found.append((one, other))
    return found


def literal(text: str) -> bytes:
    return b"'" + text.replace("\\", "\\\\").replace("'", "\\'").encode() + b"'"


def asked(conn: Connection[Any], collation: str, found: list[tuple[str, str]]) -> list[bool]:
    """Which pairs the server calls equal."""
    charset = collation.partition("_")[0]

    def value(text: str) -> str:
        return f"CONVERT(CONVERT(x'{text.encode('utf-32-be').hex()}' USING utf32) USING {charset}) COLLATE {collation}"

    answers: list[bool] = []
    for start in range(0, len(found), 500):
        select = ",".join(f"{value(one)} = {value(other)}" for one, other in found[start : start + 500])
        answers += [bool(answer) for answer in query(conn, f"SELECT {select}")[0]]
    return answers


ENCODINGS = {
    "latin1": "cp1252",
    "latin2": "iso8859-2",
    "cp1251": "cp1251",
    "ascii": "ascii",
    "gbk": "gbk",
    "utf8": "utf-8",
    "utf8mb4": "utf-8",
    "utf16": "utf-8",
}


@pytest.mark.parametrize(
    ("common", "mariadb", "mysql_8"),
    [
        pytest.param(COLLATIONS, ONLY_MARIADB, ONLY_MYSQL_8, id="one of each kind"),
        pytest.param(FURTHER, FURTHER_MARIADB, FURTHER_MYSQL_8, id="the others", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("flavor", ["mariadb", "mysql"])
def test_equal_strings_have_equal_canonical_bytes_and_few_others_do(
    flavor: str,
    common: tuple[str, ...],
    mariadb: tuple[str, ...],
    mysql_8: tuple[str, ...],
    mariadb_upstream: SQLServer,
    mysql_upstream: MySQLServer,
) -> None:
    server = mariadb_upstream if flavor == "mariadb" else mysql_upstream
    conn = server.connect()
    more = mariadb if flavor == "mariadb" else mysql_8 if mysql_upstream.version.startswith("8.0") else ()
    chance = random.Random(SEED)
    for collation in (*common, *more):
        made = normalizer_of(HERE, column(collation), 0, charsets(conn))
        assert made.kind == TEXT, collation
        fold = key_normalization.normalize_function(made)
        found = pairs(chance, collation, ENCODINGS[collation.partition("_")[0]])
        if collation.startswith("utf8_"):
            found = [(one, other) for one, other in found if max(one + other, default="") <= "\uffff"]
        equal = asked(conn, collation, found)
        same = [fold(literal(one)) == fold(literal(other)) for one, other in found]
        finer = [pair for pair, a, b in zip(found, equal, same, strict=True) if a and not b]
        assert not finer, (collation, [ascii(p) for p in finer[:5]])
        # Not uselessly coarse: what it adds is little (a NO PAD collation distinguishes trailing spaces, some accents).
        if "nopad" not in collation and "0900" not in collation:
            coarser = [pair for pair, a, b in zip(found, equal, same, strict=True) if b and not a]
            assert len(coarser) <= len(found) // 100, (
                collation,
                len(coarser),
                [tuple(map(ascii, p)) for p in coarser[:5]],
            )
        assert sum(equal) > len(found) // 30, collation
    conn.close()


def contracted(chance: random.Random) -> list[str]:
    """Short strings of few characters each, so that many are equal."""
    found: dict[str, None] = {}
    for alphabet in (*(chance.sample(CLOSE, 8) for _ in range(12)), *SCRIPTS):
        for _ in range(TEXTS):
            text = "".join(chance.choice(alphabet) for _ in range(chance.randint(1, 5)))
            if chance.random() < 0.2:
                text = unicodedata.normalize(chance.choice(("NFC", "NFD")), text)
            found[text] = None
    return list(found)


def classes(conn: Connection[Any], collation: str, found: list[str]) -> list[list[str]]:
    """The strings that the server calls equal, together."""
    with conn.cursor() as cursor:
        cursor.execute("CREATE DATABASE IF NOT EXISTS classes")
        cursor.execute("SET SESSION group_concat_max_len = 1000000")
        cursor.execute("DROP TABLE IF EXISTS classes.t")
        charset = collation.partition("_")[0]
        type_ = f"VARCHAR(40) CHARACTER SET {charset} COLLATE {collation}"
        cursor.execute(f"CREATE TABLE classes.t (id INT PRIMARY KEY, v {type_})")
        cursor.executemany("INSERT INTO classes.t VALUES (%s, %s)", list(enumerate(found)))
        cursor.execute("SELECT GROUP_CONCAT(id) FROM classes.t GROUP BY v")
        return [[found[int(number)] for number in numbers.split(",")] for (numbers,) in cursor.fetchall()]


@pytest.mark.parametrize(
    ("version", "collations"),
    [
        *(pytest.param(*item, id=item[0]) for item in CONTRACTING.items()),
        *(
            pytest.param(*item, id=f"{item[0]}, the others", marks=pytest.mark.slow)
            for item in FURTHER_CONTRACTING.items()
        ),
    ],
)
def test_strings_that_contractions_make_equal_have_equal_bytes(
    version: str,
    collations: tuple[str, ...],
    mariadb_upstream: SQLServer,
    mysql_upstream: SQLServer,
    mariadb_11_8_upstream: SQLServer,
) -> None:
    server = {"mariadb": mariadb_upstream, "11.8": mariadb_11_8_upstream}.get(version, mysql_upstream)
    chance = random.Random(SEED)
    conn = server.connect()
    for collation in collations:
        made = normalizer_of(HERE, column(collation), 0, charsets(conn))
        assert made.kind == TEXT, collation
        fold = key_normalization.normalize_function(made)
        found = classes(conn, collation, contracted(chance))
        finer = [same for same in found if len({fold(literal(text)) for text in same}) > 1]
        assert not finer, (collation, [ascii(same) for same in finer[:5]])
        assert any(len(same) > 1 for same in found), "nothing was equal"
        # Keys of letters and digits still get many writers.
        words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=12)) for _ in range(1000)]
        assert len({fold(literal(text)) for text in words}) > 990, collation
    conn.close()


@pytest.mark.parametrize("flavor", ["mariadb", "mysql"])
def test_collations_of_which_too_little_is_known_are_not_folded(
    flavor: str, mariadb_upstream: SQLServer, mysql_upstream: SQLServer
) -> None:
    conn = (mariadb_upstream if flavor == "mariadb" else mysql_upstream).connect()
    for collation in REFUSED[flavor]:
        assert normalizer_of(HERE, column(collation), 0, charsets(conn)).kind == INCOMPARABLE, collation
    conn.close()
