"""Checks that the data was compared. Pure."""

from __future__ import annotations

from dm_master.cutover.facts import CutoverFacts, SubTaskFacts
from dm_master.cutover.verdict import CheckVerdict, bounded
from dm_master.cutover.writer_checks import reaches


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
