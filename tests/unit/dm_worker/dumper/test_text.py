# ruff: noqa: E501 - statements and rows read best on one line
"""Names, metadata, literals, rows and statements of dump files, without servers."""

from __future__ import annotations

import io
import itertools
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm_worker.dumper import file_names
from dm_worker.dumper.chunk_writer import HEADER, schema_text
from dm_worker.dumper.chunks import range_conditions, split_range
from dm_worker.dumper.column_literals import LiteralKind, RowRenderer
from dm_worker.dumper.folder import fingerprint
from dm_worker.dumper.metadata import DumpMetadata, parse_metadata, read_metadata, render
from dm_worker.dumper.options import parse_options
from dm_worker.loader import sql_file
from dm_worker.loader.load_plan import share_out
from dm_worker.loader.load_task import FileSpec
from pkg.binlog.position import Location, Position
from pkg.config.model import MydumperConfig, SubTaskConfig
from pkg.errors import Code, DMError
from pkg.schema_tracker import ServerDefaults
from pkg.settings.connections import DBConfig

_NAMES = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), min_size=1, max_size=20)


@given(_NAMES, _NAMES, st.integers(0, 999_999_999))
def test_any_name_comes_back_from_its_file_name(schema: str, table: str, number: int) -> None:
    for name, kind in (
        (file_names.database_file(schema), "database"),
        (file_names.table_file(schema, table), "table"),
        (file_names.data_file(schema, table, number), "data"),
    ):
        assert "/" not in name
        parsed = file_names.parse(name)
        assert parsed is not None
        assert (parsed.kind, parsed.schema) == (kind, schema)
        assert parsed.table == ("" if kind == "database" else table)


def test_metadata_has_dumplings_form_and_comes_back() -> None:
    here = Location(Position("mysql-bin.000003", 2_000_000_000_000), "0-1-5,1-2-3")
    text = render(DumpMetadata(here, None, "2026-01-02 03:04:05", "2026-01-02 03:05:05"))
    assert "SHOW MASTER STATUS:\n\tLog: mysql-bin.000003\n\tPos: 2000000000000\n\tGTID: 0-1-5,1-2-3\n" in text
    assert parse_metadata(text, "m").location == here
    both = DumpMetadata(here, Location(Position("mysql-bin.000004", 4)), "a", "b")
    assert parse_metadata(render(both), "m") == both


def test_gtid_sets_over_several_lines_and_replica_blocks_are_read() -> None:
    text = (
        "Started dump at: x\nSHOW MASTER STATUS:\n\tLog: b.000001\n\tPos: 4\n\tGTID:aa-1:1-5,\nbb-2:1\n\n"
        "SHOW SLAVE STATUS:\n\tHost: h\n\tLog: other.000009\n\tPos: 9\nFinished dump at: y\n"
    )
    assert parse_metadata(text, "m").location == Location(Position("b.000001", 4), "aa-1:1-5,bb-2:1")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", 11001),
        ("Started dump at: x\nSHOW MASTER STATUS:\n\tLog: b.1\n\tPos: four\n", 11001),
        ("Started dump at: x\n", 11123),
    ],
)
def test_metadata_without_a_position_is_an_error(tmp_path: Path, text: str, code: int) -> None:
    (tmp_path / "metadata").write_text(text)
    with pytest.raises(DMError) as caught:
        read_metadata(tmp_path)
    assert caught.value.code == code


def _cfg(extra: str) -> SubTaskConfig:
    server = DBConfig("h", 1)
    return SubTaskConfig("t", "s", "all", server, server, mydumper=MydumperConfig(extra_args=extra))


@pytest.mark.parametrize(
    "extra",
    ["--nosuch 1", "-t 0", "-F 0", "-F 1X", "--consistency maybe", "--snapshot 1", "--no-locks --consistency lock", "-T plain", "'", "-W=false", "word"],
)  # fmt: skip
def test_extra_args_that_are_not_understood_are_refused(extra: str) -> None:
    with pytest.raises(DMError) as caught:
        parse_options(_cfg(extra))
    assert caught.value.kind is Code.DumpUnitRuntime


def test_extra_args_take_the_place_of_settings() -> None:
    options = parse_options(
        _cfg("-t 7 -F 2MiB -s 500 -r 9 --consistency=lock --where 'a > 1' -B x,y --escape-backslash=false")
    )
    assert (options.threads, options.chunk_filesize, options.statement_size, options.rows) == (7, 2 << 20, 500, 9)
    assert (options.where, options.consistency, options.escape_backslash) == ("a > 1", "lock", False)
    assert options.filter.allows("x", "t")
    assert not options.filter.allows("z", "t")


