"""Runs the checks of a task over real connections, the sources in parallel, and combines the findings."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pymysql

from dm_master.inspection.inspected_server import InspectedServer
from dm_master.precheck import (
    creation_checks,
    foreign_key_checks,
    key_checks,
    position_check,
    privilege_checks,
    rule_checks,
    server_checks,
    table_checks,
    takeover_check,
)
from dm_master.precheck.result import CheckFinding, CheckResult, PrecheckResult, conclude, from_error
from dm_master.precheck.table_checks import TablesByTarget
from dm_master.rules.inspected_upstream import InspectedUpstream
from dm_master.rules.rule_usage import RuleUse, known_uses, summary, usage_of
from dm_master.task_setup.task_split import split_task
from pkg.config.model import SourceConfig, SubTaskConfig, TaskConfig, TaskMode
from pkg.config.rule_names import InstanceNames, RuleName, subtask_rule_names
from pkg.errors import DMError
from pkg.mysql.connection import classify
from pkg.mysql.engines import IGNORE as IGNORE_ENGINE
from pkg.mysql.names import TableId
from pkg.mysql.schema import TableInfo
from pkg.process.log import get_logger
from pkg.rules.foreign_keys import IGNORE
from pkg.task_meta.dm_progress import ghost_tables

log = get_logger("precheck")

_DUMP: frozenset[TaskMode] = frozenset({"full", "all", "dump"})
_LOAD: frozenset[TaskMode] = frozenset({"full", "all", "load", "load&sync"})
_COPY = _DUMP & _LOAD
_SYNC: frozenset[TaskMode] = frozenset({"incremental", "all", "load&sync"})
_ANY = _DUMP | _LOAD | _SYNC
_MOST_SOURCES_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class _Check:
    """A check of one upstream: its ``ignore-checking-items`` key, DM's name for it, and the modes that need it."""

    item: str
    name: str
    desc: str
    modes: frozenset[TaskMode]
    run: Callable[[InspectedUpstream], list[CheckFinding]]


_UPSTREAM_CHECKS = (
    _Check(
        "version", "mysql_version", "check whether the database version is satisfied", _ANY, server_checks.check_version
    ),
    _Check(
        "server_id",
        "mysql_server_id",
        "check whether server_id is greater than 0",
        _SYNC,
        server_checks.check_server_id,
    ),
    _Check(
        "binlog_enable",
        "mysql_binlog_enable",
        "check whether binlog is enabled",
        _SYNC,
        server_checks.check_binlog_enable,
    ),
    _Check(
        "binlog_format",
        "mysql_binlog_format",
        "check whether binlog_format is ROW",
        _SYNC,
        server_checks.check_binlog_format,
    ),
    _Check(
        "binlog_row_image",
        "mysql_binlog_row_image",
        "check whether binlog_row_image is FULL",
        _SYNC,
        server_checks.check_binlog_row_image,
    ),
    _Check(
        "binlog_db",
        "binlog_do_db/binlog_ignore_db check",
        "check whether the binlog has the migrated schemas",
        _SYNC,
        server_checks.check_binlog_db,
    ),
    _Check(
        "gtid", "gtid_mode", "check whether GTID mode is on where enable-gtid is true", _SYNC, server_checks.check_gtid
    ),
    _Check(
        "dump_privilege",
        "source db dump privilege checker",
        "check dump privileges of source DB",
        _DUMP,
        privilege_checks.check_dump_privilege,
    ),
    _Check(
        "replication_privilege",
        "source db replication privilege checker",
        "check replication privileges of source DB",
        _SYNC,
        privilege_checks.check_replication_privilege,
    ),
    _Check(
        "conn_number",
        "dumper conn number checker",
        "check if connection concurrency exceeds database's maximum connection limit",
        _DUMP,
        privilege_checks.check_dump_connections,
    ),
    _Check("online_ddl", "online ddl checker", "check if in online ddl phase", _SYNC, table_checks.check_online_ddl),
    _Check(
        "meta_position",
        "meta position check",
        "check whether the upstream has the binlog at meta",
        _SYNC,
        position_check.check_meta_position,
    ),
)


