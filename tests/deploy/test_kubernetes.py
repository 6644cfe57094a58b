"""Hazard: manifests that Kubernetes refuses, or whose unknown fields it drops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.kubernetes_schemas import schema_location
from tests.deploy.tools import run
from tests.harness.process import HarnessError

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


def test_selectors_find_the_pods_that_they_are_for() -> None:
    """Also of what components add: a policy or a budget without pods protects nothing."""
    documents = list(yaml.safe_load_all(built("overlays/spark")))
    pods = [
        one["spec"]["template"]["metadata"]["labels"]
        for one in documents
        if one["kind"] in ("StatefulSet", "Deployment")
    ]
    assert len(pods) == 4
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
