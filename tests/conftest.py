"""Fixtures: real servers, shared by a session where tests only need one, fresh where they break it."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings

from deploy.local.cluster import KEEPALIVE_TTL, Cluster
from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from deploy.local.process import up
from deploy.local.targets import new_target
from deploy.local.tidb import TiDBServer, build_in_background, go_installed
from dm_worker.engine.engine import SparkEngine
from tests.harness.etcd import EtcdServer
from tests.harness.sharded import Servers
from tests.harness.targets import TARGET, runs
from tests.sweeps import LONG, SEARCHES, examples

S = TypeVar("S", bound=SQLServer)

# How long an example takes tells more of the machine than of the code. The examples are the same in each run, so that
# what passed goes on to pass; DM_TEST_RANDOM=1 is for hunting with others.
settings.register_profile(
    "dm",
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=not SEARCHES,
    database=None,
    print_blob=True,
)
settings.load_profile("dm")


def pytest_report_header() -> str:
    containers = (
        "" if "DM_TEST_CONTAINERS" in os.environ else "containers: not tested here; `make test-containers` does"
    )
    if TARGET == "tidb":
        tidb = "target: TiDB; only tests that have a target run"
    elif go_installed():
        tidb = "TiDB: its core tests run; `make test-tidb` runs all"
    else:
        tidb = "TiDB: NOT TESTED: there is no `go` on PATH to build it"
    return "\n".join(filter(None, (tidb, containers)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if TARGET != "tidb" and not go_installed():
        terminalreporter.write_line("TiDB: NOT TESTED: there is no `go` on PATH to build it", yellow=True)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Tests stay in memory until the end: the garbage collector does not look through thousands of them again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With TiDB as the target, only tests with a target run; else, of tests on TiDB, the core, if it can be built.

    Full sweeps (marker ``slow``) run with ``DM_TEST_LONG`` alone. Files with tests on TiDB come after other tests with
    servers, so that no test process waits for its build while other tests could run. Unit tests come last: their short
    files keep all processes busy until the end.
    """
    buildable, paths = go_installed(), {path: _relative(path, config) for path in {item.path for item in items}}

    def wanted(item: pytest.Item) -> bool:
        needs = [name for marker in item.iter_markers("target_with") for name in marker.args]
        core = item.get_closest_marker("core") is not None
        if item.get_closest_marker("slow") is not None and not LONG:
            return False
        return runs(paths[item.path], getattr(item, "fixturenames", ()), needs, core=core, buildable=buildable)

    chosen = [wanted(item) for item in items]
    config.hook.pytest_deselected(items=[item for item, runs_here in zip(items, chosen, strict=True) if not runs_here])
    items[:] = [item for item, runs_here in zip(items, chosen, strict=True) if runs_here]
    late = {item.path for item in items if _needs_tidb(item)}
    items.sort(key=lambda item: (paths[item.path].startswith("tests/unit/"), item.path in late))
    for item in items:
        if _needs_tidb(item) and item.get_closest_marker("timeout") is None:
            # The first of them may wait until TiDB is built, which has a limit of its own.
            item.add_marker(pytest.mark.timeout(600, func_only=True))


def _relative(path: Path, config: pytest.Config) -> str:
    return path.relative_to(config.rootpath).as_posix()


def _needs_tidb(item: pytest.Item) -> bool:
    return "_tidb" in getattr(item, "fixturenames", ())


def pytest_collection_finish(session: pytest.Session) -> None:
    """TiDB is built beside the other tests."""
    if any(map(_needs_tidb, session.items)) and not session.config.getoption("collectonly"):
        build_in_background()


@pytest.fixture(scope="session")
def _mariadb_upstream() -> Iterator[MariaDBServer]:
    server = MariaDBServer(gtid=True)
    server.start()
    yield server
    server.cleanup()


@pytest.fixture(scope="session")
def _mariadb_11_8_upstream() -> Iterator[MariaDBServer]:
    server = MariaDBServer(version="11.8", gtid=True)
    server.start()
    yield server
    server.cleanup()


@pytest.fixture(scope="session")
def _mysql_upstream() -> Iterator[MySQLServer]:
    server = MySQLServer(gtid=True)
    server.start()
    yield server
    server.cleanup()


