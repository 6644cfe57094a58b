"""Namespaces of their own for a node: its processes, mounts and addresses are gone when it ends."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from deploy.local.process import Process, binary, wait_until

#: The node's address: nobody else is in its network.
ADDRESS = "192.168.77.1"
#: A node is many programs. By default the kernel gives all of them together the processor time of a single one.
_WEIGHTS = {"cpu.shares": "16384", "cpu.weight": "1600"}
#: The first process of the namespaces, which takes in orphans. /run and /var/log of the machine stay as they are.
_INIT = f"""\
set -e
mount --make-rshared /
mount -t tmpfs none /run
mkdir -p "$1/var-log" /run/netns
mount --bind "$1/var-log" /var/log
ip link set lo up
ip link add node0 type bridge
ip address add {ADDRESS}/24 dev node0
ip link set node0 up
ip route add default via 192.168.77.254
sysctl -qw net.ipv4.ip_forward=1
touch "$1/ready"
while :; do sleep 3600 & wait $!; done
"""


class Sandbox(Process):
    """Namespaces for processes, mounts and the network, and a group of the kernel's limits (`cgroup`)."""

    name = "kubernetes"

    def __init__(self) -> None:
        super().__init__()
        self.cgroup = f"/{self.dir.name}"

    def command(self) -> Sequence[str]:
        spaces = ["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
        return [binary("unshare"), *spaces, binary("bash"), "-c", _INIT, "bash", str(self.dir)]

    def ready(self) -> bool:
        return (self.dir / "ready").exists()

    def start(self, *, wait: bool = True) -> None:
        for controller in _controllers():
            group = controller / self.cgroup[1:]
            group.mkdir(exist_ok=True)
            for name, weight in _WEIGHTS.items():
                if (group / name).exists():
                    (group / name).write_text(weight)
        super().start(wait=wait)

    def inside(self, *command: str) -> list[str]:
        """``command`` such that it runs in the namespaces."""
        (first,) = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [binary("nsenter"), f"--target={first}", "--net", "--mount", "--pid", "--", *command]

    def run(self, *command: str, seconds: float = 600.0) -> str:
        done = subprocess.run(self.inside(*command), capture_output=True, text=True, check=True, timeout=seconds)
        return done.stdout

    def cleanup(self) -> None:
        super().cleanup()
        for controller in _controllers():
            # The kernel ends the processes of the namespaces one after the other.
            wait_until(partial(_removed, controller / self.cgroup[1:]), f"{controller} is empty")


def _removed(group: Path) -> bool:
    """Whether the control group and all below it are gone now."""
    try:
        for one in sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True):
            one.rmdir()
        group.rmdir()
    except OSError as exc:
        if exc.errno != errno.EBUSY:
            raise
        return False
    return True


def _controllers() -> list[Path]:
    """The mounted hierarchies of control groups: one for each controller in version 1, one for all in version 2."""
    lines = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    return [Path(line[1]) for line in lines if line[2] in ("cgroup", "cgroup2")]
