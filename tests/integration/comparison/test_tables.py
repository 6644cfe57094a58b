"""Hazard: tables whose keys, shards, rules or sizes lead a comparison astray."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from deploy.local.mysql import SQLServer
from dm_worker.comparison.compare import compare_chunk
from dm_worker.comparison.merged_tables import SourceName
from dm_worker.comparison.outcome import ComparisonLimits
from dm_worker.comparison.pair import NotCompared, TablePair, Way
from dm_worker.comparison.ranges import plan_ranges, ranges_between
from dm_worker.syncer.rows.task_rules import TaskRules
from pkg.config.model import SubTaskConfig
from pkg.rules.model import ColumnMappingRule, ExpressionFilter, ExtractRule, RouteRule
from pkg.settings.connections import DBConfig
from tests.integration.comparison.support import compare, fresh, pair_of, snapshots

WAYS = pytest.mark.parametrize("streamed", [False, True], ids=["checksums", "rows"])


def on_both(sides: Sequence[SQLServer], *statements: str) -> None:
    for server in sides:
        fresh(server, *statements)


@WAYS
def test_doubled_pairs_do_not_cancel(sides: tuple[SQLServer, SQLServer], streamed: bool) -> None:
    upstream, target = sides
    on_both(sides, "CREATE TABLE t (a VARCHAR(5), b INT)")
    upstream.execute("INSERT INTO d.t VALUES ('A', 1), ('A', 1), ('B', 1), ('B', 1), ('E', 1)")
    target.execute("INSERT INTO d.t VALUES ('C', 1), ('C', 1), ('D', 1), ('D', 1), ('E', 1)")
    found = compare(upstream, target, streamed=streamed)
    assert [(one.kind.value, one.counts) for one in sorted(found.differences, key=lambda one: one.kind.value)] == [
        ("extra", (0, 2)),
        ("extra", (0, 2)),
        ("missing", (2, 0)),
        ("missing", (2, 0)),
    ]


@WAYS
def test_rows_are_counted_where_they_are_doubled(sides: tuple[SQLServer, SQLServer], streamed: bool) -> None:
    upstream, target = sides
    on_both(sides, "CREATE TABLE t (a VARCHAR(5), b FLOAT)")
    upstream.execute("INSERT INTO d.t VALUES ('A', 1.1), ('A', 1.1), ('B', NULL)")
    target.execute("INSERT INTO d.t VALUES ('A', 1.1), ('B', NULL), ('B', NULL), ('B', NULL)")
    found = compare(upstream, target, streamed=streamed)
    assert sorted((one.kind.value, one.counts) for one in found.differences) == [
        ("doubled", (1, 3)),
        ("doubled", (2, 1)),
    ]


KEYS = {
    "reserved words": ("`select` INT, `from` INT, PRIMARY KEY (`select`, `from`)", "1, 2"),
    "quotes, spaces, backticks": (
        "`a b` INT, `c``d` INT, `e'f\"` INT, PRIMARY KEY (`a b`, `c``d`, `e'f\"`)",
        "1, 2, 3",
    ),
    "text": ("k VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PRIMARY KEY", r"'a\'b\\c'"),
    "latin1": ("k VARCHAR(20) CHARACTER SET latin1 PRIMARY KEY", "'äöü'"),
    "bytes": ("k VARBINARY(20) PRIMARY KEY", "x'00ff27'"),
    "padded bytes": ("k BINARY(4) PRIMARY KEY", "x'00ff'"),
    "float": ("k FLOAT PRIMARY KEY", "0.1"),
    "double": ("k DOUBLE PRIMARY KEY", "0.1"),
    "decimal": ("k DECIMAL(20,5) PRIMARY KEY", "-1.5"),
    "date": ("k DATE PRIMARY KEY", "'0000-00-00'"),
    "time stamp": ("k DATETIME(6) PRIMARY KEY", "'2020-01-01 00:00:00.000001'"),
    "member": ("k ENUM('a','b') PRIMARY KEY", "'b'"),
    "members": ("k SET('a','b') PRIMARY KEY", "'a,b'"),
    "bits": ("k BIT(64) PRIMARY KEY", "b'1111111111111111111111111111111111111111111111111111111111111111'"),
    "year": ("k YEAR PRIMARY KEY", "2020"),
    "unsigned": ("k BIGINT UNSIGNED PRIMARY KEY", "18446744073709551615"),
    "zeros": ("k INT(8) UNSIGNED ZEROFILL PRIMARY KEY", "7"),
}


@WAYS
@pytest.mark.parametrize("name", KEYS)
def test_rows_are_found_by_any_key(sides: tuple[SQLServer, SQLServer], name: str, streamed: bool) -> None:
    """A row that differs among many equal ones is read by its key alone."""
    upstream, target = sides
    columns, key = KEYS[name]
    on_both(sides, f"CREATE TABLE t ({columns}, v INT)", f"INSERT INTO t VALUES ({key}, 1)")
    target.execute("UPDATE d.t SET v = 2")
    found = compare(upstream, target, streamed=streamed)
    assert [(one.kind.value, one.columns) for one in found.differences] == [("changed", ("v",))]
    (one,) = found.differences
    assert one.upstream is not None
    assert one.key == one.upstream[: len(one.key)]


@WAYS
def test_many_rows_by_ranges_and_by_key(sides: tuple[SQLServer, SQLServer], streamed: bool) -> None:
    upstream, target = sides
    digits = "(SELECT 0 n" + "".join(f" UNION ALL SELECT {n}" for n in range(1, 10)) + ")"
    numbers = "a.n + 10 * b.n + 100 * c.n + 1000 * e.n"
    on_both(
        sides,
        "CREATE TABLE t (id BIGINT PRIMARY KEY, v VARCHAR(30), f DOUBLE)",
        f"INSERT INTO t SELECT {numbers}, CONCAT('v', {numbers}), ({numbers}) / 7"
        f" FROM {digits} a, {digits} b, {digits} c, {digits} e",
        "ANALYZE TABLE t",
    )
    target.execute(
        "DELETE FROM d.t WHERE id IN (0, 17, 9999)",
        "UPDATE d.t SET v = NULL WHERE id = 5000",
        "INSERT INTO d.t VALUES (-1, 'x', 0), (20000, 'x', 0)",
    )
    with snapshots(upstream, target) as (here, there):
        pair = pair_of([here], there)
        assert isinstance(pair, TablePair)
        parts = plan_ranges(here, pair, 1500)
    assert len(parts) > 3
    wanted = [("changed", b"5000"), ("extra", b"-1"), ("extra", b"20000")]
    wanted += [("missing", b"0"), ("missing", b"17"), ("missing", b"9999")]
    for limits in (ComparisonLimits(), ComparisonLimits(most_rows=50, most_bytes=10)):
        whole = compare(upstream, target, streamed=streamed, limits=limits)
        by_parts = compare(upstream, target, streamed=streamed, limits=limits, parts=parts)
        for found in (whole, by_parts):
            assert sorted((one.kind.value, one.key[0]) for one in found.differences) == wanted
        assert whole.outcome.rows == (10_000, 9_999)


@WAYS
def test_values_over_the_packet_limit(mariadbs: tuple[SQLServer, SQLServer], streamed: bool) -> None:
    """A row that no text of the server can hold is compared all the same."""
    upstream, target = mariadbs
    parts = ", ".join(f"v{n} VARCHAR(1000) CHARACTER SET latin1" for n in range(20))
    values = ", ".join(["REPEAT('x', 1000)"] * 20)
    on_both(mariadbs, f"CREATE TABLE t (id INT PRIMARY KEY, {parts}, b LONGBLOB)")
    for server in mariadbs:
        server.execute(f"INSERT INTO d.t VALUES (1, {values}, REPEAT('y', 3000000)), (2, {values}, 'z')")
    target.execute("UPDATE d.t SET b = CONCAT(LEFT(b, 2999999), 'n') WHERE id = 1")
    before = upstream.execute("SELECT @@GLOBAL.max_allowed_packet")[0][0]
    try:
        for server in mariadbs:
            server.execute("SET GLOBAL max_allowed_packet = 16384")
        found = compare(upstream, target, streamed=streamed)
    finally:
        for server in mariadbs:
            server.execute(f"SET GLOBAL max_allowed_packet = {before}")
    assert [(one.key, one.columns) for one in found.differences] == [((b"1",), ("b",))]
    if not streamed:
        assert "max_allowed_packet" in found.outcome.how


@WAYS
def test_rows_of_10_mb_in_16_shards_take_bounded_memory(mariadbs: tuple[SQLServer, SQLServer], streamed: bool) -> None:
    """All rows differ. Only what is reported of them is the caller's."""
    upstream, target = mariadbs
    shards, size = range(1, 17), 10_000_000
    shape = "(id INT PRIMARY KEY, v LONGBLOB)"
    fresh(upstream, *(f"CREATE TABLE t{n} {shape}" for n in shards))
    fresh(target, f"CREATE TABLE t {shape}")
    for n in shards:
        upstream.execute(f"INSERT INTO d.t{n} VALUES ({n}, REPEAT('x', {size}))")
        target.execute(f"INSERT INTO d.t VALUES ({n}, CONCAT(REPEAT('x', {size - 1}), 'y'))")
    found: list[bytes] = []
    with snapshots(upstream, target) as (here, there):
        pair = pair_of([here], there, names=[SourceName(0, "d", f"t{n}") for n in shards])
        assert isinstance(pair, TablePair)
        if streamed:
            pair = replace(pair, way=Way.STREAMED)
        tracemalloc.start()
        try:
            compare_chunk([here], there, pair, report=lambda some: found.extend(one.key[0] for one in some))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert sorted(map(int, found)) == list(shards)
    # 64 MiB of rows and a row too many; one row's packets, values and literals while they are made. All have 960 MB.
    assert peak < 300 << 20, f"{peak >> 20} MiB"


