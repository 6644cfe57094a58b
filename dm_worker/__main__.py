"""``python -m dm_worker``."""

from dm_worker.cli import main

main()