def run_prechecks(
    task: TaskConfig,
    sources: Mapping[str, SourceConfig],
    *,
    err_count: int = 10,
    warn_count: int = 10,
    only: Sequence[str] = (),
    remove_meta: bool = False,
) -> PrecheckResult:
    """Checks a task before it starts; ``only`` selects some of its sources. ``remove_meta``: ignores its meta tables.

    Every problem of the servers is in the answer. Raises 20031 for sources that do not exist.
    """
    subtasks = split_task(task, sources, only)
    for text in task.warnings:
        log.warning("task file warning", task=task.name, warning=text)
    if "all" in task.ignore_checking_items:
        return conclude((), task.warnings)
    results: list[CheckResult] = []
    names = subtask_rule_names(task, sources)
    rules = None
    with contextlib.ExitStack() as stack:
        target, failed = _open_target(task, stack)
        results += failed
        ghosts, failed = _followed_ghosts(None if remove_meta else target, subtasks)
        results += failed
        checked = _check_sources(subtasks, names, ghosts, target_there=target is not None)
        results += [result for _, found in checked for result in found]
        upstreams = [upstream for upstream, _ in checked if upstream is not None]
        for upstream in upstreams:
            stack.callback(upstream.close)
        results += _check_target(target, task, subtasks, upstreams) if target is not None else ()
        if target is not None and not remove_meta:
            results += [_takeover(upstream, target) for upstream in upstreams]
        # Shards of a running task may differ for a while: some have executed a DDL and others not yet.
        fresh = target is None or not any(target.has_progress(subtask) for subtask in subtasks)
        copied = fresh and task.task_mode in _DUMP
        present, failed = _present(target, upstreams)
        results += failed
        if target is not None and (fresh or remove_meta) and task.task_mode in _LOAD:
            results += _check_empty(target, task, present)
        results += _check_groups(task, upstreams, present, copied)
        if len(upstreams) == len(subtasks):
            uses = _uses(upstreams, names)
            targets = [name for upstream in upstreams for name in upstream.routed.values()]
            total = sum(len(tables) for upstream in upstreams for tables in upstream.everything.values())
            rules = summary(targets, total - len(targets), uses)
            results += _check_usage(task, uses, copied)
    concluded = conclude(results, task.warnings, err_count=err_count, warn_count=warn_count)
    return replace(concluded, rules=rules)


def _uses(upstreams: Sequence[InspectedUpstream], names: Mapping[str, InstanceNames]) -> dict[RuleName, RuleUse]:
    parts = [usage_of(upstream.rules, upstream.everything) for upstream in upstreams]
    return known_uses(parts, names, [upstream.subtask.source_id for upstream in upstreams])


def _check_usage(task: TaskConfig, uses: Mapping[RuleName, RuleUse], certain: bool) -> Iterator[CheckResult]:
    if "rules" not in task.ignore_checking_items:
        yield CheckResult(
            "rule usage check",
            "check whether each rule has an effect",
            tuple(rule_checks.check_usage(uses, strict=task.strict_rules and certain)),
        )


def _present(
    target: InspectedServer | None, upstreams: Sequence[InspectedUpstream]
) -> tuple[dict[TableId, TableInfo], list[CheckResult]]:
    """The target tables that exist already."""
    found: dict[TableId, TableInfo] = {}

    def look() -> list[CheckFinding]:
        found.update({} if target is None else target.table_infos(_targets(upstreams)))
        return []

    failed = _guarded(look, target)
    return found, [CheckResult("target tables", "read the target's tables", failed)] if failed else []


def _followed_ghosts(
    target: InspectedServer | None, subtasks: Sequence[SubTaskConfig]
) -> tuple[dict[str, frozenset[TableId]], list[CheckResult]]:
    """By source: the ghost tables that the task's meta tables list."""
    found: dict[str, frozenset[TableId]] = {}

    def look() -> list[CheckFinding]:
        if target is None:
            return []
        for one in subtasks:
            found[one.source_id] = ghost_tables(target.conn, one.meta_schema, one.name, one.source_id)
        return []

    failed = _guarded(look, target)
    return found, [CheckResult("online ddl", "read the task's online changes", failed)] if failed else []


def _open_target(task: TaskConfig, stack: contextlib.ExitStack) -> tuple[InspectedServer | None, list[CheckResult]]:
    try:
        target = InspectedServer(task.target, "downstream")
    except DMError as exc:
        return None, [_unreachable("target database", exc)]
    stack.callback(target.close)
    return target, []


