"""Makes a failing history as small as it goes: fewer steps, columns, keys, rows, settings. Pure, but for ``fails``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from tests.fuzz.history import Column, History, Step, Table
from tests.fuzz.tasks.rules import is_ruled

T = TypeVar("T")
#: What is least surprising, by setting.
_PLAIN: Mapping[str, str] = {
    "mode": "incremental", "gtid": "off", "safe": "off", "compact": "default", "multiple": "default", "workers": "16",
    "route": "none", "rule": "none", "event": "none", "target": "same", "server zone": "+00:00",
    "server sql_mode": "default", "row metadata": "default", "relay": "off",
}  # fmt: skip


def shrink(history: History, fails: Callable[[History], bool], most: int = 120) -> History:
    """The smallest history found that still ``fails``, after at most ``most`` tries."""
    return _Shrinker(fails, most).run(history)


class _Shrinker:
    def __init__(self, fails: Callable[[History], bool], most: int) -> None:
        self._fails = fails
        self._left = most
        self._known: set[str] = set()

    def run(self, history: History) -> History:
        best, before = history, None
        while best != before and self._left > 0:
            before = best
            best = self._steps(best)
            for smaller in (_settings, _sessions, _targets, _tables, _parts_of_steps):
                best = self._each(best, smaller)
        return best

    def _holds(self, history: History) -> bool:
        """Whether it still fails; no history is tried twice."""
        key = history.to_json()
        if key in self._known or self._left <= 0:
            return False
        self._known.add(key)
        self._left -= 1
        return self._fails(history)

    def _steps(self, history: History) -> History:
        """Delta debugging: halves first, then smaller and smaller runs of steps."""
        size = max(1, len(history.steps) // 2)
        while size and self._left > 0:
            start = 0
            while start < len(history.steps) and self._left > 0:
                smaller = history.without_steps(_tied(history, range(start, start + size)))
                if self._holds(smaller):
                    history = smaller
                else:
                    start += size
            size //= 2
        return history

    def _each(self, history: History, smaller: Callable[[History], Iterator[History]]) -> History:
        """Takes each step down that still fails, again from the start after one that did."""
        while self._left > 0:
            found = next((one for one in smaller(history) if self._holds(one)), None)
            if found is None:
                return history
            history = found
        return history


def _tied(history: History, chosen: Sequence[int]) -> frozenset[int]:
    """The steps of these numbers, and those that they are tied to."""
    names = {step.tied for step in history.steps[chosen[0] : chosen[-1] + 1]} - {""}
    return frozenset(chosen) | {n for n, step in enumerate(history.steps) if step.tied in names}


def _settings(history: History) -> Iterator[History]:
    for name, plain in _PLAIN.items():
        value = history.settings.get(name, plain)
        if value != plain and not _is_needed(history, name):
            yield replace(
                history, settings={**history.settings, name: plain}, features=_without(history.features, name)
            )


def _is_needed(history: History, name: str) -> bool:
    """Whether the rest of the history makes sense only with this setting."""
    settings, steps = history.settings, history.steps
    match name:
        case "target":
            return bool(history.target)
        case "mode":
            # A target that rules change is prepared without rows.
            return is_ruled(settings) and any(step.phase == "before" for step in steps)
        case "relay":
            return settings.get("event", "").startswith("relay")
        case "event":
            # Some events are prepared for.
            return any(step.do == "event" and step.text == settings.get("event") for step in steps)
    return False


def _without(features: Sequence[str], name: str) -> tuple[str, ...]:
    return tuple(one for one in features if not one.startswith(f"{name}="))


def _sessions(history: History) -> Iterator[History]:
    if len(history.sessions) > 1 and all(step.session == 0 for step in history.steps):
        yield replace(history, sessions=history.sessions[:1])
    for number, session in enumerate(history.sessions):
        for fewer in _less(session):
            yield replace(history, sessions=_with(history.sessions, number, fewer))


def _targets(history: History) -> Iterator[History]:
    for fewer in _less(history.target):
        yield replace(history, target=fewer)


def _tables(history: History) -> Iterator[History]:
    for fewer in _less(history.tables):
        yield replace(history, tables=fewer)
    for number, table in enumerate(history.tables):
        for smaller in _smaller_table(table, keys=not is_ruled(history.settings)):
            yield _renamed_features(replace(history, tables=_with(history.tables, number, smaller)))
    # Rules keep rows apart, and the comparison finds them, by their numbers.
    kept = {"id"} if is_ruled(history.settings) else set[str]()
    names = sorted({column.name for table in history.tables for column in table.columns} - kept)
    for name in names:
        yield _without_column(history, name)


def _renamed_features(history: History) -> History:
    """Without a key the history no longer has its feature, which might make an error right or wrong."""
    keys = " ".join(key for table in history.tables if table.name == "t" for key in table.keys)
    features = history.features
    for word, name in (("PRIMARY KEY", "primary key"), ("KEY `", "further key")):
        if word not in keys and any(one.startswith(f"{name}=") for one in features):
            features = tuple(sorted((*_without(features, name), f"{name}=none")))
    return replace(history, features=features)


def _smaller_table(table: Table, *, keys: bool) -> Iterator[Table]:
    """``keys``: whether those may go, too."""
    if table.options:
        yield replace(table, options="")
    for fewer in _less(table.keys) if keys else ():
        yield replace(table, keys=fewer)


def _without_column(history: History, name: str) -> History:
    """Neither the tables have it, nor do rows give it a value."""
    tables = tuple(replace(table, columns=_but(table.columns, name)) for table in history.tables)
    return replace(history, tables=tables, steps=tuple(_step_without(step, name) for step in history.steps))


def _but(columns: Sequence[Column], name: str) -> tuple[Column, ...]:
    return tuple(column for column in columns if column.name != name)


def _step_without(step: Step, name: str) -> Step:
    rows = tuple({key: value for key, value in row.items() if key != name} for row in step.rows)
    if step.rows and not rows[0]:
        return step
    values = {key: value for key, value in step.values.items() if key != name}
    return replace(step, rows=rows, values=values if values or not step.values else step.values)


def _parts_of_steps(history: History) -> Iterator[History]:
    for number, step in enumerate(history.steps):
        if len(step.rows) > 1:
            for rows in _less(step.rows):
                yield replace(history, steps=_with(history.steps, number, replace(step, rows=rows)))
        if len(step.values) > 1:
            for key in step.values:
                values = {name: value for name, value in step.values.items() if name != key}
                yield replace(history, steps=_with(history.steps, number, replace(step, values=values)))


def _less(items: Sequence[T]) -> Iterator[tuple[T, ...]]:
    """Without one of them."""
    for number in range(len(items)):
        yield (*items[:number], *items[number + 1 :])


def _with(items: Sequence[T], number: int, item: T) -> tuple[T, ...]:
    return (*items[:number], item, *items[number + 1 :])
