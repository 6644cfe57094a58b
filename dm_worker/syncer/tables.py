"""From a TABLE_MAP to the plan of its table: filtered, routed, agreed with others of its target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dm_worker.syncer.batch import COMPACT, ORDERED, TablePlan
from dm_worker.syncer.located import located
from dm_worker.syncer.schema_source import Fetch, SchemaSource
from dm_worker.syncer.table_plan import PlanOptions, build
from pkg import errors
from pkg.binlog.events import event_from_bytes
from pkg.binlog.position import Position
from pkg.binlog.table_map import TableMap, parse_table_map, table_map_name
from pkg.errors import DMError
from pkg.mysql.names import qualified
from pkg.mysql.schema import TableInfo

#: How the rows of one target table are handled, by whichever upstream table: (mode, spread, key columns).
_Rule = tuple[str, bool, tuple[str, ...]]


class TableRegistry:
    """Makes table plans and remembers them until :meth:`forget`.

    All plans of one target table share mode and spread, since rows with one key may come from several upstream
    tables. When a new plan needs a weaker rule, the older ones are made anew, and the batch must end before.
    """

    def __init__(
        self,
        *,
        allows: Callable[[str, str], bool],
        route: Callable[[str, str], tuple[str, str]],
        source: SchemaSource,
        target: Fetch,
        options: PlanOptions,
    ) -> None:
        self._allows = allows
        self._route = route
        self._source = source
        self._fetch_target = target
        self._options = options
        self._targets: dict[tuple[str, str], TableInfo] = {}
        self._numbers: dict[tuple[str, str], int] = {}
        self._rules: dict[tuple[str, str], _Rule] = {}
        self._planned: set[tuple[str, str]] = set()
        self._next = 0

    def resolve(self, data: bytes, place: Position) -> tuple[TablePlan | None, bool]:
        """The plan for a TABLE_MAP event, None when its table is not migrated; True when a batch must end before it.

        Raises DMError, which then names the place.
        """
        event = event_from_bytes(data)
        if not self._allows(*table_map_name(event, place.name)):
            return None, False
        try:
            return self._plan(parse_table_map(event, place.name), data)
        except DMError as exc:
            raise located(exc, f"at {place}") from exc

    def forget(self) -> None:
        """Structures may have changed: ask for everything again."""
        self._targets.clear()
        self._rules.clear()
        self._planned.clear()

    def _plan(self, table_map: TableMap, data: bytes) -> tuple[TablePlan, bool]:
        upstream = self._source.structure(table_map)
        name = self._route(upstream.schema, upstream.name)
        target = self._target(name, upstream)
        self._next += 1
        number = self._numbers.setdefault(name, len(self._numbers))
        plan = build(self._next, number, data, upstream, target, self._options)
        agreed, weaker = self._agree(plan)
        split = weaker and name in self._planned
        self._planned.add(name)
        return agreed, split

    def _target(self, name: tuple[str, str], upstream: TableInfo) -> TableInfo:
        info = self._targets.get(name)
        if info is None:
            info = self._fetch_target(*name)
            if info is None:
                raise errors.new(
                    "SyncerDownstreamTableNotFound",
                    f"the target table {qualified(*name)} of {qualified(upstream.schema, upstream.name)} does not "
                    "exist",
                    scope="downstream",
                    workaround="Create the target table, or leave the upstream table out with block-allow-list, then "
                    "resume the task.",
                )
            self._targets[name] = info
        return info

    def _agree(self, plan: TablePlan) -> tuple[TablePlan, bool]:
        """The plan under the rule of its target, and whether that rule became weaker by it."""
        rule = (plan.mode, plan.spread, plan.key_names)
        known = self._rules.get(plan.target, rule)
        agreed = known
        if rule != known:
            same_key = plan.key_names == known[2]
            mode = COMPACT if same_key and plan.mode == known[0] == COMPACT else ORDERED
            agreed = (mode, same_key and plan.spread and known[1], known[2])
        self._rules[plan.target] = agreed
        return replace(plan, mode=agreed[0], spread=agreed[1]), agreed != known
