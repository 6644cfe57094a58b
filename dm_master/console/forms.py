"""Reads the form of a page."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qs

from starlette.exceptions import HTTPException
from starlette.requests import Request

#: The largest form in bytes; a task file has a few thousand.
MAX_FORM = 512 * 1024
MAX_FIELDS = 2000


class Form:
    """The fields of a form, as they were typed."""

    def __init__(self, values: Mapping[str, list[str]]) -> None:
        self._values = values

    def get(self, name: str) -> str:
        """The last value of a field, without blanks at its ends; '' without one."""
        return (self._values.get(name) or [""])[-1].strip()

    def secret(self, name: str) -> str:
        """The last value of a field, unchanged."""
        return (self._values.get(name) or [""])[-1]

    def all(self, name: str) -> list[str]:
        """All values of a field that are not empty."""
        return [value.strip() for value in self._values.get(name, []) if value.strip()]


async def read_form(request: Request) -> Form:
    """Raises HTTP errors 413 and 400."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_FORM:
            raise HTTPException(413, f"a form has at most {MAX_FORM // 1024} KiB")
    try:
        return Form(parse_qs(body.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict"))
    except ValueError as exc:
        raise HTTPException(400, "this is not a form") from exc


def query_form(request: Request) -> Form:
    """The query of an address as a form. Raises HTTP error 400."""
    try:
        text = request.scope["query_string"].decode("ascii")
        return Form(parse_qs(text, keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict"))
    except ValueError as exc:
        raise HTTPException(400, "this is not an address of the console") from exc
