"""A Kubernetes of one node: etcd, the servers, containerd and the kubelet, in namespaces of their own."""

from __future__ import annotations

import json
import secrets
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from deploy.local.process import HarnessError, Process, binary, wait_until
from tests.harness.certificates import Authority
from tests.kubernetes import programs
from tests.kubernetes.sandbox import ADDRESS, Sandbox

NODE = "node"
_SERVICES, _PODS = "10.96.0.0/16", "10.244.0.0/16"
_API = f"https://{ADDRESS}:6443"
#: Names by which pods call the API.
_API_HOSTS = (ADDRESS, "10.96.0.1", "kubernetes.default.svc", "kubernetes.default", "localhost", "127.0.0.1")
PAUSE = "docker.io/dm-stand-in/pause:1"


class NodeProgram(Process):
    """One process of the node."""

    def __init__(self, sandbox: Sandbox, name: str, command: Sequence[str], ready: Callable[[], bool]) -> None:
        self.name = name
        self._sandbox, self._command, self._ready = sandbox, list(command), ready
        super().__init__(sandbox.dir)

    def command(self) -> Sequence[str]:
        return self._sandbox.inside(*self._command)

    def ready(self) -> bool:
        return self._ready()


class Node:
    """A running node. :meth:`kubectl` asks it; :meth:`load` gives it images."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox, self.dir = sandbox, sandbox.dir
        self._programs = programs.kubernetes()
        self._token = secrets.token_hex(16)
        self._containerd = self.dir / "containerd.sock"

    # ---- what tests use ---------------------------------------------------------------------------------------------

    def kubectl(self, *arguments: str, text: str | None = None, seconds: float = 600.0) -> str:
        """What kubectl printed. Raises HarnessError with its output if it fails."""
        command = [str(self._programs / "kubectl"), f"--kubeconfig={self.dir}/kubeconfig", *arguments]
        done = subprocess.run(
            self.sandbox.inside(*command), input=text, capture_output=True, text=True, timeout=seconds, check=False
        )
        if done.returncode:
            raise HarnessError(f"kubectl {' '.join(arguments)} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return done.stdout

    def get(self, *arguments: str) -> Any:
        """The answer of ``kubectl get``, as JSON has it."""
        return json.loads(self.kubectl("get", "--output=json", *arguments))

    def apply(self, *documents: dict[str, Any]) -> None:
        self.kubectl("apply", "--filename=-", text=yaml.safe_dump_all(documents))

    def load(self, archive: Path) -> None:
        """Imports the images of an archive of `docker save`."""
        self._ctr("images", "import", str(archive))

    def version(self) -> str:
        answer = json.loads(self.kubectl("version", "--output=json"))
        return f"Kubernetes {answer['serverVersion']['gitVersion']}"

    def _ctr(self, *arguments: str) -> str:
        return self.sandbox.run(binary("ctr"), f"--address={self._containerd}", "--namespace=k8s.io", *arguments)

    # ---- its parts --------------------------------------------------------------------------------------------------

    def parts(self) -> Iterator[NodeProgram]:
        """Each part; the next one needs those before it."""
        self._write_files()
        etcd = [str(programs.etcd()), f"--data-dir={self.dir}/etcd-data"]
        yield NodeProgram(self.sandbox, "etcd", etcd, lambda: self._answers("http://127.0.0.1:2379/health"))
        yield self._part("kube-apiserver", self._api(), lambda: self._kubectl_works("get", "--raw=/readyz"))
        config = f"--kubeconfig={self.dir}/kubeconfig"
        key, ca = f"{self.dir}/accounts.key", f"{self.dir}/ca.pem"
        keys = [f"--service-account-private-key-file={key}", f"--root-ca-file={ca}"]
        yield self._part("kube-controller-manager", [config, "--leader-elect=false", *keys], lambda: True)
        yield self._part("kube-scheduler", [config, "--leader-elect=false"], lambda: True)
        command = [binary("containerd"), f"--config={self.dir}/containerd.toml"]
        yield NodeProgram(self.sandbox, "containerd", command, self._containerd.exists)
        kubelet = [config, f"--config={self.dir}/kubelet.yaml", f"--hostname-override={NODE}", f"--node-ip={ADDRESS}"]
        yield self._part("kubelet", [*kubelet, f"--root-dir={self.dir}/kubelet"], self._is_ready)
        proxy = [f"--config={self.dir}/proxy.yaml", f"--hostname-override={NODE}"]
        yield self._part("kube-proxy", proxy, lambda: self._answers("http://127.0.0.1:10256/healthz"))
        dns = [str(programs.coredns()), f"-conf={self.dir}/Corefile"]
        yield NodeProgram(self.sandbox, "coredns", dns, lambda: self._answers("http://127.0.0.1:8181/ready"))

    def _part(self, name: str, arguments: Sequence[str], ready: Callable[[], bool]) -> NodeProgram:
        return NodeProgram(self.sandbox, name, [str(self._programs / name), *arguments], ready)

    def _api(self) -> list[str]:
        account = f"{self.dir}/accounts.key"
        return [
            "--etcd-servers=http://127.0.0.1:2379",
            f"--advertise-address={ADDRESS}",
            f"--service-cluster-ip-range={_SERVICES}",
            f"--token-auth-file={self.dir}/tokens.csv",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={account}",
            f"--service-account-key-file={account}",
            f"--tls-cert-file={self.dir}/api.pem",
            f"--tls-private-key-file={self.dir}/api.key",
            "--kubelet-preferred-address-types=InternalIP",
            "--allow-privileged",
        ]

    def _answers(self, url: str) -> bool:
        command = self.sandbox.inside(binary("curl"), "-fsS", "-m", "2", url)
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def _kubectl_works(self, *arguments: str) -> bool:
        try:
            self.kubectl(*arguments)
        except HarnessError:
            return False
        return True

    def _is_ready(self) -> bool:
        return self._kubectl_works("wait", "--for=condition=Ready", f"node/{NODE}", "--timeout=1s")

    # ---- its files --------------------------------------------------------------------------------------------------

    def _write_files(self) -> None:
        authority = Authority(self.dir)
        authority.issue("api", hosts=_API_HOSTS)
        # In the one form that Kubernetes takes for signing and for checking.
        form = serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        (self.dir / "accounts.key").write_bytes(ec.generate_private_key(ec.SECP256R1()).private_bytes(*form))
        (self.dir / "tokens.csv").write_text(f"{self._token},admin,admin,system:masters\n")
        user = {"name": "admin", "user": {"token": self._token}}
        cluster = {"name": "here", "cluster": {"server": _API, "certificate-authority": authority.path}}
        context = {"name": "here", "context": {"cluster": "here", "user": "admin"}}
        config = {"apiVersion": "v1", "kind": "Config", "current-context": "here"}
        self._yaml("kubeconfig", {**config, "clusters": [cluster], "users": [user], "contexts": [context]})
        self._yaml("kubelet.yaml", self._kubelet())
        self._yaml("proxy.yaml", self._proxy())
        (self.dir / "resolv.conf").write_text("")
        (self.dir / "containerd.toml").write_text(self._containerd_toml())
        network = self.dir / "network"
        network.mkdir()
        (network / "10-pods.conflist").write_text(json.dumps(self._network()))
        (self.dir / "Corefile").write_text(
            ".:53 {\n errors\n ready 127.0.0.1:8181\n kubernetes cluster.local in-addr.arpa {\n"
            f"  kubeconfig {self.dir}/kubeconfig here\n }}\n}}\n"
        )

    def _yaml(self, name: str, content: dict[str, Any]) -> None:
        (self.dir / name).write_text(yaml.safe_dump(content))

    def _kubelet(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            # Nobody but this node's API reaches its network.
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "containerRuntimeEndpoint": f"unix://{self._containerd}",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": self.sandbox.cgroup,
            "enforceNodeAllocatable": [],
            "clusterDNS": [ADDRESS],
            "clusterDomain": "cluster.local",
            "resolvConf": f"{self.dir}/resolv.conf",
            "volumePluginDir": f"{self.dir}/plugins",
            "failSwapOn": False,
            # The machine's disk is for others, too.
            "evictionHard": {"nodefs.available": "1Gi", "imagefs.available": "1Gi", "memory.available": "100Mi"},
            "imageGCHighThresholdPercent": 100,
        }

    def _proxy(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "iptables",
            "clusterCIDR": _PODS,
            "clientConnection": {"kubeconfig": f"{self.dir}/kubeconfig"},
            # Those are settings of the whole machine.
            "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        }

    def _containerd_toml(self) -> str:
        cri = 'plugins."io.containerd.grpc.v1.cri"'
        return f"""\
