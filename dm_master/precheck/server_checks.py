"""Checks of an upstream's version and binlog settings."""

from __future__ import annotations

from dm_master.precheck.privilege_checks import may_ask_binlog
from dm_master.precheck.result import CheckFinding, fail, from_error, warn
from dm_master.rules.inspected_upstream import InspectedUpstream
from pkg import errors
from pkg.errors import Code
from pkg.mysql.introspect import ServerInfo, query

#: The releases tested with real servers as upstream and target: flavor → series → release.
TRIED = {
    "mysql": {(5, 6): "5.6.24", (5, 7): "5.7.22", (8, 0): "8.0.12, 8.0.46", (8, 4): "8.4.8", (9, 7): "9.7.4"},
    "mariadb": {(10, 11): "10.11", (11, 8): "11.8.6"},
}


def check_version(upstream: InspectedUpstream) -> list[CheckFinding]:
    return version_findings(upstream.info)


def version_findings(info: ServerInfo) -> list[CheckFinding]:
    """A warning unless a release of the same series was tested. Pure."""
    if info.flavor == "tidb":
        return [warn(f"the upstream is TiDB ({info.version_text})", "Use MySQL or MariaDB as upstream.")]
    if info.version[:2] in TRIED[info.flavor]:
        return []
    known = f"MySQL {', '.join(TRIED['mysql'].values())}; MariaDB {', '.join(TRIED['mariadb'].values())}"
    return [
        warn(
            f"the series of {info.version_text} is not tested; tested series: {known}",
            "Try the migration with a copy of the data first, and compare it with the upstream.",
        )
    ]


def check_server_id(upstream: InspectedUpstream) -> list[CheckFinding]:
    if upstream.info.server_id > 0:
        return []
    return [warn("server_id is 0", "Set server_id to a positive number in the upstream's configuration.")]


def check_binlog_enable(upstream: InspectedUpstream) -> list[CheckFinding]:
    if upstream.variable("log_bin").upper() in ("1", "ON"):
        return []
    return [fail("log_bin is OFF, and should be ON", "Set log-bin in the upstream's configuration and restart it.")]


def check_binlog_format(upstream: InspectedUpstream) -> list[CheckFinding]:
    value = upstream.variable("binlog_format").upper()
    if value == "ROW":
        return []
    return [
        fail(
            f"binlog_format is {value or 'not known'}, and should be ROW",
            "SET GLOBAL binlog_format = 'ROW' (and in the configuration), then let running sessions reconnect.",
        )
    ]


def check_binlog_row_image(upstream: InspectedUpstream) -> list[CheckFinding]:
    value = upstream.variable("binlog_row_image").upper()
    # Servers older than this variable always write whole rows.
    # FULL_NODUP (MariaDB 11.4) omits from an update's after image the values of its before image.
    if value in ("FULL", "FULL_NODUP", ""):
        return []
    return [
        fail(
            f"binlog_row_image is {value}, and should be FULL",
            "SET GLOBAL binlog_row_image = 'FULL' (and in the configuration), then let running sessions reconnect.",
        )
    ]


def check_binlog_db(upstream: InspectedUpstream) -> list[CheckFinding]:
    if _told_elsewhere(upstream):
        return []
    if upstream.info.version >= (8, 4, 0) and upstream.info.flavor == "mysql":
        rows = query(upstream.conn, "SHOW BINARY LOG STATUS")
    else:
        rows = query(upstream.conn, "SHOW MASTER STATUS")
    if not rows:
        return []  # binlog_enable reports that
    fold = (lambda name: name) if upstream.subtask.case_sensitive else str.lower
    do, ignore = ({fold(name) for name in str(text or "").split(",") if name} for text in rows[0][2:4])
    missing = [s for s in upstream.schemas if (fold(s) not in do if do else fold(s) in ignore)]
    if not missing:
        return []
    return [
        fail(
            f"these schemas are not in the upstream's binlog: {', '.join(missing)}",
            "Change binlog-do-db and binlog-ignore-db in the upstream's configuration and restart it.",
        )
    ]


def _told_elsewhere(upstream: InspectedUpstream) -> bool:
    """Whether the check of privileges reports why the binlog's position cannot be queried."""
    return "replication_privilege" not in upstream.subtask.ignore_checking_items and not may_ask_binlog(upstream)


def check_gtid(upstream: InspectedUpstream) -> list[CheckFinding]:
    if not upstream.subtask.enable_gtid or upstream.info.gtid_on:
        return []
    return [from_error(gtid_is_off(upstream.subtask.source_id))]


def gtid_is_off(source_id: str) -> errors.DMError:
    return errors.new(
        Code.SourceCheckGTID,
        f"source {source_id} has enable-gtid: true, but the upstream's gtid_mode is not ON",
        workaround="Set gtid_mode=ON and enforce_gtid_consistency=ON in the upstream, or enable-gtid: false.",
        scope="upstream",
    )
