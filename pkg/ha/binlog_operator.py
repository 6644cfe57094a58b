"""An operator's order for one statement of the binlog, as JSON with DM's field names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast, get_args

from pkg.binlog.position import Position, parse_position
from pkg.errors import DMError
from pkg.ha import keys
from pkg.ha.records import Record
from pkg.pb import dmworker_pb2

#: ``skip`` leaves the statement out, ``replace`` executes others instead, ``inject`` executes others before it.
#: ``damaged`` is an unreadable record; no stored record has this kind.
OperatorKind = Literal["skip", "replace", "inject", "damaged"]


@dataclass(frozen=True, slots=True)
class BinlogOperator(Record):
    """``position`` is where the statement's event begins, ``mysql-bin.000001:1234``.

    A damaged order has one text in ``statements``: the reason.
    """

    kind: OperatorKind
    task: str
    source: str
    position: str
    statements: tuple[str, ...] = ()
    FIELDS: ClassVar[dict[str, str]] = {
        "kind": "op", "task": "task", "source": "source", "position": "binlogPos", "statements": "sqls",
    }  # fmt: skip
    OPTIONAL: ClassVar[frozenset[str]] = frozenset({"statements"})

    @classmethod
    def read(cls, key: str, text: str) -> BinlogOperator:
        """A key's content; a damaged order for its position if that can't be read. Raises 42502 or 22003 for a key
        without a valid position."""
        try:
            return cls.from_json(text)
        except DMError as exc:
            source, task, position = keys.BINLOG_OPERATOR.names(key)
            parse_position(position)
            return cls("damaged", task, source, position, (exc.message,))

    @property
    def at(self) -> Position:
        """Raises 22003 for other text."""
        return parse_position(self.position)

    @property
    def key(self) -> str:
        return keys.BINLOG_OPERATOR.key(self.source, self.task, self.position)

    def _out(self, attr: str) -> Any:
        if attr == "kind":
            return dmworker_pb2.ErrorOp.Value(self.kind.capitalize())
        return list(self.statements) if attr == "statements" else getattr(self, attr)

    @classmethod
    def _in(cls, attr: str, value: Any) -> Any:
        if attr == "kind":
            return _kind(value)
        if attr == "statements":
            if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
                raise TypeError("sqls is not a list of texts")
            return tuple(value)
        text = super(BinlogOperator, cls)._in(attr, value)
        if attr == "position":
            parse_position(text)
        return text


#: A task's current orders for one source.
OperatorSource = Callable[[], Sequence[BinlogOperator]]


def _kind(number: Any) -> OperatorKind:
    name = dmworker_pb2.ErrorOp.Name(number).lower()
    if name not in get_args(OperatorKind):
        raise ValueError(f"{name} is not stored")
    return cast(OperatorKind, name)


def position_name(position: Position) -> str:
    """A position in the form of commands, keys and records."""
    return f"{position.name}:{position.pos}"
