"""The project on a node, as an SRE installs it: Secrets, an overlay and databases; tests drive it."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pymysql
import yaml

from deploy.local.cluster import ROOT
from deploy.local.process import HarnessError, wait_until
from tests.containers.driven import LIMIT, TARGET_PASSWORD, UPSTREAM_PASSWORD, DrivenCluster
from tests.deploy.tools import run, service_monitor_definition
from tests.harness.certificates import Authority
from tests.kubernetes.node import NODE, Node
from tests.kubernetes.node_images import DATABASE

_KUBERNETES = ROOT / "deploy" / "kubernetes"
_TLS = ["--ssl-ca", "/etc/dm/tls/ca.crt", "--ssl-cert", "/etc/dm/tls/tls.crt", "--ssl-key", "/etc/dm/tls/tls.key"]
UPSTREAM, TARGET = "upstream-mariadb", "target"
#: As README.md lists them.
_NAMES = (
    "localhost",
    "dm-master.dm.svc",
    *(f"dm-master-{number}.dm-master-peer.dm.svc" for number in range(3)),
    *(f"dm-worker-{number}.dm-worker.dm.svc" for number in range(3)),
)
#: The node is small: the pods get what they need, not what they may.
_SMALL = """\
- op: replace
  path: /spec/template/spec/containers/0/resources/requests
  value: { cpu: 20m, memory: 128Mi }