def test_schema_files_name_the_upstreams_collations_where_they_are_asked_for() -> None:
    server = ServerDefaults("mysql", (5, 7, 22))
    table = (
        "CREATE TABLE `t` (\n  `a` text CHARACTER SET latin1\n) ENGINE=MRG_MyISAM DEFAULT CHARSET=utf8mb4 UNION=(`u`)"
    )
    schema = "CREATE DATABASE `d` /*!40100 DEFAULT CHARACTER SET utf8mb4 */"
    head = "/*!40101 SET NAMES utf8mb4*/;\n"
    for created in (table, schema):
        assert schema_text(created, "d", None).decode() == f"{head}{created};\n"
        wanted = created.replace("latin1", "latin1 COLLATE latin1_swedish_ci")
        wanted = wanted.replace("utf8mb4", "utf8mb4 COLLATE utf8mb4_general_ci")
        assert schema_text(created, "d", server).decode() == f"{head}{wanted};\n"


def test_a_dump_with_collations_is_another_dump() -> None:
    loose = _cfg("")
    assert fingerprint(replace(loose, collation_compatible="strict")) != fingerprint(loose)


@pytest.mark.parametrize("extra", ["", "-B d", "-T d.t,d._t_gho,d._t_old", "-f 'd.*'"])
def test_tables_of_online_ddl_tools_are_never_dumped(extra: str) -> None:
    cfg = _cfg(extra)
    names = ("t", "_t_gho", "_t_old")
    assert [parse_options(cfg).filter.allows("d", name) for name in names] == [True, False, False]
    off = parse_options(replace(cfg, online_ddl=False)).filter
    assert all(off.allows("d", name) for name in names)


@given(
    st.lists(st.tuples(st.one_of(st.none(), st.text(max_size=30)), st.binary(max_size=9)), min_size=1, max_size=9),
    st.booleans(),
)
def test_statements_end_where_they_end_whatever_the_values_hold(
    rows: list[tuple[str | None, bytes]], backslash: bool
) -> None:
    renderer = RowRenderer([LiteralKind.TEXT, LiteralKind.HEX], backslash=backslash)
    values = [v if v is None else v.encode() if isinstance(v, str) else v for row in rows for v in row]
    insert = b"INSERT INTO `a;'b` VALUES\n" + renderer.render(values, len(rows))
    text = HEADER + insert + b";\n-- it's; a comment\n" + insert + b";\n"
    found = [(s.kind, bytes(s.text), s.table, s.end) for s in sql_file.read_statements(io.BytesIO(text), 0, "f")]
    assert [kind for kind, *_ in found] == ["session"] * 3 + ["rows"] * 2
    assert [(data, table) for _, data, table, _ in found[3:]] == [(insert, "a;'b")] * 2
    again = sql_file.read_statements(io.BytesIO(text), found[3][3], "f")
    assert [bytes(s.text) for s in again] == [insert]


@pytest.mark.parametrize(
    "tail", [b"INSERT INTO t VALUES ('a;", b"DROP TABLE t;", b"DELETE FROM t;", b"INSERT INTO t VALUES (1)"]
)
def test_a_file_that_breaks_off_or_holds_other_statements_is_refused(tail: bytes) -> None:
    with pytest.raises(DMError) as caught:
        list(sql_file.read_statements(io.BytesIO(b"INSERT INTO t VALUES (1);\n" + tail), 0, "f"))
    assert caught.value.kind is Code.LoadUnitParseStatement


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=300, unique=True), st.integers(1, 50))
def test_integer_ranges_hold_about_the_wanted_rows_however_they_lie(ids: list[int], step: int) -> None:
    points = split_range(lambda a, b: sum(a <= i < b for i in ids), min(ids), max(ids) + 1, step)
    assert points == sorted(set(points))
    edges = [min(ids), *points, max(ids) + 1]
    assert all(sum(a <= i < b for i in ids) <= step for a, b in itertools.pairwise(edges))


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=60),
    st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=5),
)
def test_conditions_on_a_composite_key_cover_every_row_once(
    rows: list[tuple[int, int]], points: set[tuple[int, int]]
) -> None:
    conditions = range_conditions(["a", "b"], [tuple(str(v).encode() for v in point) for point in sorted(points)])
    db = sqlite3.connect(":memory:")
    db.execute("CREATE TABLE t (a INT, b INT)")
    db.executemany("INSERT INTO t VALUES (?, ?)", rows)
    found = [
        row for text in conditions for row in db.execute("SELECT a, b FROM t" + (f" WHERE {text}" if text else ""))
    ]
    assert sorted(found) == sorted(rows)


def test_floating_literals_keep_the_sign_of_zero_and_are_no_decimals() -> None:
    assert RowRenderer([LiteralKind.FLOATING]).render([b"-0", None, b"1e-7", b"344.221435546875"], 4) == (
        b"(-0e0),\n(NULL),\n(1e-7),\n(344.221435546875e0)"
    )


def test_finished_files_are_not_shared_out_and_tasks_are_even() -> None:
    specs = [FileSpec(f"f{n}", 10 << 20, "s", "t", "s", "t") for n in range(8)]
    left = {spec.name: 10 << 20 for spec in specs[1:]}
    shares = share_out(specs, left, 3)
    assert sorted(len(share) for share in shares) == [2, 2, 3]
    assert {file.name for share in shares for file in share} == set(left)
