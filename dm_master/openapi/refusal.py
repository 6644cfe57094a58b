"""Refusals of the API: an HTTP status with DM's body ``{error_msg, error_code}``. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from pkg import errors
from pkg.errors import Code, DMError, ErrorKind

_CODE = re.compile(r"\[?code=(\d+)\b", re.ASCII)


class Refusal(Exception):
    """A refused or failed request."""

    def __init__(self, text: str, *, status: int = 400, code: int | None = None) -> None:
        super().__init__(text)
        self.text, self.status = text, status
        self.code = _code_in(text) if code is None else code

    @property
    def body(self) -> Mapping[str, object]:
        return {"error_msg": self.text, "error_code": self.code}


def _code_in(text: str) -> int:
    """The first error code in ``text``, because answers of the master have codes only in the text; else the API's own
    code."""
    found = _CODE.search(text)
    return int(found[1]) if found else Code.OpenAPICommonError.code


def bad_request(problem: str, workaround: str = "`/api/v1/docs` describes each request.") -> Refusal:
    return refused_by(errors.new(Code.OpenAPICommonError, problem, workaround=workaround))


def refused_by(exc: DMError, status: int = 400) -> Refusal:
    return Refusal(str(exc), status=status, code=exc.kind.code)


def unknown(what: str, name: str, kind: ErrorKind) -> Refusal:
    """404 for a name in the path."""
    problem = errors.new(kind, f"there is no {what} {name}", workaround=f"The list of {what}s has the names.")
    return refused_by(problem, 404)


def joined(problems: Iterable[tuple[str, str]]) -> Refusal:
    """The refusals of several sources: (source, text)."""
    return Refusal("; ".join(f"{source}: {text}" for source, text in problems))
