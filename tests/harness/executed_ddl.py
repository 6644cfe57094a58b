"""The DDL that a server has executed, by its own records."""

from __future__ import annotations

import re
import subprocess

from deploy.local.mysql import SQLServer
from deploy.local.process import binary
from deploy.local.tidb import TiDBServer

_ALTER = re.compile(r"^ALTER TABLE .*$", re.MULTILINE)
#: Without the lines for the parts of a job.
_JOBS = "SELECT QUERY FROM information_schema.DDL_JOBS WHERE STATE = 'synced' AND JOB_TYPE NOT LIKE '%subjob%'"


def executed_alters(server: SQLServer) -> list[str]:
    """Every completed ALTER TABLE: from TiDB's list of jobs, or from the binlog, which must be on."""
    found = _jobs(server) if isinstance(server, TiDBServer) else _binlog(server)
    return [line.rstrip(";") for line in _ALTER.findall(found)]


def _jobs(server: SQLServer) -> str:
    texts = (text.decode() if isinstance(text, bytes) else str(text) for (text,) in server.execute(_JOBS))
    return "\n".join(" ".join(text.split()) for text in texts)


def _binlog(server: SQLServer) -> str:
    files = sorted(str(path) for path in server.data.glob("mysql-bin.0*"))
    command = [binary("mariadb-binlog", "mysqlbinlog"), "--no-defaults", "--short-form", *files]
    return subprocess.run(command, capture_output=True, text=True, check=True, errors="replace").stdout
