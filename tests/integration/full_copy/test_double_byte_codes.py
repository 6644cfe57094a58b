"""Hazard: one of two codes for the same character, or a code without a character, arrives as another one.

The codes of the double-byte charsets, in a full copy and in replication, between servers of one family.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.local.mysql import SQLServer
from dm_worker.engine.engine import SparkEngine
from tests.harness.full_copy import config, dump, load
from tests.integration.charset_codes import DIGEST, STEPS, charsets, fill
from tests.integration.syncer.support import running

_CHARSETS = ("big5", "cp932", "eucjpms", "euckr", "gb18030", "gb2312", "gbk", "sjis", "ujis")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("step", STEPS)
def test_the_codes_arrive_as_they_are(
    pair: tuple[SQLServer, SQLServer], spark: SparkEngine, tmp_path: Path, step: int
) -> None:
    upstream, target = pair
    found = {name: width for name, width in charsets(upstream).items() if name in _CHARSETS}
    assert len(found) >= len(_CHARSETS) - 1
    copied, replicated = ({name: f"{when}_{name}" for name in found} for when in ("copied", "replicated"))
    upstream.execute("CREATE DATABASE cs")
    for name, table in copied.items():
        fill(upstream, name, found[name], table, step, plain=False)
    cfg = config(upstream, target, tmp_path, online_ddl=False)
    dump(cfg, spark)
    load(cfg, spark)
    with running(cfg, spark) as run:
        for name, table in replicated.items():
            fill(upstream, name, found[name], table, step, plain=False)
        # Both codes of a character, in place of each other.
        for table in copied.values():
            upstream.execute(
                f"UPDATE cs.{table} a JOIN cs.{table} b ON b.id = a.id + 1 SET a.v = b.v, a.c = b.v WHERE a.id % 8 = 1"
            )
        run.wait_synced(upstream, 240)
    for table in (*copied.values(), *replicated.values()):
        digest = f"SELECT {DIGEST} FROM cs.{table}"
        assert target.execute(digest) == upstream.execute(digest), table
        assert upstream.execute(f"SELECT COUNT(DISTINCT BINARY v) > {6000 // step} FROM cs.{table}") == [(1,)]
