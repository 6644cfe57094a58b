"""Hazards: a multiset that ends with other rows than the changes one by one; conditions that leave a row out."""

from __future__ import annotations

import hashlib
from collections import Counter
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm_worker.syncer.execution import keyless
from dm_worker.syncer.execution.compaction import DELETE, INSERT, UPDATE
from dm_worker.syncer.execution.keyless import (
    DistinctImages,
    ImageDigests,
    MissingRow,
    Search,
    images_of,
    merge_equal,
    play_changes,
)
from dm_worker.syncer.execution.row_block import OrderedRow
from dm_worker.syncer.rows.plan_builder import PlanOptions, build
from dm_worker.syncer.rows.row_matching import condition, digest_form
from pkg.binlog.rows.literals import MembersByName, marked
from pkg.mysql.schema import Column, Index, IndexPart, TableInfo

A = Column("a", "int", "int(11)")
S = Column("s", "varchar", "varchar(9)", charset="gbk", collation="gbk_chinese_ci")
TABLE = TableInfo("d", "t", (A, S), (Index("i", (IndexPart("a"),)),), "utf8mb4", "utf8mb4_bin", engine="InnoDB")
PLAN = build(1, 1, b"", TABLE.renamed("u", "t"), TABLE, PlanOptions())
UTF8_TABLE = replace(TABLE, columns=(A, Column("s", "varchar", "varchar(9)", charset="utf8mb4")), indexes=())
UTF8 = build(1, 1, b"", UTF8_TABLE.renamed("u", "t"), UTF8_TABLE, PlanOptions())
UNINDEXED = replace(PLAN, lookups=())
#: The literals of b and B are one value to the target.
_VALUES = {b"a": b"1", b"b": b"2", b"B": b"2", b"c": b"3"}

values = st.sampled_from(sorted(_VALUES))
changes = st.lists(st.tuples(st.sampled_from([INSERT, UPDATE, DELETE]), values, values), max_size=12)


def _row(number: int, op: int, before: bytes, after: bytes, a: bytes = b"1") -> OrderedRow:
    images = ([a, before] if op != INSERT else None, [a, after] if op != DELETE else None)
    return (number, op, 1, number, *images)


def _some_digests(images: DistinctImages) -> ImageDigests:
    return merge_equal(PLAN, images, [b"%032d" % number for number in images.looked_for])


def _one_by_one(there: Counter[bytes], wanted: list[tuple[int, bytes, bytes]]) -> Counter[bytes] | int:
    """The rows afterwards, or the number of the change that finds none."""
    rows = Counter(there)
    for number, (op, before, after) in enumerate(wanted):
        if op != INSERT:
            if not rows[_VALUES[before]]:
                return number
            rows[_VALUES[before]] -= 1
        if op != DELETE:
            rows[_VALUES[after]] += 1
    return +rows


@given(there=st.lists(values, max_size=8), wanted=changes)
def test_a_multiset_ends_as_the_changes_one_by_one_do(
    there: list[bytes], wanted: list[tuple[int, bytes, bytes]]
) -> None:
    rows = Counter(_VALUES[value] for value in there)
    images = images_of(PLAN, [_row(number, *change) for number, change in enumerate(wanted)])
    stored = [_VALUES[image[1]] for image in images.values]
    digests = merge_equal(PLAN, images, [stored[number] for number in images.looked_for]).of
    assert len(set(digests.values())) == len(digests) == len(images.looked_for)
    counts = {number: rows[digest] for number, digest in digests.items() if rows[digest]}
    expected = _one_by_one(rows, wanted)
    # An image that only comes is not looked for. It may be a literal of one that goes.
    unknown = {after for _, after in images.changes if after is not None} - set(digests)
    if isinstance(expected, int) or any(stored[number] in digests.values() for number in unknown):
        with suppress(MissingRow):
            play_changes(images, counts)
            assert not isinstance(expected, int)
        return
    copies = play_changes(images, counts)
    for number in counts:
        del rows[stored[number]]
    for number, count in copies:
        rows[stored[number]] += count
    assert +rows == expected


def test_scans_look_for_as_many_images_as_a_statement_takes() -> None:
    rows = [_row(n, DELETE, b"'%d'" % n, b"") for n in range(5000)]
    images = images_of(PLAN, rows)
    digests = _some_digests(images)
    most = 100_000
    parts = list(keyless.scans(images.looked_for, most))
    assert [number for part in parts for number in part] == images.looked_for
    texts = [keyless.digest_query(PLAN, images, Search(digests, part, None, most)) for part in parts]
    assert max(map(len, texts)) < most
    assert len(texts) == 7
    queries = list(keyless.digest_queries(PLAN, images, most))
    assert max(map(len, queries)) < most + 200
    assert sum(query.count(b"SHA2(") for query in queries) == 5000


def test_an_index_of_the_target_is_used_for_the_values_that_it_holds() -> None:
    rows = [(n, DELETE, 1, n, [b"NULL" if n == 3 else b"%d" % n, b"'x'"], None) for n in range(5)]
    images = images_of(PLAN, rows)
    digests = _some_digests(images)
    text = keyless.removal(PLAN, images, Search(digests, images.looked_for, None, 1 << 20)).decode()
    digest = "UNHEX(SHA2(CONCAT(QUOTE(`a`+0),',',QUOTE(CAST(`s` AS BINARY))),256))"
    listed = ",".join(f"x'{digest.hex()}'" for digest in digests.of.values())
    values = "(`a` IN (0,1,2,4) OR `a` IS NULL) AND (`a` BETWEEN 0 AND 4 OR `a` IS NULL)"
    assert text == f"DELETE FROM `d`.`t` WHERE {values} AND {digest} IN ({listed})"
    # More values than fit: the scan finds them all the same.
    assert b"`a` IN" not in keyless.removal(PLAN, images, Search(digests, images.looked_for, None, 20))


