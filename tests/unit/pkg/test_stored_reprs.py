"""Hazard: a renamed class or field changes a stored fingerprint: a task with an open batch stops after an upgrade.

``TablePlan.fingerprint`` (``dm_worker/syncer/planning/batch.py``) and the settings of a run (``Rules.settings``) hash
the ``repr`` of these objects into the meta tables. The texts below are those of released versions: when a test fails,
change the code.
"""

from __future__ import annotations

import pytest

from pkg.binlog.derived import Derived
from pkg.errors import Code
from pkg.mysql.collation_weights import CollationWeights
from pkg.mysql.schema import Column
from pkg.rules.binlog_filter import DO, FilterDecision, RowDecisions
from pkg.rules.column_mapping import Affix, PartitionId, Place
from pkg.rules.model import (
    BinlogFilterRule,
    BlockAllowList,
    ColumnMappingRule,
    ExpressionFilter,
    ExtractRule,
    RouteRule,
    TableName,
)

_RULE = BinlogFilterRule("a", "t", ("insert",), ("^x",), "Ignore")
_RULE_TEXT = (
    "BinlogFilterRule(schema_pattern='a', table_pattern='t', events=('insert',), sql_pattern=('^x',), action='Ignore')"
)
_DO_TEXT = "Decision(action='do', rule=None, why='')"
_PLACE = Place("a", "t", "c", Code.SyncerUnitDoColumnMapping)
_PLACE_TEXT = "Place(schema='a', table='t', column='c', error='SyncerUnitDoColumnMapping')"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            RowDecisions(insert=FilterDecision("ignore", _RULE, "insert"), update=DO),
            f"RowDecisions(insert=Decision(action='ignore', rule={_RULE_TEXT}, why='insert'), update={_DO_TEXT},"
            f" delete={_DO_TEXT})",
        ),
        (
            CollationWeights.of("utf8mb4_general_ci", [b"\0", b"\1\2"], b"\xff"),
            "Folding('utf8mb4_general_ci', 2ea3d4af, 'ff')",
        ),
        (
            Column("c", "int", "int(10)"),
            "Column(name='c', type_name='int', column_type='int(10)', nullable=True, unsigned=False, charset='',"
            " collation='', generated='', auto_increment=False, invisible=False, default=None)",
        ),
        (
            Derived(1, b"x", PartitionId(0, 1, 2, _PLACE), 3, 4),
            f"Derived(source=1, text=b'x', change=PartitionId(source=0, target=1, base=2, place={_PLACE_TEXT}), base=3,"
            " limit=4)",
        ),
        (
            Affix(0, 1, "p", "s", "utf8mb4", _PLACE),
            f"Affix(source=0, target=1, prefix='p', suffix='s', charset='utf8mb4', place={_PLACE_TEXT})",
        ),
        (
            RouteRule("a_*", "a", "t_*", "t", ExtractRule("(.*)", "c")),
            "RouteRule(schema_pattern='a_*', target_schema='a', table_pattern='t_*', target_table='t',"
            " extract_table=ExtractRule(regexp='(.*)', target_column='c'), extract_schema=None, extract_source=None)",
        ),
        (
            ColumnMappingRule("a", "id", "partition id", "t", "id", ("1", "a", "t")),
            "ColumnMappingRule(schema_pattern='a', target_column='id', expression='partition id', table_pattern='t',"
            " source_column='id', arguments=('1', 'a', 't'))",
        ),
        (
            ExpressionFilter("a", "t", "x > 1"),
            "ExpressionFilter(schema='a', table='t', insert_value_expr='x > 1', update_old_value_expr='',"
            " update_new_value_expr='', delete_value_expr='')",
        ),
        (
            BlockAllowList(("a",), (TableName("a", "t"),)),
            "BlockAllowList(do_dbs=('a',), do_tables=(TableName(db_name='a', tbl_name='t'),), ignore_dbs=(),"
            " ignore_tables=())",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_fingerprints_are_made_of_keeps_its_text(value: object, text: str) -> None:
    assert repr(value) == text
