"""Hazard: what can't be taken over from DM is noticed only after the task runs, or bars a start that starts over."""

from __future__ import annotations

from dataclasses import replace

from deploy.local.mysql import MariaDBServer
from dm_master.precheck import PrecheckResult, run_prechecks
from pkg.binlog.position import Location, Position
from pkg.binlog.streams.server_position import master_status
from pkg.config.model import SourceConfig
from pkg.config.task import load_task
from tests.harness.dm_state.tables import DMState

_CHECK = "dm takeover check"
_DDL = "ALTER TABLE `d`.`t` ADD COLUMN n INT"


def _run(upstream: MariaDBServer, target: MariaDBServer, *, remove_meta: bool = False) -> PrecheckResult:
    head = f"name: t\ntask-mode: all\ntarget-database: {{host: 127.0.0.1, port: {target.port}, password: ''}}\n"
    task = replace(load_task(f"{head}mysql-instances: [{{source-id: s1}}]\n"), target=target.db_config)
    source = SourceConfig("s1", upstream.db_config, flavor="mariadb", server_id=4_000_000)
    return run_prechecks(task, {"s1": source}, remove_meta=remove_meta)


def _said(result: PrecheckResult) -> list[tuple[str, str]]:
    found = [finding for check in result.results if check.name == _CHECK for finding in check.findings]
    assert all(finding.instruction for finding in found)
    return [(finding.severity, finding.message) for finding in found]


def _here(upstream: MariaDBServer) -> Location:
    conn = upstream.connect()
    found = master_status(conn, "mariadb")
    conn.close()
    assert found is not None
    return found


def test_what_is_taken_over_is_reported_before_anything_starts(
    mariadb_upstream: MariaDBServer, target: MariaDBServer
) -> None:
    state, here = DMState(target, source="s1"), _here(mariadb_upstream)
    state.make_checkpoint()
    state.put_checkpoint(here)
    state.put_table("d", "t", here, "moved")
    state.put_table("d", "u", here, "numbers")
    target.execute("UPDATE dm_meta.t_syncer_checkpoint SET table_info = '{\"cols\": []}' WHERE cp_table = 'u'")
    result = _run(mariadb_upstream, target)
    assert result.passed
    ((severity, text),) = _said(result)
    assert severity == "warn"
    for part in (str(here), "structures of 1 tables", "`d`.`u`"):
        assert part in text
    assert _said(_run(mariadb_upstream, target, remove_meta=True)) == []


def test_a_purged_binlog_fails(mariadb_upstream: MariaDBServer, target: MariaDBServer) -> None:
    state = DMState(target, source="s1")
    state.make_checkpoint()
    state.put_checkpoint(Location(Position("mysql-bin.000000", 4)), sub_dir="000003")
    result = _run(mariadb_upstream, target)
    assert not result.passed
    assert ("fail", "binlog file mysql-bin.000000 of DM's checkpoint is not on the upstream") in _said(result)


def test_an_unfinished_copy_fails_unless_the_task_starts_over(
    mariadb_upstream: MariaDBServer, target: MariaDBServer
) -> None:
    DMState(target, source="s1").put_copy("running")
    result = _run(mariadb_upstream, target)
    assert not result.passed
    assert [severity for severity, _ in _said(result)] == ["fail"]
    assert _run(mariadb_upstream, target, remove_meta=True).passed


def test_shard_ddl_that_dm_executed_in_part_fails(mariadb_upstream: MariaDBServer, target: MariaDBServer) -> None:
    state, here = DMState(target, source="s1"), _here(mariadb_upstream)
    state.make_checkpoint()
    state.put_checkpoint(here)
    state.put_shard_group("`d`.`t`", here, [_DDL], ["`d`.`t1`"])
    assert [severity for severity, _ in _said(_run(mariadb_upstream, target))] == ["warn", "warn"]
    state.put_shard_group("`d`.`t`", here, [_DDL, _DDL], ["`d`.`t1`"], active=1)
    result = _run(mariadb_upstream, target)
    assert not result.passed
    assert any(severity == "fail" and _DDL in text for severity, text in _said(result))
