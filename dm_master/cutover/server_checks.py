"""Checks of the servers' settings, and whether a way back exists. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from dm_master.cutover.facts import CutoverFacts, CutoverUpstream, ServerFacts
from dm_master.cutover.verdict import CheckVerdict, at_target, bounded, problems
from pkg.mysql.names import escaped, qualified, quote, quote_string

#: Settings of a server that change what an application's statements do. `transaction_isolation` was `tx_isolation`.
SETTINGS = (
    "sql_mode",
    "time_zone",
    "character_set_server",
    "collation_server",
    "lower_case_table_names",
    "transaction_isolation",
    "explicit_defaults_for_timestamp",
    "auto_increment_increment",
    "auto_increment_offset",
    "max_allowed_packet",
    "innodb_strict_mode",
    "foreign_key_checks",
)
_FIXED = frozenset({"lower_case_table_names"})
_FORMER_NAMES = {"transaction_isolation": "tx_isolation"}
#: Modes that exist on one kind of server only, or that do not change rows.
_HARMLESS_MODES = frozenset({"NO_AUTO_CREATE_USER", "NO_ENGINE_SUBSTITUTION"})
#: Servers older than this have no binlog_expire_logs_seconds; a way back needs the binlog of a day.
_RETENTION = 86400


def check_settings(facts: CutoverFacts) -> CheckVerdict:
    """The settings that affect an application's statements are equal on both sides."""
    target = facts.target.server.variables
    found: list[str] = []
    wanted: dict[str, set[str]] = {}
    for upstream in facts.upstreams:
        variables = upstream.server.variables
        for name in sorted(_known(variables) & _known(target), key=SETTINGS.index):
            shown = _setting(variables, name)
            if shown != _setting(target, name):
                found.append(f"{name}: {shown} on {upstream.server.label}, {_setting(target, name)} at the target")
                wanted.setdefault(name, set()).add(_zone(shown, target) if name == "time_zone" else shown)
    # Without a statement: what a running server can't change, and what the upstreams have in several ways.
    settings = {name: values.pop() for name, values in wanted.items() if len(values) == 1 and name not in _FIXED}
    statements = [
        f"SET GLOBAL {name if name in target else _FORMER_NAMES[name]} = {_literal(value)}"
        for name, value in settings.items()
    ]
    note = (
        "in its configuration for the rest and for the next start; or in the application's connections, then "
        "--accept settings"
    )
    return problems("settings", found, at_target(statements, note), otherwise=f"{len(SETTINGS)} settings are equal")


def _zone(zone: str, target: Mapping[str, str]) -> str:
    """The value that gives the target this zone, which may be the name of a host's."""
    return "SYSTEM" if zone == target.get("system_time_zone") else "+00:00" if zone == "UTC" else zone


def _literal(value: str) -> str:
    return value if value.isdigit() or value in ("ON", "OFF", "''") else quote_string(value)


def _known(variables: Mapping[str, str]) -> set[str]:
    return {name for name in SETTINGS if name in variables or _FORMER_NAMES.get(name, "") in variables}


def _setting(variables: Mapping[str, str], name: str) -> str:
    """A setting's value in a form that can be compared."""
    value = variables.get(name, variables.get(_FORMER_NAMES.get(name, ""), ""))
    if name == "sql_mode":
        return ",".join(sorted(set(value.upper().split(",")) - _HARMLESS_MODES - {""})) or "''"
    if name == "time_zone":
        zone = variables.get("system_time_zone", value) if value.upper() == "SYSTEM" else value
        return "UTC" if zone == "+00:00" else zone
    return {"1": "ON", "0": "OFF"}.get(value, value) if name.endswith(("_timestamp", "_mode", "_checks")) else value


def check_way_back(facts: CutoverFacts) -> CheckVerdict:
    """The target's binlog could be replicated back, and the upstreams accept writes of the source's user."""
    target = facts.target
    if target.server.info.flavor == "tidb":
        return CheckVerdict("way-back", "not applicable", ("TiDB writes no binlog that a MySQL replica can read",))
    merged = _merged(facts.upstreams)
    if merged:
        return CheckVerdict(
            "way-back", "not applicable", bounded(f"several tables merge into {each}" for each in merged)
        )
    found = _binlog_problems(target.server)
    statements = [statement for statement in found.values() if statement]
    if not target.may_read_binlog:
        found["the target's user lacks REPLICATION SLAVE or REPLICATION CLIENT"] = ""
        statements.append(f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {target.server.account}")
    closed = [one for one in facts.upstreams if not one.may_write]
    found.update({f"{one.server.label}: the source's user may not write the tables": "" for one in closed})
    grants = [
        f"on {one.server.label}: GRANT INSERT, UPDATE, DELETE ON {quote(escaped(schema))}.* TO {one.server.account}"
        for one in closed
        for schema in dict.fromkeys(schema for schema, _ in one.routed)
    ]
    note = "before the cutover, if you want to be able to go back; --accept way-back if not"
    return problems(
        "way-back",
        list(found),
        at_target(statements, "; ".join([*grants, note])),
        otherwise="binlog, rights and retention allow it",
    )


def _merged(upstreams: tuple[CutoverUpstream, ...]) -> list[str]:
    count: dict[tuple[str, str], int] = {}
    for upstream in upstreams:
        for target in upstream.routed.values():
            count[target] = count.get(target, 0) + 1
    return [qualified(*target) for target, number in sorted(count.items()) if number > 1]


def _binlog_problems(server: ServerFacts) -> dict[str, str]:
    """Each problem, with the statement that ends it; '' where it takes a restart."""
    variables = server.variables
    if variables.get("log_bin", "OFF").upper() not in ("1", "ON"):
        return {"the target's log_bin is OFF: it takes log-bin in its configuration, and a restart": ""}
    found = {}
    if variables.get("binlog_format", "ROW").upper() != "ROW":
        found[f"the target's binlog_format is {variables['binlog_format']}"] = "SET GLOBAL binlog_format = 'ROW'"
    if variables.get("binlog_row_image", "FULL").upper() not in ("FULL", "FULL_NODUP"):
        found[f"the target's binlog_row_image is {variables['binlog_row_image']}"] = (
            "SET GLOBAL binlog_row_image = 'FULL'"
        )
    kept = _retention(variables)
    if 0 < kept < _RETENTION:
        unit = "binlog_expire_logs_seconds"
        longer = f"{unit} = {_RETENTION}" if unit in variables else "expire_logs_days = 1"
        found[f"the target keeps its binlog for {kept} s only"] = f"SET GLOBAL {longer}"
    return found


def _retention(variables: Mapping[str, str]) -> int:
    """How long the binlog is kept, in seconds; 0: without limit."""
    seconds = int(float(variables.get("binlog_expire_logs_seconds") or 0))
    return seconds or int(float(variables.get("expire_logs_days") or 0) * 86400)