version = 2
root = "{self.dir}/containerd-root"
state = "{self.dir}/containerd-state"
[grpc]
address = "{self._containerd}"
[{cri}]
sandbox_image = "{PAUSE}"
disable_apparmor = true
# Root in a container may lack the right to lower it.
restrict_oom_score_adj = true
[{cri}.cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{self.dir}/network"
"""

    def _network(self) -> dict[str, Any]:
        addresses = {
            "type": "host-local",
            "ranges": [[{"subnet": _PODS}]],
            "routes": [{"dst": "0.0.0.0/0"}],
            "dataDir": f"{self.dir}/addresses",
        }
        bridge = {"type": "bridge", "bridge": "pods", "isGateway": True, "ipMasq": False, "hairpinMode": True}
        return {"cniVersion": "0.4.0", "name": "pods", "plugins": [{**bridge, "ipam": addresses}]}


@contextmanager
def running_node() -> Iterator[Node]:
    """A node whose parts all run; everything of it ends with the block."""
    programs.coredns()
    programs.etcd()
    sandbox = Sandbox()
    with ExitStack() as stack:
        stack.callback(sandbox.cleanup)
        sandbox.start()
        node = Node(sandbox)
        for part in node.parts():
            stack.callback(part.cleanup)
            part.start()
        wait_until(lambda: bool(node.get("serviceaccounts")["items"]), "the default account exists", 60)
        yield node
