"""A task's rules as a drawing: which upstream tables become which target table. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from dm_master.console.view.paging import Paged, paged
from pkg.mysql.names import qualified
from pkg.pb import dmmaster_pb2 as master
from pkg.status.amounts import counted

TARGETS_PER_PAGE = 30
#: Upstream tables that are drawn for one target; the rest are counted.
MOST_TABLES = 6
_MOST_LEFT_OUT = 50


@dataclass(frozen=True, slots=True)
class UpstreamTableView:
    source: str
    table: str
    rules: Sequence[str]
    problem: str


@dataclass(frozen=True, slots=True)
class TargetTableView:
    """``more``: upstream tables that are not drawn."""

    table: str
    upstream: Sequence[UpstreamTableView]
    more: int

    @property
    def merged(self) -> bool:
        return len(self.upstream) > 1


@dataclass(frozen=True, slots=True)
class RulesView:
    targets: Paged[TargetTableView]
    problems: Sequence[UpstreamTableView]
    left_out: Sequence[tuple[str, str]]
    left_out_more: int
    unused: Sequence[str]
    counts: str


def rules_view(answer: master.ShowRulesResponse, page: int, search: str = "") -> RulesView:
    groups: defaultdict[tuple[str, str], list[master.TableRules]] = defaultdict(list)
    for one in answer.tables:
        if not one.leftOut and not one.problem:
            groups[one.targetSchema, one.targetTable].append(one)
    names = [key for key in groups if search.lower() in f"{key[0]}.{key[1]}".lower()]
    shown = paged(sorted(names), page, TARGETS_PER_PAGE)
    views = [_target(key, groups[key]) for key in shown.items]
    left_out = [one for one in answer.tables if one.leftOut]
    counts = answer.summary
    return RulesView(
        targets=Paged(views, shown.number, shown.pages, shown.total),
        problems=[_upstream(one) for one in answer.tables if one.problem][:_MOST_LEFT_OUT],
        left_out=[(f"{one.source}: {_name(one.schema, one.table)}", one.leftOut) for one in left_out[:_MOST_LEFT_OUT]],
        left_out_more=max(0, len(left_out) - _MOST_LEFT_OUT),
        unused=list(counts.unused),
        counts=f"{counted(counts.tables, 'upstream table')} → {counted(counts.targets, 'target table')}; "
        f"left out: {counts.leftOut:,}",
    )


def _target(key: tuple[str, str], tables: Sequence[master.TableRules]) -> TargetTableView:
    shown = [_upstream(one) for one in tables[:MOST_TABLES]]
    return TargetTableView(_name(*key), shown, len(tables) - len(shown))


def _upstream(one: master.TableRules) -> UpstreamTableView:
    rules = [f"{rule.block} {rule.name}: {rule.effect}" for rule in one.rules]
    return UpstreamTableView(one.source, _name(one.schema, one.table), rules, one.problem)


def _name(schema: str, table: str) -> str:
    return qualified(schema, table)
