"""Hazard: a server purges binlog files that are still needed, and the guard does not warn."""

from __future__ import annotations

import pytest

from deploy.local.mysql import SQLServer
from dm_worker.source.purge_guard import RiskLevel
from dm_worker.source.purge_watch import BinlogReader, PurgeWatch, ask_upstream
from pkg.config.model import SourceConfig
from tests.integration.binlog_replay import here


@pytest.fixture(params=["mariadb", "mysql"])
def upstream(request: pytest.FixtureRequest) -> SQLServer:
    server: SQLServer = request.getfixturevalue(f"{request.param}_upstream")
    return server


def test_it_reports_files_and_retention_as_the_server_has_them(upstream: SQLServer) -> None:
    source = SourceConfig("s1", upstream.db_config, flavor=upstream.flavor)
    names = ["expire_logs_days"]
    if upstream.execute("SHOW VARIABLES LIKE 'binlog_expire_logs_seconds'"):
        # MySQL 8 keeps files for 30 days unless both are 0.
        names.insert(0, "binlog_expire_logs_seconds")
    settings = {name: upstream.execute(f"SELECT @@GLOBAL.{name}")[0][0] for name in names}
    try:
        upstream.execute(*[f"SET GLOBAL {name} = 0" for name in names])
        assert ask_upstream(source)[1] is None
        upstream.execute("SET GLOBAL expire_logs_days = 3", "FLUSH BINARY LOGS")
        # MariaDB writes a BINLOG_CHECKPOINT some time after the FLUSH.
        before = here(upstream).position
        files, retention = ask_upstream(source)
        assert retention == 3 * 86400
        assert list(files)[-1] == before.name
        assert before.pos <= files[before.name] <= here(upstream).position.pos
        if len(names) > 1:
            upstream.execute("SET GLOBAL expire_logs_days = 0", f"SET GLOBAL {names[0]} = 7200")
            assert ask_upstream(source)[1] == 7200
    finally:
        upstream.execute(
            "SET GLOBAL expire_logs_days = 0", *[f"SET GLOBAL {name} = {settings[name]}" for name in names]
        )


def test_a_purged_file_that_is_needed_is_reported_once_it_is_gone(upstream: SQLServer) -> None:
    position = here(upstream).position
    watch = PurgeWatch(
        SourceConfig("s1", upstream.db_config, flavor=upstream.flavor), lambda: [BinlogReader("t", position)]
    )
    watch.look()
    assert watch.warnings() == []
    (kept,) = watch.distances()
    assert (kept.task, kept.needed, kept.risk, kept.text) == ("t", str(position), RiskLevel.OK, "")
    assert kept.bytesBefore >= position.pos
    upstream.execute("FLUSH BINARY LOGS")
    upstream.purge_binlogs()
    watch.look()
    assert watch.risks["task t"].level == RiskLevel.LOST
    (warning,) = watch.warnings()
    (gone,) = watch.distances()
    assert (gone.risk, gone.bytesBefore, gone.secondsLeft) == (RiskLevel.LOST, -1, 0)
    assert gone.text == watch.risks["task t"].text
    assert gone.oldest > position.name
    assert warning.startswith(f"task t: {position.name} is still needed, but the upstream has purged it")
