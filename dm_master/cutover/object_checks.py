"""Whether the programs and views of the migrated schemas are at the target, with the same definition. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dm_master.cutover.facts import CutoverFacts, CutoverUpstream
from dm_master.cutover.verdict import CheckVerdict, bounded, problems
from pkg.ddl.tokens import DEFAULT_DIALECT, name_value, tokenize
from pkg.errors import DMError
from pkg.mysql.names import TableId, qualified
from pkg.rules.expression_filter.meaning import without_charsets

#: Only some servers show a width, which means nothing.
_WIDTH = re.compile(r"\b((?:tiny|small|medium|big)?int)\(\d+\)", re.IGNORECASE)


def check_objects(facts: CutoverFacts) -> CheckVerdict:
    """Triggers, views, routines, events and sequences of the migrated schemas are at the target."""
    at, found = facts.target.server, dict[str, str]()
    hidden = {
        f"{one.server.label}: {_why_hidden(*each)}" for one in facts.upstreams for each in one.server.hidden.items()
    }
    for upstream in facts.upstreams:
        routes = _ObjectRoutes.of(upstream)
        for kind, objects in upstream.server.objects.items():
            if objects and kind in at.hidden:
                hidden.add(f"target: {_why_hidden(kind, at.hidden[kind])}")
                continue
            for name in sorted(objects):
                if why := _lack(facts, upstream, routes, kind, name):
                    line = f"{upstream.server.label}: {kind} {qualified(*name)} {why}"
                    found[line] = f"SHOW CREATE {kind.upper()} {qualified(*name)}"
    if hidden and not found:
        return CheckVerdict("objects", "unknown", bounded(sorted(hidden)), "grant these privileges")
    remedy = f"run at the target what the upstream shows: {'; '.join(found.values())} — --accept objects for the rest"
    return problems("objects", [*found, *sorted(hidden)], remedy, otherwise="each program and view is at the target")


def _why_hidden(kind: str, right: str) -> str:
    return f"the user does not see every {kind}: needs {right}"


@dataclass(frozen=True, slots=True)
class _ObjectRoutes:
    """``schemas``: migrated schema → where its tables are at the target. ``names``: all names that routes change, with
    the new ones."""

    schemas: Mapping[str, Sequence[str]]
    names: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, upstream: CutoverUpstream) -> _ObjectRoutes:
        pairs = (pair for names in upstream.routed.items() for pair in zip(*names, strict=True))
        return cls(upstream.schemas(), frozenset(pairs))


def _lack(facts: CutoverFacts, upstream: CutoverUpstream, routes: _ObjectRoutes, kind: str, name: TableId) -> str:
    """Why an object is not at the target as it is in the upstream; '' if it is."""
    there = facts.target.server.objects.get(kind, {})
    places = (*routes.schemas.get(name[0], ()), name[0])
    at = next((place for place in places if (place, name[1]) in there), None)
    if at is None:
        return "is not at the target"
    if kind in upstream.server.hidden:
        return ""
    spelling = upstream.server.info.flavor == facts.target.server.info.flavor
    own, other = (
        [_words(part, with_parentheses=spelling) for part in parts]
        for parts in (upstream.server.objects[kind][name], there[at, name[1]])
    )
    return "" if _are_same(own, other, routes.names) else "has another definition at the target"


def _words(text: str, *, with_parentheses: bool) -> list[str]:
    """The tokens of a part of a definition. MySQL and MariaDB show a view with other parentheses."""
    try:
        tokens = tokenize(without_charsets(_WIDTH.sub(r"\1", text)), DEFAULT_DIALECT)[:-1]
    except DMError:
        return [text]
    return [
        name_value(token) if token.kind in ("word", "name") else token.text
        for token in tokens
        if with_parentheses or token.text not in ("(", ")")
    ]


def _are_same(own: list[list[str]], other: list[list[str]], routed: frozenset[tuple[str, str]]) -> bool:
    """Whether the definitions have the same words, apart from names that the routes change."""
    return [*map(len, own)] == [*map(len, other)] and all(
        one == two or (one, two) in routed
        for words, others in zip(own, other, strict=True)
        for one, two in zip(words, others, strict=True)
    )