def _unreachable(what: str, error: DMError) -> CheckResult:
    return CheckResult("connection check", f"check whether the {what} can be reached", (from_error(error),))


def _check_sources(
    subtasks: Sequence[SubTaskConfig],
    names: Mapping[str, InstanceNames],
    ghosts: Mapping[str, frozenset[TableId]],
    *,
    target_there: bool,
) -> list[tuple[InspectedUpstream | None, list[CheckResult]]]:
    """Checks the sources in parallel; ``ghosts`` as :func:`_followed_ghosts` returns them."""

    def check(subtask: SubTaskConfig) -> tuple[InspectedUpstream | None, list[CheckResult]]:
        source = subtask.source_id
        return _check_source(subtask, names[source], target_there, ghosts.get(source, frozenset()))

    with ThreadPoolExecutor(min(len(subtasks), _MOST_SOURCES_AT_ONCE), "precheck") as pool:
        return list(pool.map(check, subtasks))


def _check_source(
    subtask: SubTaskConfig, names: InstanceNames, target_there: bool, ghosts: frozenset[TableId]
) -> tuple[InspectedUpstream | None, list[CheckResult]]:
    """All checks of one source. Its connection stays open for the checks over several sources."""
    try:
        upstream = InspectedUpstream(subtask, names)
    except DMError as exc:
        return None, [_unreachable(f"upstream of {subtask.source_id}", exc)]
    upstream.followed_ghosts = ghosts
    results = [
        _result(upstream, check.name, check.desc, functools.partial(check.run, upstream))
        for check in _UPSTREAM_CHECKS
        if check.item not in subtask.ignore_checking_items and subtask.task_mode in check.modes
    ]
    routes = _result(
        upstream,
        "table route check",
        "check whether each table has one target",
        lambda: rule_checks.check_routes(upstream),
    )
    results.append(routes)
    if routes.findings:
        # Without target names no table can be compared: one error, instead of the same one from every check.
        upstream.close()
        return None, results
    return upstream, [*results, *_check_tables(upstream, target_there)]


def _check_tables(upstream: InspectedUpstream, target_there: bool) -> Iterator[CheckResult]:
    """The checks of one source's tables, compared with their targets if the target can be reached."""
    ignored = upstream.subtask.ignore_checking_items
    if "table_schema" not in ignored:
        yield _result(
            upstream,
            "table structure compatibility check",
            "check compatibility of table structure",
            lambda: _table_schema(upstream, target_there),
        )
    if "rules" not in ignored:
        yield _result(
            upstream,
            "rule check",
            "check what column mappings, extracts and expression filters do to the tables",
            lambda: _rules(upstream, target_there),
        )
    if IGNORE not in ignored and target_there and upstream.subtask.task_mode in _SYNC:
        yield _result(
            upstream,
            "foreign key check",
            "check whether the target can repeat the actions of the upstream's foreign keys",
            lambda: _foreign_keys(upstream),
        )


def _result(server: InspectedServer, name: str, desc: str, run: Callable[[], list[CheckFinding]]) -> CheckResult:
    return CheckResult(name, desc, _guarded(run, server), server.address)


def _foreign_keys(upstream: InspectedUpstream) -> list[CheckFinding]:
    with contextlib.closing(InspectedServer(upstream.subtask.to, "downstream")) as target:
        return foreign_key_checks.check_foreign_keys(upstream, target)


def _table_schema(upstream: InspectedUpstream, target_there: bool) -> list[CheckFinding]:
    if not target_there:
        return table_checks.check_table_schema(upstream, None)
    # A separate connection: the sources are checked in parallel.
    with contextlib.closing(InspectedServer(upstream.subtask.to, "downstream")) as target:
        return table_checks.check_table_schema(upstream, target)


def _rules(upstream: InspectedUpstream, target_there: bool) -> list[CheckFinding]:
    if not target_there:
        return rule_checks.check_rules(upstream, certain=False)
    with contextlib.closing(InspectedServer(upstream.subtask.to, "downstream")) as target:
        return rule_checks.check_rules(upstream, certain=upstream.starts_now(target))


