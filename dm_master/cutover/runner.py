"""Reads the facts of a task's servers and runs all cutover checks on them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import pymysql

from dm_master.cutover import account_checks, object_checks, proof_checks, server_checks, table_checks, writer_checks
from dm_master.cutover.facts import (
    CollisionFacts,
    CutoverFacts,
    CutoverTarget,
    CutoverUpstream,
    DiffFacts,
    SubTaskFacts,
)
from dm_master.cutover.key_probe import read_collisions
from dm_master.cutover.reading import binlog_end, target_facts, upstream_facts
from dm_master.cutover.verdict import CheckVerdict, Unreadable
from dm_master.inspection.inspected_server import InspectedServer
from dm_master.rules.inspected_upstream import InspectedUpstream
from pkg.binlog.position import Location
from pkg.config.model import SubTaskConfig
from pkg.config.rule_names import numbered_names
from pkg.mysql.connection import classify

#: By name, in the order of the answer: conditions to wait for, then proofs, then objects that a migration does not
#: copy.
CHECKS: dict[str, Callable[[CutoverFacts], CheckVerdict]] = {
    "replication": writer_checks.check_running,
    "shard-ddl": writer_checks.check_sharding,
    "read-only": writer_checks.check_read_only,
    "transactions": writer_checks.check_transactions,
    "quiet": writer_checks.check_quiet,
    "applied": writer_checks.check_applied,
    "diff": proof_checks.check_diff,
    "validator": proof_checks.check_validator,
    "key-collisions": proof_checks.check_collisions,
    "tables": table_checks.check_tables,
    "auto-increment": table_checks.check_counters,
    "indexes": table_checks.check_indexes,
    "foreign-keys": table_checks.check_foreign_keys,
    "checks": table_checks.check_constraints,
    "partitions": table_checks.check_partitions,
    "objects": object_checks.check_objects,
    "users": account_checks.check_users,
    "settings": server_checks.check_settings,
    "way-back": server_checks.check_way_back,
}
_MOST_SOURCES_AT_ONCE = 16

#: Asks the workers for their subtasks, after the ends of the upstreams' binlogs were read.
AskSubTasks = Callable[[], Sequence[SubTaskFacts]]
#: :func:`read_facts`.
ReadFacts = Callable[
    [str, Mapping[str, SubTaskConfig], float, AskSubTasks, tuple[str, ...] | Unreadable, DiffFacts | Unreadable],
    CutoverFacts,
]


def run_checks(facts: CutoverFacts) -> list[CheckVerdict]:
    return [check(facts) for check in CHECKS.values()]


def unknown_checks(accepted: Sequence[str]) -> str:
    """Why these names of checks are invalid; '' if all are valid."""
    strange = sorted(set(accepted) - CHECKS.keys())
    return f"there is no check {', '.join(strange)}; the checks are {', '.join(CHECKS)}" if strange else ""


def read_facts(
    task: str,
    subtasks: Mapping[str, SubTaskConfig],
    seconds: float,
    ask_subtasks: AskSubTasks,
    locks: tuple[str, ...] | Unreadable,
    diff: DiffFacts | Unreadable,
) -> CutoverFacts:
    """Reads all servers; the upstreams' binlogs are looked at twice, ``seconds`` apart.

    Raises 26002 for a server that cannot be reached, and the classified error of a failed query.
    """
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(_MOST_SOURCES_AT_ONCE, "cutover") as pool:

        def opened(subtask: SubTaskConfig) -> InspectedUpstream:
            return InspectedUpstream(subtask, numbered_names(subtask))

        upstreams = list(pool.map(opened, subtasks.values()))
        for upstream in upstreams:
            stack.callback(upstream.close)
        target = stack.enter_context(
            contextlib.closing(InspectedServer(next(iter(subtasks.values())).to, "downstream"))
        )
        began = time.monotonic()
        ends = list(pool.map(binlog_end, upstreams))
        tables = sorted({name for upstream in upstreams for name in upstream.routed.values()})
        of_target = _read_target(target, tables)
        collisions = _read_collisions(upstreams, of_target)
        time.sleep(max(0.0, began + seconds - time.monotonic()))
        elapsed = round(time.monotonic() - began, 1)
        found = list(pool.map(_read_upstream, upstreams, ends, [elapsed] * len(ends)))
    return CutoverFacts(task, tuple(found), of_target, tuple(ask_subtasks()), locks, diff, collisions)


def _read_target(target: InspectedServer, tables: Sequence[tuple[str, str]]) -> CutoverTarget:
    try:
        return target_facts(target, tables)
    except pymysql.Error as exc:
        raise classify(exc, scope="downstream") from exc


def _read_upstream(upstream: InspectedUpstream, before: Location | None, seconds: float) -> CutoverUpstream:
    try:
        return upstream_facts(upstream, before, seconds)
    except pymysql.Error as exc:
        raise classify(exc, scope="upstream") from exc


def _read_collisions(upstreams: Sequence[InspectedUpstream], target: CutoverTarget) -> CollisionFacts:
    try:
        return read_collisions(upstreams, target.server.tables.structures)
    except pymysql.Error as exc:
        raise classify(exc, scope="upstream") from exc
