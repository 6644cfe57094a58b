"""A real TiDB server, built from its Go module."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from deploy.local.cache import CACHE, once
from deploy.local.mysql import SQLServer
from deploy.local.process import HarnessError, free_port
from dm_master.task_setup.task_split import TARGET_DEFAULTS
from pkg.process.dies_with_parent import dying_with_parent
from pkg.settings.connections import DBConfig

#: Names TiDB's version and, by hashes, all of its sources.
_MODULE = Path(__file__).with_name("tidb_module")
_ROOT = Path(__file__).resolve().parents[2]
_PACKAGE = "github.com/pingcap/tidb/cmd/tidb-server"
_BUILD_SECONDS = 3600.0


def go_installed() -> bool:
    """Whether TiDB can be built: Go is its only requirement that the project's set-up does not install."""
    return shutil.which("go") is not None


class TiDBServer(SQLServer):
    """A TiDB server with its own storage, which keeps committed data after a kill; root without password."""

    name = "tidb"
    flavor = "mysql"

    def __init__(self, *, extra: Sequence[str] = (), settings: Mapping[str, Mapping[str, int]] | None = None) -> None:
        """``settings``: sections of the configuration file."""
        self._program = build()
        super().__init__(binlog=False, extra=extra)
        self.status_port = free_port()
        self._config = self.dir / "tidb.toml"
        # By default, several servers would share this folder below /tmp.
        folders = {"temp-dir": "temp", "tmp-storage-path": "storage", "socket": "s.sock"}
        lines = [f'{name} = "{self.dir}/{folder}"' for name, folder in folders.items()]
        for section, values in (settings or {}).items():
            lines += [f"[{section}]", *(f"{name} = {value}" for name, value in values.items())]
        self._config.write_text("".join(f"{line}\n" for line in lines))

    @property
    def db_config(self) -> DBConfig:
        """With the session of tasks on TiDB: a pessimistic transaction, TiDB's default, behaves differently."""
        return replace(super().db_config, session=tuple(TARGET_DEFAULTS.items()))

    def command(self) -> Sequence[str]:
        addresses = ["-host=127.0.0.1", f"-P={self.port}", "-status-host=127.0.0.1", f"-status={self.status_port}"]
        storage = ["-store=unistore", f"-path={self.data}"]
        return [str(self._program), f"-config={self._config}", *storage, *addresses, "-L=warn", *self.extra]

    def _make_data(self) -> None:
        self.data.mkdir()


def build() -> Path:
    """The program; the first process that needs it builds it. Raises HarnessError."""
    return once(_cached(), _build) / "tidb-server"


def is_built() -> bool:
    return (CACHE / _cached()).exists()


def build_in_background() -> None:
    """Starts a missing build; it ends with this process. It takes as long as the other tests, if it gets its share."""
    if not is_built():
        command = [sys.executable, "-m", "deploy.local.tidb"]
        subprocess.Popen(dying_with_parent(command), cwd=_ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _cached() -> str:
    """The name of the program's folder in the cache."""
    content = b"".join((_MODULE / name).read_bytes() for name in ("go.mod", "go.sum"))
    return f"tidb-{hashlib.sha256(content).hexdigest()[:12]}"


def _build(folder: Path) -> None:
    if not go_installed():
        raise HarnessError(
            "TiDB is built from its Go module, and there is no `go` on PATH: install Go (https://go.dev/dl)"
        )
    command = ["go", "build", "-mod=readonly", "-trimpath", "-ldflags=-s -w", "-o", f"{folder}/tidb-server", _PACKAGE]
    done = subprocess.run(
        dying_with_parent(command),
        cwd=_MODULE,
        env={**os.environ, "CGO_ENABLED": "0"},
        capture_output=True,
        text=True,
        timeout=_BUILD_SECONDS,
        check=False,
    )
    if done.returncode:
        raise HarnessError(f"TiDB is not built:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")


if __name__ == "__main__":
    try:
        print(f"TiDB: {build()}")
    except HarnessError as error:
        sys.exit(str(error))