def _check_target(
    target: InspectedServer, task: TaskConfig, subtasks: Sequence[SubTaskConfig], upstreams: Sequence[InspectedUpstream]
) -> Iterator[CheckResult]:
    ignored = task.ignore_checking_items
    if "target_privilege" not in ignored:
        yield _result(
            target,
            "target db privilege checker",
            "check target db privileges",
            lambda: privilege_checks.check_target_privilege(
                target, [task.meta_schema, *(schema for schema, _ in _targets(upstreams))]
            ),
        )
    if IGNORE_ENGINE not in ignored:
        yield _result(
            target,
            "target table engine check",
            "check whether the target's tables can roll back",
            lambda: table_checks.check_engines(target, _targets(upstreams)),
        )
    if "table_schema" not in ignored and task.task_mode in _COPY:
        yield _result(
            target,
            "target structure check",
            "check whether the target takes the tables that the full copy creates",
            lambda: creation_checks.check_creations(task, target, upstreams),
        )
    if "conn_number" not in ignored and task.task_mode in _LOAD:
        yield _result(
            target,
            "loader conn number checker",
            "check if connection concurrency exceeds database's maximum connection limit",
            lambda: privilege_checks.check_load_connections(target, subtasks),
        )


def _check_empty(
    target: InspectedServer, task: TaskConfig, present: Mapping[TableId, TableInfo]
) -> Iterator[CheckResult]:
    if "downstream_table_empty" not in task.ignore_checking_items:
        yield _result(
            target,
            "target table empty check",
            "check whether the target's tables are empty before the full copy",
            lambda: table_checks.check_empty(target, present),
        )


def _takeover(upstream: InspectedUpstream, target: InspectedServer) -> CheckResult:
    return _result(
        target,
        "dm takeover check",
        "check whether the task can continue from what DM left of it",
        lambda: takeover_check.check_takeover(upstream, target),
    )


def _targets(upstreams: Sequence[InspectedUpstream]) -> list[TableId]:
    return sorted({name for upstream in upstreams for name in upstream.routed.values()})


def _check_groups(
    task: TaskConfig, upstreams: Sequence[InspectedUpstream], present: Mapping[TableId, TableInfo], copied: bool
) -> Iterator[CheckResult]:
    """Checks over tables of several sources. They query no server again: the facts of each source are kept."""
    migrated = {upstream.subtask.source_id: upstream.tables for upstream in upstreams}
    proposed = key_checks.proposer(migrated, any(upstream.subtask.case_sensitive for upstream in upstreams))
    rules = {upstream.subtask.source_id: upstream.rules for upstream in upstreams}
    checks: tuple[tuple[str, str, str, Callable[[TablesByTarget], list[CheckFinding]]], ...] = (
        (
            "schema_of_shard_tables",
            "sharding table consistency check",
            "check consistency of sharding table structures",
            lambda groups: [
                *(table_checks.check_shards(groups) if copied else []),
                *(table_checks.check_coordination(groups) if task.task_mode != "full" and not task.shard_mode else []),
            ],
        ),
        (
            "auto_increment_ID",
            "auto-increment key check",
            "check for conflict of auto-increment keys in sharding tables",
            lambda groups: key_checks.check_unique_keys(groups, present, proposed),
        ),
        (
            "rules",
            "partition id check",
            "check whether column mapping keeps sharding tables apart",
            lambda groups: rule_checks.check_collisions(groups, rules),
        ),
        (
            "table_name",
            "target table name check",
            "check whether target tables differ only in case",
            table_checks.check_same_names,
        ),
    )
    groups = functools.cache(lambda: table_checks.by_target(upstreams))
    for item, name, desc, run in checks:
        if item not in task.ignore_checking_items:
            findings = _guarded(lambda run=run: run(groups()), None)  # type: ignore[misc]
            yield CheckResult(name, desc, findings)


def _guarded(run: Callable[[], list[CheckFinding]], server: InspectedServer | None) -> tuple[CheckFinding, ...]:
    """The findings of ``run``. A check that cannot run has failed, with the cause."""
    try:
        return tuple(run())
    except DMError as exc:
        return (from_error(exc),)
    except (pymysql.Error, OSError) as exc:
        return (from_error(classify(exc, scope=server.scope if server else "upstream")),)