@WAYS
def test_keys_that_only_a_collation_calls_equal(sides: tuple[SQLServer, SQLServer], streamed: bool) -> None:
    upstream, target = sides
    on_both(sides, "CREATE TABLE t (k VARCHAR(10) COLLATE utf8mb4_general_ci PRIMARY KEY, v INT)")
    upstream.execute("INSERT INTO d.t VALUES ('ab', 1), ('c', 1)")
    target.execute("INSERT INTO d.t VALUES ('AB', 1), ('c', 1)")
    found = compare(upstream, target, streamed=streamed)
    assert sorted((one.kind.value, one.key) for one in found.differences) == [
        ("extra", (b"'AB'",)),
        ("missing", (b"'ab'",)),
    ]


MIXED = (
    "CREATE TABLE t (id VARCHAR(9) COLLATE {0} PRIMARY KEY, a VARCHAR(9) COLLATE {1}, b CHAR(9) COLLATE {2} NOT NULL,"
    " c VARCHAR(9) CHARACTER SET latin1, d TEXT COLLATE utf8mb4_unicode_ci, e VARCHAR(9) CHARACTER SET {3},"
    " f VARBINARY(9), g VARCHAR(9) CHARACTER SET gbk, h VARCHAR(9) COLLATE {1} NOT NULL)"
)


