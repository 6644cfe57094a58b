"""Validation, comparison and cutover of a task. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dm_master.console.view.paging import Paged, paged
from dm_master.console.view.progress import FigureView, Health
from pkg.errors import Code
from pkg.pb import dmmaster_pb2 as master
from pkg.pb import dmworker_pb2 as worker
from pkg.status.amounts import in_bytes, numbers_of
from pkg.status.error_text import parsed_error
from pkg.status.operations import allowed_for_difference, allowed_for_differences

TABLES_PER_PAGE = 100
DIFFERENCES_PER_PAGE = 50


@dataclass(frozen=True, slots=True)
class ValidatorView:
    source: str
    stage: str
    mode: str
    position: str
    figures: Sequence[FigureView]
    notes: Sequence[str]


@dataclass(frozen=True, slots=True)
class DifferenceView:
    """A row that the validator found to differ. ``upstream`` and ``target``: its values, '' where the row is missing;
    ``operations``: what its state allows."""

    number: str
    source: str
    table: str
    kind: str
    state: str
    health: Health
    message: str
    upstream: str
    target: str
    operations: Sequence[str]


@dataclass(frozen=True, slots=True)
class ValidationView:
    """``problem``: why nothing is known; ``operations``: what the present stage allows; ``marks``: the operations on
    all rows that differ."""

    problem: str
    validators: Sequence[ValidatorView]
    differences: Paged[DifferenceView]
    operations: Sequence[str]
    marks: Sequence[str]


@dataclass(frozen=True, slots=True)
class ComparedTableView:
    target: str
    state: str
    health: Health
    counts: str
    percent: float | None
    detail: str
    keys: Sequence[str]


@dataclass(frozen=True, slots=True)
class ComparedSourceView:
    source: str
    stage: str
    message: str
    rows: str
    eta: str
    files: Sequence[str]


@dataclass(frozen=True, slots=True)
class ComparisonView:
    verdict: str
    health: Health
    problem: str
    sources: Sequence[ComparedSourceView]
    tables: Paged[ComparedTableView]
    operations: Sequence[str]


@dataclass(frozen=True, slots=True)
class CutoverCheckView:
    name: str
    verdict: str
    health: Health
    evidence: Sequence[str]
    remedy: str


@dataclass(frozen=True, slots=True)
class CutoverView:
    ready: bool
    message: str
    checks: Sequence[CutoverCheckView]


def validation_view(
    status: worker.GetValidationStatusResponse, found: worker.GetValidationErrorResponse, page: int
) -> ValidationView:
    validators = [
        ValidatorView(
            one.source,
            worker.Stage.Name(one.stage),
            one.mode,
            one.validatorBinlog,
            [
                _row_figure("rows compared", one.processedRowsStatus),
                _row_figure("not compared yet", one.pendingRowsStatus),
                _difference_figure(one.errorRowsStatus),
            ],
            [*one.notes, *filter(None, (one.sweepStatus, one.foreignWrites))],
        )
        for one in status.validators
    ]
    running = any(one.stage == worker.Running for one in status.validators)
    stopped = not status.validators or any(one.stage != worker.Running for one in status.validators)
    # Those that nobody has looked at come first.
    shown = paged(sorted(found.error, key=lambda one: one.status != worker.NewErr), page, DIFFERENCES_PER_PAGE)
    return ValidationView(
        problem="" if status.result else _why_unknown(status.msg),
        validators=validators,
        differences=Paged([_difference(one) for one in shown.items], shown.number, shown.pages, shown.total),
        operations=[*(["start-validation"] if stopped else []), *(["stop-validation"] if running else [])],
        marks=allowed_for_differences(found.error),
    )


_MARKED: dict[int, tuple[str, Health]] = {
    worker.NewErr: ("new", "bad"),
    worker.IgnoredErr: ("ignored", "idle"),
    worker.ResolvedErr: ("resolved", "good"),
}


def _difference(one: worker.ValidationError) -> DifferenceView:
    state, health = _MARKED.get(one.status, ("unknown", "warn"))
    return DifferenceView(
        number=one.id,
        source=one.source,
        table=one.dstTable,
        kind=one.errorType,
        state=state,
        health=health,
        message=one.message,
        upstream=one.srcData,
        target=one.dstData,
        operations=allowed_for_difference(one),
    )


def _row_figure(name: str, counts: str) -> FigureView:
    return FigureView(name, f"{sum(numbers_of(counts).values()):,}", _breakdown(counts))


def _difference_figure(counts: str) -> FigureView:
    new = numbers_of(counts).get("new", 0)
    return FigureView("differ", f"{new:,}", _breakdown(counts), "bad" if new else "good")


def _breakdown(counts: str) -> str:
    return ", ".join(f"{number:,} {name}" for name, number in numbers_of(counts).items())


def _why_unknown(message: str) -> str:
    """A task without a validator is no error here."""
    codes = {int(code) for code in re.findall(r"\[code=(\d+):", message)}
    return "No validator runs." if codes == {Code.ValidatorNotFound.code} else message


_VERDICTS: dict[str, Health] = {"equal": "good", "running": "idle", "different": "bad", "": "idle"}
_STATES: dict[str, Health] = {"equal": "good", "pending": "idle", "comparing": "idle", "different": "bad"}


def comparison_view(answer: master.OperateDiffResponse, page: int) -> ComparisonView:
    tables = [table for source in answer.sources for table in source.tables]
    # Tables that differ come first, then those that could not be compared.
    tables.sort(key=lambda one: (one.state != "different", one.state in _STATES, one.target))
    shown = paged(tables, page, TABLES_PER_PAGE)
    running = answer.verdict == "running"
    known = [one for one in answer.sources if one.stage]
    refusals = dict.fromkeys(_message(one.msg) for one in answer.sources) if not known else {}
    return ComparisonView(
        verdict=answer.verdict if known else "",
        health=_VERDICTS.get(answer.verdict, "warn") if known else "idle",
        problem="; ".join(refusals) or ("" if known else answer.msg),
        sources=[_compared_source(one) for one in answer.sources] if known else [],
        tables=Paged([_compared_table(one) for one in shown.items], shown.number, shown.pages, shown.total),
        operations=["stop-diff"] if running else ["start-diff"],
    )


def _compared_source(one: worker.DiffSourceStatus) -> ComparedSourceView:
    rows = f"{one.rows:,} of about {one.totalRows:,} rows, {in_bytes(one.bytes)}" if one.stage else ""
    files = [path for path in (one.differences, one.repairs) if path]
    return ComparedSourceView(one.source, one.stage or "not compared", _message(one.msg), rows, one.eta, files)


def _message(text: str) -> str:
    """An error's message alone: the page has a button for what to do."""
    return parsed_error(text).message


