"""Looks for keys that two shards have in common: reads the keys of one and looks them up in the other, within
limits."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pymysql.connections import Connection

from dm_master.cutover.facts import CollisionFacts
from dm_master.cutover.shard_keys import KeyPair, ShardTable, UndecidedKey, key_pairs
from dm_master.rules.inspected_upstream import InspectedUpstream
from pkg.mysql.introspect import query
from pkg.mysql.names import TableId, qualified, quote
from pkg.mysql.schema import TableInfo

#: Time limit for all pairs together, in seconds.
_MOST_SECONDS = 10.0
#: Limits: keys read for one pair, keys in one lookup statement, keys named in the answer.
_MOST_KEYS, _AT_ONCE, _SHOWN = 100_000, 500, 3


def read_collisions(upstreams: Sequence[InspectedUpstream], structures: Mapping[TableId, TableInfo]) -> CollisionFacts:
    """Compares the keys of all shards that merge. Raises pymysql.Error."""
    merged: dict[TableId, list[ShardTable]] = {}
    for upstream in upstreams:
        for table, target in upstream.routed.items():
            merged.setdefault(target, []).append(_shard(upstream, table))
    probe = _KeyProbe({one.subtask.source_id: one.conn for one in upstreams})
    for target, shards in sorted(merged.items()):
        if len(shards) > 1 and target in structures:
            probe.compare(key_pairs(structures[target], shards))
    return CollisionFacts(
        any(len(shards) > 1 for shards in merged.values()), probe.compared, tuple(probe.found), tuple(probe.undecided)
    )


def _shard(upstream: InspectedUpstream, table: TableId) -> ShardTable:
    rules, source = upstream.rules, upstream.subtask.source_id
    info = upstream.structures.get(table)
    return ShardTable(
        source,
        table,
        frozenset(column.name.lower() for column in info.columns) if info is not None else frozenset(),
        dict(rules.router.extracted(*table, source)),
        frozenset(rule.target_column.lower() for rule in rules.mapper.rules_for(*table)),
        bool(upstream.subtask.filters or rules.expressions_for(*table)),
    )


class _KeyProbe:
    def __init__(self, connections: Mapping[str, Connection[Any]]) -> None:
        self._connections = connections
        self._end = time.monotonic() + _MOST_SECONDS
        self._ends: dict[tuple[str, TableId, str], tuple[Any, Any]] = {}
        self.compared = 0
        self.found: list[str] = []
        self.undecided: list[str] = []

    def compare(self, pairs: Iterable[KeyPair | UndecidedKey]) -> None:
        for number, pair in enumerate(pairs):
            if isinstance(pair, UndecidedKey):
                self.undecided.append(str(pair))
            elif time.monotonic() > self._end:
                self.undecided.append(
                    f"{qualified(*pair.target)}: {number} pairs of shards were compared in {_MOST_SECONDS:g} s, not all"
                )
                return
            else:
                self._compare(pair)

    def _compare(self, pair: KeyPair) -> None:
        condition = self._overlap(pair)
        self.compared += 1
        if condition is None:
            return
        names = ",".join(map(quote, pair.columns))
        sql = f"SELECT {names} FROM {qualified(*pair.one.table)}{condition} LIMIT {_MOST_KEYS + 1}"
        keys = [row for row in self._ask(pair.one, sql) if None not in row]
        if len(keys) > _MOST_KEYS:
            self.undecided.append(f"{pair.one} and {pair.other}: only {_MOST_KEYS} keys were compared")
        found: list[tuple[Any, ...]] = []
        for first in range(0, min(len(keys), _MOST_KEYS), _AT_ONCE):
            some = keys[first : first + _AT_ONCE]
            # ``(a, b) IN ((…), (…))`` would find no text beyond ASCII in another charset than the connection's.
            term = " AND ".join(f"{quote(column)} = %s" for column in pair.columns)
            terms = " OR ".join([f"({term})"] * len(some))
            same = f"SELECT {names} FROM {qualified(*pair.other.table)} WHERE {terms} LIMIT {_SHOWN}"
            found += self._ask(pair.other, same, tuple(value for key in some for value in key))
            if len(found) >= _SHOWN:
                break
            if time.monotonic() > self._end:
                self.undecided.append(f"{pair.one} and {pair.other}: only {first + len(some)} keys were compared")
                break
        self.found += [
            f"{qualified(*pair.target)} ({', '.join(pair.columns)}): {', '.join(map(str, key))} is in {pair.one} and "
            f"in {pair.other}"
            for key in found[:_SHOWN]
        ]

    def _overlap(self, pair: KeyPair) -> str | None:
        """The WHERE clause for keys that both can have: None if no key can be in both, '' to read all keys."""
        column = pair.columns[0]
        (low, high), (least, most) = (self._range(shard, column) for shard in (pair.one, pair.other))
        if low is None or least is None:
            return None
        if not all(isinstance(end, int) for end in (low, high, least, most)):
            # The order of other values depends on the server and the collation.
            return ""
        first, last = max(low, least), min(high, most)
        return None if first > last else f" WHERE {quote(column)} BETWEEN {first} AND {last}"

    def _range(self, shard: ShardTable, column: str) -> tuple[Any, Any]:
        place = (shard.source, shard.table, column)
        if place not in self._ends:
            name = quote(column)
            (ends,) = self._ask(shard, f"SELECT MIN({name}), MAX({name}) FROM {qualified(*shard.table)}")
            self._ends[place] = (ends[0], ends[1])
        return self._ends[place]

    def _ask(self, shard: ShardTable, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        return query(self._connections[shard.source], sql, values)
