"""Completes the image's software bill of materials (CycloneDX): adds Debian's packages and Spark's jars to Python's.

``sbom.py PYTHON-BOM VENV VERSION`` prints the result. cyclonedx-py lists only the Python packages.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_JAR = re.compile(r"(?P<name>.+?)-(?P<version>\d[\w.+-]*)\.jar")


def debian_packages(listing: str) -> Iterator[dict[str, Any]]:
    """Components of ``dpkg-query`` lines: package, version and architecture, separated by tabs."""
    for line in listing.splitlines():
        name, version, architecture = line.split("\t")
        purl = f"pkg:deb/debian/{name}@{version}?arch={architecture}"
        yield {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


def jars(folder: Path) -> Iterator[dict[str, Any]]:
    """Components of the jars in ``folder``: names and versions from the file names, and SHA-256."""
    for path in sorted(folder.glob("*.jar")):
        match = _JAR.fullmatch(path.name)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        yield {
            "type": "library",
            "bom-ref": f"jar:{path.name}",
            "name": match["name"] if match else path.stem,
            "version": match["version"] if match else "",
            "hashes": [{"alg": "SHA-256", "content": digest}],
        }


def completed(bom: dict[str, Any], version: str, *others: Iterator[dict[str, Any]]) -> dict[str, Any]:
    """``bom`` with the image as its subject and ``others`` added to its components."""
    subject = {"type": "container", "bom-ref": f"dm@{version}", "name": "dm", "version": version}
    metadata = {**bom.get("metadata", {}), "component": subject}
    found = [*bom.get("components", []), *(component for part in others for component in part)]
    return {**bom, "metadata": metadata, "components": found}


def main() -> int:
    bom, venv, version = sys.argv[1:]
    query = ["dpkg-query", "--show", "--showformat=${Package}\t${Version}\t${Architecture}\n"]
    installed = subprocess.run(query, check=True, capture_output=True, text=True).stdout
    folder = next(Path(venv).glob("lib/python3*/site-packages/pyspark/jars"))
    whole = completed(json.loads(Path(bom).read_text()), version, debian_packages(installed), jars(folder))
    json.dump(whole, sys.stdout, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
