"""The event log of a running cluster."""

from __future__ import annotations

from deploy.local.cluster import DMMaster
from dm_master.service.event_log import EventLog
from pkg.etcd import EtcdClient
from pkg.ha.records import OperatorEvent


def events_of(master: DMMaster) -> list[OperatorEvent]:
    """All entries of a master with an etcd of its own, the newest first."""
    return events_in(f"127.0.0.1:{master.etcd_port}")


def events_in(endpoint: str) -> list[OperatorEvent]:
    with EtcdClient([endpoint]) as etcd:
        return EventLog(etcd).latest()
