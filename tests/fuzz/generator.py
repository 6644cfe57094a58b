"""A seed becomes a history. Everything comes from one ``random.Random``, so that a seed is a history for ever. Pure."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tests.fuzz.features import LOGGED_AS_STATEMENTS, PARAMETERS, Pair, apart, exclusions, feature, fits, lacking
from tests.fuzz.history import PHASES, History, Phase, Step
from tests.fuzz.made_tables import MadeTable, make_table
from tests.fuzz.refusals import STOPPING
from tests.fuzz.tasks.rules import is_ruled, shards_of, shift_of, with_rules
from tests.fuzz.tasks.shards import ShardStatements
from tests.fuzz.values import SPELLED

#: Histories with neighbouring seeds share task and server settings, so that one task can run them side by side.
GROUP = 8
#: Values that come more often than the others, by their share.
_USUAL: Mapping[str, tuple[str, float]] = {
    "safe": ("off", 0.75),
    "compact": ("default", 0.8),
    "multiple": ("default", 0.8),
    "workers": ("16", 0.75),
    "route": ("none", 0.6),
    "rule": ("none", 0.92),
    "event": ("none", 0.4),
    "target": ("same", 0.35),
    "server sql_mode": ("default", 0.6),
    "server zone": ("+00:00", 0.4),
    "row metadata": ("default", 0.7),
    "binlog_format": ("ROW", 0.9),
    "row image": ("FULL", 0.95),
    "session zone": ("default", 0.5),
    "session sql_mode": ("default", 0.6),
    "connection": ("utf8mb4", 0.7),
    "increment": ("1", 0.7),
    "foreign checks": ("1", 0.7),
    "unique checks": ("1", 0.7),
    "transaction": ("autocommit", 0.4),
    "attribute": ("none", 0.2),
    "partition": ("none", 0.7),
    "foreign key": ("none", 0.75),
    "further key": ("none", 0.2),
    "relay": ("off", 0.7),
    "merge": ("none", 0.86),
    "mapping": ("none", 0.88),
    "extract": ("none", 0.92),
    "row filter": ("none", 0.88),
}
#: Values of which one comes so often. These types have the most that depends on something else: collations, time zones,
#: ON UPDATE, generated columns, types of a target that hold less.
_COMMON: Mapping[str, tuple[Sequence[str], float]] = {
    "mode": (("all", "incremental"), 0.75),
    "type": (("char", "varchar", "timestamp", "timestamp(3)", "datetime", "decimal", "int"), 0.4),
}
#: How often a text or a computed column is part of a unique key of such a form, and a time that ON UPDATE sets of the
#: primary key.
_KEYED_SHARE = 0.6
#: How often ON UPDATE sets a time.
_UPDATED_SHARE = 0.25
_COMPUTED = ("stored", "virtual", "stored with zone", "virtual with zone")
#: The parameters of the task and its servers.
TASK = ("mode", "gtid", "safe", "compact", "multiple", "workers", "route", "rule", "event", "server zone",
        "server sql_mode", "row metadata", "merge", "mapping", "extract", "row filter", "relay")  # fmt: skip
_SESSION = ("session zone", "session sql_mode", "binlog_format", "row image", "connection", "increment",
            "foreign checks", "unique checks")  # fmt: skip
_TABLE = ("type", "collation", "attribute", "primary key", "further key", "partition", "foreign key", "target")


def usable(pair: Pair, name: str, chosen: Mapping[str, str]) -> list[str]:
    """The values of a parameter that go together with what is chosen."""
    taken = frozenset(feature(other, value) for other, value in chosen.items())
    values = PARAMETERS[name].of(pair)
    return [value for value in values if taken.isdisjoint(lacking(pair, feature(name, value)))]


@dataclass(frozen=True)
class Choice:
    """Draws the values of parameters, of those that go together. Features in ``focus`` come whenever they can."""

    pair: Pair
    rng: random.Random
    focus: Collection[str] = ()

    def draw(self, name: str, chosen: Mapping[str, str]) -> str:
        values = usable(self.pair, name, chosen)
        # What leaves room for the rest of the focus.
        later = frozenset(one for one in self.focus if one.split("=", 1)[0] not in chosen)
        values = [one for one in values if later.isdisjoint(apart(self.pair, feature(name, one)))] or values
        wanted = [value for value in values if feature(name, value) in self.focus]
        if wanted:
            return self.rng.choice(wanted)
        often, share = self._telling(name, chosen) or _COMMON.get(name, ((), 0.0))
        common = [value for value in often if value in values]
        if common and self.rng.random() < share:
            return self.rng.choice(common)
        usual, share = _USUAL.get(name, ("", 0.0))
        if usual in values and self.rng.random() < share:
            return usual
        return self.rng.choice(values)

    @staticmethod
    def _telling(name: str, chosen: Mapping[str, str]) -> tuple[Sequence[str], float] | None:
        """Values that show most about what is chosen, and how often one of them comes."""
        updated = chosen.get("attribute") == "on update"
        match name:
            case "attribute" if fits("on update", chosen["type"]):
                return ("on update",), _UPDATED_SHARE
            case "primary key" if updated:
                return ("value", "id and value"), _KEYED_SHARE
            case "further key" if updated:
                # With another unique key, rows are often written whole, not updated.
                return ("none", "index"), _KEYED_SHARE
            # Only a key shows whether values that are equal without equal bytes, or that the server computes, are
            # compared as the server does.
            case "further key" if chosen["attribute"] in _COMPUTED:
                return ("unique pair", "two unique", "soft delete"), _KEYED_SHARE
            case "further key" if chosen["type"] in SPELLED:
                return ("unique", "unique pair", "unique prefix"), _KEYED_SHARE
        return None

    def all_of(self, names: Sequence[str], chosen: Mapping[str, str]) -> dict[str, str]:
        made = dict(chosen)
        for name in names:
            made[name] = self.draw(name, made)
        return {name: made[name] for name in names}


def settings_of(seed: int, pair: Pair, focus: Collection[str] = ()) -> dict[str, str]:
    """The settings of the task and its servers, which all histories of a group share."""
    rng = random.Random(f"{pair} group {seed // GROUP}")
    return Choice(pair, rng, _with_rooms(focus)).all_of(TASK, {})


def _with_rooms(focus: Collection[str]) -> Collection[str]:
    """The focus, with the mode that it needs: a dump has moments, an incremental task has a target of another form."""
    if any(one.startswith("mode=") for one in focus):
        return focus
    if any(one.startswith("moment=") and one != "moment=live" for one in focus):
        return [*focus, "mode=all"]
    return [*focus, "mode=incremental"] if any(one.startswith("target=") for one in focus) else focus


def generate(seed: int, pair: Pair, focus: Collection[str] = ()) -> History:
    """The history of a seed; with a ``focus`` of features that it has wherever they go together, another one."""
    rng = random.Random(f"{pair} {seed}")
    settings = settings_of(seed, pair, focus)
    choice = Choice(pair, rng, focus)
    table = choice.all_of(_TABLE, settings)
    made = make_table(rng, pair, table, settings["event"] == "reset")
    sessions = _sessions(choice, settings)
    steps, target = _steps(choice, settings, table, made, sessions), made.target
    tables = with_rules(made.tables, settings)
    features = [feature(name, value) for name, value in {**settings, **table}.items()]
    features += [feature(name, value) for session in sessions for name, value in session.items()]
    return History(
        seed=seed,
        pair=str(pair),
        settings=settings,
        tables=tables,
        sessions=tuple(session_sql(one, pair) for one in sessions),
        steps=tuple(steps),
        target=target,
        features=tuple(sorted(set(features))),
        focus=tuple(sorted(focus)),
    )


def _sessions(choice: Choice, settings: Mapping[str, str]) -> list[dict[str, str]]:
    """What each session sets. What stops a task is asked of the last one only: the others show the rest."""
    rng = choice.rng
    stopping = STOPPING.intersection(choice.focus)
    plain = Choice(choice.pair, rng, frozenset(choice.focus) - stopping)
    if any(one.split("=", 1)[0] in _SESSION for one in stopping):
        return [one.all_of(_SESSION, settings) for one in (plain, choice)]
    return [choice.all_of(_SESSION, settings) for _ in range(rng.choice((1, 2, 2)))]


def _shows_rows(session: Mapping[str, str]) -> bool:
    """Whether the binlog has whole rows of what the session writes."""
    return session["binlog_format"] == "ROW" and session["row image"] == "FULL"


def _steps(
    choice: Choice,
    settings: Mapping[str, str],
    table: Mapping[str, str],
    made: MadeTable,
    sessions: Sequence[Mapping[str, str]],
) -> list[Step]:
    rng, pair = choice.rng, choice.pair
    statements = ShardStatements(rng, pair, made, shards_of(settings), shift_of(settings), len(sessions))
    live = settings["mode"] == "incremental"
    # Rows that a target's other types have changed before the task tell nothing of the task.
    # Nor do literals that two kinds of servers read as different values.
    # Nor do rows that the task's rules would have changed.
    altered = table["target"] in ("narrow", "not null", "on update") or len(set(pair.families.split(" to "))) > 1
    altered = altered or is_ruled(settings)
    steps: list[Step] = list(statements.first_rows("live" if live and (altered or rng.random() < 0.5) else "before"))
    values = usable(pair, "statement", {**settings, **table})
    wanted = [value for value in values if feature("statement", value) in choice.focus]
    kinds = _Kinds(rng, values, wanted, settings["rule"], _telling(table, made))
    phases = _phases(choice, settings)
    # The last of them take what is left.
    phases += phases[-1:] * (len(kinds.left) - len(phases))
    possible = usable(pair, "transaction", settings)
    ways = [way for way in _WAYS if way in possible]
    ways = [way for way in ways if feature("transaction", way) in choice.focus] or ways
    # What comes before an error is seen only where it is compared before.
    often = 0.15 if all(map(_shows_rows, sessions)) else 0.4
    steps_of_phase: list[Step] = []
    opening = kinds.opening() if "live" in phases else []
    for number, phase in enumerate(phases):
        if opening and phase == "live":
            steps_of_phase += _opening(statements, opening, sessions, rng, ways, steps)
            opening = []
        session = rng.randrange(len(sessions))
        rows = _shows_rows(sessions[session])
        kind = kinds.next(phase, len(phases) - number, rows=rows)
        steps_of_phase += statements.make(kind, phase, session, rng.choice(ways))
        if rng.random() < often and phase == "live":
            steps_of_phase.append(Step("event", "wait"))
    for number, one in enumerate(sessions):
        if not _shows_rows(one):
            # The task stops there, so this comes last, and what was before it is compared first.
            steps_of_phase += [Step("event", "wait")] if phases[-1] == "live" else []
            steps_of_phase += statements.make(kinds.last(), phases[-1], number, rng.choice(ways))
    steps += [*steps_of_phase, *statements.rest()]
    if settings["event"] == "reset":
        first = next((number for number, step in enumerate(steps) if step.phase == "live"), len(steps))
        steps[first:first] = statements.around_reset()
    elif settings["event"] != "none":
        steps.insert(_middle(rng, steps), Step("event", settings["event"]))
    if settings["rule"] in ("drop database", "drop table"):
        steps += statements.make(settings["rule"], "live", 0, "autocommit")
    return steps


def _opening(
    statements: ShardStatements,
    kinds: Sequence[str],
    sessions: Sequence[Mapping[str, str]],
    rng: random.Random,
    ways: Sequence[str],
    before: Sequence[Step],
) -> list[Step]:
    """Statements of these kinds before all others of the replication, which change what the first rows were given, so
    that values no longer meet."""
    shown = [number for number, one in enumerate(sessions) if _shows_rows(one)]
    if not shown:
        return []
    committed = [way for way in ways if way not in _UNDOING] or list(ways)
    if "begin" in committed and rng.random() < _WHOLE_SHARE:
        committed = ["begin"]
    made = [step for kind in kinds for step in statements.make(kind, "live", rng.choice(shown), rng.choice(committed))]
    # Rows that are written in the same batch have no order to keep.
    waits = made and any(step.phase == "live" for step in before)
    return [Step("event", "wait"), *made] if waits else made


def _phases(choice: Choice, settings: Mapping[str, str]) -> list[Phase]:
    """When statements run: while a full copy is made too, where the settings allow that."""
    rng, moments = choice.rng, usable(choice.pair, "moment", settings)
    phases: list[Phase] = ["live" if "live" in moments else "dumped"] * rng.randint(6, 18)
    if moments == ["live"]:
        return phases
    asked = [phase for phase in PHASES[1:-1] if feature("moment", phase) in choice.focus]
    if "live" not in moments:
        # What comes later shows only that the copy is of one moment.
        return [*asked, *(rng.choice(_DUMPING) for _ in range(2)), *phases[:2]]
    return [*asked, *(rng.choice(_DRAWN) if rng.random() < 0.6 else []), *phases]


_DUMPING: tuple[Phase, ...] = ("snapshot", "chunk")
_DRAWN: tuple[tuple[Phase, ...], ...] = (("snapshot",), ("chunk",), ("snapshot", "dumped"), ("dumped",))


class _Kinds:
    """Draws kinds of statements: each ``wanted`` one at least once, in any order.

    ``rule``: what a filter keeps from the target. ``telling``: groups of kinds that come often.
    """

    def __init__(
        self,
        rng: random.Random,
        values: Sequence[str],
        wanted: Sequence[str],
        rule: str,
        telling: Sequence[Sequence[str]],
    ) -> None:
        self._rng = rng
        self._values = values
        self._wanted = wanted
        self._rule = rule
        self._telling = [[kind for kind in group if kind in values] for group in telling]
        #: What leaves no table comes at the end.
        self.left = sorted(rng.sample(wanted, len(wanted)), key=lambda kind: kind != "drop database")

    def next(self, phase: Phase, places: int, *, rows: bool) -> str:
        """The kind for the next of so many places. ``rows``: see :func:`_drawn`."""
        rng = self._rng
        fitting = [kind for kind in self.left if rows or kind in LOGGED_AS_STATEMENTS]
        left, wanted = self._possible(fitting, phase), self._possible(self._wanted, phase)
        if left and (rng.random() < 0.8 or len(fitting) >= places):
            self.left.remove(left[-1])
            return left[-1]
        if wanted and rows and rng.random() < 0.3:
            return rng.choice(wanted)
        telling = [kind for group in self._telling for kind in group]
        if rows and phase == "live" and telling and rng.random() < _TELLING_SHARE:
            return rng.choice(telling)
        return _drawn(rng, self._possible(self._values, phase), phase, rows=rows)

    def opening(self) -> list[str]:
        """The kinds of the replication's first statements, mostly one of each group; empty for any."""
        telling = [self._possible(group, "live") for group in self._telling]
        return [self._rng.choice(group) for group in telling if group and self._rng.random() < _OPENING_SHARE]

    def _possible(self, kinds: Sequence[str], phase: Phase) -> list[str]:
        """Those that may come at this moment. What is dropped while a dump runs is in it or not, so that nobody knows
        what a rule keeps."""
        moment = feature("moment", phase)
        kept = self._rule if phase in ("snapshot", "chunk") else ""
        return [kind for kind in kinds if kind != kept and moment not in exclusions(feature("statement", kind))]

    def last(self) -> str:
        """A kind for a session whose binlog does not show rows: a wanted one, or one that changes rows."""
        if self.left:
            return self.left.pop()
        return self._rng.choice([kind for kind in self._values if kind in _ROWS])


