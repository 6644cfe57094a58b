"""Finds rows whose values certainly stay unchanged in the target, by one look at their text. Pure.

A check of each value (:meth:`ColumnLoss.changes`) splits a row first, which costs many times more. A row without these
forms is not necessarily changed: its values are checked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pkg.rules.value_loss import ColumnLoss

#: A literal without parentheses, as :func:`split_tuple` finds it.
_INSIDE = rb"[^'\\]*+(?:\\.[^'\\]*+)*+"
_ANY = rb"(?:'" + _INSIDE + rb"'|[^'(),]++)++"
_NO_SPACE = rb"'" + _INSIDE + rb"(?<! )'"
_DIGITS = rb"\d{0,%d}0*"


def kept_rows(losses: Sequence[ColumnLoss | None]) -> re.Pattern[bytes] | None:
    """The start of rows whose values all stay; one loss, or None, for each literal. None if no form is known."""
    last = max((number for number, loss in enumerate(losses) if loss is not None), default=-1)
    forms = [_ANY if loss is None else _kept(loss) for loss in losses[: last + 1]]
    if not all(forms):
        return None
    return re.compile(rb"\(?" + b",".join(forms) + (rb"(?=[,)]|\Z)" if forms else b""), re.DOTALL)


def _kept(loss: ColumnLoss) -> bytes:
    """The literals that stay, or some of them; empty if their form alone does not show it."""
    form = _of_kind(loss)
    if not form:
        return b""
    return rb"(?:%s)" % form if loss.nulls else rb"(?:NULL|%s)" % form


def _of_kind(loss: ColumnLoss) -> bytes:
    if loss.kind == "":
        return rb"(?!(?i:NULL)(?:[,)]|\Z))" + _ANY
    if loss.kind == "scale":
        return rb"-?\d++(?:\." + _DIGITS % loss.limit + rb")?"
    if loss.kind == "fraction":
        return rb"'[-:\d ]++(?:\." + _DIGITS % loss.limit + rb")?'"
    if loss.kind == "time of day":
        return rb"'\d{4}-\d\d-\d\d[ :.0]*+'"
    if loss.kind in ("spaces", "cut spaces"):
        return _NO_SPACE
    kind, *members = loss.members or ("",)
    plain = [member.encode() for member in members if re.fullmatch(r"[A-Za-z0-9_-]+", member, re.ASCII)]
    return rb"'(?:%s)'" % b"|".join(plain) if loss.kind == "member" and kind == "enum" and plain else b""
