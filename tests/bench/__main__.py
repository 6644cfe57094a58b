"""`make bench`: compares every target with the native tools on the same machine, in one run.

Catch-up and full copy are medians of ``--runs`` warm runs; this program and the peers take turns on the same settings.
Each turn ends with a comparison of the content: a fast wrong result is a failure.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from deploy.local.process import HarnessError
from pkg.process.heap import keep_freed
from tests.bench import (
    bounded,
    catchup,
    cold,
    decode,
    diff,
    fullcopy,
    idle,
    keyless,
    lag,
    load_keys,
    many_tables,
    partial_images,
    relay,
    shapes,
    slow,
    tidb,
    validation,
)
from tests.bench.rig import Rig
from tests.bench.workloads import all_workloads

Part = Callable[[Rig], None]


def parts(args: argparse.Namespace) -> dict[str, Part]:
    """Every part by its name, in the order of the run."""
    # Memory comes first: the syncer does not use what other parts leave on the driver's heap.
    made: dict[str, Part] = {
        "memory": lambda rig: bounded.run(rig, args.big_rows, args.budget),
        "copy": lambda rig: fullcopy.run(rig, args.copy_rows),
        "load-keys": lambda rig: load_keys.run(rig, args.copy_rows),
        "diff": lambda rig: diff.run(rig, args.copy_rows),
    }
    for name in all_workloads():
        made[name] = partial(catchup.run, name=name)
    made["tidb-copy"] = lambda rig: tidb.copy(rig, args.copy_rows)
    for name in tidb.CATCH_UPS:
        made[f"tidb-{name}"] = partial(tidb.catch_up, name=name)
    made["lag"] = lambda rig: lag.run(rig, args.rate, args.lag_seconds)
    made["many-tables"] = lambda rig: many_tables.run(rig, args.tables, args.statements)
    made["validation"] = validation.run
    made["sweep"] = validation.sweep
    made["keyless"] = keyless.run
    made["partial"] = partial_images.run
    made["shapes"] = shapes.run
    made["idle"] = idle.run
    return {**made, "slow": slow.run, "decode": decode.run, "relay": relay.run, "cold": cold.run}


#: The default: the parts with a target.
DEFAULT = ("memory", "copy", *catchup.AIMS, "lag", "slow", "decode", "relay", "cold")


def chosen(only: str, known: Sequence[str]) -> list[str]:
    """The parts to run: ``all``, or names separated by commas; '' for those with a target. Raises ValueError."""
    if only == "all":
        return list(known)
    names = [name for name in only.split(",") if name] if only else list(DEFAULT)
    wrong = [name for name in names if name not in known]
    if wrong:
        raise ValueError(f"no part {', '.join(wrong)}; there are {', '.join(known)}")
    return names


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.bench", description=__doc__)
    parser.add_argument("--only", default="", help="parts, separated by commas, or 'all'; default: those with a target")
    parser.add_argument("--runs", type=int, default=3, help="turns of each catch-up and copy")
    parser.add_argument("--rows", type=int, default=400_000, help="rows of the tables that are changed")
    parser.add_argument("--changes", type=int, default=300_000, help="row changes of a catch-up")
    parser.add_argument("--copy-rows", type=int, default=1_000_000, help="rows of the full copy's main table")
    parser.add_argument("--big-rows", type=int, default=1_000_000, help="rows of the big transaction and backlog")
    parser.add_argument("--budget", type=int, default=3072, help="MiB that all our processes together may hold")
    parser.add_argument("--rate", type=float, default=0, help="maximum rows/s for the lag; default: by a catch-up")
    parser.add_argument("--lag-seconds", type=float, default=30, help="how long lag is measured under load")
    parser.add_argument("--tables", type=int, default=10_000, help="tables of the part many-tables")
    parser.add_argument("--statements", type=int, default=100, help="DDL of the part many-tables, a multiple of 4")
    parser.add_argument("--threads", type=int, default=4, help="worker-count, dump and load threads, peers' threads")
    parser.add_argument("--json", type=Path, help="write all measurements to this file")
    return parser.parse_args(argv)


def main() -> int:
    keep_freed()  # as a dm-worker does
    args = arguments()
    known = parts(args)
    try:
        names = chosen(args.only, list(known))
    except ValueError as exc:
        print(f"bench: {exc}", file=sys.stderr)
        return 2
    rig = Rig(args.rows, args.changes, args.runs, args.threads)
    begin = time.monotonic()
    failed: list[str] = []
    try:
        rig.start()
        for name in names:
            try:
                known[name](rig)
            except HarnessError as exc:
                # The other parts' figures remain valid.
                failed.append(name)
                print(f"{name} FAILED: {exc}", file=sys.stderr, flush=True)
    finally:
        rig.close()
        print(f"\nSummary, after {(time.monotonic() - begin) / 60:.1f} minutes\n{rig.report.table()}")
        if args.json:
            args.json.write_text(rig.report.to_json())
    if failed:
        print(f"FAILED: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
