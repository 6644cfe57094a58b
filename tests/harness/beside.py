"""Work in a thread beside a test, which fails the test if it fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def beside(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Runs ``work`` in the block; its event says that the block has ended. What it raises is raised at the end."""
    ended = threading.Event()
    failures: list[Exception] = []

    def run() -> None:
        try:
            work(ended)
        except Exception as exc:  # noqa: BLE001 - raised in the own thread of the test
            failures.append(exc)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    if failures:
        raise failures[0]
