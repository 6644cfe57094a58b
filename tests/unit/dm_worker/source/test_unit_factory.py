"""Hazard: a task needs a unit that this worker does not have, and no error says so."""

from __future__ import annotations

import pytest

from dm_worker.engine.engine import SparkEngine
from dm_worker.source import unit_factory
from pkg import errors
from pkg.config.model import SubTaskConfig
from pkg.errors import Code
from pkg.pb import dmworker_pb2 as pb
from pkg.settings.connections import DBConfig

SERVER = DBConfig(host="127.0.0.1", port=1)


TASK = SubTaskConfig(name="t1", source_id="s1", task_mode="all", from_=SERVER, to=SERVER)


def test_an_unknown_unit_is_refused() -> None:
    with pytest.raises(errors.DMError) as caught:
        unit_factory.make_unit(pb.Check, unit_factory.UnitContext(TASK, SparkEngine()))
    assert caught.value.kind is Code.WorkerNoAvailUnits
