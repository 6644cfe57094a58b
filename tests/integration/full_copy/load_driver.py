"""Loads in a process of its own, which a test can kill: ``load_driver.py <pickled SubTaskConfig>``."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

from dm_worker.engine.engine import SparkEngine
from dm_worker.loader import LoadUnit


def main() -> None:
    unit = LoadUnit(pickle.loads(Path(sys.argv[1]).read_bytes()), SparkEngine(slots=4))
    unit.transaction_bytes = 20_000
    unit.late_key_bytes = 1
    outcome = unit.run()
    print(outcome.finished, [str(error) for error in outcome.errors], flush=True)


if __name__ == "__main__":
    main()
