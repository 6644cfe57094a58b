"""Operators' orders for statements of the binlog: which order applies to a statement, and its effect. Pure.

An order is identified by its content: the same order given twice is one order. An order's statements have numbers
apart from the parts of the binlog's statement, and apart from every other order that applied to this statement before.
So the due statements show which of them ran, even if the order changes in between: parts of the binlog's statement
run once, whichever orders come and go, and a new order runs all of its statements.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from dm_worker.syncer.checkpoint.ddl_table import GIVEN_SETTLING
from dm_worker.syncer.planning.instructions import BinlogStatement
from pkg import ddl, errors
from pkg.binlog.position import Position, parse_position
from pkg.ddl.failure import shorten
from pkg.errors import Code, DMError, ErrorKind
from pkg.ha.binlog_operator import BinlogOperator

#: The range of numbers that each order has for its statements; the parts of the binlog's statement are below.
STRIDE = 1 << 22
#: The most statements that one order may give in place of a DDL of merged shards, and the most distinct orders.
_SETTLING_STRIDE, _SETTLING_ORDERS = 1 << 10, 1 << 20
_INVALID = Code.VerifyHandleErrorArgs


def is_given(index: int) -> bool:
    """Whether a record's number is that of a statement from an operator."""
    return index >= STRIDE or index < GIVEN_SETTLING


def settling_number(statements: Sequence[str]) -> int:
    """The number of an order's first statement in place of a DDL of merged shards; the next numbers are smaller.

    It is derived from the order's content, because the decision is not stored: the same order runs once.
    """
    digest = blake2b("\0".join(statements).encode(), digest_size=4).digest()
    return GIVEN_SETTLING - 1 - int.from_bytes(digest) % _SETTLING_ORDERS * _SETTLING_STRIDE


def meeting(statement: BinlogStatement, operators: Iterable[BinlogOperator]) -> BinlogOperator | None:
    """The order for this statement; of several, the one with the nearest position to its event.

    Raises 42502 when it can't be read.
    """
    found = [one for one in operators if statement.covers(one.at)]
    nearest = max(found, key=lambda one: one.at.sort_key(), default=None)
    return None if nearest is None else readable(nearest)


def readable(operator: BinlogOperator) -> BinlogOperator:
    """Returns the order. Raises 42502 for a damaged one: its meaning must not be guessed."""
    if operator.kind != "damaged":
        return operator
    raise errors.new(
        Code.HAInvalidItem,
        f"the operator order for the statement at {operator.position} can't be read: {operator.statements[0]}",
        workaround=f"Remove it with `dmctl binlog revert {operator.task} -s {operator.source} -b {operator.position}`, "
        "or give it again.",
    )


def in_order(operators: Iterable[BinlogOperator], since: Position | None = None) -> list[BinlogOperator]:
    """The orders at or after ``since``, by position."""
    found = [one for one in operators if since is None or since <= one.at]
    return sorted(found, key=lambda one: one.at.sort_key())


def outdated(operators: Iterable[BinlogOperator], checkpoint: Position) -> list[BinlogOperator]:
    """The orders that no statement after ``checkpoint`` can match."""
    return [one for one in operators if one.at < checkpoint]


def listing(operators: Sequence[BinlogOperator]) -> str:
    """DM's JSON of orders, '' without any; a damaged order's problem is its ``error``."""
    if not operators:
        return ""
    return json.dumps([_shown(one) for one in operators], separators=(",", ":"))


def _shown(operator: BinlogOperator) -> dict[str, Any]:
    if operator.kind == "damaged":
        return {"task": operator.task, "binlogPos": operator.position, "error": operator.statements[0]}
    shown: dict[str, Any] = json.loads(operator.to_json())
    del shown["source"]
    return shown


def parse_place(text: str) -> Position:
    """Parses a position of a command, also with DM's name of a relay file. Raises 11118."""
    try:
        return parse_position(text).of_upstream()
    except DMError as exc:
        raise refused(
            f"the binlog position {text!r} is not valid",
            "Write it like mysql-bin.000001:1234, or omit it for the statement where the task stopped.",
        ) from exc


def checked(statements: Sequence[str]) -> list[ddl.DDLStatement]:
    """Parses statements that replace one in the binlog.

    Raises 11118 for SQL that is not understood, 36023 for SQL that is not DDL, and 36024 where a schema is missing.
    """
    if not statements:
        raise refused("no statements are given", "Give the statements to execute.")
    return [_checked(number, text, len(statements)) for number, text in enumerate(statements, 1)]


def _checked(number: int, text: str, count: int) -> ddl.DDLStatement:
    which = f"statement {number} of {count}"
    advice = "Correct it. Only DDL is allowed, with the schema of every table; use the upstream's names."
    try:
        parsed = ddl.parse(text)
    except DMError as exc:
        kind = _refusal(text, exc.kind)
        what = f"invalid sql: {exc.message}" if kind is _INVALID else exc.message
        raise errors.new(kind, f"{which}: {what}", workaround=advice) from exc
    if parsed.kind == "skip":
        what = f"{which} is not a DDL that the target needs: {shorten(text)}"
        raise errors.new(Code.SyncerUnitInjectDDLOnly, what, workaround=advice)
    return parsed


def _refusal(text: str, found: ErrorKind) -> ErrorKind:
    """The error for a statement that the parser refuses with ``found``."""
    if found is Code.SyncUnitDMLStatementFound:
        return Code.SyncerUnitInjectDDLOnly
    try:
        ddl.parse(text, default_schema="selected")
    except DMError:
        return _INVALID
    return Code.SyncerUnitInjectDDLWithoutSchema


def refused(what: str, workaround: str) -> DMError:
    """11118: an order that is not accepted."""
    return errors.new(_INVALID, what, workaround=workaround)


@dataclass(frozen=True, slots=True)
class OrderDecision:
    """The order for the execution of a statement; ``kind`` is '' for none.

    It is stored before anything of it runs. ``generation`` counts changes of the order.
    """

    generation: int = 0
    kind: str = ""
    statements: tuple[str, ...] = ()

    @property
    def first_number(self) -> int:
        """The number of the first part of the order's statements."""
        return self.generation * STRIDE

    def under(self, operator: BinlogOperator | None) -> OrderDecision:
        """The current decision: the same as before, or the next generation."""
        kind, statements = ("", ()) if operator is None else (operator.kind, operator.statements)
        if (kind, statements) == (self.kind, self.statements):
            return self
        return OrderDecision(self.generation + 1, kind, statements)

    def to_json(self) -> str:
        return json.dumps({"generation": self.generation, "op": self.kind, "sqls": self.statements})

    @classmethod
    def from_json(cls, text: str) -> OrderDecision:
        data = json.loads(text)
        return cls(data["generation"], data["op"], tuple(data["sqls"]))
