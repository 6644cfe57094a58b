"""Answers that carry a precheck's report: shown as DM does, with the report readable inside the answer."""

from __future__ import annotations

import json
from typing import Any

from dmctl.command_context import CommandContext
from pkg.rpc import pbjson

#: What a report begins with.
MARK = "fail to check synchronization configuration with type"
_DETAIL = "detail: "
_PLACE = "\x00"


def show_with_details(session: CommandContext, answer: Any, field: str) -> None:
    """Prints ``answer``; a report in ``field`` is not escaped, so the whole is for people rather than parsers."""
    text: str = getattr(answer, field)
    if MARK not in text:
        session.show(answer)
        return
    setattr(answer, field, _PLACE)
    session.print(pbjson.to_json(answer).replace(pbjson.quote(_PLACE), f'"{_readable(text)}"', 1))


def _readable(text: str) -> str:
    """``text`` with the JSON after ``detail:`` indented to where it stands; untouched if there is none."""
    head, found, detail = text.partition(_DETAIL)
    try:
        value, end = json.JSONDecoder().raw_decode(detail)
    except ValueError:
        return text
    if not found:
        return text
    indented = pbjson.marshal_indent(value).replace("\n", f"\n{pbjson.INDENT * 2}")
    return f"{head.rstrip()}\n{pbjson.INDENT * 2}{_DETAIL}{indented}{detail[end:]}"
