"""Hazard: C code reads or writes where it must not, or differs from its twin, on bytes that nobody thought of.

Each run has a fresh seed (``DM_TEST_SEED`` gives one) and takes ``DM_TEST_FUZZ_SECONDS``. What a target failed at is
kept in ``corpus/TARGET``, to be committed with the mend: each run begins with these.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from deploy.local.cache import once
from pkg import native
from pkg.native.sources import digest
from tests.compiled import required
from tests.native_sanitized.driver import NEVER_CALLED
from tests.sweeps import LONG

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(__file__).parent / "corpus"
SECONDS = float(os.environ.get("DM_TEST_FUZZ_SECONDS", "45" if LONG else "10"))
#: A machine that does other things too takes long to start, and for the rarest entry point.
FUZZ_TIMEOUT = 10 * SECONDS + 500
_FLAGS = "-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -g -O1"

pytestmark = pytest.mark.timeout(FUZZ_TIMEOUT + 300)


def _library(name: str) -> str:
    """The sanitizer's library, which must be loaded before anything else; it comes with gcc."""
    path = subprocess.run(
        ["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert os.path.isabs(path), f"{name} is missing: install gcc with its libraries (libgcc-12-dev)"
    return path


def _build(folder: Path) -> None:
    places = [f"--build-lib={folder}", f"--build-temp={folder}/temp"]
    environment = {**os.environ, "DM_NATIVE_CFLAGS": _FLAGS, "CC": "gcc"}
    done = subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", *places],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    built = list((folder / "pkg" / "native").glob("*.so"))
    assert len(built) == len(native.PARTS), f"not all parts could be built:\n{done.stdout}{done.stderr}"


@pytest.fixture(scope="module")
def parts() -> Path:
    """The folder of the compiled parts with sanitizers, built from these sources for this Python."""
    required("rows")
    sources = "".join(digest(Path(native.__file__).parent, name) for name in native.PARTS)
    name = hashlib.sha256(f"{sources} {_FLAGS} {sys.version}".encode()).hexdigest()[:20]
    return once(f"sanitized-{name}", _build) / "pkg" / "native"


def _fuzz(parts: Path, seconds: float, seed: int, current: Path, *, corpus: Path) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "LD_PRELOAD": f"{_library('libasan.so')} {_library('libubsan.so')}",
        "ASAN_OPTIONS": "detect_leaks=0",  # Python itself keeps memory to its end
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc",  # with Python's own allocator, what is behind a value would count as its memory
        "DM_KERNEL": "native",
    }
    command: Sequence[str] = [
        *(sys.executable, "-m", "tests.native_sanitized.driver"),
        *(str(parts), str(seconds), str(seed), str(current), str(corpus)),
    ]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=FUZZ_TIMEOUT
    )


def _keep(current: Path) -> Path:
    """Puts what the last target got into the corpus."""
    target, _, buffer = current.read_bytes().partition(b"\n")
    path = CORPUS / target.decode() / f"{hashlib.sha256(buffer).hexdigest()[:16]}.bin"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(buffer)
    return path


def test_no_input_makes_the_compiled_parts_err(parts: Path, tmp_path: Path) -> None:
    seed = int(os.environ.get("DM_TEST_SEED") or secrets.randbits(63))
    print(f"seed {seed}")
    done = _fuzz(parts, SECONDS, seed, tmp_path / "current", corpus=CORPUS)
    assert done.returncode != NEVER_CALLED, f"seed {seed}; {done.stdout}"
    if done.returncode:
        kept = _keep(tmp_path / "current")
        pytest.fail(f"seed {seed}; the input is kept as {kept}\n{done.stdout[-3000:]}{done.stderr[-12000:]}")
    found = json.loads(done.stdout)
    assert found["replayed"] == len(list(CORPUS.glob("*/*.bin"))) > 0
    assert all(Path(path).parent == parts for path in found["loaded"].values()), "not those with sanitizers"
    print(found["counts"])


def test_a_wrong_access_would_be_seen(parts: Path) -> None:
    """The oracle itself: without it, everything passes."""
    code = (
        "import ctypes, sys\n"
        f"sys.path.insert(0, {str(parts)!r})\n"
        "import _scan\n"
        "memory = ctypes.create_string_buffer(64)\n"
        "address = ctypes.pythonapi.PyMem_RawMalloc\n"
        "address.restype, address.argtypes = ctypes.c_void_p, [ctypes.c_size_t]\n"
        "view = (ctypes.c_char * 200).from_address(address(100))\n"
        "_scan.crc32(memoryview(view), 0)\n"
    )
    environment = {
        **os.environ,
        "LD_PRELOAD": f"{_library('libasan.so')} {_library('libubsan.so')}",
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONMALLOC": "malloc",
    }
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "AddressSanitizer: heap-buffer-overflow" in done.stderr