@WAYS
def test_texts_of_many_charsets_and_collations(sides: tuple[SQLServer, SQLServer], streamed: bool) -> None:
    """A row's text joins bytes: no collation of one column decides about another, and both sides may have others."""
    upstream, target = sides
    fresh(upstream, MIXED.format("utf8mb4_bin", "utf8mb4_general_ci", "utf8mb4_unicode_ci", "utf8"))
    fresh(target, MIXED.format("utf8mb4_general_ci", "utf8mb4_bin", "utf8mb4_general_ci", "utf8mb4"))
    row = "'{0}', 'é😀', 'B ', 'ä€', 'Ж', '语', x'00ff', '啊', 'z'"
    for server in sides:
        server.execute(*(f"INSERT INTO d.t VALUES ({row.format(key)})" for key in ("a", "b", "ü", "😀")))
    assert compare(upstream, target, streamed=streamed).differences == []
    for number, (column, value) in enumerate(
        {"a": "'É😀'", "b": "'b'", "c": "'Ä€'", "d": "'ж'", "e": "'話'", "f": "x'00'", "g": "'阿'", "h": "'Z'"}.items()
    ):
        target.execute(f"UPDATE d.t SET {column} = {value} WHERE id = 'ü'")
        (one,) = compare(upstream, target, streamed=streamed).differences
        assert (one.key, len(one.columns)) == (("'ü'".encode(),), number + 1)
        assert column in one.columns


#: By charset: codes that share a character with others, and one that has none.
CODES = {"sjis": (("x'5C'", "x'815F'", "x'433A5C3F'"), ""), "cp932": (("x'FA54'", "x'81CA'", "x'3FFA54'"), ""),
         "gbk": (("x'A1AA'",), "x'A2AB'")}  # fmt: skip


