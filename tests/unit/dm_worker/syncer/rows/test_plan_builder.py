"""Hazards: rows with one key in two buckets, an equality that collations blur, a column that silently goes missing."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import replace

import pytest

from dm_worker.syncer.execution import compaction, merge, row_statements
from dm_worker.syncer.execution.compaction import (
    DELETE,
    DELETED,
    GONE,
    INSERT,
    INSERTED,
    JOINED,
    REPLACED,
    UPDATE,
    UPDATED,
)
from dm_worker.syncer.execution.row_block import OrderedRow
from dm_worker.syncer.execution.row_statements import StatementForm
from dm_worker.syncer.planning.batch import BLOCKS_FROM, Batch
from dm_worker.syncer.rows.conflict_sets import Family, families, key_hash
from dm_worker.syncer.rows.key_normalization import EXACT
from dm_worker.syncer.rows.plan_builder import PlanOptions, build, incomparable_columns, unspread
from dm_worker.syncer.rows.row_shape import TableRules
from dm_worker.syncer.rows.table_plan import COMPACT, ORDERED, TablePlan
from pkg.binlog.position import Location, Position
from pkg.binlog.rows.literals import MembersByName
from pkg.errors import Code, DMError
from pkg.mysql.schema import Column, ForeignKey, Index, IndexPart, TableInfo
from pkg.mysql.target_values import TargetValues
from pkg.rules.column_mapping import Affix, MappedColumn, TableMapping

ID = Column("id", "int", "int(11)", nullable=False)
V = Column("v", "varchar", "varchar(9)", charset="latin1", collation="latin1_swedish_ci")
N = Column("n", "int", "int(11)")


def index(*columns: str, name: str = "PRIMARY", length: int = 0) -> Index:
    return Index(name, tuple(IndexPart(column, length) for column in columns), unique=True)


def table(*columns: Column, keys: tuple[Index, ...] = (), name: str = "t") -> TableInfo:
    """Columns of the primary key are NOT NULL."""
    primary = {column for key in keys if key.primary for column in key.columns}
    columns = tuple(replace(column, nullable=False) if column.name in primary else column for column in columns)
    return TableInfo("d", name, columns, keys)


def plan(
    upstream: TableInfo,
    target: TableInfo | None = None,
    *,
    incomparable: frozenset[str] = frozenset(),
    family: Family | None = None,
) -> TablePlan:
    return build(1, 0, b"", upstream, target or upstream, PlanOptions(), incomparable=incomparable, family=family)


KEYED = table(ID, V, N, keys=(index("id"),))


def test_integer_primary_key_spreads() -> None:
    made = plan(KEYED)
    assert (made.mode, made.spread, made.key, made.rewrite_existing) == (COMPACT, True, (0,), False)


def test_a_target_that_numbers_nulls_is_refused() -> None:
    counter = Column("n", "int", "int(11)", auto_increment=True)
    numbers = PlanOptions(values=TargetValues(keeps_null_counters=False))
    nullable = table(ID, counter)
    with pytest.raises(DMError, match="36027") as caught:
        build(1, 0, b"", table(ID, N), nullable, numbers)
    assert "MODIFY `n` int(11) NULL" in caught.value.workaround
    for upstream, target, options in (
        (nullable, nullable, PlanOptions()),
        (nullable, table(ID, N), numbers),
        (table(ID, replace(counter, nullable=False)), nullable, numbers),
    ):
        assert build(1, 0, b"", upstream, target, options).write_names == ("id", "n")


def test_a_string_key_is_not_spread_by_a_collation_that_the_target_does_not_know() -> None:
    made = plan(table(V, N, keys=(index("v"),)))
    assert (made.mode, made.spread) == (COMPACT, False)
    assert incomparable_columns(table(V, N, keys=(index("v"),)), table(V, N, keys=(index("v"),)), PlanOptions()) == {
        "v"
    }


def test_the_other_columns_of_a_key_spread_what_one_does_not() -> None:
    made = plan(table(ID, V, keys=(index("v", "id"),)), incomparable=frozenset({"v"}))
    assert made.spread
    assert key_hash(made.normalizers, made.seed)(b"'a',1") == key_hash(made.normalizers, made.seed)(b"'B, \\'x',1")
    assert key_hash(made.normalizers, made.seed)(b"'a',1") != key_hash(made.normalizers, made.seed)(b"'a',2")


def test_prefixes_and_floats_spread_by_what_the_index_compares() -> None:
    made = plan(table(Column("b", "varbinary", "varbinary(9)", nullable=False), keys=(index("b", length=2),)))
    hashed = key_hash(made.normalizers, made.seed)
    assert made.spread
    assert hashed(b"x'61626300'") == hashed(b"x'616264'") != hashed(b"x'61'")
    made = plan(table(Column("f", "double", "double", nullable=False), keys=(index("f"),)))
    hashed = key_hash(made.normalizers, made.seed)
    assert hashed(b"-0.0e0") == hashed(b"0.0e0") != hashed(b"1e0")


def test_shards_with_other_types_meet_in_the_form_of_the_target() -> None:
    def hashed(kind: str, literal: bytes) -> int:
        there = Column("k", "decimal", "decimal(10,2)", nullable=False)
        here = Column("k", kind.partition("(")[0], kind, nullable=False)
        made = plan(table(here, keys=(index("k"),)), table(there, keys=(index("k"),)))
        return key_hash(made.normalizers, made.seed)(literal)

    assert hashed("decimal(10,2)", b"1.50") == hashed("decimal(12,4)", b"1.4950") != hashed("int", b"1")
    assert hashed("decimal(10,2)", b"-1.00") == hashed("int", b"-1")
    assert hashed("decimal(10,2)", b"0.00") == hashed("decimal(12,4)", b"-0.0010")


def test_a_further_unique_key_ties_rows_by_its_columns() -> None:
    made = plan(table(ID, V, N, keys=(index("id"), index("n", name="u"), index("n", "id", name="w"))))
    # The third key includes the first: rows that collide there are one row already.
    assert (made.mode, made.spread, made.rewrite_existing) == (COMPACT, True, True)
    assert [conflict_key.columns for conflict_key in made.conflict_keys] == [(2,)]


def test_a_unique_key_that_only_the_upstream_has_ties_nothing() -> None:
    made = plan(table(ID, N, keys=(index("id"), index("n", name="u"))), table(ID, N, keys=(index("id"),)))
    assert (made.spread, made.conflict_keys, made.rewrite_existing) == (True, (), False)


def test_a_unique_key_that_can_not_be_compared_leaves_one_bucket() -> None:
    made = plan(table(ID, V, keys=(index("id"), index("v", name="u"))))
    assert (made.mode, made.spread, made.conflict_keys) == (COMPACT, False, ())


LIVE = Column("live", "int", "int(11)", generated="STORED")


@pytest.mark.parametrize(
    ("expressions", "part", "watched"),
    [
        ((("live", "if(`v` is null,1,NULL)"),), "live", (1, 2)),
        ((("live", "`other` + 1"), ("other", "char_length(`V`)")), "live", (1, 2)),
        # Nobody knows what it is computed from, as for an expression in the key itself: all that is written decides.
        ((), "live", (0, 1, 2)),
        ((("live", "1 + 1"),), "live", (0, 1, 2)),
        ((), "", (0, 1, 2)),
        # A text whose collation is not known may change without its weights, and the other way round never.
        ((), "v", (1, 2)),
    ],
)
def test_all_parts_of_a_key_decide_whether_it_is_unchanged(
    expressions: tuple[tuple[str, str], ...], part: str, watched: tuple[int, ...]
) -> None:
    other = Column("other", "int", "int(11)", generated="VIRTUAL")
    both = table(ID, V, N, LIVE, other, keys=(index("id"), index("n", part, name="u")))
    both = replace(both, expressions=expressions)
    made = plan(both, incomparable=incomparable_columns(both, both, PlanOptions()))
    assert made.spread
    assert [(key.columns, key.deciding) for key in made.conflict_keys] == [((2,), watched)]
    assert (
        made.fingerprint()
        != replace(made, conflict_keys=tuple(replace(key, watched=()) for key in made.conflict_keys)).fingerprint()
    )


STAMP = Column("ts", "timestamp", "timestamp")
DAY = Column("day", "date", "date", nullable=False, generated="STORED")


def test_what_sessions_compute_identifies_no_row_and_is_refused_where_they_differ() -> None:
    computed = table(ID, STAMP, DAY, keys=(index("id", "day"),))
    computed = replace(computed, expressions=(("day", "cast(`ts` as date)"),))
    made = plan(computed)
    assert (made.key, made.mode, made.write_names) == ((), ORDERED, ("id", "ts"))
    assert plan(replace(computed, indexes=(index("id", "day"), index("id", name="other")))).key == (0,)
    with pytest.raises(DMError) as raised:
        build(1, 0, b"", computed, computed, PlanOptions(differing=lambda: ("time_zone",)))
    assert raised.value.kind is Code.SyncerUnitDMLColumnNotMatch
    assert "`day` (time_zone)" in str(raised.value)
    assert "ALTER TABLE `d`.`t` DROP COLUMN `day`;" in str(raised.value)


def test_periods_that_may_overlap_are_not_compared() -> None:
    start, end = (Column(name, "date", "date", nullable=False) for name in "se")
    u = replace(index("n", "e", "s", name="u"), without_overlaps=True)
    both = table(ID, N, start, end, keys=(index("id", "e", "s"), u))
    made = plan(both, incomparable=incomparable_columns(both, both, PlanOptions()))
    assert (made.mode, made.spread) == (ORDERED, True)
    assert [(key.columns, key.deciding) for key in made.conflict_keys] == [((1,), (1, 2, 3))]
    row: OrderedRow = (0, INSERT, 1, 4, None, [b"1", b"2", b"'2024-01-01'", b"'2024-02-01'"])
    made_texts = [s.text.decode() for s in row_statements.for_ordered({1: made}, [row], StatementForm(safe=True))]
    assert made_texts == [
        "DELETE FROM `d`.`t` WHERE `id`=1 AND `e`='2024-02-01' AND `s`='2024-01-01' LIMIT 1",
        "DELETE FROM `d`.`t` WHERE `n`=2 AND `s`<'2024-02-01' AND `e`>'2024-01-01'",
        "INSERT INTO `d`.`t` (`id`,`n`,`s`,`e`) VALUES (1,2,'2024-01-01','2024-02-01')",
    ]


def test_columns_that_only_the_target_has_keep_their_values_when_unique_values_change() -> None:
    there = table(ID, N, Column("x", "int", "int(11)"), keys=(index("id"), index("n", name="u")))
    made = plan(table(ID, N, keys=(index("id"), index("n", name="u"))), there)
    assert (made.mode, made.spread, len(made.conflict_keys)) == (ORDERED, True, 1)


def test_fractions_that_the_target_may_round_do_not_spread() -> None:
    def made(here: str, there: str) -> TablePlan:
        columns = [Column("id", "datetime", kind, nullable=False) for kind in (here, there)]
        return plan(*(table(column, keys=(index("id"),)) for column in columns))

    assert made("datetime", "datetime").spread
    assert not made("datetime(6)", "datetime(3)").spread
    wide = made("datetime(3)", "datetime(6)")
    same = made("datetime(6)", "datetime(6)")
    assert key_hash(wide.normalizers, 1)(b"'2020-01-01 00:00:00.120'") == key_hash(same.normalizers, 1)(
        b"'2020-01-01 00:00:00.120000'"
    )


@pytest.mark.parametrize(
    ("upstream", "target"),
    [
        (table(ID, N), table(ID, N)),
        (table(ID, N, keys=(index("id"),)), table(ID, N)),
        (table(ID, N), table(ID, N, keys=(index("id"),))),
        (table(ID, N, keys=(index("n", name="u"),)), table(ID, N, keys=(index("n", name="u"),))),
    ],
    ids=["neither", "upstream only", "target only", "nullable"],
)
def test_tables_without_common_key_keep_their_order(upstream: TableInfo, target: TableInfo) -> None:
    made = plan(upstream, target)
    assert (made.mode, made.spread, made.key) == (ORDERED, False, ())


def foreign(*, acts: bool = False) -> Family:
    child, parent = ("D", "T"), ("d", "p")
    return families([ForeignKey(child, ("n",), parent, ("id",), acts)])["d", "t"]


def test_foreign_keys_tie_child_and_parent_by_value() -> None:
    child = plan(KEYED, family=foreign())
    parent = plan(table(ID, keys=(index("id"),), name="p"), family=foreign())
    assert (child.mode, child.spread, parent.mode, parent.spread) == (ORDERED, True, ORDERED, True)
    assert [conflict_key.columns for conflict_key in child.conflict_keys] == [(2,)]
    assert [conflict_key.columns for conflict_key in parent.conflict_keys] == [(0,)]
    assert child.conflict_keys[0].seed == parent.conflict_keys[0].seed


def test_foreign_keys_that_act_keep_their_tables_in_one_bucket() -> None:
    child = plan(KEYED, family=foreign(acts=True))
    parent = plan(table(ID, keys=(index("id"),), name="p"), family=foreign(acts=True))
    assert (child.spread, parent.spread) == (False, False)
    assert child.seed == parent.seed


def test_column_that_the_target_lacks_is_an_error() -> None:
    with pytest.raises(DMError, match="has no column `n`") as caught:
        plan(KEYED, table(ID, V, keys=(index("id"),)))
    assert caught.value.kind is Code.SyncerUnitDMLColumnNotMatch


def test_generated_columns_are_not_written() -> None:
    generated = Column("g", "int", "int(11)", generated="STORED")
    made = plan(table(ID, generated, N, keys=(index("id"),)))
    assert made.write_names == ("id", "n")


def test_fingerprint_changes_with_the_plan_and_the_bucket_count() -> None:
    here = Location(Position("bin.000001", 4))

    def digest(made: TablePlan, buckets: int) -> str:
        return Batch(here, here, [], {made.number: made}, 0, 0, 0).fingerprint(buckets)

    assert digest(plan(KEYED), 4) == digest(plan(KEYED), 4)
    assert digest(plan(KEYED), 4) != digest(plan(KEYED), 5)
    assert digest(plan(KEYED), 4) != digest(plan(KEYED, table(ID, V, N, keys=(index("id"), index("n", name="u")))), 4)


STATES = {
    b"1": (INSERTED, 1, b"(1,'a',1)"),
    b"2": (UPDATED, 1, b"(2,'b',2)"),
    b"3": (DELETED, 1, b""),
    b"4": (REPLACED, 1, b"(4,'d',4)"),
    b"5": (GONE, 1, b""),
}
HEAD = "INTO `d`.`t` (`id`,`v`,`n`) VALUES "


def texts(made: TablePlan, form: StatementForm) -> list[str]:
    return [sql.text.decode() for sql in _statements(made, STATES, form)]


def _statements(
    made: TablePlan, states: compaction.KeyStates, form: StatementForm
) -> list[row_statements.RowStatement]:
    groups = merge.groups_of(states, {1: row_statements.write_rule_of(made, form)})
    return [row_statements.for_group(made, group, form) for group in groups]


def test_forms_of_a_table_with_one_key() -> None:
    assert texts(plan(KEYED), StatementForm()) == [
        "DELETE FROM `d`.`t` WHERE `id` IN (3)",
        f"INSERT {HEAD}(2,'b',2),(4,'d',4) ON DUPLICATE KEY UPDATE `v`=VALUES(`v`),`n`=VALUES(`n`)",
        f"INSERT {HEAD}(1,'a',1)",
    ]


def test_forms_of_a_table_with_further_unique_keys() -> None:
    several = table(ID, V, N, keys=(index("id"), index("n", name="u")))
    # A row whose unique values changed comes as a replacement; the others may be updated.
    assert texts(plan(several), StatementForm()) == [
        "DELETE FROM `d`.`t` WHERE `id` IN (3,4)",
        f"INSERT {HEAD}(2,'b',2) ON DUPLICATE KEY UPDATE `v`=VALUES(`v`),`n`=VALUES(`n`)",
        f"INSERT {HEAD}(1,'a',1),(4,'d',4)",
    ]
    assert texts(unspread(plan(several)), StatementForm()) == [
        "DELETE FROM `d`.`t` WHERE `id` IN (2,3,4)",
        f"INSERT {HEAD}(1,'a',1),(2,'b',2),(4,'d',4)",
    ]


def innodb(*columns: Column, keys: tuple[Index, ...]) -> TableInfo:
    return replace(table(*columns, keys=keys), engine="InnoDB")


def test_forms_of_a_row_that_keeps_its_key_and_takes_free_values() -> None:
    made = plan(innodb(ID, V, N, keys=(index("id"), index("n", name="u"))))
    assert texts(made, StatementForm()) == [
        "DELETE FROM `d`.`t` WHERE `id` IN (3)",
        f"INSERT {HEAD}(2,'b',2),(4,'d',4) ON DUPLICATE KEY UPDATE `v`=VALUES(`v`),`n`=VALUES(`n`)",
        f"INSERT {HEAD}(1,'a',1)",
    ]
    joined = {key: (state | JOINED, number, values) for key, (state, number, values) in STATES.items()}
    renewed = [
        "DELETE FROM `d`.`t` WHERE `id` IN (3,4)",
        f"INSERT {HEAD}(2,'b',2) ON DUPLICATE KEY UPDATE `v`=VALUES(`v`),`n`=VALUES(`n`)",
        f"INSERT {HEAD}(1,'a',1),(4,'d',4)",
    ]
    assert [sql.text.decode() for sql in _statements(made, joined, StatementForm())] == renewed
    assert texts(made, StatementForm(renews=True)) == renewed


BY_ID, BY_N = index("id"), index("n", name="u")
LATIN = replace(V, nullable=False)


@pytest.mark.parametrize(
    ("target", "values"),
    [
        (table(ID, V, N, keys=(BY_ID, BY_N)), TargetValues()),
        (replace(innodb(ID, V, N, keys=(BY_ID, BY_N)), engine="MyISAM"), TargetValues()),
        (innodb(ID, V, N, keys=(BY_ID, replace(BY_N, hashed=True))), TargetValues()),
        (innodb(ID, V, N, keys=(index("id", name="a"), BY_N)), TargetValues()),
        (innodb(ID, V, N, Column("x", "int", "int(11)"), keys=(BY_ID, BY_N)), TargetValues()),
        (innodb(ID, LATIN, N, keys=(index("id", "v"), BY_N)), TargetValues()),
        (innodb(ID, V, N, keys=(BY_ID, BY_N)), TargetValues(upserts_by_primary_key=False)),
        (innodb(ID, V, N, keys=(BY_ID,)), TargetValues()),
    ],
    ids=["engine unknown", "engine", "hash of long values", "no primary key", "own column", "key incomparable", "tidb",
         "no further key"],
)  # fmt: skip
def test_rows_are_not_updated_in_place_where_that_might_hit_others(target: TableInfo, values: TargetValues) -> None:
    upstream = table(ID, V, N, keys=target.indexes)
    assert not build(1, 0, b"", upstream, target, PlanOptions(values=values)).in_place


def test_safe_mode_replaces() -> None:
    assert texts(plan(KEYED), StatementForm(safe=True)) == [
        "DELETE FROM `d`.`t` WHERE `id` IN (3)",
        f"REPLACE {HEAD}(1,'a',1),(2,'b',2),(4,'d',4)",
    ]


def test_extra_columns_of_the_target_keep_their_values_unless_the_row_was_replaced() -> None:
    extra = table(ID, V, N, Column("x", "int", "int(11)"), keys=(index("id"),))
    assert texts(plan(KEYED, extra), StatementForm()) == [
        "DELETE FROM `d`.`t` WHERE `id` IN (3,4)",
        f"INSERT {HEAD}(2,'b',2) ON DUPLICATE KEY UPDATE `v`=VALUES(`v`),`n`=VALUES(`n`)",
        f"INSERT {HEAD}(1,'a',1),(4,'d',4)",
    ]


def test_statements_are_cut_by_bytes_and_single_rows_when_asked() -> None:
    states = {b"%d" % i: (INSERTED, 1, b"(%d,'%b',0)" % (i, b"x" * 50)) for i in range(10)}
    for form, count in ((StatementForm(limit=200), 5), (StatementForm(multiple=False), 10), (StatementForm(), 1)):
        made = _statements(plan(KEYED), states, form)
        assert len(made) == count
        assert sum(sql.text.count(b"xxx,") + sql.text.count(b"x'") for sql in made) == 10


def test_rows_without_key_are_matched_byte_by_byte_and_must_be_there() -> None:
    made = plan(table(ID, V))
    rows: list[OrderedRow] = [
        (0, INSERT, 1, 10, None, [b"1", b"'a'"]),
        (1, INSERT, 1, 20, None, [b"2", b"NULL"]),
        (2, UPDATE, 1, 30, [b"1", b"'a'"], [b"1", b"'{}'"]),
        (3, DELETE, 1, 40, [b"2", b"NULL"], None),
    ]
    found = list(row_statements.for_ordered({1: made}, rows, StatementForm()))
    text = "CAST(`v` AS BINARY) <=> CAST({} AS BINARY)"
    assert [(sql.text.decode(), sql.expect) for sql in found] == [
        ("INSERT INTO `d`.`t` (`id`,`v`) VALUES (1,'a'),(2,NULL)", None),
        (
            "UPDATE `d`.`t` SET `id`=1,`v`='{}' WHERE `id` <=> 1 AND " + text.replace("{}", "'a'") + " LIMIT 1",
            1,
        ),
        ("DELETE FROM `d`.`t` WHERE `id` <=> 2 AND " + text.replace("{}", "NULL") + " LIMIT 1", 1),
    ]


def test_what_spark_workers_import_does_not_load_grpc() -> None:
    # grpc and fork do not go together.
    code = (
        "import sys, dm_worker.syncer.execution.spark_tasks; "
        "sys.exit('grpc' in sys.modules or 'google.protobuf' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("there", "named"),
    [
        ("enum('a','b')", False),
        ("enum('a','b','c')", False),
        ("enum('b','a')", True),
        ("enum('a')", True),
        ("varchar(9)", True),
        ("set('a','b')", True),
    ],
)
def test_members_that_the_target_numbers_differently_are_written_by_name(there: str, named: bool) -> None:
    def of(column_type: str) -> TableInfo:
        return table(ID, Column("e", column_type.split("(")[0], column_type), keys=(index("id"),))

    made = plan(of("enum('a','b')"), of(there))
    assert isinstance(made.columns[1], MembersByName) is named
    assert pickle.loads(pickle.dumps(made)) == made
    same = plan(of("enum('a','b')"))
    # A redo under the other form must not pass for the same plan.
    assert (made.fingerprint() == same.fingerprint()) is not named


def placed(*plans: TablePlan, size: int = BLOCKS_FROM) -> list[TablePlan]:
    """The plans of a batch of this size as it is placed; they are numbered from 0 on."""
    here = Location(Position("b", 4))
    return list(Batch(here, here, [], dict(enumerate(plans)), 0, size, 0).by_blocks().plans.values())


def hashes(made: TablePlan, *keys: bytes) -> list[int]:
    return [key_hash(made.normalizers, made.seed)(key) for key in keys]


def test_a_large_batch_has_neighbouring_keys_in_one_bucket() -> None:
    exact = plan(KEYED)
    (made,) = placed(exact)
    assert len(set(hashes(made, b"17000", b"17001", b"17999"))) == 1
    assert len(set(hashes(made, b"16999", b"17000", b"18000", b"170000"))) == 4
    assert len(set(hashes(made, b"7", b"-7", b"999", b"1000"))) == 3
    # A batch done again as another one must not pass for the same plan.
    assert made.fingerprint() != exact.fingerprint()
    assert placed(exact, size=BLOCKS_FROM - 1) == [exact]


def test_blocks_are_those_of_the_last_column() -> None:
    (made,) = placed(plan(table(ID, N, keys=(index("n", "id"),))))
    assert len(set(hashes(made, b"5,1", b"5,999"))) == 1
    assert len(set(hashes(made, b"5,1", b"6,1", b"5,1000"))) == 3
    assert (
        placed(plan(table(ID, V, keys=(index("id", "v"),), name="u"), incomparable=frozenset({"v"})))[0]
        .normalizers[0]
        .kind
        == EXACT
    )


@pytest.mark.parametrize(
    "upstream",
    [
        table(ID, N, keys=(index("id"), index("n", name="n"))),  # a conflict would include all neighbours
        table(Column("b", "varbinary", "varbinary(9)", nullable=False), keys=(index("b"),)),
        table(Column("d", "decimal", "decimal(9,2)", nullable=False), keys=(index("d"),)),
        table(N),
    ],
)
def test_no_blocks(upstream: TableInfo) -> None:
    made = plan(upstream)
    assert placed(made) == [made]


def test_tables_with_one_target_are_placed_alike() -> None:
    one = plan(KEYED)
    other = replace(plan(KEYED), number=2, mode=ORDERED, extra_columns=True)
    elsewhere = replace(plan(table(ID, N, keys=(index("id"),), name="u")), target_number=2)
    assert other.may_conflict
    assert not one.may_conflict
    made = placed(one, other, elsewhere)
    assert made[:2] == [one, other]
    assert made[2] != elsewhere


@pytest.mark.parametrize("kind", ["enum", "set", "int"])
@pytest.mark.parametrize("lists", [True, False])
def test_keys_with_members_are_listed_only_where_the_target_finds_them(kind: str, *, lists: bool) -> None:
    """Hazard: MySQL finds none of several rows, and a DELETE has no effect."""
    members = "" if kind == "int" else "('a','b')"
    columns = (Column("c", kind, kind + members, nullable=False), Column("id", "int", "int(11)", nullable=False))
    options = PlanOptions(values=TargetValues(lists_members=lists))
    for parts, most in ((("c", "id"), 1 if kind != "int" and not lists else 2), (("c",), 2)):
        key = Index("PRIMARY", tuple(map(IndexPart, parts)), unique=True)
        info = TableInfo("d", "t", columns, (key,))
        made = build(1, 0, b"", info, info, options)
        assert min(2, row_statements.write_rule_of(made, StatementForm()).most_rows[0]) == most


@pytest.mark.parametrize(
    ("here", "there", "mapped", "most"),
    [
        ("utf8mb4", "utf8mb3", False, 2),
        ("latin1", "latin1", False, 2),
        ("latin1", "utf8mb4", False, 1),
        ("utf8mb4", "latin1", False, 1),
        ("utf8mb4", "utf8mb4", True, 2),
        ("latin1", "latin1", True, 1),
    ],
)
def test_keys_with_text_are_listed_only_in_the_charset_of_the_column(
    here: str, there: str, *, mapped: bool, most: int
) -> None:
    """Hazard: no server finds several rows by text in another charset, and a DELETE has no effect. A mapped text may
    come in two."""

    def made_of(charset: str) -> TableInfo:
        text = Column("c", "varchar", "varchar(9)", nullable=False, charset=charset, collation=f"{charset}_bin")
        key = Index("PRIMARY", (IndexPart("id"), IndexPart("c")), unique=True)
        return TableInfo("d", "t", (Column("id", "int", "int(11)", nullable=False), text), (key,))

    affix = Affix(1, 1, "é-", "", here, MappedColumn("d", "t", "c", Code.SyncerUnitDoColumnMapping))
    rules = TableRules(mapping=TableMapping("d", "t", (affix,)) if mapped else None)
    plan = build(1, 0, b"", made_of(here), made_of(there), PlanOptions(), rules=rules)
    assert min(2, row_statements.write_rule_of(plan, StatementForm()).most_rows[0]) == most
