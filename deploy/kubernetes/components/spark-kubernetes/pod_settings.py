"""Writes the Spark settings that differ between pods: the driver's pod, which owns its executors, and its image, which
the executors also use. Only Kubernetes knows the image; no variable of a pod has it.
"""

from __future__ import annotations

import json
import os
import ssl
import sys
import urllib.request
from pathlib import Path
from typing import Any

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_API = "https://kubernetes.default.svc"


def main(target: str) -> None:
    """Writes the file ``target``."""
    Path(target).write_text(settings(_own_pod(os.environ["POD_NAMESPACE"], os.environ["POD_NAME"])))


def settings(pod: dict[str, Any]) -> str:
    """The lines of spark-defaults.conf for the driver in ``pod``. Pure."""
    (image,) = (one["image"] for one in pod["spec"]["containers"] if one["name"] == "dm-worker")
    lines = {
        "spark.kubernetes.namespace": pod["metadata"]["namespace"],
        "spark.kubernetes.driver.pod.name": pod["metadata"]["name"],
        "spark.kubernetes.container.image": image,
    }
    return "".join(f"{key} {value}\n" for key, value in lines.items())


def _own_pod(namespace: str, name: str) -> dict[str, Any]:
    request = urllib.request.Request(
        f"{_API}/api/v1/namespaces/{namespace}/pods/{name}",
        headers={"Authorization": f"Bearer {(_ACCOUNT / 'token').read_text()}"},
    )
    trusted = ssl.create_default_context(cafile=str(_ACCOUNT / "ca.crt"))
    with urllib.request.urlopen(request, context=trusted, timeout=30) as answer:
        pod = json.load(answer)
    assert isinstance(pod, dict)
    return pod


if __name__ == "__main__":
    main(sys.argv[1])
