"""Hazard: manifests that Kubernetes refuses, or whose unknown fields it drops."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.local.process import HarnessError
from pkg.process.metrics import Metrics
from pkg.rpc.server import HttpRoutes, PortServer
from tests.deploy.kubernetes_schemas import schema_location
from tests.deploy.tools import run
from tests.harness.certificates import Authority

KUBERNETES = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes"
VARIANTS = ("base", *sorted(f"overlays/{folder.name}" for folder in (KUBERNETES / "overlays").iterdir()))
VERSIONS = ("1.30.0", "1.37.0")


def built(variant: str) -> str:
    return run("kustomize", "build", KUBERNETES / variant)


def check(manifests: str, version: str) -> str:
    return run("kubeconform", "-strict", "-summary", "-schema-location", schema_location(version), stdin=manifests)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_manifests_follow_the_schemas(variant: str, version: str) -> None:
    count = len(list(yaml.safe_load_all(built(variant))))
    assert count > 10
    assert f"Valid: {count}, Invalid: 0, Errors: 0, Skipped: 0" in check(built(variant), version)


@pytest.mark.parametrize(
    ("kind", "path"), [("StatefulSet", "spec.template.spec.readinessprobe"), ("ServiceMonitor", "spec.endpoint")]
)
def test_an_unknown_field_would_be_noticed(kind: str, path: str) -> None:
    documents = list(yaml.safe_load_all(built("overlays/production")))
    place: dict[str, Any] = next(document for document in documents if document["kind"] == kind)
    *parents, last = path.split(".")
    for name in parents:
        place = place[name]
    place[last] = {}
    with pytest.raises(HarnessError, match=last):
        check(yaml.safe_dump_all(documents), VERSIONS[-1])


def executors(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The pods that Spark makes from templates in ConfigMaps."""
    templates = [one["data"]["executor.yaml"] for one in documents if "executor.yaml" in one.get("data", {})]
    return [yaml.safe_load(template) for template in templates]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_pods_of_executors_follow_the_schemas(version: str) -> None:
    (pod,) = executors(list(yaml.safe_load_all(built("overlays/spark-kubernetes"))))
    # Spark adds what a container must have.
    pod["spec"]["containers"][0]["image"] = "dm"
    assert "Valid: 1, Invalid: 0" in check(yaml.safe_dump(pod), version)


@pytest.mark.parametrize(("variant", "count"), [("overlays/spark", 4), ("overlays/spark-kubernetes", 3)])
def test_selectors_find_the_pods_that_they_are_for(variant: str, count: int) -> None:
    """Also of what components add: a policy or a budget without pods protects nothing."""
    documents = list(yaml.safe_load_all(built(variant)))
    pods = [
        one["spec"]["template"]["metadata"]["labels"]
        for one in documents
        if one["kind"] in ("StatefulSet", "Deployment")
    ]
    pods += [pod["metadata"]["labels"] for pod in executors(documents)]
    assert len(pods) == count
    for one in documents:
        spec = one.get("spec", {})
        chosen = {
            "Service": spec.get("selector"),
            "NetworkPolicy": spec.get("podSelector", {}).get("matchLabels"),
            "PodDisruptionBudget": (spec.get("selector") or {}).get("matchLabels"),
        }.get(one["kind"])
        if chosen is not None:
            assert any(chosen.items() <= labels.items() for labels in pods), one["metadata"]["name"]
    # What no other policy opens is closed for every pod.
    assert all(labels["app.kubernetes.io/part-of"] == "dm" for labels in pods)


@pytest.mark.parametrize("program", ["dm-master", "dm-worker"])
def test_probes_reach_a_port_with_mutual_tls(program: str, tmp_path: Path) -> None:
    """The command of the manifest, with the files and the port of this test."""
    security = Authority(tmp_path).issue("dm")
    ready = [False]
    routes = HttpRoutes(status=str, metrics=Metrics(), ready=lambda: ready[0])
    server = PortServer("127.0.0.1", 0, lambda _: None, routes, security)
    server.start()
    places = {"ca.crt": security.ssl_ca, "tls.crt": security.ssl_cert, "tls.key": security.ssl_key}
    (pod,) = (
        one["spec"]["template"]["spec"]["containers"][0]
        for one in yaml.safe_load_all(built("overlays/production"))
        if (one["kind"], one["metadata"]["name"]) == ("StatefulSet", program)
    )

    def result(probe: str) -> int:
        words = [places.get(word.removeprefix("/etc/dm/tls/"), word) for word in pod[probe]["exec"]["command"]]
        return subprocess.run([re.sub(r":\d+/", f":{server.port}/", word) for word in words], check=False).returncode

    try:
        assert [result(probe) for probe in ("startupProbe", "livenessProbe", "readinessProbe")] == [0, 0, 22]
        ready[0] = True
        assert result("readinessProbe") == 0
    finally:
        server.stop(0)
