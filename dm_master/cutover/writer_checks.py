"""Checks that no more changes can arrive: no writers, everything applied, no rows held back. Pure."""

from __future__ import annotations

from dm_master.cutover.facts import CutoverFacts, CutoverUpstream, SubTaskFacts
from dm_master.cutover.verdict import CheckVerdict, Unreadable, bounded, problems, unknown
from pkg.binlog.gtid import parse_gtid_set
from pkg.binlog.position import Location

_ON = frozenset({"1", "ON"})


def check_running(facts: CutoverFacts) -> CheckVerdict:
    """Every subtask replicates, without an error."""
    found = [f"{one.source}: {why}" for one in facts.subtasks if (why := _not_running(one))]
    remedy = f"dmctl query-status {facts.task}; fix what it shows, then dmctl resume-task {facts.task}"
    return problems("replication", found, remedy, otherwise=f"{len(facts.subtasks)} subtasks run in unit Sync")


def _not_running(subtask: SubTaskFacts) -> str:
    if subtask.problem:
        return subtask.problem
    if subtask.errors:
        return f"{subtask.stage}: {subtask.errors[0]}"
    if subtask.unit != "Sync" or subtask.stage != "Running":
        return f"is {subtask.stage} in unit {subtask.unit}"
    return ""


def check_read_only(facts: CutoverFacts) -> CheckVerdict:
    """The upstreams refuse all writes."""
    found = [f"{one.server.label}: {why}" for one in facts.upstreams if (why := _writable(one))]
    words = {f"on {one.server.label}: {_close(one)}" for one in facts.upstreams if _writable(one)}
    return problems("read-only", found, "; ".join(sorted(words)), otherwise="all upstreams are read-only")


def _writable(upstream: CutoverUpstream) -> str:
    variables = upstream.server.variables
    value = variables.get("read_only", "").upper()
    if value not in ("", "0", "OFF"):
        # MySQL lets accounts with SUPER write while only read_only is on; MariaDB those with READ ONLY ADMIN.
        if variables.get("super_read_only", "ON").upper() in _ON:
            return ""
        return "read_only is ON, but accounts with SUPER can still write (super_read_only is OFF)"
    return "read_only is OFF"


def _close(upstream: CutoverUpstream) -> str:
    name = "super_read_only" if "super_read_only" in upstream.server.variables else "read_only"
    return f"SET GLOBAL {name} = 1"


def check_transactions(facts: CutoverFacts) -> CheckVerdict:
    """No transaction that changed rows is open, or prepared by XA."""
    kinds = [
        (one.server.label, words, fact)
        for one in facts.upstreams
        for words, fact in (("open", one.writers.transactions), ("prepared by XA", one.writers.prepared))
    ]
    found = [
        f"{label}: {words}: {each}" for label, words, fact in kinds if not isinstance(fact, Unreadable) for each in fact
    ]
    if not found and any(isinstance(fact, Unreadable) for _, _, fact in kinds):
        return unknown("transactions", [(label, fact) for label, _, fact in kinds if isinstance(fact, Unreadable)])
    remedy = (
        "wait for these sessions, or KILL their connections; XA COMMIT or XA ROLLBACK what is prepared, by the names "
        "that are shown"
    )
    return problems("transactions", found, remedy, otherwise="no transaction with changes is open or prepared")


def check_quiet(facts: CutoverFacts) -> CheckVerdict:
    """The binlogs of the upstreams do not grow."""
    found, quiet = [], []
    for one in facts.upstreams:
        writers, label = one.writers, one.server.label
        if writers.before is None or writers.after is None:
            found.append(f"{label}: writes no binlog")
        elif writers.before != writers.after:
            found.append(f"{label}: from {_shown(writers.before)} to {_shown(writers.after)} in {writers.seconds:g} s")
        else:
            quiet.append(f"{label}: {_shown(writers.after)} for {writers.seconds:g} s")
    if found:
        return CheckVerdict("quiet", "no", bounded(found), "stop what still writes to the upstreams (SHOW PROCESSLIST)")
    return CheckVerdict("quiet", "yes", bounded(quiet))


def check_applied(facts: CutoverFacts) -> CheckVerdict:
    """Each subtask has applied its upstream's binlog to the end."""
    behind, there = [], []
    for subtask in facts.subtasks:
        upstream = facts.upstream(subtask.source)
        end = None if upstream is None else upstream.writers.after
        flavor = "" if upstream is None else upstream.server.info.flavor
        if subtask.applied is None or end is None:
            behind.append(f"{subtask.source}: the applied position is not known")
        elif not reaches(subtask.applied, end, flavor):
            behind.append(f"{subtask.source}: applied to {_shown(subtask.applied)}, the upstream is at {_shown(end)}")
        else:
            there.append(f"{subtask.source}: {_shown(subtask.applied)}")
    if behind:
        remedy = f"wait, and see lagReason in dmctl query-status {facts.task}"
        return CheckVerdict("applied", "no", bounded(behind), remedy)
    return CheckVerdict("applied", "yes", bounded(there))


def reaches(applied: Location, end: Location, flavor: str) -> bool:
    """Whether all that the upstream had at ``end`` is applied: by GTID sets where both have one, else by position."""
    if applied.gtid_set and end.gtid_set:
        mine = parse_gtid_set(applied.gtid_set, flavor)
        return mine.contains(parse_gtid_set(end.gtid_set, flavor))  # type: ignore[arg-type]
    return end.of_upstream().position <= applied.of_upstream().position


def check_sharding(facts: CutoverFacts) -> CheckVerdict:
    """No DDL of merged shards waits, and no rows are held back for one."""
    found = [f"{one.source}: waits with {ddl}" for one in facts.subtasks for ddl in one.blocking]
    found += [f"{one.source}: holds back rows of {group}" for one in facts.subtasks for group in one.held]
    if isinstance(facts.locks, Unreadable):
        if not found:
            return unknown("shard-ddl", [("locks", facts.locks)])
    else:
        found += [f"lock {lock}" for lock in facts.locks]
    remedy = f"dmctl shard-ddl-lock {facts.task} shows who waits for whom"
    return problems("shard-ddl", found, remedy, otherwise="no lock, no waiting DDL, no rows held back")


def _shown(location: Location) -> str:
    return f"{location.position} ({location.gtid_set})" if location.gtid_set else str(location.position)
