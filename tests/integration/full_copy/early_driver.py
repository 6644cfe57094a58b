"""Dumps with early rows in a process that a test can kill: ``early_driver.py <pickled SubTaskConfig>``."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

from dm_worker.dumper import DumpUnit
from dm_worker.engine.engine import SparkEngine
from dm_worker.loader.early_load import EarlyLoad


def main() -> None:
    cfg = pickle.loads(Path(sys.argv[1]).read_bytes())
    engine = SparkEngine(slots=8)
    early = EarlyLoad(cfg, engine)
    early.least_bytes = 1
    outcome = DumpUnit(cfg, engine, early).run()
    print(outcome.finished, [str(error) for error in outcome.errors], flush=True)


if __name__ == "__main__":
    main()