@WAYS
@pytest.mark.parametrize("charset", CODES)
def test_codes_with_one_character_are_equal_and_those_without_are_not(
    sides: tuple[SQLServer, SQLServer], charset: str, streamed: bool
) -> None:
    """The target has what it stores of a literal in the upstream's charset."""
    upstream, target = sides
    codes, unknown = CODES[charset]
    fresh(upstream, f"CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET {charset})")
    fresh(target, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET utf8mb4)")
    for number, code in enumerate(codes):
        for server in sides:
            server.execute(f"INSERT INTO d.t VALUES ({number}, _{charset} {code})")
    assert compare(upstream, target, streamed=streamed).differences == []
    if unknown:
        upstream.execute("SET SESSION sql_mode = ''", f"INSERT INTO d.t VALUES (9, _{charset} {unknown})")
        target.execute("INSERT INTO d.t VALUES (9, '?')")
    target.execute("UPDATE d.t SET v = 'x' WHERE id = 0")
    found = compare(upstream, target, streamed=streamed).differences
    assert [one.key for one in found] == [(b"0",), *([(b"9",)] if unknown else [])]


@WAYS
def test_a_session_without_backslash_escapes(mariadbs: tuple[SQLServer, SQLServer], streamed: bool) -> None:
    upstream, target = mariadbs
    on_both(mariadbs, "CREATE TABLE t (k VARCHAR(10) COLLATE utf8mb4_bin PRIMARY KEY, v TEXT)")
    mode = upstream.execute("SELECT @@GLOBAL.sql_mode")[0][0]
    upstream.execute(r"INSERT INTO d.t VALUES ('a\\', '\\n\'')")
    target.execute(r"INSERT INTO d.t VALUES ('a\\', '\\n')")
    try:
        for server in mariadbs:
            server.execute("SET GLOBAL sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI_QUOTES'")
        found = compare(upstream, target, streamed=streamed)
    finally:
        for server in mariadbs:
            server.execute(f"SET GLOBAL sql_mode = '{mode}'")
    assert [one.columns for one in found.differences] == [("v",)]


def test_grown_types_other_order_and_more_columns(sides: tuple[SQLServer, SQLServer]) -> None:
    upstream, target = sides
    fresh(
        upstream,
        "CREATE TABLE t (id INT PRIMARY KEY, i TINYINT UNSIGNED, d DECIMAL(5,2), f FLOAT, t DATETIME, y TIME(1),"
        " c CHAR(5), b BINARY(3), e ENUM('x','y'), s SET('a','b'), da DATE, n INT, g INT AS (i + 1) STORED)",
        "INSERT INTO t (id, i, d, f, t, y, c, b, e, s, da, n) VALUES (1, 255, -1.5, 0.1, '2020-01-01 01:02:03',"
        " '-01:00:00.5', 'a', 'b', 'y', 'a,b', '2020-02-02', 5)",
    )
    fresh(
        target,
        "CREATE TABLE t (more INT DEFAULT 7, g BIGINT AS (i + 1) STORED, s SET('a','b','c'), e ENUM('x','y','z'),"
        " b BINARY(5), c VARCHAR(9), y TIME(6), t DATETIME(3), f DOUBLE, d DECIMAL(12,4), i BIGINT,"
        " id BIGINT PRIMARY KEY, da DATETIME, n VARCHAR(20))",
        "INSERT INTO t (id, i, d, f, t, y, c, b, e, s, da, n) VALUES (1, 255, -1.5, 0.100000001490116119384765625,"
        " '2020-01-01 01:02:03', '-01:00:00.5', 'a', 'b', 'y', 'a,b', '2020-02-02', 5)",
    )
    found = compare(upstream, target)
    assert found.differences == []
    target.execute("UPDATE d.t SET d = -1.5001")
    assert [one.columns for one in compare(upstream, target).differences] == [("d",)]


#: The upstream's type and value, and what a target of a narrower or another type may have instead of it.
LOSSY = {
    "bytes that were cut": ("VARBINARY(10)", "'abcdefgh'", "BINARY(5)", "'abcde'"),
    "bytes of a text that were cut": ("VARCHAR(10)", "'abcdefgh'", "BINARY(5)", "'abcde'"),
    "digits of a decimal": ("DECIMAL(65,0)", f"{'1' * 34}2", "DECIMAL(65,30)", f"{'1' * 34}3"),
}


