"""The stored record of a cutover that runs or has ended, and its certificate. Pure.

A record is written only when a step is complete, and each step can be repeated: so a cutover continues after every
crash, with one certificate.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum

from dm_master.cutover.facts import CutoverFacts
from dm_master.cutover.table_checksums import METHOD, TableSum
from dm_master.cutover.verdict import CheckVerdict
from pkg import errors
from pkg.binlog.position import Location, parse_position
from pkg.errors import Code
from pkg.process.version import VERSION


class CutoverStage(StrEnum):
    """The stages of a record; a cutover without a complete step has none::

        no record -- checks pass --> COMPARING -- tables equal, checks pass --> ENDING -- task paused --> ENDED
            ^                            |                                         |
            +--- a check fails, or an ---+------------ an upstream has ------------+
                 upstream has written                  written

    ``COMPARING``: the target's checksums are taken, the comparison runs. ``ENDING``: all checks are passed, the task
    ends at the agreed positions. ``ENDED``: the certificate is there.
    """

    COMPARING = "comparing"
    ENDING = "ending"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class CutoverRecord:
    """``run`` names the cutover and its comparison. ``servers``: versions by source, the target's as ``target``.
    ``ends``: the agreed position of each source. ``target_end``: the target's binlog position when the task had ended,
    for a way back. ``equal_at``: when ``verify`` found each table equal last. ``reversed_by``: the tasks of the way
    back, which end the watch. Times are UTC."""

    run: str
    began: str
    stage: CutoverStage
    sums: tuple[TableSum, ...] = ()
    accepted: tuple[str, ...] = ()
    verdicts: tuple[CheckVerdict, ...] = ()
    servers: Mapping[str, str] = field(default_factory=dict)
    ends: Mapping[str, Location] = field(default_factory=dict)
    target_end: Location | None = None
    certificate: str = ""
    equal_at: Mapping[str, str] = field(default_factory=dict)
    reversed_by: tuple[str, ...] = ()

    def to_text(self) -> str:
        data = {
            "run": self.run,
            "began": self.began,
            "stage": self.stage,
            "sums": [asdict(one) for one in self.sums],
            "accepted": self.accepted,
            "verdicts": [asdict(one) for one in self.verdicts],
            "servers": dict(self.servers),
            "ends": {source: _located(end) for source, end in self.ends.items()},
            "target_end": _located(self.target_end),
            "certificate": self.certificate,
            "equal_at": dict(self.equal_at),
            "reversed_by": self.reversed_by,
        }
        # etcd accepts 1.5 MB in one request; with thousands of tables the record needs compression to fit.
        return base64.b85encode(zlib.compress(json.dumps(data).encode())).decode()

    @staticmethod
    def from_text(text: str) -> CutoverRecord:
        data = json.loads(zlib.decompress(base64.b85decode(text)))
        return CutoverRecord(
            data["run"],
            data["began"],
            CutoverStage(data["stage"]),
            tuple(TableSum(**{**one, "target": (one["target"][0], one["target"][1])}) for one in data["sums"]),
            tuple(data["accepted"]),
            tuple(CheckVerdict(**(one | {"evidence": tuple(one["evidence"])})) for one in data["verdicts"]),
            data["servers"],
            {source: _location(end) for source, end in data["ends"].items()},
            None if data["target_end"] is None else _location(data["target_end"]),
            data["certificate"],
            data["equal_at"],
            tuple(data["reversed_by"]),
        )


def _located(location: Location | None) -> dict[str, str] | None:
    return None if location is None else {"position": str(location.position), "gtid-set": location.gtid_set}


def _location(data: Mapping[str, str]) -> Location:
    return Location(parse_position(data["position"]), data["gtid-set"])


def open_checks(verdicts: Iterable[CheckVerdict], accepted: Iterable[str]) -> list[str]:
    """The checks that are neither passed nor accepted."""
    allowed = set(accepted)
    return [one.name for one in verdicts if not one.passed and one.name not in allowed]


def certificate(task: str, record: CutoverRecord, at: str, target_end: Location | None) -> str:
    """The certificate as JSON. ``at``: when the task had ended."""
    return json.dumps(
        {
            "certificate": record.run,
            "task": task,
            "began": record.began,
            "ended": at,
            "version": VERSION,
            "sources": [
                {"source": source, "version": record.servers.get(source, ""), **(_located(end) or {})}
                for source, end in sorted(record.ends.items())
            ],
            "target": {"version": record.servers.get("target", ""), **(_located(target_end) or {})},
            "comparison": "accepted without one" if "diff" in record.accepted else f"equal, run {record.run}",
            "method": METHOD,
            "tables": [
                {
                    "schema": one.target[0],
                    "table": one.target[1],
                    "rows": one.rows,
                    "checksum": one.digest,
                    "undigested": one.undigested,
                    "columns": one.columns,
                }
                for one in record.sums
            ],
            "checks": [
                {
                    "name": one.name,
                    "verdict": one.verdict,
                    "accepted": not one.passed,
                    "evidence": list(one.evidence),
                }
                for one in record.verdicts
            ],
        },
        indent=2,
        ensure_ascii=False,
    )


@dataclass(frozen=True, slots=True)
class Certificate:
    """Reads a certificate for ``verify``."""

    run: str
    task: str
    ended: str
    ends: Mapping[str, Location]
    target_end: Location | None
    sums: tuple[TableSum, ...]


def read_certificate(text: str) -> Certificate:
    """Raises 43201 for text that is not a certificate."""
    try:
        data = json.loads(text)
        target = data["target"]
        return Certificate(
            data["certificate"],
            data["task"],
            data["ended"],
            {one["source"]: _location(one) for one in data["sources"]},
            _location(target) if "position" in target else None,
            tuple(
                TableSum((one["schema"], one["table"]), one["rows"], one["undigested"], one["checksum"], one["columns"])
                for one in data["tables"]
            ),
        )
    except (ValueError, KeyError, TypeError) as exc:
        raise errors.new(
            Code.CutoverRefused,
            "this is not a certificate of a cutover",
            raw=f"{type(exc).__name__}: {exc}",
            workaround="Give the JSON file that `dmctl cutover run` wrote, or take it from `dmctl cutover status`.",
        ) from exc


def versions(facts: CutoverFacts) -> dict[str, str]:
    """The servers' versions, by source, and ``target``."""
    servers = (*(one.server for one in facts.upstreams), facts.target.server)
    return {one.label: one.info.version_text for one in servers}


def tables_of(facts: CutoverFacts) -> set[tuple[str, str]]:
    """The target's tables that the task writes."""
    return {target for one in facts.upstreams for target in one.routed.values()}


def differences(
    before: Mapping[str, Location], now: Mapping[str, Location | None] | Mapping[str, Location]
) -> list[str]:
    """The sources whose binlog has grown since."""
    return [
        f"{source}: was at {end}, is at {now.get(source)}"
        for source, end in sorted(before.items())
        if now.get(source) != end
    ]
