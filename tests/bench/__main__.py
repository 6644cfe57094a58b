"""`make bench`: every target side by side with the native ways on the same machine, in one run.

Catch-up and full copy are medians of ``--runs``, warm, ours and the peers' turns alternating on the same settings.
After each turn the content is compared: a fast wrong answer is a failure.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tests.bench import catchup, cold, fullcopy, slow
from tests.bench.rig import Rig
from tests.bench.workloads import all_workloads
from tests.harness.process import HarnessError

Part = Callable[[Rig], None]


def parts(args: argparse.Namespace) -> dict[str, Part]:
    """Every part by its name, in the order in which they run."""
    made: dict[str, Part] = {"copy": lambda rig: fullcopy.run(rig, args.copy_rows)}
    for name in all_workloads():
        made[name] = partial(catchup.run, name=name)
    return {**made, "slow": slow.run, "cold": cold.run}


#: What runs when nothing is asked for: the parts with a target.
DEFAULT = ("copy", *catchup.AIMS, "slow", "cold")


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
    parser.add_argument("--changes", type=int, default=400_000, help="row changes of a catch-up")
    parser.add_argument("--copy-rows", type=int, default=1_000_000, help="rows of the full copy's main table")
    parser.add_argument("--threads", type=int, default=4, help="worker-count, dump and load threads, peers' threads")
    parser.add_argument("--json", type=Path, help="write all measurements to this file")
    return parser.parse_args(argv)


def main() -> int:
    args = arguments()
    known = parts(args)
    try:
        names = chosen(args.only, list(known))
    except ValueError as exc:
        print(f"bench: {exc}", file=sys.stderr)
        return 2
    rig = Rig(args.rows, args.changes, args.runs, args.threads)
    begin = time.monotonic()
    failed = False
    try:
        rig.start()
        for name in names:
            known[name](rig)
    except HarnessError as exc:
        print(f"bench failed: {exc}", file=sys.stderr)
        failed = True
    finally:
        rig.close()
    print(f"\nSummary, after {(time.monotonic() - begin) / 60:.1f} minutes\n{rig.report.table()}")
    if args.json:
        args.json.write_text(rig.report.to_json())
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
