"""Hazard: a client of the OpenAPI must know which master leads, or loses its answer when another does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deploy.local.cluster import DMMaster
from deploy.local.process import wait_until
from tests.harness.certificates import Authority, context, flags, settings
from tests.harness.etcd import EtcdServer
from tests.harness.events import events_in
from tests.harness.openapi import ApiClient
from tests.integration.dm_master.process.support import call


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
def test_a_follower_passes_the_requests_of_the_api_on(etcd: EtcdServer, tmp_path: Path, tls: bool) -> None:
    extra = f'openapi = true\netcd-endpoints = ["http://{etcd.endpoint}"]\nelection-ttl = 6\n'
    client, shown = None, []
    if tls:
        authority = Authority(tmp_path)
        extra += settings(authority.issue("master"))
        own = authority.issue("client")
        client, shown = context(own), flags(own)
    masters = [DMMaster(tmp_path, member=name, extra=extra) for name in ("m1", "m2")]
    first, second = (ApiClient(master.port, client) for master in masters)

    def leads(api: ApiClient, name: str) -> bool:
        try:
            status, answer = api.ask("GET", "cluster/masters")
        except OSError:
            return False
        return status == 200 and [one["name"] for one in answer["data"] if one["leader"]] == [name]

    try:
        masters[0].start(wait=False)
        wait_until(lambda: leads(first, "m1"), "the first master leads", 90)
        masters[1].start(wait=False)
        wait_until(lambda: leads(second, "m1"), "the follower passes requests on", 90)
        topology = {"worker_topology_list": [{"name": "w1", "host": "h", "port": 8262}]}
        stored = second.ok("PUT", "cluster/info", topology)
        assert first.ok("GET", "cluster/info") == stored == second.ok("GET", "cluster/info")
        assert stored["topology"] == topology
        missing = {"worker_name": "w1"}
        refused = second.refused("POST", "sources/none/transfer", missing)
        assert refused == first.refused("POST", "sources/none/transfer", missing)
        assert [(one.who, one.result) for one in events_in(etcd.endpoint)[:2]] == [("OpenAPI", "failed")] * 2
        assert json.loads(call(masters[0], "operate-leader", "evict", *shown))["result"]
        wait_until(lambda: leads(first, "m2"), "the other master leads")
        assert first.ok("GET", "cluster/info") == stored
    finally:
        for master in masters:
            master.stop(seconds=15)
