"""Hazards: text of a column is read in TiDB's default charset instead of the upstream's; a DROP INDEX names an index
that TiDB's tracker calls otherwise; a structure of DM outlives a change of its table."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from dm_worker.syncer.rows.foreign_structures import adapted
from dm_worker.syncer.rows.schema_source import SchemaSource
from pkg import ddl
from pkg.binlog.table_map import TableMap
from pkg.errors import Code, DMError
from pkg.errors.workarounds import way_on
from pkg.mysql.schema import TableInfo
from pkg.schema_tracker import ServerDefaults, parse_create_table, table_of_tidb_model
from tests.harness.dm_state.tables import models

MARIADB = ServerDefaults(collations={8: "latin1_swedish_ci", 45: "utf8mb4_general_ci"})
LATIN1, UTF8MB4 = 8, 45


def _left_by_dm(name: str) -> TableInfo:
    return table_of_tidb_model(json.loads(models()[name][1]), "d", "t", MARIADB)


def _now(sql: str) -> TableInfo:
    return parse_create_table(sql, "d", MARIADB)


_LATIN = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20)) DEFAULT CHARSET=latin1"


def _table_map(collation: int | None) -> TableMap:
    return TableMap(
        table_id=7,
        schema="d",
        table="t",
        types=bytes([3, 15]),
        metas=(0, 80),
        nullable=(False, True),
        collations=None if collation is None else (0, collation),
    )


def _charset(info: TableInfo) -> tuple[str, str]:
    column = info.column("v")
    assert column is not None
    return column.charset, column.collation


def test_a_charset_that_no_statement_named_is_the_upstreams_and_in_doubt() -> None:
    found = adapted(_left_by_dm("latin by default"), _now(_LATIN), MARIADB)
    assert _charset(found.table) == ("latin1", "latin1_swedish_ci")
    assert found.doubtful == ("v",)


@pytest.mark.parametrize("collation", [LATIN1, UTF8MB4])
def test_the_rows_own_charset_decides(collation: int) -> None:
    found = adapted(_left_by_dm("latin by default"), _now(_LATIN), MARIADB, _table_map(collation))
    assert _charset(found.table)[1] == MARIADB.collations[collation]
    assert not found.doubtful


def test_a_charset_that_was_named_stays_although_the_table_was_converted_since() -> None:
    now = _now("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), w VARCHAR(20)) DEFAULT CHARSET=utf8mb4")
    found = adapted(_left_by_dm("latin1"), now, MARIADB)
    assert _charset(found.table) == ("latin1", "latin1_swedish_ci")
    assert not found.doubtful


def test_collations_are_the_upstreams() -> None:
    now = _now("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20)) DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci")
    found = adapted(_left_by_dm("latin by default"), now, MARIADB)
    assert _charset(found.table) == ("utf8mb4", "utf8mb4_unicode_ci")
    assert not found.doubtful


def test_a_dropped_column_of_a_latin1_table_is_in_doubt() -> None:
    now = _now("CREATE TABLE t (id INT PRIMARY KEY) DEFAULT CHARSET=latin1")
    assert adapted(_left_by_dm("latin by default"), now, MARIADB).doubtful == ("v",)
    assert adapted(_left_by_dm("latin by default"), None, MARIADB).doubtful == ()


def test_an_index_has_the_name_that_it_has_upstream() -> None:
    stored = _left_by_dm("keys")
    (named,) = [index for index in stored.indexes if [part.length for part in index.parts] == [20, 0]]
    now = replace(stored, indexes=tuple(replace(i, name="b") if i is named else i for i in stored.indexes))
    found = adapted(stored, now, MARIADB).table
    assert [index.name for index in found.indexes] == ["b", "pre", "PRIMARY", "Uk"]
    assert adapted(stored, None, MARIADB).table.indexes == stored.indexes


def _source(stored: TableInfo, upstream: TableInfo | None, *, unaltered: bool) -> SchemaSource:
    source = SchemaSource(
        server=MARIADB,
        dump_files=lambda *_: None,
        upstream=lambda *_: upstream,
        target=lambda *_: None,
        schema_charset=lambda _: ("latin1", "latin1_swedish_ci"),
        unaltered=lambda _: unaltered,
    )
    source.take_over([stored], {})
    return source


def test_a_doubtful_charset_is_taken_only_while_nothing_changed_the_table() -> None:
    stored = _left_by_dm("latin by default")
    known = _source(stored, _now(_LATIN), unaltered=True)
    assert _charset(known.structure(_table_map(None))) == ("latin1", "latin1_swedish_ci")
    assert [info.name for info in known.take_changes()[0]] == ["t"]
    with pytest.raises(DMError, match="v \\(now latin1\\)") as caught:
        _source(stored, _now(_LATIN), unaltered=False).structure(_table_map(None))
    assert caught.value.kind is Code.SchemaTrackerCannotFetchDownstreamCreateTableStmt
    assert caught.value.workaround


def test_a_statement_is_followed_from_what_dm_left_and_otherwise_ends_it() -> None:
    alter = ddl.parse("ALTER TABLE t ADD COLUMN n INT FIRST", default_schema="d")
    certain = _source(_left_by_dm("moved"), None, unaltered=False)
    certain.apply(alter)
    table = certain.tracker.table("d", "t")
    assert table is not None
    assert [column.name for column in table.columns] == ["n", "id", "a", "b", "c"]
    doubtful = _source(_left_by_dm("latin by default"), _now(_LATIN), unaltered=False)
    doubtful.apply(alter)
    assert doubtful.tracker.table("d", "t") is None
    assert doubtful.take_changes() == ([], [("d", "t")])


def test_what_does_not_fit_the_rows_is_not_believed() -> None:
    source = _source(_left_by_dm("moved"), _now(_LATIN), unaltered=True)
    assert [column.name for column in source.structure(_table_map(None)).columns] == ["id", "v"]


_MYSQL = ServerDefaults("mysql", (8, 0, 36))
_DOCUMENT = "CREATE TABLE t (id INT PRIMARY KEY, v {})"


def _of(kind: str) -> TableInfo:
    return parse_create_table(_DOCUMENT.format(kind), "d", _MYSQL)


def _rows_of(kind: int) -> TableMap:
    return TableMap(7, "d", "t", types=bytes([3, kind]), metas=(0, 4), nullable=(False, True))


@pytest.mark.parametrize(("stored", "kind", "expected"), [("LONGTEXT", 245, "json"), ("JSON", 252, "longtext")])
def test_json_and_longtext_are_one_type_to_a_tracker_whose_target_has_no_json(
    stored: str, kind: int, expected: str
) -> None:
    """DM took the structure from a MariaDB target; the table was altered while the task stood still."""
    altered = parse_create_table("CREATE TABLE t (n INT, id INT PRIMARY KEY, v INT)", "d", _MYSQL)
    columns = _source(_of(stored), altered, unaltered=False).structure(_rows_of(kind)).columns
    assert [column.type_name for column in columns] == ["int", expected]
    found = adapted(_of(stored), _of(expected), _MYSQL).table
    assert found.columns[1].type_name == expected, "a statement comes before the first rows"


def test_the_column_of_dms_structure_that_does_not_fit_is_named() -> None:
    with pytest.raises(DMError) as caught:
        _source(_of("DATETIME"), None, unaltered=False).structure(_rows_of(245))
    assert "`v` (datetime)" in caught.value.message
    assert "neither the checkpoint" not in caught.value.message
    assert "binlog-schema update t d t -s s --from-source" in way_on(caught.value, "t", "s")