_WAYS = ("autocommit", "autocommit", "begin", "savepoint", "xa", "rollback")
#: The share of statements that change rows: several between two DDL, for each of them needs more than a structure to
#: show what is wrong. While a dump runs, most are those that move tables.
_OFTEN = 0.78
_DDL_WHILE_DUMPING = (
    "rename swap", "exchange partition", "truncate", "drop and create", "add column", "rename table", "drop partition",
    "alter ignore add unique", "create select", "pt-osc", "truncate partition", "drop column", "modify column",
)  # fmt: skip
_ROWS = frozenset(
    {
        "insert", "insert many", "insert ignore", "insert select", "replace", "on duplicate key", "update",
        "update same", "update key", "update ignore", "update all", "update joined", "delete", "delete joined",
        "delete all", "swap values", "reuse value", "restore value", "delete and insert", "load data",
    }
)  # fmt: skip
#: How often a statement is of a kind that shows most about the history's table.
_TELLING_SHARE = 0.3
#: How often one of a group of such kinds is among those that open the replication.
_OPENING_SHARE = 0.85
#: How often it is one transaction there, whose rows are written together.
_WHOLE_SHARE = 0.6
#: Transactions that may leave nothing.
_UNDOING = ("rollback", "xa")
#: Statements after which two rows have each other's values of a unique key; those after which another row has one's;
#: those that write a row of an equal primary key, or change one; those that give a column of another type its values.
_EXCHANGING = ("swap values",)
_GIVING_UP = ("reuse value", "reuse value", "restore value")
_REWRITING = ("replace", "on duplicate key", "restore value", "delete and insert", "update key", "update same")
_FILLING = ("insert", "insert ignore", "update", "update ignore")
#: They stop each task, or leave nothing.
_SELDOM = frozenset({"drop database", "drop table", "alter ignore add unique", "sequence"})


