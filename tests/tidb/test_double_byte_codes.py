"""Hazard: a code of gbk or gb18030, which TiDB keeps as UTF-8, arrives as another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.local.mysql import MySQLServer
from deploy.local.tidb import TiDBServer
from dm_worker.engine.engine import SparkEngine
from pkg.ddl.tokens import word_set
from tests.harness.full_copy import config, dump, load
from tests.integration.charset_codes import STEPS, charsets, fill
from tests.integration.syncer.support import running

#: Of gb18030: TiDB has the mapping of 2022, by which the same characters have other codes.
_OTHER_CODES = word_set("A6D9 A6DA A6DB A6DC A6DD A6DE A6DF A6EC A6ED A6F3 FE59 FE61 FE66 FE67 FE6D FE7E FE90 FEA0")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("charset", ["gbk", "gb18030"])
def test_codes_with_a_character_arrive_as_they_are(
    mysql_upstream: MySQLServer, tidb: TiDBServer, spark: SparkEngine, tmp_path: Path, charset: str, step: int
) -> None:
    upstream = mysql_upstream
    upstream.execute("CREATE DATABASE cs")
    width = charsets(upstream)[charset]
    # What Unicode lacks can't be kept.
    lacked = "DELETE FROM cs.{} WHERE " + " OR ".join(
        f"BINARY CONVERT(CONVERT({column} USING utf8mb4) USING {charset}) <> BINARY {column}"
        f" OR CONVERT({column} USING utf8mb4) LIKE '%?%'"
        for column in ("v", "c")
    )
    fill(upstream, charset, width, "copied", step, plain=False)
    upstream.execute(lacked.format("copied"))
    cfg = config(upstream, tidb, tmp_path, online_ddl=False)
    dump(cfg, spark)
    load(cfg, spark)
    with running(cfg, spark) as run:
        upstream.execute(
            "CREATE TABLE cs.replicated LIKE cs.copied", "INSERT INTO cs.replicated SELECT * FROM cs.copied"
        )
        run.wait_synced(upstream, 240)
    for table in ("copied", "replicated"):
        for shown in ("v", "c", "CONVERT(v USING utf8mb4)", "CONVERT(c USING utf8mb4)"):
            rows = f"SELECT id, HEX({shown}) FROM cs.{table} ORDER BY id"
            differ = {
                one[1] for one, other in zip(upstream.execute(rows), tidb.execute(rows), strict=True) if one != other
            }
            assert {code[:4] for code in differ} <= (_OTHER_CODES if shown in "vc" else set()), (table, shown)
        assert upstream.execute(f"SELECT COUNT(DISTINCT BINARY v) > {20000 // step} FROM cs.{table}") == [(1,)]
