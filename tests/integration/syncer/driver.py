"""A syncer in a process of its own, to be killed or measured.

``python -m tests.integration.syncer.driver <pickled config> [memory budget in bytes, memory of the JVM]``
"""

from __future__ import annotations

import base64
import pickle
import sys

from dm_worker.engine.engine import SparkEngine
from dm_worker.syncer import SyncUnit


def main() -> int:
    cfg = pickle.loads(base64.b64decode(sys.argv[1]))
    options = sys.argv[2:]
    engine = SparkEngine(slots=4, memory=int(options[0]), driver_memory=options[1]) if options else SparkEngine(slots=4)
    print("started", flush=True)
    outcome = SyncUnit(cfg, engine).run()
    print(outcome, flush=True)
    return 1 if outcome.errors else 0


if __name__ == "__main__":
    sys.exit(main())
