"""Checks of the users' privileges, and whether the servers have enough free connections."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dm_master.inspection.inspected_server import InspectedServer
from dm_master.precheck.result import CheckFinding, fail, warn
from dm_master.rules.inspected_upstream import InspectedUpstream
from pkg.config.dump_arguments import parse_dump_arguments
from pkg.config.model import SubTaskConfig
from pkg.mysql.grants import Grants
from pkg.mysql.names import TableId

#: The global privileges that an upstream's user needs for a full copy and replication.
_SOURCE = ("REPLICATION SLAVE", "REPLICATION CLIENT", "RELOAD")
_TARGET = ("CREATE", "SELECT", "INSERT", "UPDATE", "DELETE", "ALTER", "DROP", "INDEX")
#: Connections of a dump in addition to its threads: one holds the lock, one monitors.
_DUMP_EXTRA = 2
_NAMED = 5


def check_dump_privilege(upstream: InspectedUpstream) -> list[CheckFinding]:
    grants, user = upstream.grants, upstream.config.user
    findings = []
    unreadable = [table for table in upstream.tables if not grants.allows("SELECT", *table)]
    if unreadable:
        findings.append(
            _lacking("SELECT", unreadable, f"GRANT SELECT ON {_shown(unreadable[:1])} TO '{user}' on the upstream.")
        )
    elif not upstream.tables and not grants.allows("SELECT"):
        findings.append(  # a server does not list tables that a user may not read
            fail(
                "no table to migrate is visible",
                f"Check the block-allow-list, and that '{user}' has SELECT on the tables.",
            )
        )
    consistency = parse_dump_arguments(upstream.subtask.mydumper.extra_args).consistency
    if consistency in ("auto", "flush") and not grants.allows("RELOAD"):
        findings.append(fail(_lack_of("RELOAD"), f"GRANT RELOAD ON *.* TO '{user}' on the upstream."))
    if consistency == "lock":
        locked = [(schema, "*") for schema in upstream.schemas if not grants.allows("LOCK TABLES", schema)]
        if locked:
            findings.append(
                _lacking(
                    "LOCK TABLES", locked, f"GRANT LOCK TABLES ON {_shown(locked[:1])} TO '{user}' on the upstream."
                )
            )
    return findings


def lacking_privileges(grants: Grants) -> list[str]:
    """The privileges that most tasks of an upstream need and its user lacks."""
    return [
        privilege
        for privilege in _SOURCE
        if not grants.allows(privilege) and not (privilege == "REPLICATION CLIENT" and grants.allows("SUPER"))
    ]


def check_replication_privilege(upstream: InspectedUpstream) -> list[CheckFinding]:
    return [
        fail(
            _lack_of(privilege),
            f"GRANT {privilege} ON *.* TO '{upstream.config.user}' on the upstream.",
        )
        for privilege in ("REPLICATION SLAVE", "REPLICATION CLIENT")
        if not upstream.grants.allows(privilege) and not (privilege.endswith("CLIENT") and may_ask_binlog(upstream))
    ]


def may_ask_binlog(upstream: InspectedUpstream) -> bool:
    """Whether the user may list the binlog files and their sizes."""
    return upstream.grants.allows("REPLICATION CLIENT") or upstream.grants.allows("SUPER")


def check_target_privilege(target: InspectedServer, schemas: Iterable[str]) -> list[CheckFinding]:
    names = sorted(set(schemas))
    findings = []
    for privilege in _TARGET:
        missing = [(schema, "*") for schema in names if not target.grants.allows(privilege, schema)]
        if missing:
            findings.append(
                warn(
                    f"{_lack_of(privilege)}, or of it on {_shown(missing)}",
                    f"GRANT {privilege} ON {_shown(missing[:1])} TO '{target.config.user}' on the target.",
                )
            )
    return findings


def check_dump_connections(upstream: InspectedUpstream) -> list[CheckFinding]:
    mydumper = upstream.subtask.mydumper
    needed = (parse_dump_arguments(mydumper.extra_args).threads or mydumper.threads) + _DUMP_EXTRA
    limit, used = _connections(upstream)
    if not limit or needed <= limit - used:
        return []
    return [
        fail(
            f"the dump needs {needed} connections; {max(limit - used, 0)} of the upstream's {limit} are free",
            "Raise max_connections of the upstream, or lower threads of the mydumper.",
        )
    ]


def check_load_connections(target: InspectedServer, subtasks: Sequence[SubTaskConfig]) -> list[CheckFinding]:
    needed = sum(subtask.loader.pool_size + 1 for subtask in subtasks)
    limit, used = _connections(target)
    if not limit or needed <= limit - used:
        return []
    text = f"loading needs {needed} connections; {max(limit - used, 0)} of the target's {limit} are free"
    hint = "Raise max_connections of the target, or lower pool-size of the loaders."
    return [fail(text, hint) if needed > limit else warn(text, hint)]


def _connections(server: InspectedServer) -> tuple[int, int]:
    """The server's connection limit (0: none), and the number of open connections besides this one."""
    return int(server.variable("max_connections") or 0), max(server.status("Threads_connected") - 1, 0)


def _lacking(privilege: str, tables: Sequence[TableId], instruction: str) -> CheckFinding:
    return fail(f"lack of {privilege.title()} privilege: {_shown(tables)}", instruction)


def _lack_of(privilege: str) -> str:
    """DM's wording for a missing global privilege."""
    return f"lack of {privilege.title()} global (*.*) privilege"


def _shown(tables: Sequence[TableId]) -> str:
    names = [f"`{schema}`.{table if table == '*' else f'`{table}`'}" for schema, table in tables[:_NAMED]]
    return ", ".join(names) + (f" and {len(tables) - _NAMED} more" if len(tables) > _NAMED else "")