@pytest.fixture(scope="session")
def _target(request: pytest.FixtureRequest) -> Iterator[SQLServer]:
    if TARGET == "tidb":
        yield request.getfixturevalue("_tidb")
        return
    server = new_target(TARGET)
    server.start()
    yield server
    server.cleanup()


@pytest.fixture(scope="session")
def _tidb() -> Iterator[TiDBServer]:
    server = TiDBServer()
    server.start()
    yield server
    server.cleanup()


@pytest.fixture
def mariadb_upstream(_mariadb_upstream: MariaDBServer) -> MariaDBServer:
    """A MariaDB with binlog and GTID, without user schemas and accounts."""
    return _emptied(_mariadb_upstream)


@pytest.fixture
def mariadb_11_8_upstream(_mariadb_11_8_upstream: MariaDBServer) -> MariaDBServer:
    """As :func:`mariadb_upstream`, of the version whose events mostly do not say where they end."""
    return _emptied(_mariadb_11_8_upstream)


@pytest.fixture
def mysql_upstream(_mysql_upstream: MySQLServer) -> MySQLServer:
    """A MySQL with binlog and GTID, without user schemas and accounts."""
    return _emptied(_mysql_upstream)


@pytest.fixture
def target(_target: SQLServer) -> SQLServer:
    """A server to migrate into, of the kind that ``DM_TEST_TARGET`` names, without user schemas and accounts."""
    return _emptied(_target)


@pytest.fixture
def target_with_triggers(target: SQLServer) -> SQLServer:
    """:func:`target`, for fixtures: their tests do not run with one that has no triggers."""
    return target


@pytest.fixture
def tidb(_tidb: TiDBServer) -> TiDBServer:
    """A TiDB, without user schemas and accounts. What a test sets for all sessions, it sets back."""
    return _emptied(_tidb)


def _emptied(server: S) -> S:
    if not server.running():
        server.start()
    server.wipe()
    server.drop_accounts()
    return server


@pytest.fixture
def etcd() -> Iterator[EtcdServer]:
    """A fresh etcd."""
    server = EtcdServer()
    server.start()
    yield server
    server.cleanup()


@pytest.fixture
def new_mariadb() -> Iterator[Callable[..., MariaDBServer]]:
    """Makes MariaDB servers of a test's own, with options; removed at its end."""
    made: list[MariaDBServer] = []

    def make(**options: object) -> MariaDBServer:
        server = MariaDBServer(**options)  # type: ignore[arg-type]
        made.append(server)
        server.start()
        return server

    yield make
    for server in made:
        server.cleanup()


@pytest.fixture(scope="session")
def _chosen() -> str:
    """The kind of the target: what tests that make servers of their own are known by."""
    return TARGET


@pytest.fixture(scope="module")
def servers(_chosen: str) -> Iterator[Servers]:
    """Two upstreams of both flavors with GTID, and a target whose binlog tells what ran there."""
    made = (MariaDBServer(gtid=True), MySQLServer(gtid=True), new_target(_chosen, binlog=True))
    with up(*made):
        yield made


@pytest.fixture(scope="module")
def keepalive_ttl() -> int:
    """Of the :func:`cluster`'s workers, in seconds."""
    return KEEPALIVE_TTL


@pytest.fixture(scope="module")
def worker_variables() -> Sequence[Mapping[str, str]]:
    """Further variables in the environments of the :func:`cluster`'s workers."""
    return ({}, {})


@pytest.fixture(scope="module")
def cluster(servers: Servers, keepalive_ttl: int, worker_variables: Sequence[Mapping[str, str]]) -> Iterator[Cluster]:
    """A master and two workers, with the upstreams as ``source-1`` and ``source-2``."""
    cluster = Cluster(workers=2, keepalive_ttl=keepalive_ttl)
    for worker, variables in zip(cluster.workers, worker_variables, strict=True):
        worker.variables = variables
    with cluster:
        for number, server in enumerate(servers[:2], start=1):
            cluster.add_source(server, f"source-{number}", gtid=True)
        yield cluster


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkEngine]:
    """One embedded Spark for the session."""
    engine = SparkEngine(slots=8)
    yield engine
    engine.close()
