"""Hazard: the image's bill of materials leaves out what is not Python, or does not say which image it is of."""

from __future__ import annotations

import hashlib
from pathlib import Path

from deploy.docker.sbom import completed, debian_packages, jars


def test_debian_packages_and_jars_are_beside_pythons(tmp_path: Path) -> None:
    (tmp_path / "spark-core_2.13-4.3.0.jar").write_bytes(b"x")
    (tmp_path / "netty-transport-native-epoll-4.2.13.Final-linux-x86_64.jar").write_bytes(b"y")
    python = {"bomFormat": "CycloneDX", "components": [{"name": "click"}], "metadata": {"tools": {}}}
    bom = completed(python, "1.2.3", debian_packages("curl\t7.88.1-10\tamd64\n"), jars(tmp_path))
    found = [(part["name"], part.get("version")) for part in bom["components"]]
    assert found == [
        ("click", None),
        ("curl", "7.88.1-10"),
        ("netty-transport-native-epoll", "4.2.13.Final-linux-x86_64"),
        ("spark-core_2.13", "4.3.0"),
    ]
    assert bom["components"][1]["purl"] == "pkg:deb/debian/curl@7.88.1-10?arch=amd64"
    assert bom["components"][3]["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(b"x").hexdigest()}]
    assert bom["metadata"]["component"] == {
        "type": "container",
        "bom-ref": "dm@1.2.3",
        "name": "dm",
        "version": "1.2.3",
    }
    assert "tools" in bom["metadata"]
