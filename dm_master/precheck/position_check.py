"""Checks whether the upstream still has the binlog from which a task is to start."""

from __future__ import annotations

import re

import pymysql

from dm_master.precheck.result import CheckFinding, fail
from dm_master.rules.inspected_upstream import InspectedUpstream
from pkg.config.model import Meta
from pkg.mysql.introspect import query

_MARIADB_GTID = re.compile(r"(\d+)-(\d+)-(\d+)")
_HINT = "Copy again with task-mode all, or give a position that the upstream still has (SHOW BINARY LOGS)."


def check_meta_position(upstream: InspectedUpstream) -> list[CheckFinding]:
    meta = upstream.subtask.meta
    return [] if meta is None else check_position(upstream, meta, "meta")


def check_position(upstream: InspectedUpstream, meta: Meta, what: str) -> list[CheckFinding]:
    """Whether the upstream still has the binlog after ``meta``; findings call the position that of ``what``."""
    if upstream.subtask.enable_gtid and meta.binlog_gtid:
        if upstream.info.flavor == "mariadb":
            return _mariadb_gtid(upstream, meta.binlog_gtid, what)
        return _mysql_gtid(upstream, meta.binlog_gtid, what)
    if not meta.binlog_name:
        return [fail(f"{what} has only binlog-gtid, but the source has enable-gtid: false", "Add binlog-name.")]
    return _file_position(upstream, meta.binlog_name, meta.binlog_pos, what)


def _file_position(upstream: InspectedUpstream, name: str, position: int, what: str) -> list[CheckFinding]:
    files = {str(row[0]): int(row[1]) for row in query(upstream.conn, "SHOW BINARY LOGS")}
    if name not in files:
        return [fail(f"binlog file {name} of {what} is not on the upstream", _HINT)]
    if position > files[name]:
        return [fail(f"position {position} of {what} is beyond the end of {name}, {files[name]}", _HINT)]
    return []


def _mysql_gtid(upstream: InspectedUpstream, gtid_set: str, what: str) -> list[CheckFinding]:
    try:
        row = query(
            upstream.conn,
            "SELECT GTID_SUBSET(@@GLOBAL.gtid_purged, %s), GTID_SUBSET(%s, @@GLOBAL.gtid_executed)",
            (gtid_set, gtid_set),
        )[0]
    except pymysql.Error:
        return [fail(f"binlog-gtid {gtid_set!r} of {what} is not a GTID set", "Correct it.")]
    if not row[0]:
        return [fail(f"the upstream purged transactions that binlog-gtid of {what} does not have", _HINT)]
    if not row[1]:
        return [fail(f"binlog-gtid of {what} has transactions that the upstream never had", _HINT)]
    return []


def _mariadb_gtid(upstream: InspectedUpstream, text: str, what: str) -> list[CheckFinding]:
    wanted = _domains(text)
    if wanted is None:
        return [fail(f"binlog-gtid {text!r} of {what} is not a GTID set", "Write it as domain-server-sequence,… .")]
    ahead = _domains(upstream.variable("gtid_binlog_pos")) or {}
    beyond = [domain for domain, sequence in wanted.items() if sequence > ahead.get(domain, 0)]
    if beyond:
        return [fail(f"binlog-gtid of {what} has transactions that the upstream never had", _HINT)]
    first = query(upstream.conn, "SHOW BINARY LOGS")[0][0]
    listed = query(upstream.conn, f"SHOW BINLOG EVENTS IN {upstream.conn.escape(str(first))} LIMIT 3")
    gone = next((_domains(str(row[5]).strip("[]")) for row in listed if row[2] == "Gtid_list"), None) or {}
    if any(sequence > wanted.get(domain, 0) for domain, sequence in gone.items()):
        return [fail(f"the upstream purged transactions that binlog-gtid of {what} does not have", _HINT)]
    return []


def _domains(text: str) -> dict[int, int] | None:
    """Domain → its highest sequence number; None for text that is not a GTID set."""
    domains: dict[int, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = _MARIADB_GTID.fullmatch(part)
        if match is None:
            return None
        domains[int(match[1])] = max(int(match[3]), domains.get(int(match[1]), 0))
    return domains