def test_only_rows_within_the_range_of_the_integers_need_a_digest() -> None:
    integers = [b"18446744073709551615", b"-3", b"NULL", b"7", b"-3"]
    images = images_of(UNINDEXED, [_row(n, DELETE, b"'%d'" % n, b"", a=value) for n, value in enumerate(integers)])
    digests = _some_digests(images)

    def condition_of(*numbers: int) -> str:
        text = keyless.digest_query(UNINDEXED, images, Search(digests, numbers, None, 1 << 20)).decode()
        return text.partition(" WHERE ")[2].partition(" AND UNHEX")[0]

    assert condition_of(*images.looked_for) == "(`a` BETWEEN -3 AND 18446744073709551615 OR `a` IS NULL)"
    assert condition_of(1, 3) == "(`a` BETWEEN -3 AND 7)"
    assert condition_of(2) == "(`a` IS NULL)"


def test_rows_are_looked_for_by_an_integer_that_distinguishes_nearly_all_of_them() -> None:
    def column_of(*values: bytes) -> int | None:
        return keyless.distinguishing_column(
            PLAN, images_of(PLAN, [_row(n, DELETE, b"'%d'" % n, b"", a=value) for n, value in enumerate(values)])
        )

    different = [b"%d" % n for n in range(9)]
    assert column_of(*different, b"0") == 0
    assert column_of(*different, b"NULL") == 0
    assert column_of(*different, b"0", b"NULL") is None
    images = images_of(PLAN, [_row(n, DELETE, b"'%d'" % n, b"", a=b"%d" % n) for n in (30, 4)])
    digests = _some_digests(images)
    text = keyless.returning_removal(PLAN, images, Search(digests, images.looked_for, 0, 1 << 20))
    condition = b"(`a` BETWEEN 4 AND 30) AND (`a` IN (30,4))"
    assert text == b"DELETE FROM `d`.`t` WHERE %b RETURNING %b" % (condition, digests.of_row)


def test_digests_of_literals_need_the_text_of_every_column() -> None:
    images = images_of(UTF8, [_row(0, UPDATE, b"'a'", b"'b'"), _row(1, DELETE, b"'b'", b"")])
    digests = keyless.digests_of_literals(UTF8, images)
    assert digests is not None
    text = b"CONCAT(IFNULL(`a`,'NULL'),',',QUOTE(CAST(`s` AS BINARY)))"
    assert digests.of_row == b"UNHEX(SHA2(%b,256))" % text
    assert digests.of == {0: hashlib.sha256(b"1,'a'").digest(), 1: hashlib.sha256(b"1,'b'").digest()}
    assert keyless.digests_of_literals(PLAN, images) is None


def _text(charset: str, kind: str = "varchar") -> Column:
    return Column("c{}", kind, f"{kind}(9)", charset=charset)


@pytest.mark.parametrize(
    ("here", "there", "expected"),
    [
        (_text("gbk"), _text("gbk"), "CAST(`c{}` AS BINARY) <=> CAST(? AS BINARY)"),
        (_text("utf8"), _text("utf8mb4"), "CAST(`c{}` AS BINARY) <=> CAST(? AS BINARY)"),
        (_text("gbk"), _text("sjis"), "CAST(`c{}` AS BINARY) <=> CAST(CONVERT(? USING sjis) AS BINARY)"),
        (_text("gbk"), _text("gbk", "char"), "CAST(`c{}` AS BINARY) <=> CAST(RTRIM(?) AS BINARY)"),
        # The literals of a mapped column may come in several charsets.
        (_text(""), _text("gbk"), "CAST(`c{}` AS BINARY) <=> CAST(CONVERT(? USING gbk) AS BINARY)"),
        (_text("gbk"), Column("c{}", "binary", "binary(5)"), "`c{}` <=> CAST(? AS BINARY(5))"),
        (_text("gbk"), Column("c{}", "varbinary", "varbinary(5)"), "`c{}` <=> CAST(? AS BINARY)"),
        (Column("c{}", "int", "int"), Column("c{}", "bigint", "bigint"), "`c{}` <=> ?"),
    ],
)
def test_values_are_compared_as_the_column_stores_them(here: Column, there: Column, expected: str) -> None:
    assert "?".join(condition(here, there)) == expected


def test_values_without_a_canonical_form_have_none() -> None:
    enum = Column("e", "enum", "enum('a','b')", charset="latin1")
    wide = Column("e", "set", f"set({','.join(repr(str(n)) for n in range(64))})", charset="latin1")
    pairs = [
        (marked(MembersByName, enum), enum),
        (wide, wide),
        (Column("d", "datetime", "datetime(3)"), Column("d", "datetime", "datetime")),
        (Column("d", "decimal", "decimal(5,2)"), Column("d", "decimal", "decimal(5,3)")),
        (A, Column("a", "double", "double")),
        (Column("j", "json", "json"), Column("j", "json", "json")),
    ]
    assert [digest_form(here, there) for here, there in pairs] == [None] * len(pairs)
    assert digest_form(enum, enum) == ("`e`+0", ("", "+0"))
