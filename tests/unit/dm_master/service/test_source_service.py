"""Hazard: DM's client stops no source, or a source that exists is refused for what its own relay holds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dm_master.service.source_service import SourceService
from pkg.config.model import SourceConfig
from pkg.errors import Code, DMError
from pkg.pb import dmmaster_pb2 as pb

_FILE = "source-id: s1\nserver-id: 101\nfrom: {host: h, port: 1, user: root}\n"


def _never(config: SourceConfig, _: list[str]) -> SourceConfig:
    raise AssertionError(f"the server of {config.source_id} was asked")


def _service(removed: list[str]) -> SourceService:
    def remove(source: str) -> str:
        removed.append(source)
        return ""

    scheduler = SimpleNamespace(
        sources=lambda: {"s1": None, "s2": None}, bound_worker=lambda _: None, remove_source=remove
    )
    cluster: Any = SimpleNamespace(scheduler=scheduler)
    return SourceService(cluster, _never)


def test_a_source_is_stopped_by_its_id_or_by_its_file() -> None:
    removed: list[str] = []
    request = pb.OperateSourceRequest(op=pb.StopSource, config=[_FILE], sourceID=["s2", "s1"])
    assert _service(removed).operate_source(request).result
    assert removed == ["s2", "s1"]


def test_a_source_that_exists_is_refused_before_its_server_is_asked() -> None:
    with pytest.raises(DMError) as caught:
        _service([]).operate_source(pb.OperateSourceRequest(op=pb.StartSource, config=[_FILE]))
    assert caught.value.kind is Code.SchedulerSourceCfgExist


@pytest.mark.parametrize("order", [pb.StartSource, pb.UpdateSource])
def test_a_source_whose_name_leads_out_of_its_folder_is_refused(order: pb.SourceOp) -> None:
    outside = pb.OperateSourceRequest(op=order, config=[_FILE.replace("s1", "../s1")])
    with pytest.raises(DMError, match=r"source-id '\.\./s1' cannot name tables and folders"):
        _service([]).operate_source(outside)
