"""The kind of server that tests migrate into by default (``DM_TEST_TARGET``), and the tests that use it."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

TARGET = os.environ.get("DM_TEST_TARGET", "mariadb")
#: Features that tests need of a target (``pytest.mark.target_with``): a name → the kinds that lack it.
_LACKED_BY: Mapping[str, frozenset[str]] = {
    # Methods of writing that only MariaDB supports.
    "bulk execution": frozenset({"tidb"}),
    "LOAD DATA": frozenset({"tidb"}),
    # The answers to several statements in one packet are read together.
    "several statements": frozenset({"tidb"}),
    "triggers": frozenset({"tidb"}),
    # An upsert looks for the row with the primary key before those with other unique keys.
    "upserts by primary key": frozenset({"tidb"}),
    # System versioning, periods, and values that MariaDB fills in by its own rules.
    "MariaDB's tables": frozenset({"tidb"}),
    "table locks": frozenset({"tidb"}),
    "storage engines": frozenset({"tidb"}),
    "sequence tables": frozenset({"tidb"}),
    "stored programs": frozenset({"tidb"}),
    "rows over 6 MB": frozenset({"tidb"}),
    "every charset": frozenset({"tidb"}),
    "geometry": frozenset({"tidb"}),
    # TiDB's CHECK constraints are off by default.
    "check constraints": frozenset({"tidb"}),
    # Tasks' transactions are optimistic on TiDB: they hold no locks before the COMMIT.
    "rows held by open transactions": frozenset({"tidb"}),
    # TiDB does not refuse a value of a generated column that does not fit.
    "strict generated columns": frozenset({"tidb"}),
    "values given to generated columns": frozenset({"tidb"}),
    "stored columns added by ALTER": frozenset({"tidb"}),
    "MariaDB's words": frozenset({"tidb"}),
    "names that differ in case": frozenset({"tidb"}),
    "unique keys of any length": frozenset({"tidb"}),
    "a binlog": frozenset({"tidb"}),
    "TLS": frozenset({"tidb"}),
    # TiDB's DDL jobs continue without the connection (tests/tidb/test_ddl_jobs.py).
    "statements that end with their connection": frozenset({"tidb"}),
    "widths of integers": frozenset({"tidb"}),
    "truncated fractions": frozenset({"tidb"}),
    "NULL in AUTO_INCREMENT columns": frozenset({"tidb"}),
    "file numbers": frozenset({"tidb"}),
}
#: Tests that migrate, but test the upstream's side or this program only: any target will do, so they use MariaDB only.
_TARGET_IS_ASIDE = (
    "tests/e2e/test_diff_on_spark.py",
    "tests/e2e/test_relay.py",
    "tests/e2e/test_secrets.py",
    "tests/e2e/test_spark_cluster.py",
    "tests/e2e/test_upgrade.py",
    "tests/faults/test_relay.py",
    "tests/integration/dm_master/process/",
    "tests/integration/dm_master/test_shard_ddl_master.py",
    "tests/integration/full_copy/test_dump_snapshot.py",
    "tests/integration/syncer/planning/",
    "tests/integration/syncer/unit/test_memory.py",
    "tests/integration/test_recorded_binlogs.py",
)
#: Fixtures that imply such a feature.
_NEEDED_BY = {"target_with_triggers": "triggers"}
#: Fixtures of tests that migrate into ``DM_TEST_TARGET``'s server, and of tests of TiDB.
_WITH_TARGET, _WITH_TIDB = frozenset({"_target", "_chosen"}), frozenset({"_tidb"})


def target_has(feature: str) -> bool:
    """Whether the tests' target has ``feature``, a name of this module."""
    return TARGET not in _LACKED_BY[feature]


def runs(path: str, fixtures: Collection[str], needs: Collection[str], *, core: bool, buildable: bool) -> bool:
    """Whether a test runs. ``core``: one of the few tests on TiDB that always run, if TiDB is ``buildable``."""
    about_tidb = not _WITH_TIDB.isdisjoint(fixtures)
    if TARGET == "mariadb":
        return not about_tidb or (core and buildable)
    if about_tidb:
        return True
    chosen = not _WITH_TARGET.isdisjoint(fixtures) and not path.startswith(_TARGET_IS_ASIDE)
    needs = [*needs, *(feature for fixture, feature in _NEEDED_BY.items() if fixture in fixtures)]
    return chosen and all(map(target_has, needs))