@pytest.mark.parametrize("name", LOSSY)
def test_what_another_type_has_lost_is_a_difference(sides: tuple[SQLServer, SQLServer], name: str) -> None:
    upstream, target = sides
    here, value, there, kept = LOSSY[name]
    fresh(upstream, f"CREATE TABLE t (id INT PRIMARY KEY, v {here})", f"INSERT INTO t VALUES (1, {value}), (2, 1)")
    fresh(target, f"CREATE TABLE t (id INT PRIMARY KEY, v {there})", f"INSERT INTO t VALUES (1, {kept}), (2, 1)")
    found = compare(upstream, target)
    assert [(one.key, one.columns) for one in found.differences] == [((b"1",), ("v",))]


@WAYS
def test_rows_with_null_in_the_key_are_in_one_range(sides: tuple[SQLServer, SQLServer], streamed: bool) -> None:
    """A target without the upstream's key may have rows that no comparison with a key finds."""
    upstream, target = sides
    rows = [(a, b) for a in range(4) for b in range(4)]
    values = ", ".join(f"({a}, {b}, 1)" for a, b in rows)
    fresh(upstream, "CREATE TABLE t (a INT, b INT, v INT, PRIMARY KEY (a, b))", f"INSERT INTO t VALUES {values}")
    more = [("NULL", "NULL"), ("NULL", 1), (0, "NULL"), (1, "NULL"), (2, "NULL"), (3, "NULL"), (9, "NULL")]
    extra = ", ".join(f"({a}, {b}, 1)" for a, b in more)
    fresh(target, "CREATE TABLE t (a INT, b INT, v INT)", f"INSERT INTO t VALUES {values}, {extra}")
    parts = ranges_between([(b"1", b"2"), (b"2", b"0"), (b"2", b"3")])
    for cut in (parts, ranges_between([(b"1",), (b"3",)])):
        found = compare(upstream, target, streamed=streamed, parts=cut)
        keys = sorted((one.kind.value, *(key.decode() for key in one.key)) for one in found.differences)
        assert keys == sorted(("extra", str(a), str(b)) for a, b in more)


def test_a_document_s_members_of_one_name_are_differences_where_a_text_keeps_them(
    sides: tuple[SQLServer, SQLServer],
) -> None:
    upstream, target = sides
    on_both(sides, "CREATE TABLE t (id INT PRIMARY KEY, v JSON)")
    upstream.execute("""INSERT INTO d.t VALUES (1, '{"a": 1}'), (2, '{"b": [1]}')""")
    target.execute("""INSERT INTO d.t VALUES (1, '{"a": 9, "a": 1}'), (2, '{"b":[1]}')""")
    keys = {one.key for one in compare(upstream, target).differences}
    # MySQL stores the last member of a name only.
    assert ((b"1",) in keys) == (target.flavor == "mariadb")


def task(**rules: object) -> TaskRules:
    server = DBConfig("127.0.0.1", 3306)
    settings: dict[str, Any] = {
        "name": "x",
        "source_id": "one",
        "task_mode": "all",
        "from_": server,
        "to": server,
        **rules,
    }
    return TaskRules(SubTaskConfig(**settings))


ROUTE = RouteRule("s", "d", "t*", "t", extract_table=ExtractRule("t(.*)", "shard"))


@WAYS
def test_shards_with_mapped_keys_and_extracted_columns(sides: tuple[SQLServer, SQLServer], streamed: bool) -> None:
    upstream, target = sides
    fresh(upstream, schema="s")
    for shard in (1, 2):
        upstream.execute(
            f"CREATE TABLE s.t{shard} (id INT PRIMARY KEY, v VARCHAR(9))",
            f"INSERT INTO s.t{shard} VALUES (1, 'a{shard}'), (2, 'b{shard}'), (3, NULL)",
        )
    rule = ColumnMappingRule("s", "id", "partition id", "t*", "id", ("", "", "t", ""))
    rules = task(routes=(ROUTE,), column_mappings=(rule,), case_sensitive=True)
    fresh(target, "CREATE TABLE t (id BIGINT PRIMARY KEY, shard VARCHAR(9), v VARCHAR(9))")
    for shard in (1, 2):
        base = shard << 55
        target.execute(
            f"INSERT INTO d.t VALUES ({base + 1}, '{shard}', 'a{shard}'), ({base + 2}, '{shard}', 'b{shard}'),"
            f" ({base + 3}, '{shard}', NULL)"
        )
    names = [SourceName(0, "s", "t1"), SourceName(0, "s", "t2")]
    found = compare(upstream, target, names=names, rules=[rules], streamed=streamed)
    assert found.differences == []
    assert found.outcome.rows == (6, 6)
    target.execute(
        f"UPDATE d.t SET shard = '3' WHERE id = {(2 << 55) + 2}", f"DELETE FROM d.t WHERE id = {(1 << 55) + 3}"
    )
    found = compare(upstream, target, names=names, rules=[rules], streamed=streamed)
    assert sorted((one.kind.value, one.source, one.key, one.columns) for one in found.differences) == [
        ("changed", 1, (b"%d" % ((2 << 55) + 2),), ("shard",)),
        ("missing", 0, (b"%d" % ((1 << 55) + 3),), ("id", "shard", "v")),
    ]


