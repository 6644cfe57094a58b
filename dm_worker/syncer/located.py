"""Errors with the place in the binlog that they belong to."""

from __future__ import annotations

from pkg.binlog.position import Location
from pkg.errors import DMError


def located(exc: DMError, where: str) -> DMError:
    """The same error with ``where`` behind its message."""
    return DMError(
        exc.kind,
        f"{exc.message} ({where})",
        raw_cause=exc.raw_cause,
        workaround=exc.workaround,
        scope=exc.scope,
        retryable=exc.retryable,
    )


def between(start: Location, end: Location) -> str:
    """DM's form of a range, as operators' scripts know it."""
    return f"startLocation: {start}, endLocation: {end}"
