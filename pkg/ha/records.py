"""The values of the keys: small records as JSON, with DM's field names. Config files are stored unchanged."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from pkg.errors import Code, new
from pkg.pb import dmworker_pb2


def stage_number(name: str) -> int:
    """The number of a stage (``Running`` …) as it is stored; raises 42502 for an unknown name."""
    try:
        return int(dmworker_pb2.Stage.Value(name))
    except ValueError as exc:
        raise new(Code.HAInvalidItem, f"unknown stage {name!r}", raw=exc) from exc


def stage_name(number: int) -> str:
    try:
        return str(dmworker_pb2.Stage.Name(number))  # type: ignore[arg-type]
    except ValueError as exc:
        raise new(Code.HAInvalidItem, f"unknown stage number {number!r}", raw=exc) from exc


class Record:
    """JSON with fixed fields. ``FIELDS`` maps attributes to JSON names, in the order they are written.

    An empty field in ``OPTIONAL`` is left out, and may be missing.
    """

    __slots__ = ()
    FIELDS: ClassVar[dict[str, str]]
    OPTIONAL: ClassVar[frozenset[str]] = frozenset()

    def to_json(self) -> str:
        written = (
            (attr, name) for attr, name in self.FIELDS.items() if attr not in self.OPTIONAL or getattr(self, attr)
        )
        return json.dumps({name: self._out(attr) for attr, name in written}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Raises 42502 for text that is not this record. Ignores unknown fields, of a newer version."""
        try:
            data = json.loads(text)
            given = [(attr, name) for attr, name in cls.FIELDS.items() if attr not in cls.OPTIONAL or name in data]
            return cls(**{attr: cls._in(attr, data[name]) for attr, name in given})
        except (ValueError, KeyError, TypeError) as exc:
            raise new(
                Code.HAInvalidItem,
                f"etcd has {text!r} in place of a {cls.__name__}",
                raw=f"{type(exc).__name__}: {exc}",
                workaround="Delete or repair this key with etcdctl.",
            ) from exc

    def _out(self, attr: str) -> Any:
        return getattr(self, attr)

    @classmethod
    def _in(cls, attr: str, value: Any) -> Any:
        if not isinstance(value, str):
            raise TypeError(f"{cls.FIELDS[attr]} is not text")
        return value


class _StageRecord(Record):
    """``expect`` is the stage's name here and its number in etcd; ``safe_mode`` is a flag."""

    __slots__ = ()

    def _out(self, attr: str) -> Any:
        return stage_number(getattr(self, attr)) if attr == "expect" else super()._out(attr)

    @classmethod
    def _in(cls, attr: str, value: Any) -> Any:
        if attr == "safe_mode":
            if not isinstance(value, bool):
                raise TypeError(f"{cls.FIELDS[attr]} is not true or false")
            return value
        if attr != "expect":
            return super()._in(attr, value)
        if not isinstance(value, int):
            raise TypeError("expect is not a number")
        return stage_name(value)


@dataclass(frozen=True, slots=True)
class WorkerInfo(Record):
    """A registered worker."""

    name: str
    addr: str
    FIELDS: ClassVar[dict[str, str]] = {"name": "name", "addr": "addr"}


@dataclass(frozen=True, slots=True)
class WorkerAlive(Record):
    """A worker that holds its lease. ``join_time`` is RFC 3339."""

    name: str
    join_time: str
    FIELDS: ClassVar[dict[str, str]] = {"name": "worker-name", "join_time": "join-time"}


@dataclass(frozen=True, slots=True)
class SourceBound(Record):
    """The source that a worker serves."""

    source: str
    worker: str
    FIELDS: ClassVar[dict[str, str]] = {"source": "source", "worker": "worker"}


@dataclass(frozen=True, slots=True)
class SubTaskStage(_StageRecord):
    """The desired stage of a subtask (``Running``, ``Paused`` or ``Stopped``). ``safe_mode``: the batch that stopped it
    is applied again in safe mode; DM, and earlier versions, ignore it."""

    expect: str
    source: str
    task: str
    safe_mode: bool = False
    FIELDS: ClassVar[dict[str, str]] = {
        "expect": "expect",
        "source": "source",
        "task": "task",
        "safe_mode": "safe-mode",
    }
    OPTIONAL: ClassVar[frozenset[str]] = frozenset({"safe_mode"})


@dataclass(frozen=True, slots=True)
class ValidatorStage(_StageRecord):
    """The desired stage of a subtask's validator (``Running`` or ``Stopped``). ``mode``: fast or full; DM stores it in
    the subtask's configuration. ``since``: the position of a start by time, and which start that is; '' without one."""

    expect: str
    source: str
    task: str
    mode: str
    since: str = ""
    FIELDS: ClassVar[dict[str, str]] = {
        "expect": "expect",
        "source": "source",
        "task": "task",
        "mode": "mode",
        "since": "since",
    }
    OPTIONAL: ClassVar[frozenset[str]] = frozenset({"since"})


@dataclass(frozen=True, slots=True)
class RelayStage(_StageRecord):
    """The desired stage of a source's relay."""

    expect: str
    source: str
    FIELDS: ClassVar[dict[str, str]] = {"expect": "expect", "source": "source"}


@dataclass(frozen=True, slots=True)
class LeaderInfo(Record):
    """A candidate for leadership, or the leader: its member name and advertised address."""

    id: str
    addr: str
    FIELDS: ClassVar[dict[str, str]] = {"id": "id", "addr": "addr"}


@dataclass(frozen=True, slots=True)
class CutoverWatchRecord(Record):
    """Where a worker begins to watch its upstream after the cutover of a task: ``(file, offset)`` and the GTID set.
    ``opposite``: the task that replicates back into the upstream, '' without one."""

    position: str
    gtid_set: str
    opposite: str = ""
    FIELDS: ClassVar[dict[str, str]] = {"position": "position", "gtid_set": "gtid-set", "opposite": "opposite"}
    OPTIONAL: ClassVar[frozenset[str]] = frozenset({"opposite"})


@dataclass(frozen=True, slots=True)
class OperatorEvent(Record):
    """A change that someone made. ``at`` is RFC 3339; ``command`` is dmctl's form of it; ``detail`` is what went
    wrong."""

    at: str
    who: str
    what: str
    command: str
    result: str
    detail: str
    FIELDS: ClassVar[dict[str, str]] = {
        "at": "at",
        "who": "who",
        "what": "what",
        "command": "command",
        "result": "result",
        "detail": "detail",
    }
