"""Notices foreign keys that act upstream and can't at the target, at the start and behind each statement about keys.

Both servers are asked as they are now. What the upstream has may come from a statement that is still to be read, so a
problem counts when the target has it still after all that the upstream had written when it was seen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

from dm_worker.syncer.rows.server_lookup import ServerLookup
from dm_worker.syncer.rows.task_rules import TaskRules
from pkg import errors
from pkg.binlog.events import QueryEvent
from pkg.binlog.position import Location
from pkg.config.model import SubTaskConfig
from pkg.errors import Code, DMError
from pkg.mysql.foreign_key_introspect import enforces_foreign_keys, fetch_foreign_keys, logs_actions, shown_foreign_keys
from pkg.mysql.introspect import list_all_tables, server_info
from pkg.mysql.names import TableId
from pkg.mysql.schema import ForeignKey
from pkg.process.log import get_logger
from pkg.rules.foreign_keys import IGNORE, ForeignKeyProblem, ForeignKeySetting, find_problems

log = get_logger("syncer.keys")

#: Stands for the names in a statement that can't be read.
ANY_NAME = ""
#: The names in a statement, with and without quotes.
_NAMES = re.compile(r"`((?:[^`]|``)*)`|\"((?:[^\"]|\"\")*)\"|([\w$\u0080-\uffff]+)")

#: Asks both servers; of the upstream's tables, those again whose names (in lower case) it gets, or may get.
Look = Callable[[Collection[str]], Sequence[ForeignKeyProblem]]
#: Where the upstream's binlog ends; None when it writes none.
BinlogEnd = Callable[[], Location | None]


def names_in(query: QueryEvent) -> set[str]:
    """All that a statement may mean as a table's name, in lower case; ANY_NAME where its text is not certain."""
    try:
        found = _NAMES.findall(query.sql)
    except DMError:
        return {ANY_NAME}
    return {(quoted.replace("``", "`") or other.replace('""', '"') or word).lower() for quoted, other, word in found}


def _is_before(here: Location, there: Location) -> bool:
    """Also for a task that begins at a GTID set alone, which has no position until it has read something."""
    return not here.position.name or here.position < there.position


class ForeignKeyWatch:
    """For one run. In a backlog it looks once, where the position is reached that the upstream had at the last look."""

    def __init__(self, look: Look, end: BinlogEnd) -> None:
        self._look = look
        self._end = end
        self._seen: list[ForeignKeyProblem] = []
        self._until: Location | None = None
        #: Names of statements since the last look, which says nothing of them.
        self._named: set[str] = set()
        self._warned: set[ForeignKeyProblem] = set()

    def look(self, applied: Location) -> None:
        """Looks now; all before ``applied`` is applied. Raises 20070 for what is certain."""
        found = list(self._look(frozenset(self._named)))
        self._named.clear()
        self._note(found, applied)

    def changed(self, applied: Location, names: Collection[str]) -> None:
        """A statement about keys was executed, with these names in it. Raises 20070 for what is certain."""
        self._named.update(names)
        if self._until is None or not _is_before(applied, self._until):
            self.look(applied)

    def passed(self, applied: Location) -> None:
        """All before ``applied`` is applied. Raises 20070 when that makes a problem certain."""
        if self._until is None or _is_before(applied, self._until):
            return
        if self._named:
            # What was seen may have been put right since, and be there again.
            self.look(applied)
        elif self._seen:
            before = self._seen
            now = list(self._look(frozenset()))
            certain = [problem for problem in now if problem in before]
            if certain:
                raise _refusal(certain)
            self._note(now, applied)
        else:
            self._until = None

    def _note(self, found: list[ForeignKeyProblem], applied: Location) -> None:
        self._seen, self._until = found, self._end()
        if self._until is None or not _is_before(applied, self._until):
            self._until = None
            if found:
                raise _refusal(found)
        new = [problem for problem in found if problem not in self._warned]
        if new:
            self._warned.update(new)
            log.warning(
                "foreign keys differ for now",
                problem=new[0].what,
                new=len(new),
                all=len(found),
                known_at=str(self._until),
            )


