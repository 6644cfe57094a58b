"""Notices foreign keys that act upstream and can't at the target, at the start and behind each statement about keys.

Both servers are asked as they are now. What the upstream has may come from a statement that is still to be read, so a
problem counts when the target has it still after all that the upstream had written when it was seen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from dm_worker.syncer.rows.server_lookup import ServerLookup
from dm_worker.syncer.rows.task_rules import TaskRules
from pkg import errors
from pkg.binlog.position import Location
from pkg.config.model import SubTaskConfig
from pkg.errors import Code, DMError
from pkg.mysql.foreign_key_introspect import enforces_foreign_keys, fetch_foreign_keys, logs_actions, shown_foreign_keys
from pkg.mysql.introspect import list_all_tables, server_info
from pkg.mysql.names import TableId
from pkg.process.log import get_logger
from pkg.rules.foreign_keys import IGNORE, ForeignKeyProblem, ForeignKeySetting, find_problems

log = get_logger("syncer.keys")

#: What a statement has in its text that makes, changes or removes a foreign key, or renames what one names.
ABOUT_KEYS = re.compile(rb"references|foreign|constraint|rename|change|drop|database|schema", re.IGNORECASE)

#: Asks both servers.
Look = Callable[[], Sequence[ForeignKeyProblem]]
#: Where the upstream's binlog ends; None when it writes none.
BinlogEnd = Callable[[], Location | None]


class ForeignKeyWatch:
    """For one run."""

    def __init__(self, look: Look, end: BinlogEnd) -> None:
        self._look = look
        self._end = end
        self._seen: list[ForeignKeyProblem] = []
        self._until: Location | None = None

    def look(self, applied: Location) -> None:
        """Looks now; all before ``applied`` is applied. Raises 20070 for what is certain."""
        self._note(list(self._look()), applied)

    def passed(self, applied: Location) -> None:
        """All before ``applied`` is applied. Raises 20070 when that makes a problem certain."""
        if self._until is None or applied.position < self._until.position:
            return
        now = list(self._look())
        certain = [problem for problem in now if problem in self._seen]
        if certain:
            raise _refusal(certain)
        self._note(now, applied)

    def _note(self, found: list[ForeignKeyProblem], applied: Location) -> None:
        self._seen, self._until = found, None
        if not found:
            return
        self._until = self._end()
        if self._until is None or not applied.position < self._until.position:
            raise _refusal(found)
        for problem in found:
            log.warning("foreign keys differ for now", problem=problem.what, known_at=str(self._until))


class ServersKeys:
    """Asks both servers, over connections of its own: what else asks them is another thread. Raises DMError."""

    def __init__(self, cfg: SubTaskConfig, rules: TaskRules, should_stop: Callable[[], bool]) -> None:
        self._cfg = cfg
        self._rules = rules
        self._upstream = ServerLookup(cfg.from_, "upstream", should_stop)
        self._target = ServerLookup(cfg.to, "downstream", should_stop)
        #: The migrated tables that the upstream had when it was asked before.
        self._listed: frozenset[TableId] = frozenset()
        #: Whether the upstream's binlog has what its foreign keys do, as it was when they were last looked at.
        self.logged_upstream = False

    def close(self) -> None:
        self._upstream.close()
        self._target.close()

    def end(self) -> Location | None:
        """Where the upstream's binlog ends."""
        return self._upstream.end_of_binlog(self._cfg.flavor)

    def problems(self) -> list[ForeignKeyProblem]:
        """What keeps the target from doing what the upstream's keys do; none where an operator answers for it."""
        cfg = self._cfg
        self.logged_upstream = self._upstream.ask(logs_actions)
        if self.logged_upstream or not {IGNORE, "all"}.isdisjoint(cfg.ignore_checking_items):
            return []
        tables = [(schema, name) for schema, names in self._upstream.ask(list_all_tables).items() for name in names]
        migrated = {name: self._rules.route(*name) for name in tables if self._rules.takes_rows(*name)}
        # A dropped table leaves the list before its DROP is in the binlog, and its name is locked until then. Asking
        # for it waits for that, and the binlog's end, which is asked for next, is behind the DROP.
        dropped = sorted(self._listed - migrated.keys())
        self._listed = frozenset(migrated)
        upstream = self._upstream.ask(lambda conn: shown_foreign_keys(conn, (*migrated, *dropped)))
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


def _refusal(found: Sequence[ForeignKeyProblem]) -> DMError:
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return errors.new(
        Code.ConfigUnsupportedForeignKeyChecksOption,
        f"{found[0].what}{more}",
        scope="downstream",
        workaround=f"{found[0].workaround} Rows of these tables may differ since the key was created: compare them, "
        "then resume the task.",
    )
