"""Hazard: a column that is compared by less than its value, or a table that is called comparable though it is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dm_worker.comparison.pair import KeyRange, NotCompared, TablePair, Way
from dm_worker.comparison.pair_making import SourceStructure, make_pair
from dm_worker.comparison.ranges import ranges_between
from dm_worker.comparison.statements import range_condition, row_digest
from dm_worker.comparison.value_forms import ComparedServer
from dm_worker.syncer.rows.row_filter import RowFilter
from dm_worker.syncer.rows.row_shape import TableRules
from pkg.errors import Code
from pkg.mysql.schema import Column, Index, IndexPart, TableInfo
from pkg.rules.binlog_filter import RowDecisions
from pkg.rules.binlog_filter.filter import FilterDecision
from pkg.rules.column_mapping import PartitionId, TableMapping
from pkg.rules.column_mapping.transforms import MappedColumn

MARIADB, MYSQL = ComparedServer("mariadb"), ComparedServer("mysql", json_types=True)
ID = Column("id", "int", "int(11)", False)
PRIMARY = Index("PRIMARY", (IndexPart("id"),), True)


def column(name: str, column_type: str, charset: str = "", **more: object) -> Column:
    kind = column_type.partition("(")[0].partition(" ")[0]
    collation = f"{charset}_bin" if charset else ""
    return replace(Column(name, kind, column_type, True, False, charset, collation), **more)  # type: ignore[arg-type]


def table(*columns: Column, keyed: bool = True, name: str = "t") -> TableInfo:
    return TableInfo("d", name, (ID, *columns), (PRIMARY,) if keyed else ())


def made(
    here: TableInfo,
    there: TableInfo,
    *,
    rules: TableRules | None = None,
    upstream: ComparedServer = MARIADB,
    target: ComparedServer = MARIADB,
) -> TablePair | NotCompared:
    return make_pair([SourceStructure(0, here, upstream, rules or TableRules())], there, target)


def pair(here: TableInfo, there: TableInfo, **more: object) -> TablePair:
    found = made(here, there, **more)  # type: ignore[arg-type]
    assert isinstance(found, TablePair), found
    return found


def test_columns_that_one_side_has_are_left_out_with_the_reason() -> None:
    found = pair(table(column("old", "int(11)")), table(column("new", "int(11)")))
    assert [one.name for one in found.columns] == ["id"]
    assert dict(found.left_out) == {"new": "only the target has it", "old": "only the upstream has it"}


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ("text", "int(11)"),
        ("datetime", "time"),
        ("year(2)", "year(4)"),
        ("float", "decimal(5,2)"),
        ("point", "blob"),
        ("set('a')", "enum('a')"),
        ("int(11)", "strange"),
    ],
)
def test_types_without_a_common_form_are_not_compared(here: str, there: str) -> None:
    found = made(table(column("c", here)), table(column("c", there)))
    assert isinstance(found, NotCompared)
    assert "`c`" in found.reason


def test_a_way_by_rows_says_why() -> None:
    documents = table(column("j", "json"))
    texts = table(column("j", "longtext", "utf8mb4"))
    assert pair(documents, documents, upstream=MYSQL, target=MYSQL).way is Way.PUSHED
    found = pair(documents, texts, upstream=MYSQL)
    assert found.way is Way.STREAMED
    assert "`j`" in found.why


def test_floats_are_pushed_down_where_they_do_not_identify_rows() -> None:
    floats = column("f", "double")
    assert pair(table(floats), table(floats), upstream=MYSQL).way is Way.PUSHED
    assert pair(table(floats, keyed=False), table(floats, keyed=False), upstream=MYSQL).way is Way.STREAMED
    assert pair(table(floats, keyed=False), table(floats, keyed=False)).way is Way.PUSHED


def test_every_field_has_a_length_or_an_end_and_every_null_a_mark() -> None:
    fields = table(
        column("a", "varchar(5)", "utf8mb4"),
        column("b", "int(11)"),
        column("c", "longblob"),
        column("d", "varchar(5)", "latin1"),
        column("e", "varchar(5)", "utf8mb4"),
    )
    found = pair(fields, fields)
    assert row_digest(found, found.target) == (
        "ELT(1,CAST(SHA1(CONCAT(`id`,',',IFNULL(`b`,'N'),',',IFNULL(SHA1(`c`),'N'),',',"
        "IFNULL(LENGTH(CAST(`d` AS BINARY)),'N'),',',"
        "IFNULL(`a`,_binary x'FE' COLLATE `binary`),_binary x'FF' COLLATE `binary`,"
        "IFNULL(`e`,_binary x'FE' COLLATE `binary`),_binary x'FF' COLLATE `binary`,"
        "IFNULL(CAST(`d` AS BINARY),''))) AS BINARY(40)))"
    )


def test_the_last_text_of_utf8_needs_no_end() -> None:
    fields = table(column("a", "varchar(5)", "utf8mb4"), column("b", "varchar(5)", "utf8mb4"))
    found = pair(fields, fields)
    assert row_digest(found, found.target) == (
        "ELT(1,CAST(SHA1(CONCAT(`id`,',',IFNULL(`a`,_binary x'FE' COLLATE `binary`),_binary x'FF' COLLATE `binary`,"
        "IFNULL(`b`,_binary x'FE' COLLATE `binary`))) AS BINARY(40)))"
    )


@pytest.mark.parametrize("lacking", ["upstream", "target"])
def test_both_sides_use_another_digest_where_one_has_no_sha1(lacking: str) -> None:
    blobs = table(column("c", "longblob"))
    server = ComparedServer("mysql", json_types=True, sha1=False)
    found = pair(blobs, blobs, upstream=server) if lacking == "upstream" else pair(blobs, blobs, target=server)
    for side in (found.target, *found.sources):
        assert row_digest(found, side) == (
            "ELT(1,CAST(LEFT(SHA2(CONCAT(`id`,',',IFNULL(LEFT(SHA2(`c`,256),40),'N'),','),256),40) AS BINARY(40)))"
        )


def test_text_in_other_charsets_is_compared_by_its_characters() -> None:
    found = pair(table(column("c", "varchar(5)", "latin1")), table(column("c", "varchar(5)", "utf8mb4")))
    assert "CONVERT(`c` USING utf8mb4)" in found.sources[0].forms[1]
    same = pair(table(column("c", "varchar(5)", "latin1")), table(column("c", "varchar(5)", "latin1")))
    assert same.sources[0].forms[1] == same.target.forms[1] == "CAST(`c` AS BINARY)"


def test_ranges_cover_everything_in_the_target_s_numbers() -> None:
    place = MappedColumn("d", "t1", "id", Code.SyncerUnitDoColumnMapping)
    rules = TableRules(mapping=TableMapping("d", "t1", (PartitionId(0, 0, 1 << 55, place),)))
    wide = replace(ID, type_name="bigint", column_type="bigint(20)")
    there = TableInfo("d", "t", (wide,), (PRIMARY,))
    found = pair(table(name="t1"), there, rules=rules)
    parts = ranges_between([(b"%d" % ((1 << 55) + 10),), (b"%d" % ((1 << 55) + 20),)])
    here = [range_condition(found, found.sources[0], part) for part in parts]
    assert here == ["((`id` < 10))", "((`id` >= 10)) AND ((`id` < 20))", "((`id` >= 20))"]
    assert range_condition(found, found.target, parts[0]) == f"((`id` < {(1 << 55) + 10}))"
    assert range_condition(found, found.target, KeyRange()) == ""
    points = KeyRange(points=((b"%d" % ((1 << 55) + 10),), (b"%d" % ((1 << 55) + 7),)))
    assert range_condition(found, found.target, points) == f"`id` IN ({(1 << 55) + 10},{(1 << 55) + 7})"
    assert range_condition(found, found.sources[0], points) == here[0].replace("((`id` < 10))", "`id` IN (10,7)")


def test_ranges_are_only_cut_where_all_servers_have_one_order() -> None:
    def ranged(kind: str, collation: str, upstream: ComparedServer) -> int:
        key = replace(ID, type_name="varchar", column_type=kind, charset="utf8mb4", collation=collation)
        one = TableInfo("d", "t", (key,), (PRIMARY,))
        return len(pair(one, one, upstream=upstream).ranged)

    assert ranged("varchar(5)", "utf8mb4_bin", MYSQL) == 1
    assert ranged("varchar(5)", "utf8mb4_general_ci", MARIADB) == 1
    assert ranged("varchar(5)", "utf8mb4_general_ci", MYSQL) == 0


@pytest.mark.parametrize(("charset", "ranged"), [("utf8mb4", 1), ("utf8", 1), ("ascii", 1), ("latin1", 0), ("gbk", 0)])
def test_ranges_of_text_are_cut_where_a_server_stores_unicode_only_if_it_is_unicode(charset: str, ranged: int) -> None:
    key = replace(ID, type_name="varchar", column_type="varchar(5)", charset=charset, collation=f"{charset}_bin")
    one = TableInfo("d", "t", (key,), (PRIMARY,))
    tidb = ComparedServer("tidb", unicode_only=True, negative_zero=False)
    assert len(pair(one, one, upstream=MYSQL, target=tidb).ranged) == ranged
    assert len(pair(one, one, upstream=MYSQL, target=MYSQL).ranged) == 1


def test_tables_of_engines_without_snapshots_are_told() -> None:
    one = table(column("v", "int(11)"))
    for engine, there in (("InnoDB", True), ("ROCKSDB", True), ("MyISAM", False), ("Aria", False)):
        made_of = replace(one, engine=engine)
        assert pair(made_of, one).in_snapshots == pair(one, made_of).in_snapshots == there


IGNORED = FilterDecision("ignore")
INSERTS, DELETES = RowFilter(insert=("id > 1",)), RowFilter(delete=("id > 1",))
UPDATES = RowFilter(update=(("id > 1", ""),))
ALL_INSERTS, ALL_DELETES = (RowFilter(kinds=RowDecisions(**{kind: IGNORED})) for kind in ("insert", "delete"))


@pytest.mark.parametrize(
    "rules",
    [
        UPDATES,
        RowFilter(kinds=RowDecisions(update=IGNORED)),
        RowFilter(insert=("id > 1",), delete=("id > 1",)),
        RowFilter(insert=("id > 1",), kinds=RowDecisions(delete=IGNORED)),
    ],
)
def test_filters_that_make_the_target_depend_on_past_changes_are_refused(rules: RowFilter) -> None:
    found = made(table(), table(), rules=TableRules(filter=rules))
    assert isinstance(found, NotCompared)
    assert "filter leaves out" in found.reason
    assert "depends on past values" in found.reason


@pytest.mark.parametrize(
    ("rules", "flags", "unjudged"),
    [
        (INSERTS, (False, True), "the target lacks are not judged: an expression filter leaves out inserts of"),
        (ALL_INSERTS, (False, True), "the target lacks are not judged: a binlog event filter leaves out each insert"),
        (DELETES, (True, False), "only the target has are not judged: an expression filter leaves out deletes of"),
        (ALL_DELETES, (True, False), ""),
        (RowFilter(), (False, False), ""),
    ],
)
def test_filters_of_one_kind_allow_differences_on_one_side(
    rules: RowFilter, flags: tuple[bool, bool], unjudged: str
) -> None:
    found = pair(table(), table(), rules=TableRules(filter=rules))
    assert (found.may_keep, found.may_lack) == flags
    assert unjudged in found.unjudged
    assert bool(found.unjudged) is bool(unjudged)


def test_columns_and_rows_that_are_not_compared_are_both_named() -> None:
    here = table(column("v", "int(11)"), column("w", "int(11)"))
    found = pair(here, table(column("v", "int(11)")), rules=TableRules(filter=INSERTS))
    assert found.unjudged.startswith("not all columns were compared: `w`: only the upstream has it; rows that")
    assert found.unjudged != pair(here, table(column("v", "int(11)"))).unjudged


def test_filters_of_all_merged_tables_count_together() -> None:
    shards = [
        SourceStructure(0, table(), MARIADB, TableRules(filter=rules)) for rules in (INSERTS, RowFilter(), DELETES)
    ]
    assert isinstance(make_pair(shards, table(), MARIADB), NotCompared)
    found = make_pair(shards[:2], table(), MARIADB)
    assert isinstance(found, TablePair)
    assert found.may_lack