class ServersKeys:
    """Asks both servers, over connections of its own: what else asks them is another thread. Raises DMError."""

    def __init__(self, cfg: SubTaskConfig, rules: TaskRules, should_stop: Callable[[], bool]) -> None:
        self._cfg = cfg
        self._rules = rules
        self._upstream = ServerLookup(cfg.from_, "upstream", should_stop)
        self._target = ServerLookup(cfg.to, "downstream", should_stop)
        #: The migrated tables that the upstream had when it was asked before, with their keys; None before.
        self._known: dict[TableId, list[ForeignKey]] | None = None
        #: Whether the upstream's binlog has what its foreign keys do, as it was when they were last looked at.
        self.logged_upstream = False

    def close(self) -> None:
        self._upstream.close()
        self._target.close()

    def end(self) -> Location | None:
        """Where the upstream's binlog ends."""
        return self._upstream.end_of_binlog(self._cfg.flavor)

    def problems(self, named: Collection[str] = ()) -> list[ForeignKeyProblem]:
        """What keeps the target from doing what the upstream's keys do; none where an operator answers for it.

        ``named``: names (in lower case) of tables whose keys may have changed since the call before.
        """
        cfg = self._cfg
        self.logged_upstream = self._upstream.ask(logs_actions)
        if self.logged_upstream or not {IGNORE, "all"}.isdisjoint(cfg.ignore_checking_items):
            return []
        tables = [(schema, name) for schema, names in self._upstream.ask(list_all_tables).items() for name in names]
        migrated = {name: self._rules.route(*name) for name in tables if self._rules.takes_rows(*name)}
        upstream = self._upstream_keys(migrated, named)
        target = self._target.ask(fetch_foreign_keys)
        if not any(key.acts for key in (*upstream, *target)):
            return []
        server = self._target.ask(server_info)
        setting = ForeignKeySetting(
            checks=cfg.to.foreign_key_checks,
            merges=bool(cfg.shard_mode),
            mapped=[name for name in migrated if self._rules.maps_columns(*name)],
            acts=self._target.ask(lambda conn: enforces_foreign_keys(conn, server)),
        )
        present = [(schema, name) for schema, names in self._target.ask(list_all_tables).items() for name in names]
        return find_problems(upstream, target, migrated, present, setting)

    def _upstream_keys(self, migrated: Collection[TableId], named: Collection[str]) -> list[ForeignKey]:
        """The keys of the upstream's tables. A table is asked for its keys when it is new, when it has some, and when a
        statement named it: what an account sees of keys is in SHOW CREATE TABLE alone."""
        known = {} if self._known is None or ANY_NAME in named else self._known
        asked = [name for name in migrated if known.get(name, True) or name[1].lower() in named]
        # A dropped table leaves the list before its DROP is in the binlog, and its name is locked until then. Asking
        # for it waits for that, and the binlog's end, which is asked for next, is behind the DROP.
        asked += sorted(known.keys() - set(migrated))
        found: dict[TableId, list[ForeignKey]] = {}
        for key in self._upstream.ask(lambda conn: shown_foreign_keys(conn, asked)):
            found.setdefault(key.child, []).append(key)
        fresh = set(asked)
        self._known = {name: found.get(name, []) if name in fresh else known[name] for name in migrated}
        return [key for keys in found.values() for key in keys]


def _refusal(found: Sequence[ForeignKeyProblem]) -> DMError:
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return errors.new(
        Code.ConfigUnsupportedForeignKeyChecksOption,
        f"{found[0].what}{more}",
        scope="downstream",
        workaround=f"{found[0].workaround} Rows of these tables may differ since the key was created: compare them, "
        "then resume the task.",
    )
