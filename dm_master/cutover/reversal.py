"""The way back: the task that replicates from the target into an upstream, from the moment of the cutover on. Pure."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pkg import errors
from pkg.binlog.position import Location
from pkg.config.model import SubTaskConfig
from pkg.errors import Code
from pkg.mysql.names import TableId, qualified
from pkg.settings.connections import DBConfig, SecurityConfig
from pkg.settings.yaml_reader import dump_yaml

#: Upstream table → its target table.
Routed = Mapping[TableId, TableId]
#: What a pattern of a route reads as more than itself.
_PATTERN = frozenset("*?[]!~\\")


@dataclass(frozen=True, slots=True)
class ReverseTask:
    """``upstream``: the source into which it replicates. ``text`` is its file, with the password."""

    name: str
    upstream: str
    text: str


def ensure_reversible(task: str, routed: Mapping[str, Routed], subtasks: Mapping[str, SubTaskConfig]) -> None:
    """Raises 43201 with each reason why there is no way back. ``routed``: by upstream."""
    reasons = [reason for name in sorted(subtasks) for reason in _rules(subtasks[name], routed[name])]
    reasons += _merged(routed)
    if reasons:
        raise errors.new(
            Code.CutoverRefused,
            f"there is no way back for task {task}: {'; '.join(reasons)}",
            workaround="Only tables that are replicated one to one, with all rows and columns, can be replicated back. "
            "Restore the upstreams by a full copy instead.",
        )


def reverse_tasks(
    task: str, routed: Mapping[str, Routed], subtasks: Mapping[str, SubTaskConfig], source: str, start: Location
) -> list[ReverseTask]:
    """One task for each upstream of a task that is reversible. ``source``: the name of the target's source; ``start``:
    its binlog's end at the cutover."""
    found = []
    for name in sorted(subtasks):
        own = f"{task}_reverse" if len(subtasks) == 1 else f"{task}_reverse_{name}"
        found.append(ReverseTask(own, name, dump_yaml(_task(own, subtasks[name], routed[name], source, start))))
    return found


def _rules(subtask: SubTaskConfig, routed: Routed) -> list[str]:
    """The rules that can't be reversed."""
    rules = {
        "a column mapping": subtask.column_mappings,
        "binlog event filters": subtask.filters,
        "expression filters": subtask.expression_filters,
        "routes that fill columns": [
            rule for rule in subtask.routes if rule.extract_table or rule.extract_schema or rule.extract_source
        ],
    }
    found = [f"source {subtask.source_id} has {what}" for what, some in rules.items() if some]
    names = {name for pair in routed.items() for table in pair for name in table}
    found += [f"the name {name!r} is a pattern in a route" for name in sorted(names) if _PATTERN & {*name}]
    return found if routed else [*found, f"source {subtask.source_id} has no tables"]


def _merged(routed: Mapping[str, Routed]) -> list[str]:
    count: dict[TableId, int] = {}
    for one in routed.values():
        for target in one.values():
            count[target] = count.get(target, 0) + 1
    return [f"several tables merge into {qualified(*table)}" for table, number in sorted(count.items()) if number > 1]


def _task(name: str, subtask: SubTaskConfig, routed: Routed, source: str, start: Location) -> dict[str, Any]:
    moved = sorted((there, here) for here, there in routed.items() if here != there)
    routes = {
        f"route-{number}": {
            "schema-pattern": there[0],
            "table-pattern": there[1],
            "target-schema": here[0],
            "target-table": here[1],
        }
        for number, (there, here) in enumerate(moved)
    }
    instance: dict[str, Any] = {
        "source-id": source,
        "block-allow-list": "moved",
        "meta": {
            "binlog-name": start.position.name,
            "binlog-pos": start.position.pos,
            "binlog-gtid": start.gtid_set,
        },
    }
    return {
        "name": name,
        "task-mode": "incremental",
        "meta-schema": subtask.meta_schema,
        "case-sensitive": subtask.case_sensitive,
        "target-database": _server(subtask.from_),
        "mysql-instances": [instance | ({"route-rules": list(routes)} if routes else {})],
        "block-allow-list": {
            "moved": {
                "do-tables": [{"db-name": schema, "tbl-name": table} for schema, table in sorted(routed.values())]
            }
        },
    } | ({"routes": routes} if routes else {})


def _server(server: DBConfig) -> dict[str, Any]:
    found: dict[str, Any] = {
        "host": server.host,
        "port": server.port,
        "user": server.user,
        "password": server.password,
        "max-allowed-packet": server.max_allowed_packet,
    }
    return found | ({"security": _security(server.security)} if server.security is not None else {})


def _security(security: SecurityConfig) -> dict[str, Any]:
    texts = {
        "ssl-ca": security.ssl_ca,
        "ssl-cert": security.ssl_cert,
        "ssl-key": security.ssl_key,
        "cert-allowed-cn": list(security.cert_allowed_cn),
        "ssl-ca-bytes": base64.b64encode(security.ssl_ca_bytes).decode(),
        "ssl-cert-bytes": base64.b64encode(security.ssl_cert_bytes).decode(),
        "ssl-key-bytes": base64.b64encode(security.ssl_key_bytes).decode(),
    }
    return {name: value for name, value in texts.items() if value}
