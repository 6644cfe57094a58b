"""A real Prometheus, of Debian's package: unpacked once per machine, not installed."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

from deploy.local.cache import once
from deploy.local.cluster import http_ok
from deploy.local.process import HarnessError, Process, binary, free_port


def tool(name: str) -> Path:
    """``prometheus`` or ``promtool``. Raises HarnessError where there is no apt."""
    return once("prometheus", _fetch) / "usr" / "bin" / name


def promtool(*arguments: str | Path, cwd: Path | None = None) -> str:
    """What a call prints. Raises HarnessError with it when the call fails."""
    command = [str(tool("promtool")), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)
    if done.returncode:
        raise HarnessError(f"{' '.join(command)} gave {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def _fetch(folder: Path) -> None:
    subprocess.run([binary("apt-get"), "-qq", "download", "prometheus"], cwd=folder, check=True, env=os.environ)
    [package] = folder.glob("prometheus_*.deb")
    subprocess.run([binary("dpkg-deb"), "-x", package.name, "."], cwd=folder, check=True)
    package.unlink()


class Prometheus(Process):
    """Runs with ``config`` (a file) until it is stopped."""

    name = "prometheus"

    def __init__(self, base: Path, config: Path) -> None:
        super().__init__(base)
        self._config = config
        self.port = free_port()

    def command(self) -> Sequence[str]:
        return [
            str(tool("prometheus")),
            f"--config.file={self._config}",
            f"--storage.tsdb.path={self.dir}/data",
            f"--web.listen-address=127.0.0.1:{self.port}",
        ]

    def ready(self) -> bool:
        return http_ok(f"http://127.0.0.1:{self.port}/-/ready")

    def ask(self, path: str, **parameters: str) -> Any:
        """The data of an answer of the API."""
        with urlopen(f"http://127.0.0.1:{self.port}/api/v1/{path}?{urlencode(parameters)}", timeout=30) as answer:
            return json.load(answer)["data"]

    def values(self, expr: str) -> list[dict[str, Any]]:
        """The series of an instant query, as Prometheus has them now."""
        return self.ask("query", query=expr)["result"]  # type: ignore[no-any-return]
