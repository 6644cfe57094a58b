"""Hazard: gRPC or a driver is loaded in Spark's Python workers, which fork."""

from __future__ import annotations

import subprocess
import sys


def test_decoding_loads_neither_grpc_nor_a_driver() -> None:
    code = (
        "import sys, pkg.binlog.rows.row_decoder, pkg.binlog.events; "
        "print([name for name in ('grpc', 'pymysql', 'pyspark') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
