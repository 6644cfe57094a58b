"""What TiDB as a target lacks: pairs of features that histories for it do not have. Pure.

Statements that it refuses are in the table of refusals.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import product


def _of(parameter: str, *values: str) -> list[str]:
    return [f"{parameter}={value}" for value in values]


#: The column in question cannot be changed there where it is in a primary key, or the table partitioned.
_CHANGED = _of("target", "narrow", "not null", "wide", "on update")
_FIXED = [*_of("primary key", "value", "id and value"), *_of("partition", "hash", "key", "range", "list")]
_GENERATED = _of("attribute", "stored", "virtual")


def _pairs() -> Iterator[tuple[str, str]]:
    yield from product(_CHANGED, _FIXED)
    # The search prepares the target in the upstream's charset, in which TiDB reads no text of an expression.
    yield from product(_GENERATED, _of("connection", "gbk"))


def _both_ways(pairs: Iterable[tuple[str, str]]) -> Mapping[str, frozenset[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for one, other in pairs:
        found[one].add(other)
        found[other].add(one)
    return {one: frozenset(others) for one, others in found.items()}


#: Feature → those that it does not go with.
LACKING: Mapping[str, frozenset[str]] = _both_ways(_pairs())
