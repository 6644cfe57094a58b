"""Hazard: a cutover check passes without evidence, or does not find what is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dm_master.cutover.facts import (
    Account,
    AccountFacts,
    CollisionFacts,
    CutoverFacts,
    DiffFacts,
    Partitioning,
    ValidatorFacts,
    WriterFacts,
)
from dm_master.cutover.runner import CHECKS, run_checks
from dm_master.cutover.subtask_status import diff_facts
from dm_master.cutover.table_checks import needed_counters
from dm_master.cutover.verdict import Unreadable
from dm_master.service.cutover_service import answer
from pkg import errors
from pkg.binlog.position import Location, Position
from pkg.ddl.shown_table import ShownCheck, ShownTable
from pkg.errors import Code
from pkg.mysql.grants import Grants
from pkg.mysql.schema import ForeignKey, Index, IndexPart
from pkg.pb import dmworker_pb2 as pb
from tests.unit.dm_master.cutover.made_facts import (
    END,
    INFO,
    SOURCE,
    TARGET,
    VARIABLES,
    compared,
    ready,
    server,
    structure,
    subtask,
    tables,
    target,
    upstream,
)

_BEFORE = Location(Position("mysql-bin.000003", 400), "0-1-6")
_QUIET = upstream().writers
_UNDECIDED = CollisionFacts(True, 0, (), ("`merged`.`t` (id): a column mapping changes id",))
_POSITIVE = ShownCheck("positive", "(`id` > 0)", enforced=True)
_BY_ID = Partitioning("RANGE", "`id`", ("", ""), (("p0", "10", 0), ("p1", "MAXVALUE", 0)))
_BY_NAME = Index("by_name", (IndexPart("name"),))


def _upstream_server(**changes: object) -> CutoverFacts:
    return ready(upstreams=(upstream(server=server("one", SOURCE, **changes)),))


def _upstream_tables(**changes: object) -> CutoverFacts:
    return _upstream_server(tables=tables(SOURCE, **changes))


def _writers(**changes: object) -> CutoverFacts:
    return ready(upstreams=(upstream(writers=replace(_QUIET, **changes)),))  # type: ignore[arg-type]


def _variables(**changes: str) -> CutoverFacts:
    return _upstream_server(variables={**VARIABLES, **changes})


def _target_variables(**changes: str) -> CutoverFacts:
    return ready(target=target(server=server("target", TARGET, variables={**VARIABLES, **changes})))


_FAULTS = [
    ("replication", ready(subtasks=(subtask(stage="Paused"),)), "Paused"),
    ("replication", ready(subtasks=(subtask(errors=("no such table",)),)), "no such table"),
    ("replication", ready(subtasks=(subtask(problem="the worker does not answer"),)), "does not answer"),
    ("shard-ddl", ready(locks=("task-`merged`.`t`",)), "`merged`.`t`"),
    ("shard-ddl", ready(subtasks=(subtask(blocking=("ALTER TABLE t ADD c INT",)),)), "ALTER TABLE"),
    ("shard-ddl", ready(subtasks=(subtask(held=("`merged`.`t` (3 rows)",)),)), "3 rows"),
    ("read-only", _variables(read_only="OFF"), "read_only is OFF"),
    ("read-only", _variables(super_read_only="OFF"), "SUPER"),
    ("transactions", _writers(transactions=("connection 7",)), "connection 7"),
    ("transactions", _writers(prepared=("xid",)), "xid"),
    ("quiet", _writers(before=_BEFORE), "400"),
    ("quiet", _writers(after=None), "no binlog"),
    ("applied", ready(subtasks=(subtask(applied=_BEFORE),)), "400"),
    ("applied", ready(subtasks=(subtask(applied=None),)), "not known"),
    ("applied", ready(subtasks=(subtask(applied=replace(_BEFORE, gtid_set="")),)), "400"),
    ("diff", ready(diff=compared("different", "2 rows missing")), "`merged`.`t`: 2 rows missing"),
    ("validator", ready(subtasks=(subtask(validator=ValidatorFacts("Running", END, 0, 2)),)), "2 rows differ"),
    ("key-collisions", ready(collisions=CollisionFacts(True, 1, ("`merged`.`t` (id): 7 is in one",))), "7 is in one"),
    ("tables", ready(target=target(server=server("target", ("merged", "other")))), "`merged`.`t`"),
    ("auto-increment", ready(target=target(highest={TARGET: 30})), "must be 31"),
    ("auto-increment", _upstream_tables(counters={SOURCE: 500}), "must be 500"),
    ("indexes", _upstream_tables(structures={SOURCE: structure(_BY_NAME)}), "by_name"),
    ("indexes", _upstream_tables(structures={SOURCE: structure(replace(_BY_NAME, unique=True))}), "UNIQUE by_name"),
    ("foreign-keys", _upstream_tables(foreign_keys=(ForeignKey(SOURCE, ("id",), SOURCE, ("id",)),)), "(id)"),
    ("checks", _upstream_tables(shown={SOURCE: ShownTable(checks=(_POSITIVE,))}), "positive (`id` > 0)"),
    ("partitions", _upstream_tables(partitions={SOURCE: _BY_ID}), "is not partitioned, but by RANGE (`id`) on one"),
    ("objects", _upstream_server(objects={"trigger": {("app", "log_it"): ("SET @x = 1",)}}), "trigger `app`.`log_it`"),
    ("users", _upstream_server(users={Account("shop", "%"): AccountFacts(Grants(()))}), "'shop'@'%'"),
    ("settings", _variables(sql_mode="ANSI"), "sql_mode"),
    ("settings", _variables(time_zone="+08:00"), "time_zone: +08:00 on one, UTC"),
    ("way-back", _target_variables(log_bin="OFF"), "log_bin"),
    ("way-back", _target_variables(binlog_format="MIXED"), "MIXED"),
    ("way-back", _target_variables(binlog_row_image="MINIMAL"), "MINIMAL"),
    ("way-back", _target_variables(expire_logs_days="0.5"), "43200"),
    ("way-back", ready(target=target(may_read_binlog=False)), "REPLICATION"),
    ("way-back", ready(upstreams=(upstream(may_write=False),)), "may not write"),
]


def test_a_task_that_is_ready_passes_each_check_with_evidence() -> None:
    verdicts = run_checks(ready())
    assert [(one.name, one.verdict) for one in verdicts if one.verdict != "yes"] == []
    assert all(one.evidence and not one.remedy for one in verdicts)
    assert len({one.name for one in verdicts}) == len(CHECKS)


@pytest.mark.parametrize(("name", "facts", "evidence"), _FAULTS, ids=[f"{one[0]}-{one[2]}" for one in _FAULTS])
def test_a_fault_is_named_by_its_own_check(name: str, facts: CutoverFacts, evidence: str) -> None:
    (found,) = [one for one in run_checks(facts) if one.name == name]
    assert found.verdict == "no"
    assert evidence in "\n".join(found.evidence)
    assert found.remedy


def test_each_check_has_a_fault_that_it_names() -> None:
    assert {one.name for one in run_checks(ready())} == {name for name, _, _ in _FAULTS}


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("transactions", _writers(transactions=Unreadable("no PROCESS", "GRANT PROCESS"))),
        ("users", _upstream_server(users=Unreadable("denied"))),
        ("users", ready(target=target(server=server("target", TARGET, users=Unreadable("denied"))))),
        ("shard-ddl", ready(locks=Unreadable("no leader"))),
        ("objects", _upstream_server(hidden={"trigger": "TRIGGER on the tables"})),
        ("diff", ready(diff=Unreadable("no comparison was made"))),
        ("diff", ready(diff=compared("running"))),
        ("diff", ready(diff=compared("not compared", "the table was dropped"))),
        ("diff", ready(diff=compared(at=_BEFORE))),
        ("key-collisions", ready(collisions=_UNDECIDED, diff=Unreadable("no comparison was made"))),
        ("validator", ready(subtasks=(subtask(validator=None),))),
        ("validator", ready(subtasks=(subtask(validator=ValidatorFacts("Running", END, 4, 0)),))),
        ("validator", ready(subtasks=(subtask(validator=ValidatorFacts("Stopped", END, 0, 0)),))),
        ("validator", ready(subtasks=(subtask(validator=ValidatorFacts("Running", _BEFORE, 0, 0)),))),
    ],
)
def test_an_unreadable_fact_is_unknown_and_does_not_pass(name: str, facts: CutoverFacts) -> None:
    (found,) = [one for one in run_checks(facts) if one.name == name]
    assert (found.verdict, found.passed) == ("unknown", False)
    assert not answer(run_checks(facts), ()).result


def test_an_equal_comparison_proves_that_no_keys_collide() -> None:
    (found,) = [one for one in run_checks(ready(collisions=_UNDECIDED)) if one.name == "key-collisions"]
    assert (found.verdict, found.evidence) == ("yes", ("the comparison found each row of each shard",))


def test_counters_of_shards_count_unless_a_mapping_changes_them() -> None:
    counters = tables(SOURCE, counters={SOURCE: 500})
    shard = upstream(server=server("one", SOURCE, tables=counters))
    other = upstream(server=server("two", SOURCE, tables=tables(SOURCE, counters={SOURCE: 900})))
    assert needed_counters(ready(upstreams=(shard, other))) == {TARGET: 900}
    mapped = replace(other, mapped=frozenset({(SOURCE, "id")}))
    assert needed_counters(ready(upstreams=(shard, mapped))) == {TARGET: 500}


def test_merged_tables_and_tidb_have_no_way_back() -> None:
    two = upstream(routed={SOURCE: TARGET, ("app", "t2"): TARGET})
    tidb = target(server=server("target", TARGET, info=replace(INFO, flavor="tidb")))
    for facts in (ready(upstreams=(two,)), ready(target=tidb)):
        (found,) = [one for one in run_checks(facts) if one.name == "way-back"]
        assert found.verdict == "not applicable"
        assert found.evidence


def test_an_accepted_check_does_not_block_the_cutover() -> None:
    verdicts = run_checks(_variables(sql_mode="ANSI"))
    assert answer(verdicts, ()).msg == "not ready: settings"
    accepted = answer(verdicts, ("settings",))
    assert (accepted.result, accepted.msg) == (True, "ready")
    assert [one.name for one in accepted.checks if one.accepted] == ["settings"]


def test_an_unknown_check_name_is_refused() -> None:
    refused = answer(run_checks(ready()), ("setings",))
    assert not refused.result
    assert "setings" in refused.msg
    assert "settings" in refused.msg


def test_much_evidence_is_bounded_and_says_so() -> None:
    facts = _writers(transactions=tuple(f"connection {n}" for n in range(1000)))
    (found,) = [one for one in run_checks(facts) if one.name == "transactions"]
    assert len(found.evidence) < 30
    assert "980 more" in found.evidence[-1]


def test_positions_are_compared_where_gtids_are_missing() -> None:
    end = Location(Position("mysql-bin.000010", 4))
    facts = ready(
        upstreams=(upstream(writers=WriterFacts(end, end, 5.0, (), ())),),
        subtasks=(subtask(applied=Location(Position("mysql-bin|000002.000010", 4)), validator=None),),
    )
    (found,) = [one for one in run_checks(facts) if one.name == "applied"]
    assert found.verdict == "yes"


def test_the_positions_of_a_comparison_are_read_for_each_source() -> None:
    place = f"one {END}; two {_BEFORE}"
    table = pb.DiffTableStatus(target="`merged`.`t`", state="equal", position=place)
    found = diff_facts([pb.DiffSourceStatus(result=True, source="one", tables=[table])], "equal")
    assert isinstance(found, DiffFacts)
    assert found.tables[0].positions == {"one": END, "two": _BEFORE}
    refused = diff_facts([pb.DiffSourceStatus(source="one", msg="no worker")], "not compared")
    assert refused == Unreadable("one: no worker")
    error = errors.new(Code.DiffRefused, "it was never compared", workaround="Compare it.")
    never = diff_facts([pb.DiffSourceStatus(source=name, msg=str(error)) for name in ("one", "two")], "not compared")
    assert never == Unreadable("one: it was never compared; two: it was never compared")
    assert isinstance(diff_facts([pb.DiffSourceStatus(result=True, source="one")], "not compared"), Unreadable)
