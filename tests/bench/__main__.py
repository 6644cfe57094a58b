"""`make bench`: compares every target with the native tools on the same machine, in one run.

Catch-up and full copy are medians of ``--runs`` warm runs; this program and the peers take turns on the same settings.
Each turn ends with a comparison of the content: a fast wrong result is a failure.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from pkg.process.heap import keep_freed
from tests.bench import (
    bounded,
    catchup,
    cold,
    decode,
    diff,
    foreign_writes,
    fullcopy,
    idle,
    keyless,
    lag,
    load_keys,
    many_tables,
    partial_images,
    relay,
    scale,
    shapes,
    slow,
    tidb,
    validation,
)
from tests.bench.figures import Report
from tests.bench.rig import Rig
from tests.bench.workloads import all_workloads

Sizes = Mapping[str, float]
Part = Callable[[Rig, Sizes], None]

#: What a part works on, unless the set or the command line says otherwise.
SIZES: Sizes = {
    "runs": 3,
    "rows": 400_000,
    "changes": 300_000,
    "copy_rows": 1_000_000,
    "big_rows": 1_000_000,
    "budget": 3072,
    "rate": 0,
    "lag_seconds": 30,
    "tables": 10_000,
    "statements": 100,
    "threads": 4,
}


def parts() -> dict[str, Part]:
    """Every part by its name, in the order of the run."""
    # Memory comes first: the syncer does not use what other parts leave on the driver's heap.
    made: dict[str, Part] = {
        "memory": lambda rig, sizes: bounded.run(rig, int(sizes["big_rows"]), int(sizes["budget"])),
        "copy": lambda rig, sizes: fullcopy.run(rig, int(sizes["copy_rows"])),
        "load-keys": lambda rig, sizes: load_keys.run(rig, int(sizes["copy_rows"])),
        "diff": lambda rig, sizes: diff.run(rig, int(sizes["copy_rows"])),
    }
    for name in all_workloads():
        made[name] = _plain(partial(catchup.run, name=name))
    made["tidb-copy"] = lambda rig, sizes: tidb.copy(rig, int(sizes["copy_rows"]))
    for name in tidb.CATCH_UPS:
        made[f"tidb-{name}"] = _plain(partial(tidb.catch_up, name=name))
    made["lag"] = lambda rig, sizes: lag.run(rig, sizes["rate"], sizes["lag_seconds"])
    made["many-tables"] = lambda rig, sizes: many_tables.run(rig, int(sizes["tables"]), int(sizes["statements"]))
    made["keyless-update"] = _plain(partial(keyless.run, verbs=("UPDATE",)))
    others = {"validation": validation.run, "sweep": validation.sweep, "keyless": keyless.run}
    others |= {"partial": partial_images.run, "shapes": shapes.run, "idle": idle.run, "scale": scale.run}
    others |= {
        "foreign-writes": foreign_writes.run,
        "slow": slow.run,
        "decode": decode.run,
        "relay": relay.run,
        "cold": cold.run,
    }
    return {**made, **{name: _plain(run) for name, run in others.items()}}


def _plain(run: Callable[[Rig], None]) -> Part:
    return lambda rig, _: run(rig)


#: Named sets: their parts, and the sizes that differ in each.
SETS: dict[str, dict[str, Sizes]] = {
    # The parts with a target.
    "targets": {name: {} for name in ("memory", "copy", *catchup.AIMS, "lag", "slow", "decode", "relay", "cold")},
    # Ratios to the best of others' tools and between shapes of tables: at most 40 minutes on two quiet cores.
    "goals": {
        # First: other parts leave memory to the processes.
        "idle": {},
        "oltp": {},
        "insert-only": {},
        "insert-4-keys": {"rows": 100_000, "changes": 200_000},
        "copy": {"copy_rows": 400_000},
        "load-keys": {"copy_rows": 300_000},
        "tidb-copy": {"copy_rows": 120_000},
        "keyless-update": {},
        "shapes": {"rows": 200_000, "changes": 120_000},
        "partial": {"rows": 200_000, "changes": 120_000},
        "scale": {"rows": 200_000, "changes": 120_000},
    },
}


def chosen(args: argparse.Namespace, known: Sequence[str]) -> dict[str, Sizes]:
    """The parts to run and their sizes: ``--only`` (or ``all``) instead of the set's. Raises ValueError."""
    named = SETS[args.set]
    names = list(known) if args.only == "all" else [name for name in args.only.split(",") if name] or list(named)
    wrong = [name for name in names if name not in known]
    if wrong:
        raise ValueError(f"no part {', '.join(wrong)}; there are {', '.join(known)}")
    given = {name: value for name in SIZES if (value := getattr(args, name)) is not None}
    return {name: {**SIZES, **named.get(name, {}), **given} for name in names}


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.bench", description=__doc__)
    parser.add_argument("--only", default="", help="parts, separated by commas, or 'all'; default: those of the set")
    parser.add_argument("--set", choices=list(SETS), default="targets", help="parts and their sizes; sizes below win")
    parser.add_argument("--runs", type=int, help="turns of each catch-up and copy")
    parser.add_argument("--rows", type=int, help="rows of the tables that are changed")
    parser.add_argument("--changes", type=int, help="row changes of a catch-up")
    parser.add_argument("--copy-rows", type=int, help="rows of the full copy's main table")
    parser.add_argument("--big-rows", type=int, help="rows of the big transaction and backlog")
    parser.add_argument("--budget", type=int, help="MiB that all our processes together may hold")
    parser.add_argument("--rate", type=float, help="maximum rows/s for the lag; default: by a catch-up")
    parser.add_argument("--lag-seconds", type=float, help="how long lag is measured under load")
    parser.add_argument("--tables", type=int, help="tables of the part many-tables")
    parser.add_argument("--statements", type=int, help="DDL of the part many-tables, a multiple of 4")
    parser.add_argument("--threads", type=int, help="worker-count, dump and load threads, peers' threads")
    parser.add_argument("--json", type=Path, help="write all measurements to this file")
    return parser.parse_args(argv)