def _telling(table: Mapping[str, str], made: MadeTable) -> list[Sequence[str]]:
    """Groups of the kinds of statements that show most about such a table."""
    rewritten = "value" in made.primary or table["attribute"] == "on update"
    groups = (
        (_EXCHANGING, made.unique),
        (_GIVING_UP, made.unique),
        (_REWRITING, rewritten),
        (_FILLING, table["target"] != "same"),
    )
    return [group for group, tells in groups if tells]


def _drawn(rng: random.Random, values: Sequence[str], phase: Phase, *, rows: bool) -> str:
    """``rows``: whether the session's binlog shows rows; statements in their place stop each task."""
    if not rows:
        shown = LOGGED_AS_STATEMENTS - (_SELDOM if rng.random() < 0.9 else frozenset())
        return rng.choice([kind for kind in values if kind in shown])
    if phase in ("snapshot", "chunk") and rng.random() < 0.7:
        kinds = [kind for kind in _DDL_WHILE_DUMPING if kind in values] or list(values)
    elif rng.random() < _OFTEN:
        kinds = [kind for kind in values if kind in _ROWS]
    else:
        kinds = [kind for kind in values if kind not in _ROWS and (kind not in _SELDOM or rng.random() < 0.1)]
    return rng.choice(kinds)


def _middle(rng: random.Random, steps: Sequence[Step]) -> int:
    """A place among the live steps."""
    places = [number for number, step in enumerate(steps) if step.phase == "live"]
    return rng.choice(places) if places else len(steps)