def test_shards_on_several_servers_that_share_a_key(sides: tuple[SQLServer, SQLServer]) -> None:
    upstream, target = sides
    fresh(upstream, "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    fresh(upstream, "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (2, 2), (3, 3)", schema="o")
    fresh(target, "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
    names = [SourceName(0, "d", "t"), SourceName(1, "o", "t")]
    found = compare([upstream, upstream], target, names=names)
    assert [(one.kind.value, one.key, one.counts) for one in found.differences] == [("doubled", (b"2",), (2, 1))]


def test_what_can_not_be_compared_has_a_reason(sides: tuple[SQLServer, SQLServer]) -> None:
    upstream, target = sides
    on_both(sides, "CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    target.execute("ALTER TABLE d.t MODIFY v BLOB")
    with snapshots(upstream, target) as (here, there):
        pair = pair_of([here], there)
        assert isinstance(pair, NotCompared)
        assert "`v`" in pair.reason
        assert "blob" in pair.reason
        assert isinstance(pair_of([here], there, table="gone"), NotCompared)
        assert isinstance(pair_of([here], there, names=[SourceName(0, "d", "gone")]), NotCompared)
    rules = task(expression_filters=(ExpressionFilter("d", "t", update_old_value_expr="id = 1"),))
    target.execute("ALTER TABLE d.t MODIFY v INT")
    with snapshots(upstream, target) as (here, there):
        filtered = pair_of([here], there, rules=[rules])
    assert isinstance(filtered, NotCompared)
    assert "expression filter" in filtered.reason


def test_a_zero_below_zero_is_zero_where_a_server_has_none(sides: tuple[SQLServer, SQLServer]) -> None:
    """MariaDB stores 0 for it."""
    upstream, target = sides
    on_both(sides, "CREATE TABLE t (id INT PRIMARY KEY, v DOUBLE, w FLOAT)", "INSERT INTO t VALUES (1, -0e0, -0e0)")
    assert compare(upstream, target).differences == []
    target.execute("UPDATE d.t SET v = 0e0, w = 1")
    (one,) = compare(upstream, target).differences
    assert one.columns == (("v", "w") if "mariadb" not in {upstream.flavor, target.flavor} else ("w",))


def test_documents_of_mysql_at_a_mariadb(sides: tuple[SQLServer, SQLServer]) -> None:
    """MariaDB keeps a text as it was written; the document is what counts there."""
    upstream, target = sides
    on_both(sides, "CREATE TABLE t (id INT PRIMARY KEY, v JSON)")
    upstream.execute("""INSERT INTO d.t VALUES (1, '{"a": 1, "b": [1.5, "x"]}'), (2, '1.0')""")
    target.execute("""INSERT INTO d.t VALUES (1, '{"b":[1.50,"x"],"a":1}'), (2, '1')""")
    keys = [one.key for one in compare(upstream, target).differences]
    flavors = upstream.flavor, target.flavor
    # MySQL writes 1.50 as 1.5, and sorts members; 1.0 and 1 differ everywhere.
    assert sorted(keys) == ([(b"1",), (b"2",)] if flavors == ("mariadb", "mariadb") else [(b"2",)])


def test_the_way_follows_from_the_columns(sides: tuple[SQLServer, SQLServer]) -> None:
    upstream, target = sides
    on_both(sides, "CREATE TABLE t (id INT PRIMARY KEY, v JSON, w DOUBLE)")
    with snapshots(upstream, target) as (here, there):
        pair = pair_of([here], there)
    assert isinstance(pair, TablePair)
    mixed = upstream.flavor != target.flavor
    assert pair.way is (Way.STREAMED if mixed else Way.PUSHED)
    assert ("`v`" in pair.why) == mixed
