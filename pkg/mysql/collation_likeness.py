"""Compares two servers' collations by a sample of string pairs that a collation may treat as equal."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

import pymysql
from pymysql.connections import Connection

from pkg.mysql.connection import is_retryable
from pkg.mysql.introspect import query

_LETTERS = "abcdefghijklmnopqrstuvwxyzåäöéüñčøæþδяжй"
#: Case, accents, letters of languages, ligatures, widths, kana, emoji and others beyond U+FFFF.
PAIRS: tuple[tuple[str, str], ...] = (
    *((letter, letter.upper()) for letter in _LETTERS),
    *(
        (letter, base)
        for letter in "åäöéüñčàçêžšőąß"
        for base in [unicodedata.normalize("NFD", letter)[0]]
        if base != letter
    ),
    *(("ü", "y"), ("ø", "o"), ("æ", "ae"), ("ß", "ss"), ("ß", "s"), ("þ", "th"), ("ł", "l"), ("đ", "d"), ("ı", "i")),
    *(("é", "e\u0301"), ("ﬁ", "fi"), ("１", "1"), ("①", "1"), ("½", "¼"), ("-", "_"), ("€", "$"), ("a\u00ad", "a")),
    *(("あ", "ア"), ("か", "が"), ("ア", "ｱ"), ("中", "国"), ("ё", "е"), ("й", "и"), ("أ", "ا"), ("ก", "ข")),
    *(("😀", "😁"), ("🍣", "🍺"), ("😀", "?"), ("𝐀", "A"), ("𠀀", "𠀁"), ("𐌰", "𐌱")),
)
#: A target that treats two of the upstream's strings as equal refuses rows; one that distinguishes more accepts all.
_JOINS, _PARTS = 3, 1


def fetch_equalities(conn: Connection[Any], collation: str) -> tuple[bool, ...]:
    """The pairs of :data:`PAIRS` that a collation treats as equal; empty when the server can't answer. Raises
    ``pymysql.Error`` only when a retry may help."""
    charset = collation.partition("_")[0]

    def value(text: str) -> str:
        return f"CONVERT(CONVERT(x'{text.encode().hex()}' USING utf8mb4) USING {charset}) COLLATE {collation}"

    asked = ", ".join(f"{value(one)} = {value(other)}" for one, other in PAIRS)
    try:
        return tuple(bool(answer) for answer in query(conn, f"SELECT {asked}")[0])
    except pymysql.Error as exc:
        if is_retryable(exc):
            raise
        return ()


def difference(upstream: Sequence[bool], target: Sequence[bool]) -> int:
    """How a target's collation differs from the upstream's, by the strings that they treat as equal."""
    return sum((_PARTS if one else _JOINS) for one, other in zip(upstream, target, strict=True) if one != other)
