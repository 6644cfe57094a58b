"""Hazard: threads and pool-size above the worker's slots are reduced without a message."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dm_master.workers.slot_warnings import settings_above, slot_warnings
from dm_master.workers.source_workers import ClusterView
from pkg import errors
from pkg.config.model import LoaderConfig, MydumperConfig, SubTaskConfig
from pkg.errors import Code
from pkg.pb import dmworker_pb2 as worker_pb
from pkg.settings.connections import DBConfig

_SERVER = DBConfig("h", 1)
_SUBTASK = SubTaskConfig(
    "t", "s1", "all", _SERVER, _SERVER, mydumper=MydumperConfig(threads=20), loader=LoaderConfig(pool_size=30)
)


@pytest.mark.parametrize(
    ("mode", "slots", "expected"),
    [
        ("all", 16, [("threads", 20), ("pool-size", 30)]),
        ("dump", 16, [("threads", 20)]),
        ("load", 16, [("pool-size", 30)]),
        ("incremental", 16, []),
        ("all", 24, [("pool-size", 30)]),
        ("all", 30, []),
        ("all", 0, []),
    ],
)
def test_what_the_mode_uses_is_compared(mode: Any, slots: int, expected: list[tuple[str, int]]) -> None:
    assert settings_above(replace(_SUBTASK, task_mode=mode), slots) == expected


def test_threads_of_extra_args_count() -> None:
    cfg = replace(_SUBTASK, mydumper=MydumperConfig(threads=4, extra_args="-t 99"), loader=LoaderConfig())
    assert settings_above(cfg, 16) == [("threads", 99)]


def _cluster(answer: worker_pb.GetWorkerCfgResponse | None) -> ClusterView:
    def call(address: str, method: str, request: object, *, timeout: float) -> worker_pb.GetWorkerCfgResponse:
        if answer is None:
            raise errors.new(Code.MasterOperRequestTimeout, "no answer")
        return answer

    scheduler = SimpleNamespace(
        bound_worker=lambda source: SimpleNamespace(name="w1", addr="a") if source == "s1" else None
    )
    return cast(ClusterView, SimpleNamespace(scheduler=scheduler, workers=SimpleNamespace(call=call)))


def test_the_warning_names_source_worker_and_way_out() -> None:
    answer = worker_pb.GetWorkerCfgResponse(slots=24)
    assert slot_warnings(_cluster(answer), [_SUBTASK, replace(_SUBTASK, source_id="unbound")]) == [
        "pool-size 30 of source s1 is more than dm-worker w1 has slots: 24 are used. Raise spark.slots of the worker, "
        "or lower pool-size"
    ]


def test_a_worker_that_does_not_answer_stops_no_check() -> None:
    assert slot_warnings(_cluster(None), [_SUBTASK]) == []