def _compared_table(one: worker.DiffTableStatus) -> ComparedTableView:
    counts = (
        (one.missing, "missing"),
        (one.extra, "extra"),
        (one.changed, "changed"),
        (one.doubled, "doubled"),
        (one.repaired, "repaired"),
    )
    return ComparedTableView(
        target=one.target,
        state=one.state,
        health=_STATES.get(one.state, "warn"),
        counts=", ".join(f"{number:,} {name}" for number, name in counts if number),
        percent=100 * one.chunksDone / one.chunks if one.chunks else None,
        detail="; ".join(filter(None, (f"{one.rows:,} rows", one.reason, one.how))),
        keys=list(one.firstKeys),
    )


_ANSWERS: dict[str, Health] = {"yes": "good", "no": "bad", "not applicable": "idle"}


def cutover_view(answer: master.CheckCutoverResponse) -> CutoverView:
    checks = [
        CutoverCheckView(
            one.name,
            f"{one.verdict} (accepted)" if one.accepted else one.verdict,
            "idle" if one.accepted else _ANSWERS.get(one.verdict, "warn"),
            list(one.evidence),
            "" if one.accepted else one.remedy,
        )
        for one in answer.checks
    ]
    order: dict[Health, int] = {"bad": 0, "warn": 1}
    return CutoverView(answer.result, answer.msg, sorted(checks, key=lambda one: order.get(one.health, 2)))