"""


class Deployed(DrivenCluster):
    """An overlay of deploy/kubernetes in the namespace ``dm``, with databases in another one."""

    masters = tuple(f"dm-master-{number}" for number in range(3))

    def __init__(self, node: Node, folder: Path) -> None:
        self.node, self._folder = node, folder

    def kubectl(self, *arguments: str, text: str | None = None) -> str:
        return self.node.kubectl("--namespace=dm", *arguments, text=text)

    # ---- installing -------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """What an SRE has before the first `kubectl apply -k`: volumes, Secrets, databases, a definition."""
        self.node.kubectl("create", "--filename=-", text=service_monitor_definition())
        self.node.kubectl("create", "namespace", "dm")
        security = Authority(self._folder).issue("dm", hosts=_NAMES)
        files = {"ca.crt": security.ssl_ca, "tls.crt": security.ssl_cert, "tls.key": security.ssl_key}
        self._secret("dm-tls", *(f"--from-file={name}={path}" for name, path in files.items()))
        self._secret("dm-secret-key", f"--from-literal=secret-key={secrets.token_hex(32)}")
        claims = [(f"data-dm-{program}-{number}", size) for program, size in _SIZES for number in range(3)]
        self.node.apply(*(self._volume(claim, size, "ReadWriteOnce") for claim, size in claims))
        self.node.apply(self._volume("dm-dumps", "100Gi", "ReadWriteMany"))
        self._start_databases()

    def _secret(self, name: str, *content: str) -> None:
        self.kubectl("create", "secret", "generic", name, *content)

    def _volume(self, claim: str, size: str, mode: str) -> dict[str, Any]:
        """A folder of the node as the volume of one claim."""
        folder = self.node.dir / "volumes" / claim
        folder.mkdir(parents=True)
        here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE]}
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": claim},
            "spec": {
                "capacity": {"storage": size},
                "accessModes": [mode],
                "local": {"path": str(folder)},
                "claimRef": {"namespace": "dm", "name": claim},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
            },
        }

    def _start_databases(self) -> None:
        self.node.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "databases"}})
        for number, (name, password) in enumerate(((UPSTREAM, UPSTREAM_PASSWORD), (TARGET, TARGET_PASSWORD)), 1):
            folder = self._sockets(name)
            folder.mkdir(parents=True)
            folder.chmod(0o777)
            self.node.apply(*_database(name, password, number, folder))
        self.node.kubectl("--namespace=databases", "wait", "--for=condition=Ready", "pods", "--all", "--timeout=180s")

    def _sockets(self, server: str) -> Path:
        return self.node.dir / "sockets" / server

    def apply(self, overlay: str) -> None:
        """``kubectl apply -k`` of an overlay with requests that the node can grant; waits until all of it is ready."""
        mine = self._folder / overlay
        mine.mkdir(exist_ok=True)
        base = os.path.relpath(_KUBERNETES / "overlays" / overlay, mine)
        patch = {"target": {"kind": "StatefulSet", "name": "dm-(master|worker)"}, "patch": _SMALL}
        own = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
        content = {**own, "namespace": "dm", "resources": [base], "patches": [patch]}
        (mine / "kustomization.yaml").write_text(yaml.safe_dump(content))
        # Executors, too: the kernel gives them what is free.
        manifests = run("kustomize", "build", mine).replace('request.cores" = "500m"', 'request.cores" = "50m"')
        self.kubectl("apply", "--filename=-", text=manifests)
        self.rolled_out()

    def rolled_out(self) -> None:
        for program in ("dm-master", "dm-worker"):
            self.kubectl("rollout", "status", f"statefulset/{program}", "--timeout=300s")

    # ---- driving ----------------------------------------------------------------------------------------------------

    def run_dmctl(self, master: str, arguments: Sequence[str], text: str) -> str:
        return self.kubectl("exec", "-i", master, "--", "dmctl", *_TLS, *arguments, text=text)

    def connect(self, server: str) -> pymysql.Connection[Any]:
        return pymysql.connect(
            unix_socket=str(self._sockets(server) / "mysqld.sock"),
            user="root",
            password=TARGET_PASSWORD if server == TARGET else UPSTREAM_PASSWORD,
            charset="utf8mb4",
            autocommit=True,
        )

    # ---- pods -------------------------------------------------------------------------------------------------------

    def pods(self, *selector: str) -> list[dict[str, Any]]:
        found = self.node.get("pods", "--namespace=dm", *selector)["items"]
        assert isinstance(found, list)
        return found

    def identity(self, pod: str) -> str:
        """What a pod and its successor of the same name do not have in common; empty while there is none."""
        return next((one["metadata"]["uid"] for one in self.pods() if one["metadata"]["name"] == pod), "")

    def kill(self, pod: str) -> None:
        """Ends a pod at once, as the loss of its machine would."""
        self.kubectl("delete", "pod", pod, "--grace-period=0", "--force", "--wait=false")

    def ready(self, program: str) -> int:
        """How many pods of a StatefulSet are ready."""
        return int(self.node.get("statefulset", program, "--namespace=dm")["status"].get("readyReplicas", 0))

    def wait_replaced(self, program: str, pod: str, lost: str) -> None:
        """Waits until ``pod``, which was ``lost``, has a successor and the StatefulSet is complete."""
        wait_until(
            lambda: self.identity(pod) not in ("", lost) and self.ready(program) == 3,
            lambda: f"{pod} is replaced: {self.state()}",
            LIMIT,
            step=1,
        )

    def executors(self, worker: str) -> list[str]:
        """The names of the pods in which ``worker`` has executors."""
        running = self.pods("--selector=spark-role=executor", "--field-selector=status.phase=Running")
        return [one["metadata"]["name"] for one in running if one["metadata"]["ownerReferences"][0]["name"] == worker]

    def evict(self, pod: str) -> str:
        """Asks for a pod's eviction, as `kubectl drain` does; the refusal, empty if it was granted."""
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": "dm"}}
        try:
            path = f"/api/v1/namespaces/dm/pods/{pod}/eviction"
            self.kubectl("create", "--raw", path, "--filename=-", text=json.dumps(eviction))
        except HarnessError as exc:
            return str(exc)
        return ""

    def state(self) -> str:
        """Pods, events and the last lines of each program, for a test that failed."""
        wanted: Sequence[Sequence[str]] = (
            ("get", "pods", "--all-namespaces", "--output=wide"),
            ("get", "events", "--namespace=dm", "--sort-by=.lastTimestamp"),
            ("logs", "--namespace=dm", "--selector=app.kubernetes.io/part-of=dm", "--tail=15", "--prefix"),
        )
        return "\n".join(self.node.kubectl(*one)[-6000:] for one in wanted)


_SIZES = (("master", "8Gi"), ("worker", "50Gi"))


def _database(name: str, password: str, number: int, sockets: Path) -> list[dict[str, Any]]:
    """A MariaDB that this machine reaches by its socket, and pods by its name, also in the namespace ``dm``."""
    place = {"namespace": "databases", "name": name}
    arguments = [f"--server-id={number}", "--log-bin=bin", "--binlog-format=ROW", "--max-connections=300"]
    container = {
        "name": "server",
        "image": DATABASE,
        "args": [*arguments, "--socket=/sockets/mysqld.sock"],
        "env": [{"name": "MARIADB_ROOT_PASSWORD", "value": password}],
        "readinessProbe": {"exec": {"command": ["healthcheck.sh"]}, "periodSeconds": 2, "timeoutSeconds": 5},
        "volumeMounts": [{"name": "sockets", "mountPath": "/sockets"}],
    }
    spec = {"containers": [container], "volumes": [{"name": "sockets", "hostPath": {"path": str(sockets)}}]}
    return [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {**place, "labels": {"server": name}}, "spec": spec},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": place,
            "spec": {"selector": {"server": name}, "ports": [{"port": 3306}]},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"namespace": "dm", "name": name},
            "spec": {"type": "ExternalName", "externalName": f"{name}.databases.svc.cluster.local"},
        },
    ]
