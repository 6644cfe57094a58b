"""Pins the images that the Dockerfile and the Compose file name by tag: adds each tag's current digest.

`make pin-images` queries the registries with ``docker buildx imagetools``. Run it again to follow a tag; it replaces an
existing digest.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILES = ("Dockerfile", "docker-compose.yml")
#: The default of a variable `…_IMAGE`: `ARG X_IMAGE=name:tag` in a Dockerfile, `${X_IMAGE:-name:tag}` in Compose.
_DEFAULT = re.compile(
    r"(?P<before>_IMAGE(?:=|:-))(?P<image>(?:[\w.-]+(?::\d+)?/)*[\w.-]+:[\w.-]+)(?:@sha256:[0-9a-f]{64})?"
)
#: The text output: some versions of buildx print it even with `--format`.
_DIGEST = re.compile(r"(?m)^Digest:\s+(sha256:[0-9a-f]{64})$")


def pinned(text: str, digest_of: Callable[[str], str]) -> str:
    """``text`` with ``name:tag@sha256:…`` for each default image. Pure, except for ``digest_of``."""

    def pin(found: re.Match[str]) -> str:
        return f"{found['before']}{found['image']}@{digest_of(found['image'])}"

    return _DEFAULT.sub(pin, text)


def registry_digest(image: str) -> str:
    """The multi-platform digest of ``image`` in its registry. Raises ``SystemExit`` if none answers."""
    command = ["docker", "buildx", "imagetools", "inspect", image]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    found = _DIGEST.search(done.stdout)
    if done.returncode or found is None:
        raise SystemExit(f"pin-images: no digest of {image}; nothing is changed:\n{done.stderr or done.stdout}")
    return found[1]


def main(names: Iterable[str]) -> None:
    """Pins the images of all files, or changes none of them."""
    contents = {ROOT / name: (ROOT / name).read_text(encoding="utf-8") for name in names}
    digests: dict[str, str] = {}

    def digest_of(image: str) -> str:
        if image not in digests:
            digests[image] = registry_digest(image)
            sys.stdout.write(f"{image}@{digests[image]}\n")
        return digests[image]

    changed = {path: pinned(text, digest_of) for path, text in contents.items()}
    for path, text in changed.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(FILES)
