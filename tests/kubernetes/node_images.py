"""The images of the container tests, carried over to the node: no registry is needed."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.containers.engine import docker
from tests.containers.images import PRESENT, Images
from tests.kubernetes.node import PAUSE, Node

#: What keeps the namespaces of a pod.
_PAUSE = 'FROM {base}\nENTRYPOINT ["sleep", "infinity"]\n'
#: The image that the manifests name, and the tests' databases.
DM, DATABASE = "dm:latest", "dm-stand-in/database:1"


def carried_over(node: Node, images: Images) -> None:
    """Gives the node the project's image, MariaDB's and the one that every pod needs, from the Docker engine."""
    pause = PAUSE.removeprefix("docker.io/")
    docker("build", "--tag", pause, "-", text=_PAUSE.format(base=images.variables["PYTHON_IMAGE"]))
    docker("tag", images.variables["MARIADB_IMAGE"], DATABASE)
    docker("tag", f"dm:{PRESENT}", DM)
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder, "images.tar")
        docker("save", "--output", str(archive), pause, DATABASE, DM)
        node.load(archive)
