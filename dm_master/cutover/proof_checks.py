"""Checks that the data was compared. Pure."""

from __future__ import annotations

from dm_master.cutover.facts import CutoverFacts, DiffFacts, DiffTableFacts, SubTaskFacts
from dm_master.cutover.verdict import CheckVerdict, Unreadable, bounded
from dm_master.cutover.writer_checks import reaches


def check_diff(facts: CutoverFacts) -> CheckVerdict:
    """The last comparison found each table equal, at the position where its upstreams are now."""
    diff, again = facts.diff, f"dmctl diff start {facts.task}, once the upstreams are read-only"
    if isinstance(diff, Unreadable):
        return CheckVerdict("diff", "unknown", (diff.why,), diff.remedy or again)
    wrong = [f"{one.target}: {one.reason or one.state}" for one in diff.tables if one.state == "different"]
    if wrong:
        remedy = f"dmctl diff start {facts.task} --repair, once dmctl diff status {facts.task} has named the rows"
        return CheckVerdict("diff", "no", bounded(wrong), remedy)
    if diff.verdict != "equal":
        open_ = [f"{one.target}: {one.reason or one.state}" for one in diff.tables if one.state != "equal"]
        return CheckVerdict("diff", "unknown", bounded([f"the comparison is: {diff.verdict}", *open_]), again)
    old = [line for one in diff.tables for line in _older(facts, one)]
    if old:
        return CheckVerdict("diff", "unknown", bounded(old), again)
    when = f", compared from {diff.started} on" if diff.started else ""
    return CheckVerdict("diff", "yes", (f"{len(diff.tables)} tables are equal, at the ends of the upstreams{when}",))


def _older(facts: CutoverFacts, table: DiffTableFacts) -> list[str]:
    """The sources whose binlog has grown since the table was compared."""
    found = []
    for source, location in table.positions.items():
        upstream = facts.upstream(source)
        end = None if upstream is None else upstream.writers.after
        if upstream is None or end is None or not reaches(location, end, upstream.server.info.flavor):
            found.append(f"{table.target}: equal at {location.position} of {source}, whose binlog has grown since")
    return found or ([] if table.positions else [f"{table.target}: equal at a position that is not known"])


def check_validator(facts: CutoverFacts) -> CheckVerdict:
    """The validator of each subtask has compared all rows up to the upstream's end, without an error."""
    found = [_judged(facts, one) for one in facts.subtasks]
    wrong = [line for verdict, line in found if verdict == "no"]
    if wrong:
        return CheckVerdict("validator", "no", bounded(wrong), f"dmctl validation show-error {facts.task}")
    open_ = [line for verdict, line in found if verdict == "unknown"]
    if open_:
        return CheckVerdict("validator", "unknown", bounded(open_), f"dmctl validation start {facts.task}")
    return CheckVerdict("validator", "yes", bounded(line for _, line in found))


def _judged(facts: CutoverFacts, subtask: SubTaskFacts) -> tuple[str, str]:
    validator, upstream = subtask.validator, facts.upstream(subtask.source)
    if validator is None:
        return "unknown", f"{subtask.source}: no validator runs"
    if validator.new_errors:
        return "no", f"{subtask.source}: {validator.new_errors} rows differ"
    end = None if upstream is None else upstream.writers.after
    if validator.stage != "Running":
        return "unknown", f"{subtask.source}: the validator is {validator.stage}"
    if validator.pending:
        return "unknown", f"{subtask.source}: {validator.pending} rows are not compared yet"
    if upstream is None or end is None or not reaches(validator.location, end, upstream.server.info.flavor):
        return "unknown", f"{subtask.source}: compared to {validator.location.position} only"
    return "yes", f"{subtask.source}: no difference up to {validator.location.position}"


def check_collisions(facts: CutoverFacts) -> CheckVerdict:
    """No two shards have rows with one key of their target table: one of them would be lost.

    A comparison that found all tables equal has found each row of each shard.
    """
    seen, name = facts.collisions, "key-collisions"
    if not seen.merges:
        return CheckVerdict(name, "yes", ("no tables merge",))
    if seen.found:
        remedy = "give one shard other keys, or map the column (docs/merge-rules.md), and copy the task again"
        return CheckVerdict(name, "no", bounded(seen.found), remedy)
    if isinstance(facts.diff, DiffFacts) and facts.diff.verdict == "equal":
        return CheckVerdict(name, "yes", ("the comparison found each row of each shard",))
    if seen.undecided:
        return CheckVerdict(
            name, "unknown", bounded(seen.undecided), f"run dmctl diff start {facts.task}: it compares every row"
        )
    return CheckVerdict(name, "yes", (f"{seen.compared} pairs of shards have no key in common",))
