"""ListSourceNames: what an upstream has, without a task."""

from __future__ import annotations

import contextlib

import pymysql

from dm_master.inspection.inspected_server import QUERY_TIMEOUT
from dm_master.service.cluster_access import ClusterAccess
from pkg import errors
from pkg.errors import Code
from pkg.mysql.connection import classify, connect
from pkg.mysql.introspect import list_schemas, list_tables
from pkg.pb import dmmaster_pb2 as pb


class SourceNamesService:
    def __init__(self, cluster: ClusterAccess) -> None:
        self._cluster = cluster

    def list_names(self, request: pb.ListSourceNamesRequest) -> pb.ListSourceNamesResponse:
        """The upstream's schemas, without the server's own, or the tables of one of them."""
        config = self._cluster.scheduler.sources().get(request.source)
        if config is None:
            raise errors.new(
                Code.SchedulerSourceCfgNotExist,
                f"source config with ID {request.source} not exists",
                workaround="`operate-source show` lists the sources.",
            )
        with contextlib.closing(connect(config.from_, scope="upstream", read_timeout=QUERY_TIMEOUT)) as conn:
            try:
                names = list_tables(conn, request.schema) if request.schema else list_schemas(conn)
            except pymysql.Error as exc:
                raise classify(exc, scope="upstream") from exc
        return pb.ListSourceNamesResponse(result=True, names=names)
