"""Go programs that check files, built once per machine in the versions named here."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import partial
from pathlib import Path

from deploy.local.cache import once
from deploy.local.process import HarnessError

#: Program → the package that it is built from. Go verifies the sources by its checksum database.
_PACKAGES = {
    "kustomize": "sigs.k8s.io/kustomize/kustomize/v5@v5.7.1",
    "kubeconform": "github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0",
    "actionlint": "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12",
}
_PROMETHEUS_OPERATOR = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
_SERVICE_MONITOR = "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml"


def tool(name: str) -> Path:
    """The program ``name``; built by the first test that needs it. Raises HarnessError without Go."""
    package = _PACKAGES[name]
    return once(f"{name}-{package.rpartition('@')[2]}", partial(_install, package)) / name


def run(name: str, *arguments: str | Path, stdin: str = "") -> str:
    """The standard output of a call. Raises HarnessError with all output when it fails."""
    command = [str(tool(name)), *map(str, arguments)]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode:
        raise HarnessError(f"{' '.join(command)} gave {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def service_monitor_definition() -> str:
    """The definition of ServiceMonitor (YAML) of the Prometheus operator, from its Go module."""
    folder = once(f"service-monitor-{_PROMETHEUS_OPERATOR.rpartition('@')[2]}", _fetch_service_monitor)
    return (folder / "definition.yaml").read_text()


def _install(package: str, folder: Path) -> None:
    _go("install", package, GOBIN=str(folder))


def _fetch_service_monitor(folder: Path) -> None:
    _go("mod", "download", _PROMETHEUS_OPERATOR)
    modules = Path(_go("env", "GOMODCACHE").strip())
    shutil.copy(modules / _PROMETHEUS_OPERATOR / _SERVICE_MONITOR, folder / "definition.yaml")


def _go(*arguments: str, **environment: str) -> str:
    if shutil.which("go") is None:
        raise HarnessError("these tests need `go` on PATH, to build the tools that check the files")
    done = subprocess.run(
        ["go", *arguments], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise HarnessError(f"go {' '.join(arguments)} gave {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout
