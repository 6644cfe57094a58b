"""Runs in a process of its own, with a sanitizer loaded: feeds the targets until the time is over.

``python -m tests.native_sanitized.driver FOLDER SECONDS SEED CURRENT CORPUS``: the compiled parts of FOLDER take the
place of the usual ones. What a target is about to get is in the file CURRENT, to be known when the process dies.
Prints what was done as JSON.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, settings

import pkg.native

_MOST_BYTES = 6000
#: To watch what is called takes time: one in so many inputs is.
_UNWATCHED = 5
#: Seconds after the deadline until what was not called yet counts as called by no target.
_GRACE = 400.0
#: The exit code then.
NEVER_CALLED = 3


def mutated(random_: random.Random, known: list[bytes]) -> bytes:
    """Fresh bytes, or an earlier buffer with something flipped, cut, put in or swapped."""
    if not known or random_.random() < 0.5:
        return random_.randbytes(random_.choice((8, 200, 1000, _MOST_BYTES)))
    raw = bytearray(random_.choice(known))
    for _ in range(random_.randrange(1, 6)):
        at, size = random_.randrange(len(raw) + 1), random_.randrange(1, 17)
        how = random_.randrange(4)
        if how == 0 and at < len(raw):
            raw[at] ^= 1 << random_.randrange(8)
        elif how == 1:
            del raw[at : at + size]
        elif how == 2:
            raw[at:at] = random_.randbytes(size)
        else:
            other = random_.randrange(len(raw) + 1)
            raw[at : at + size], raw[other : other + size] = raw[other : other + size], raw[at : at + size]
    return bytes(raw)


def entry_points() -> set[str]:
    """All functions and methods of the compiled parts, as ``part.function`` and ``part.Type.method``."""
    found = set()
    for part in pkg.native.PARTS:
        for name, value in vars(pkg.native.load(part)).items():
            if isinstance(value, type):
                methods = (method for method, kind in vars(value).items() if type(kind).__name__ == "method_descriptor")
                found |= {f"{part}.{name}.{method}" for method in methods}
            elif callable(value):
                found.add(f"{part}.{name}")
    return found


class Watch:
    """Which functions and methods of the compiled parts were not called yet."""

    def __init__(self) -> None:
        self.unseen = entry_points()

    def __call__(self, _frame: object, event: str, called: object) -> None:
        if event == "c_call":
            owner = getattr(called, "__self__", None)
            module = getattr(owner, "__name__", "") if isinstance(owner, type(sys)) else type(owner).__module__
            if module.startswith("pkg.native._"):
                self.unseen.discard(f"{module.rpartition('._')[2]}.{getattr(called, '__qualname__', '')}")


def main(folder: str, seconds: float, seed: int, current: Path, corpus: Path) -> None:
    pkg.native.__path__.insert(0, folder)  # before anything loads them
    # Sanitizers are slow, and what failed is kept elsewhere. Tests take this over when they are defined.
    settings.register_profile("fuzz", deadline=None, database=None, suppress_health_check=list(HealthCheck))
    settings.load_profile("fuzz")
    from tests.native_sanitized.targets import TARGETS

    random_, watch, counts = random.Random(seed), Watch(), Counter[str]()
    known: dict[str, list[bytes]] = {name: [] for name in TARGETS}
    #: Processor seconds: each target gets as much as the others.
    spent = dict.fromkeys(TARGETS, 0.0)

    def feed(name: str, buffer: bytes) -> None:
        current.write_bytes(name.encode() + b"\n" + buffer)
        sys.setprofile(watch if watch.unseen and counts[name] % _UNWATCHED == 0 else None)
        began = time.process_time()
        try:
            TARGETS[name](buffer)
        finally:
            sys.setprofile(None)
        spent[name] += time.process_time() - began
        counts[name] += 1

    for path in sorted(corpus.glob("*/*.bin")):
        feed(path.parent.name, path.read_bytes())
    replayed = counts.total()
    deadline = time.monotonic() + seconds
    # What is slow, or comes about rarely, is waited for: the end is when each target ran and each entry point was used.
    while time.monotonic() < deadline or watch.unseen or len(counts) < len(TARGETS):
        if time.monotonic() > deadline + _GRACE:
            print(f"no target calls {sorted(watch.unseen)}: add a target in tests/native_sanitized/targets.py")
            sys.exit(NEVER_CALLED)
        name = min(TARGETS, key=lambda name: (counts[name] > 0, spent[name]))
        buffer = mutated(random_, known[name])
        feed(name, buffer)
        known[name] = [*known[name][-40:], buffer]
    loaded = {part: str(getattr(pkg.native.load(part), "__file__", "")) for part in pkg.native.PARTS}
    print(json.dumps({"replayed": replayed, "counts": counts, "loaded": loaded}))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]), Path(sys.argv[5]))