_MODES = {
    "default": "",
    "none": "SET sql_mode = ''",
    "no_auto_value_on_zero": "SET sql_mode = CONCAT(@@sql_mode, ',NO_AUTO_VALUE_ON_ZERO')",
    "ansi": "SET sql_mode = 'ANSI'",
}


def session_sql(chosen: Mapping[str, str], pair: Pair) -> tuple[str, ...]:
    """The statements that make a session what was chosen."""
    found = [f"SET NAMES {chosen['connection']}"] if chosen["connection"] != "utf8mb4" else []
    if chosen["session zone"] != "default":
        found.append(f"SET time_zone = '{chosen['session zone']}'")
    if mode := _MODES[chosen["session sql_mode"]]:
        found.append(mode)
    for name, value, usual in (
        ("binlog_format", chosen["binlog_format"], "ROW"),
        ("binlog_row_image", chosen["row image"], "FULL"),
        ("auto_increment_increment", chosen["increment"].split()[0], "1"),
        ("auto_increment_offset", chosen["increment"].partition(" from ")[2] or "1", "1"),
        ("foreign_key_checks", chosen["foreign checks"], "1"),
        ("unique_checks", chosen["unique checks"], "1"),
    ):
        if value != usual:
            found.append(f"SET SESSION {name} = {value}")
    return tuple(found)
