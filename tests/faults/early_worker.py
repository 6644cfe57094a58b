"""A dm-worker that loads rows of all tables while their dump runs, small ones too: ``python -m`` with its options."""

from __future__ import annotations

from dm_worker.cli import main
from dm_worker.loader.early_load import EarlyLoad

if __name__ == "__main__":
    EarlyLoad.least_bytes = 1
    main()
