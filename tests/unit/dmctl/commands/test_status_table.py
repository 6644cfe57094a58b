"""Hazards: a table that hides a problem, wraps on a narrow terminal, or reaches a script that expects JSON."""

from __future__ import annotations

import json
import re

import pytest

from dmctl.commands.status_table import status_table
from pkg.pb import dmmaster_pb2 as master
from pkg.pb import dmworker_pb2 as worker
from pkg.status.amounts import duration, in_bytes
from tests.harness.canned_master import CannedMaster
from tests.unit.dmctl.support import RunDmctl

ERROR = worker.ProcessError(ErrCode=36027, Message="a value\n does not fit " + "x" * 300)


_LATE = worker.SyncStatus(secondsBehindMaster=200, recentRps=41000, lagReason="ddl", bytesBehind=69 << 20, eta="2m5s")


def _answer(*subtasks: worker.SubTaskStatus, source: str = "s1", **changes: object) -> worker.QueryStatusResponse:
    fields = {"result": True, **changes}
    return worker.QueryStatusResponse(
        sourceStatus=worker.SourceStatus(source=source, worker="w"),
        subTaskStatus=subtasks,
        **fields,  # type: ignore[arg-type]
    )


def _subtask(name: str = "t", stage: worker.Stage = worker.Running, **kinds: object) -> worker.SubTaskStatus:
    unit = {"dump": worker.Dump, "load": worker.Load}.get(next(iter(kinds), ""), worker.Sync)
    return worker.SubTaskStatus(name=name, stage=stage, unit=unit, **kinds)  # type: ignore[arg-type]


def _table(*sources: worker.QueryStatusResponse, columns: int = 200, colours: bool = False) -> str:
    answer = master.QueryStatusListResponse(result=True, sources=sources)
    return status_table(answer, columns=columns, colours=colours)


def test_each_unit_shows_its_progress() -> None:
    text = _table(
        _answer(_subtask("a", dump=worker.DumpStatus(progress="40.00 %", completedTables=2, totalTables=5))),
        _answer(_subtask("aa", dump=worker.DumpStatus(progress="1.00 %", totalTables=5, step="2 tables are loaded"))),
        _answer(_subtask("b", load=worker.LoadStatus(progress="7.00 %", totalBytes=3 << 30, bps=5 << 20))),
        _answer(_subtask("bb", load=worker.LoadStatus(progress="99.99 %", step="creating the keys of 2 tables"))),
        _answer(_subtask("c", sync=worker.SyncStatus(synced=True, recentRps=12))),
        _answer(_subtask("d", sync=_LATE)),
        _answer(_subtask("e", sync=worker.SyncStatus(secondsBehindMaster=-1, bytesBehind=-1))),
    )
    lines = [re.split(r"  +", line) for line in text.splitlines()]
    assert lines == [
        ["TASK", "SOURCE", "STAGE", "UNIT", "PROGRESS", "BEHIND", "ROWS/S"],
        ["a", "s1", "Running", "Dump", "40.00 %, 2 of 5 tables"],
        ["aa", "s1", "Running", "Dump", "1.00 %, 0 of 5 tables; 2 tables are loaded"],
        ["b", "s1", "Running", "Load", "7.00 % of 3.0 GiB, 5.0 MiB/s"],
        ["bb", "s1", "Running", "Load", "creating the keys of 2 tables"],
        ["c", "s1", "Running", "Sync", "synced", "12"],
        ["d", "s1", "Running", "Sync", "3 min 20 s behind (ddl)", "69.0 MiB, 2m5s left", "41,000"],
        ["e", "s1", "Running", "Sync", "lag unknown", "unknown", "0"],
    ]


@pytest.mark.parametrize("columns", [40, 80, 130])
def test_an_error_is_on_one_line_that_fits_and_names_the_next_command(columns: int) -> None:
    failed = _subtask(stage=worker.Paused, result=worker.ProcessResult(errors=[ERROR]), sync=worker.SyncStatus())
    lines = _table(_answer(failed), columns=columns).splitlines()
    assert "36027: a value" in lines[1]
    assert lines[1].endswith("…")
    assert len(lines[1]) <= max(columns, len(lines[1].partition("36027")[0]) + 20)
    assert "`dmctl query-status t --json`" in lines[-1]


def test_problems_of_the_source_and_of_its_relay_are_shown() -> None:
    away = _answer(source="away", result=False, msg="worker is offline")
    relayed = _answer(_subtask(sync=worker.SyncStatus(synced=True)))
    relayed.sourceStatus.relayStatus.stage = worker.Paused
    text = _table(away, relayed)
    assert "worker is offline" in text
    assert "relay is Paused" in text


def test_a_ddl_that_waits_for_shards_is_named() -> None:
    group = worker.ShardingGroup(target="`d`.`t`", DDLs=["ALTER TABLE t ADD c INT"])
    text = _table(_answer(_subtask(sync=worker.SyncStatus(unresolvedGroups=[group], synced=False))))
    assert "waits for shards: ALTER TABLE t ADD c INT" in text


def test_names_in_wide_characters_keep_the_columns() -> None:
    text = _table(_answer(_subtask("订单", sync=worker.SyncStatus(synced=True))), _answer(_subtask("orders")))
    head, wide, narrow = (next(line for line in text.splitlines() if key in line) for key in ("TASK", "订单", "orders"))
    assert wide.index("s1") + len("订单") == narrow.index("s1") == head.index("SOURCE")


def test_colours_only_where_they_are_wanted() -> None:
    source = _answer(_subtask(stage=worker.Paused))
    assert "\033[" not in _table(source)
    assert "\033[33m" in _table(source, colours=True)


def test_a_script_gets_json_and_a_terminal_the_table(
    dmctl: RunDmctl, fake: CannedMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.answers["QueryStatus"] = master.QueryStatusListResponse(result=True, sources=[_answer(_subtask())])
    assert json.loads(dmctl("query-status", "t")[1])["result"] is True
    assert dmctl("query-status", "t", "--table")[1].startswith("TASK")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert "TASK" in dmctl("query-status", "t")[1]
    assert json.loads(dmctl("query-status", "t", "--json")[1])["result"] is True
    assert json.loads(dmctl("query-status", "t", "--more")[1])["result"] is True


def test_watching_shows_the_table_until_it_is_interrupted(
    dmctl: RunDmctl, fake: CannedMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.answers["QueryStatus"] = master.QueryStatusListResponse(result=True, sources=[_answer(_subtask())])
    shown = []

    def pause(seconds: float) -> None:
        shown.append(seconds)
        if len(shown) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("dmctl.commands.status.time.sleep", pause)
    code, out, _ = dmctl("query-status", "--watch")
    assert (code, out.count("TASK")) == (0, 3)
    assert dmctl("query-status", "--watch", "--json")[0] == 1


def test_units_of_time_and_size() -> None:
    assert [duration(n) for n in (0, 59, 61, 3600 * 5 + 720)] == ["0 s", "59 s", "1 min 1 s", "5 h 12 min"]
    assert [in_bytes(n) for n in (0, 1023, 1536, 5 << 40, 3000 << 40)] == [
        "0 B", "1,023 B", "1.5 KiB", "5.0 TiB", "3,000.0 TiB",
    ]  # fmt: skip
