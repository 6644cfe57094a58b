"""Hazard: a reader misses the movement of the readable end, or waits forever."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from dm_worker.relay.readable_end import ReadableEnd, RelayLogEnd


def test_nothing_is_readable_before_the_writer_looked() -> None:
    readable_end = ReadableEnd()
    assert readable_end.end() is None
    assert readable_end.wait("a.000001", "bin.000001", 0, 0.01) == 0


def test_a_reader_after_the_tail_does_not_wait() -> None:
    readable_end = ReadableEnd()
    readable_end.moved("a.000001", "bin.000002", 100)
    assert readable_end.end() == RelayLogEnd("a.000001", "bin.000002", 100)
    assert readable_end.wait("a.000001", "bin.000002", 99, 60) == 100
    assert readable_end.wait("a.000001", "bin.000001", 5000, 60) == -1
    assert readable_end.wait("a.000001", "bin.000002", 100, 0.01) == 100


def test_all_waiting_readers_wake_for_bytes_a_next_file_and_a_next_folder() -> None:
    readable_end = ReadableEnd()
    readable_end.moved("a.000001", "bin.000001", 10)
    steps = [("a.000001", "bin.000001", 20), ("a.000001", "bin.000002", 4), ("b.000002", "bin.000002", 4)]
    for subdir, file, size in steps:
        end = readable_end.end()
        assert end is not None
        ready = threading.Barrier(4)

        def read(at: RelayLogEnd = end, ready: threading.Barrier = ready) -> int:
            ready.wait(30)
            return readable_end.wait(at.subdir, at.file, at.size, 60)

        with ThreadPoolExecutor(3) as pool:
            waiting = [pool.submit(read) for _ in range(3)]
            ready.wait(30)
            readable_end.moved(subdir, file, size)
            expected = size if (subdir, file) == (end.subdir, end.file) else -1
            assert [future.result(60) for future in waiting] == [expected] * 3
