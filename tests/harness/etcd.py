"""A real etcd member."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence

from deploy.local.process import Process, binary, free_port


class EtcdServer(Process):
    """One etcd on free ports; keeps its data after :meth:`restart` and :meth:`kill` + :meth:`start`."""

    name = "etcd"

    def __init__(self, extra: Sequence[str] = ()) -> None:
        super().__init__()
        self.port = free_port()
        self.peer_port = free_port()
        self.extra = list(extra)

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.port}"

    def command(self) -> Sequence[str]:
        client, peer = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{self.peer_port}"
        return [
            binary("etcd"),
            f"--data-dir={self.dir}/data",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            *self.extra,
        ]

    def environment(self) -> Mapping[str, str]:
        return {**super().environment(), "ETCD_UNSUPPORTED_ARCH": ""}

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=1) as answer:
                return b"true" in answer.read()
        except (urllib.error.URLError, OSError):
            return False
