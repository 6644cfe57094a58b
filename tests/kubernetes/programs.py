"""Kubernetes' programs, etcd and CoreDNS, built once per machine from their Go modules."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from functools import partial
from pathlib import Path

from deploy.local.cache import once
from deploy.local.process import binary
from pkg.process.dies_with_parent import dying_with_parent

_HERE = Path(__file__).parent
_BUILD_SECONDS = 3600.0
_VERSION = r"^\s*(?:require )?(?:k8s\.io/kubernetes|github\.com/coredns/coredns|go\.etcd\.io/etcd/server/v3) (v\S+)"
#: The one program of `node` has these names.
_NAMES = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl")


def kubernetes() -> Path:
    """The folder with the programs of Kubernetes, in the version that ``node/go.mod`` names. Raises HarnessError."""
    return _built("node", "kubernetes")


def coredns() -> Path:
    """CoreDNS with the plugins of ``dns/main.go``. Raises HarnessError."""
    return _built("dns", "coredns") / "coredns"


def etcd() -> Path:
    """An etcd that Kubernetes can watch with a list at the start. Raises HarnessError."""
    return _built("etcd", "kubernetes-etcd") / "kubernetes-etcd"


def _built(module: str, name: str) -> Path:
    files = [path for path in sorted((_HERE / module).iterdir()) if path.name in ("go.mod", "go.sum", "main.go")]
    key = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]
    return once(f"{name}-{key}", partial(_build, module, name))


def _build(module: str, name: str, folder: Path) -> None:
    source = _HERE / module
    (version,) = re.findall(_VERSION, (source / "go.mod").read_text(), re.M)
    flags = f"-s -w -X k8s.io/component-base/version.gitVersion={version}"
    command = [binary("go"), "build", "-mod=readonly", "-trimpath", f"-ldflags={flags}", "-o", str(folder / name), "."]
    subprocess.run(
        dying_with_parent(command),
        cwd=source,
        env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false"},
        timeout=_BUILD_SECONDS,
        check=True,
    )
    if module == "node":
        for program in _NAMES:
            (folder / program).symlink_to(name)