def run(
    names: Mapping[str, Sizes], known: Mapping[str, Part], report: Report, kept: Callable[[], None]
) -> dict[str, str]:
    """Runs the parts; ``kept`` is called after each. Returns why parts failed: the others' figures remain valid."""
    failed: dict[str, str] = {}
    rig: Rig | None = None
    try:
        for name, sizes in names.items():
            began = time.monotonic()
            try:
                # After a failure with new servers and a new engine: those before may be what failed.
                rig = rig or Rig.started(report)
                rig.resize(**{size: int(sizes[size]) for size in ("rows", "changes", "runs", "threads")})
                known[name](rig, sizes)
            except Exception as exc:  # noqa: BLE001 - the other parts' figures remain valid
                traceback.print_exc()
                failed[name] = f"{type(exc).__name__}: {exc}"
                print(f"{name} FAILED: {failed[name]}", file=sys.stderr, flush=True)
                if rig is not None:
                    rig.close()
                    rig = None
            print(f"  part {name}: {time.monotonic() - began:.0f} s", flush=True)
            kept()
    finally:
        if rig is not None:
            rig.close()
    return failed


def main() -> int:
    keep_freed()  # as a dm-worker does
    args = arguments()
    known = parts()
    try:
        names = chosen(args, list(known))
    except ValueError as exc:
        print(f"bench: {exc}", file=sys.stderr)
        return 2
    report = Report()

    def keep() -> None:
        if args.json:
            args.json.write_text(report.to_json())

    # The summary of what was measured is printed at a termination too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    begin = time.monotonic()
    failed: dict[str, str] = {}
    try:
        failed = run(names, known, report, keep)
    finally:
        print(f"\nSummary, after {(time.monotonic() - begin) / 60:.1f} minutes\n{report.table()}", flush=True)
    for name, reason in failed.items():
        print(f"FAILED: {name}: {reason}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
