"""``python -m tests.fuzz.ingredients``: how many histories of a search have what each hole needs, without servers.

A hole that few of them could show is one that the search finds by luck. The conditions are necessary ones: what the
upstream refuses, and what stops a task before, is not known here.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from tests.fuzz.features import Pair
from tests.fuzz.history import History, Step, Table
from tests.fuzz.holes import EVERY
from tests.fuzz.refusals import STOPPING
from tests.fuzz.runner import Runner
from tests.fuzz.search import Search
from tests.fuzz.verdict import Verdict

Needs = Callable[[History], bool]
_HISTORIES = 1500
_TEMPORARY = re.compile(r"CREATE TEMPORARY TABLE \{s\}\.`t`")
_ANALYZED = re.compile(r"ANALYZE (FORMAT=JSON )?(UPDATE|DELETE)")
#: DDL after which a chunk is of another table than the snapshot's.
_MOVING = frozenset(
    f"statement={kind}"
    for kind in ("rename swap", "exchange partition", "truncate", "drop and create", "alter ignore add unique",
                 "drop partition", "truncate partition", "pt-osc", "gh-ost", "rename table")
)  # fmt: skip
_REWRITING = frozenset(
    f"statement={kind}"
    for kind in ("replace", "on duplicate key", "restore value", "delete and insert", "update same")
)  # fmt: skip


def _live(history: History) -> list[Step]:
    return [step for step in history.steps if step.phase == "live"]


def _live_tags(history: History) -> frozenset[str]:
    return frozenset(tag for step in _live(history) for tag in step.tags)


def _in_statements(history: History, words: re.Pattern[str]) -> bool:
    """Whether a session whose binlog has statements executes such a one, before it would stop the task."""
    logged = [any("binlog_format = " in setting for setting in session) for session in history.sessions]
    for step in _live(history):
        if step.do == "event" or not logged[min(step.session, len(logged) - 1)]:
            continue
        if words.match(step.sql()):
            return True
        if step.do in ("insert", "update"):
            return False
    return False


def _exchanged(history: History) -> list[list[str]]:
    """The values of each three updates by which two rows exchange them, where several writers may reorder these."""
    if "UNIQUE KEY" not in _keys(history) or history.settings["workers"] != "16":
        return []
    steps, found = _live(history), []
    for three in zip(steps, steps[1:], steps[2:], strict=False):
        columns = {tuple(step.values) for step in three}
        rows = [step.text for step in three]
        if len(columns) == 1 == len(columns.pop()) and rows[0] == rows[2] != rows[1]:
            found.append([value for step in three for value in step.values.values()])
    return found


def _is_zoned(history: History) -> bool:
    zone = history.settings["server zone"] != "+00:00" or any("time_zone" in one for one in _settings(history))
    return zone and "attribute=stored with zone" in history.features


def _settings(history: History) -> list[str]:
    return [setting for session in history.sessions for setting in session]


def _keys(history: History) -> str:
    return " ".join(key for table in history.tables if table.name == "t" for key in table.keys)


def _on_update_in_key(history: History) -> bool:
    """Whether rows are written again, in upserts of several rows, where the target sets a part of the primary key: in
    safe mode, or each in a statement of its own, they are written in another way."""
    settings, features = history.settings, history.features
    keyed = any(f"primary key={way}" in features for way in ("value", "id and value"))
    updated = "attribute=on update" in features or "target=on update" in features
    upserts = (settings["safe"], settings["compact"], settings["multiple"]) == ("off", "default", "default")
    return keyed and updated and upserts and not _REWRITING.isdisjoint(_live_tags(history))


def _to_column(history: History, column: str, wanted: Callable[[str], bool]) -> bool:
    """Whether a live row or update gives the column a value that is wanted."""
    steps = _live(history)
    given = [row[column] for step in steps for row in step.rows if column in row]
    given += [step.values[column] for step in steps if column in step.values]
    return any(map(wanted, given))


def _filled(history: History) -> bool:
    filled = (re.search(r"`([cx])` TIMESTAMP.* NOT NULL", text) for text in history.target)
    return any(found and _to_column(history, found[1], lambda literal: literal == "NULL") for found in filled)


def _narrower(history: History) -> bool:
    there = "target=narrow" in history.features and bool(history.target)
    return there and _to_column(history, "c", lambda literal: literal != "NULL")


def _incomparable(history: History) -> bool:
    """Whether rows exchange values, or take them from rows that are marked as deleted, and part of each further key can
    be compared, but not all of it: a table whose key has no such part has one writer, and rows with the primary key in
    another one do not collide by that."""
    table = next(one for one in history.tables if one.name == "t")
    hidden = {one.name for one in table.columns if re.search("czech|danish|uca1400|0900|AS \\(", one.sql())}
    if "PRIMARY KEY" not in _keys(history):
        return False
    keys = [set(re.findall(r"`(\w+)`", key)[1:]) for key in _further(table)]
    marks = [step for step in _live(history) if step.values.get("d") == "NOW()"]
    moved = bool(_exchanged(history)) or (len(marks) > 1 and history.settings["workers"] == "16")
    return moved and any(key & hidden for key in keys) and all(key - hidden for key in keys)


def _respelled(history: History) -> bool:
    """Whether two rows exchange values, both in other bytes than they had first, by a collation for which these are the
    same and can be compared."""
    table = next(one for one in history.tables if one.name == "t")
    column = next(one for one in table.columns if one.name == "c")
    if re.search("_bin|czech|danish|AS \\(", column.sql()) or not any("`c`" in key for key in _further(table)):
        return False
    rows = [row for step in history.steps for row in step.rows if step.table == "t" and "c" in row]
    first = {row["c"] for row in rows[:2]}
    return any(first.isdisjoint(values[1:]) for values in _exchanged(history))


def _further(table: Table) -> list[str]:
    """The unique keys by which rows with different primary keys collide."""
    return [key for key in table.keys if key.startswith("UNIQUE KEY") and "`id`" not in key and "OVERLAPS" not in key]


def _numbered(history: History) -> bool:
    return "statement=add auto increment" in _live_tags(history) and "PRIMARY KEY" in _keys(history)


def _listed_otherwise(history: History) -> bool:
    types = [column.type for table in history.tables for column in table.columns if column.name == "c"]
    mapped = history.settings.get("mapping") == "prefix" and not any("utf8mb4" in kind for kind in types)
    together = re.search(r"PRIMARY KEY \((`id`, `c`|`c`, `id`)\)", _keys(history)) is not None
    return (history.translates or mapped) and together


def _out_of_order(history: History) -> bool:
    wanted = "statement=alter ignore add unique" in _live_tags(history)
    rows = [step for step in history.steps if any(row.get("n") == "77" for row in step.rows)]
    return wanted and len(rows) > 1 and len({step.session for step in rows}) > 1


NEEDS: Mapping[str, Needs] = {
    "reset under the same names": lambda h: h.settings["event"] == "reset",
    "temporary tables": lambda h: _in_statements(h, _TEMPORARY),
    "DDL while a dump runs": lambda h: any(
        step.phase in ("snapshot", "chunk") and not _MOVING.isdisjoint(step.tags) for step in h.steps
    ),
    "ANALYZE UPDATE": lambda h: _in_statements(h, _ANALYZED),
    "ALTER IGNORE": _out_of_order,
    "filter *": lambda h: h.settings["rule"] == "drop database",
    "WITHOUT OVERLAPS": lambda h: "WITHOUT OVERLAPS" in _keys(h),
    "generated by zone": _is_zoned,
    "ON UPDATE in the key": _on_update_in_key,
    "target fills NULL in": _filled,
    "narrower target": _narrower,
    "incomparable unique part": _incomparable,
    "numbers of a keyed table": _numbered,
    "lists of keys in another charset": _listed_otherwise,
    "a begun batch is taken for done": lambda h: h.settings["event"] == "kill",
    "keys of text are compared by bytes": _respelled,
    "only the first table of a DDL is routed": lambda h: h.settings["route"] != "none",
}


class _NoServers:
    """In place of a runner: as if each task came to the end, or stopped for what nearly always stops it."""

    versions = ()

    def __init__(self) -> None:
        self.found: Counter[str] = Counter()

    def run(self, group: Sequence[History]) -> list[Verdict]:
        self.found.update(name for history in group for name, needs in NEEDS.items() if needs(history))
        stopping = [not STOPPING.isdisjoint(history.planned) for history in group]
        return [
            Verdict("refused" if stops else "equal", frozenset() if stops else history.planned)
            for history, stops in zip(group, stopping, strict=True)
        ]


def counted(pair: Pair, seed: int, histories: int) -> Counter[str]:
    """In how many of so many histories of a search each hole could show."""
    none = _NoServers()
    search = Search(cast(Runner, none), pair, seed)
    search.run(float("inf"), lambda _: None, enough=lambda tally: tally.histories >= histories)
    return none.found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.ingredients")
    parser.add_argument("--pair", type=Pair.parse, default=Pair.parse("mariadb"))
    parser.add_argument("--seed", type=int, default=1_000_000)
    parser.add_argument("--histories", type=int, default=_HISTORIES)
    options = parser.parse_args()
    found = counted(options.pair, options.seed, options.histories)
    print(f"| hole | histories of {options.histories} |\n|---|---|")
    for name in EVERY:
        print(f"| {name} | {found[name]} |")


if __name__ == "__main__":
    main()
