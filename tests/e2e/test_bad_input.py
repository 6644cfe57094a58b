"""Hazards: a mistake starts a task anyway, leaves something behind, or gets an answer that does not say what is wrong,
where, and what to do; an error makes a running task lose its position, or a temporary error needs an operator."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from deploy.local.process import WAIT_TIMEOUT, HarnessError, wait_until
from pkg.etcd import EtcdClient
from pkg.ha.keys import EVENT, EVENT_COUNT
from tests.harness.certified import certify, validated

SECRET = "hunter2-Secret"
#: The user ``dm``, without any privilege.
NEW_USER = ("DROP USER IF EXISTS dm@'127.0.0.1'", f"CREATE USER dm@'127.0.0.1' IDENTIFIED BY '{SECRET}'")
#: A port on which no server ever listens.
NO_SERVER = 1
#: Only the privileges that the upstream's user ``dm`` needs.
ENOUGH = ("SELECT ON shop.*", "RELOAD, REPLICATION SLAVE, REPLICATION CLIENT ON *.*")


@dataclass
class Field:
    """A cluster with two workers and three sources: of root, of a user ``dm``, and of a MySQL without binlog."""

    cluster: Cluster
    upstream: MariaDBServer
    bare: MySQLServer
    target: MariaDBServer
    _etcd: EtcdClient = field(init=False)

    def __post_init__(self) -> None:
        self._etcd = EtcdClient([f"http://127.0.0.1:{self.cluster.master.etcd_port}"])

    def close(self) -> None:
        self._etcd.close()

    def create_source(self, source_id: str, server: SQLServer, rest: str = "", **account: object) -> dict[str, Any]:
        """Runs ``operate-source create``; returns the answer."""
        account = {"port": server.port, "user": "root", "password": "", **account}
        lines = "".join(f"  {key}: {json.dumps(value)}\n" for key, value in account.items())
        path = self.cluster.write_task(
            f"source-id: {source_id}\n{rest}from:\n  host: 127.0.0.1\n{lines}", f"{source_id}.yaml"
        )
        return self.cluster.dmctl("operate-source", "create", path)

    def task(
        self,
        *sources: str,
        name: str = "job",
        mode: str = "all",
        account: str = "user: root, password: ''",
        port: int = 0,
        rest: str = "",
    ) -> str:
        instances = "".join(f"  - {{source-id: {source}, block-allow-list: mine}}\n" for source in sources)
        return (
            f"name: {name}\ntask-mode: {mode}\n"
            f"target-database: {{host: 127.0.0.1, port: {port or self.target.port}, {account}}}\n"
            f"mysql-instances:\n{instances}block-allow-list:\n  mine: {{do-dbs: [shop]}}\n{rest}"
        )

    def state(self) -> tuple[object, ...]:
        """The state that a refused command must not change: not the event log, which has refused commands, too."""
        stored = {kv.key: kv.value for kv in self._etcd.get_prefix("/")[0]}
        events = {key for key in stored if key == EVENT_COUNT or key.startswith(EVENT.prefix())}
        assert not [key for key in events if SECRET in stored[key]]
        keys = {key: value for key, value in stored.items() if key not in events}
        there = self.target.execute("SELECT table_schema, table_name FROM information_schema.tables ORDER BY 1, 2")
        return keys, self.target.execute("SHOW DATABASES"), there

    def check(self, text: str) -> str:
        """Runs ``check-task`` for a task that must be refused; returns its report."""
        answer = self.cluster.dmctl("check-task", self.cluster.write_task(text, "job.yaml"))
        assert answer["result"] is False, answer
        return str(answer["msg"])

    def refused(self, text: str, *flags: str) -> str:
        """Runs ``start-task`` for a task that must be refused and change nothing; returns its answer."""
        path = self.cluster.write_task(text, "job.yaml")
        before = self.state()
        answer = self.cluster.dmctl("start-task", path, *flags)
        assert answer["result"] is False, answer
        assert self.state() == before
        assert "no source or not exist" in self.cluster.dmctl("query-status", "job")["msg"]
        told = f"{answer['msg']}{answer['checkResult']}"
        assert SECRET not in told
        return told


@pytest.fixture(scope="module")
def bare_mysql() -> Iterator[MySQLServer]:
    """A MySQL without binlog and GTID."""
    server = MySQLServer(binlog=False)
    server.start()
    yield server
    server.cleanup()


@pytest.fixture(scope="module")
def place(_mariadb_upstream: MariaDBServer, _target: MariaDBServer, bare_mysql: MySQLServer) -> Iterator[Field]:
    upstream, target = _mariadb_upstream, _target
    for server in (upstream, target):
        server.wipe()
    upstream.execute(
        *NEW_USER,
        "CREATE DATABASE shop",
        "CREATE TABLE shop.orders (id INT PRIMARY KEY, item VARCHAR(20), note VARCHAR(20))",
        "INSERT INTO shop.orders VALUES (1, 'tea', NULL), (2, 'rice', NULL)",
    )
    target.execute(*NEW_USER)
    bare_mysql.execute(
        "CREATE DATABASE shop", "CREATE TABLE shop.orders (id INT PRIMARY KEY, item VARCHAR(20), note VARCHAR(20))"
    )
    with Cluster(workers=2) as cluster:
        field = Field(cluster, upstream, bare_mysql, target)
        assert field.create_source("root", upstream)["result"]
        assert field.create_source("poor", upstream, user="dm", password=SECRET)["result"]
        assert field.create_source("bare", bare_mysql)["result"]
        yield field
        field.close()


def grant(server: SQLServer, *grants: str) -> None:
    """Gives the user ``dm`` only these grants."""
    server.execute(*NEW_USER, *(f"GRANT {one} TO dm@'127.0.0.1'" for one in grants), "FLUSH PRIVILEGES")


# -- sources ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rest", "account", "told"),
    [
        ("", {"port": NO_SERVER}, ("code=10001", "connect: connection refused", "host and port are correct")),
        ("", {"user": "dm", "password": f"{SECRET}x"}, ("code=10001", "Error 1045 (28000)", "Check user and password")),
        ("enable-gtid: true\n", {}, ("code=26007", "gtid_mode is not ON", "gtid_mode=ON")),
        ("flavor: mariadb\n", {}, ("code=11010", "flavor mariadb", "Set flavor: mysql")),
        ("enable-gtdi: true\n", {}, ("code=20003", ":2:1", "enable-gtdi", "enable-gtid")),
        ("enable-gtid: maybe\n", {}, ("code=20003", ":2:14", "enable-gtid", "true or false")),
    ],
)  # fmt: skip
def test_bad_source_is_reported_and_not_created(
    place: Field, rest: str, account: dict[str, object], told: tuple[str, ...]
) -> None:
    before = place.state()
    answer = place.create_source("new", place.bare, rest, **account)
    assert answer["result"] is False
    assert [part for part in told if part not in answer["msg"]] == [], answer["msg"]
    assert SECRET not in answer["msg"]
    assert place.state() == before


# -- the task file ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("task-mode: all", "task-mode: all\nonline-dll: true"), ("code=20003", "task.yaml:3:1", "online-ddl")),
        (("task-mode: all", "task-mode: al"), ("code=20020", "task.yaml:2:12", "full, incremental")),
        (("do-dbs: [shop]", "do-dbs: shop"), ("code=20003", "task.yaml:7:18", "list")),
        (("mine: {", "other: {do-dbs: [x]}\n  mine: {"), ("code=20038", "task.yaml:7:10", "other")),
        (("block-allow-list: mine}", "block-allow-list: mein}"), ("code=20026", "task.yaml:5:", "mein")),
        (("block-allow-list: mine}", "block-allow-list: mine, syncer-config-name: no}"),
         ("code=20030", "task.yaml:5:", "no")),
        (("task-mode: all\n", ""), ("code=20020", "task.yaml:1:1", "task-mode")),
        (("source-id: root", "source-id: rot"), ("code=20031", "'rot'", "Did you mean 'root'")),
        (("source-id: root", "source-id: ../root"), ("code=20003", "task.yaml:5:", "slashes")),
    ],
)  # fmt: skip
def test_bad_task_file_is_refused_with_its_place(place: Field, change: tuple[str, str], told: tuple[str, ...]) -> None:
    text = place.task("root")
    assert change[0] in text
    message = place.refused(text.replace(*change))
    assert [part for part in told if part not in message] == [], message
    assert "Workaround" in message


def test_file_that_is_no_yaml(place: Field) -> None:
    path = place.cluster.write_task("name: job\ntask-mode: [all\nx: 1\n", "broken.yaml")
    with pytest.raises(HarnessError, match=r"code=20003.*broken.yaml:3:2: not valid YAML.*Workaround"):
        place.cluster.dmctl_text("start-task", path)


def test_source_that_no_worker_serves(place: Field) -> None:
    shown = place.cluster.dmctl("operate-source", "show", "-s", "bare")
    assert "no free worker" in shown["sources"][0]["msg"]
    message = place.refused(place.task("root", "bare"))
    assert [part for part in ("code=46009", "bare", "list-member") if part not in message] == [], message
    assert "root" not in message


# -- the servers ------------------------------------------------------------------------------------------------------


def test_unreachable_target_and_wrong_password(place: Field) -> None:
    message = place.refused(place.task("root", port=NO_SERVER))
    parts = ("code=26005", "code=26002", "127.0.0.1:1", "connect: connection refused", "host and port are correct")
    assert [part for part in parts if part not in message] == [], message
    message = place.refused(place.task("root", account=f"user: dm, password: {SECRET}x"), "--remove-meta")
    assert [part for part in ("code=26002", "Error 1045", "Check user and password") if part not in message] == []


def test_upstream_password_that_was_changed(place: Field) -> None:
    grant(place.upstream, *ENOUGH)
    place.upstream.execute("ALTER USER dm@'127.0.0.1' IDENTIFIED BY 'another'")
    try:
        message = place.refused(place.task("poor"))
    finally:
        place.upstream.execute(f"ALTER USER dm@'127.0.0.1' IDENTIFIED BY '{SECRET}'")
    parts = ("code=26002", "upstream of poor", "Error 1045 (28000)", "Check user and password")
    assert [part for part in parts if part not in message] == [], message


@pytest.mark.parametrize(
    ("grants", "told"),
    [
        (("INSERT ON shop.orders", ENOUGH[1]), "lack of Select privilege: `shop`.`orders`"),
        ((ENOUGH[0], "REPLICATION SLAVE, REPLICATION CLIENT ON *.*"), "lack of Reload global (*.*) privilege"),
        ((ENOUGH[0], "RELOAD, REPLICATION CLIENT ON *.*"), "lack of Replication Slave global (*.*) privilege"),
        ((ENOUGH[0], "RELOAD, REPLICATION SLAVE ON *.*"), "lack of Replication Client global (*.*) privilege"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_missing_upstream_privilege(place: Field, grants: tuple[str, ...], told: str) -> None:
    grant(place.upstream, *grants)
    message = place.refused(place.task("poor"))
    assert [part for part in ("code=26005", told, "GRANT ", "'dm'") if part not in message] == [], message
    assert message.count('"severity"') == 1, message


@pytest.mark.parametrize(
    ("variable", "bad", "good"), [("binlog_format", "MIXED", "ROW"), ("binlog_row_image", "MINIMAL", "FULL")]
)
def test_binlog_settings(place: Field, variable: str, bad: str, good: str) -> None:
    place.upstream.execute(f"SET GLOBAL {variable} = '{bad}'")
    try:
        message = place.refused(place.task("root"))
    finally:
        place.upstream.execute(f"SET GLOBAL {variable} = '{good}'")
    parts = ("code=26005", f"{variable} is {bad}, and should be {good}", f"SET GLOBAL {variable} = '{good}'")
    assert [part for part in parts if part not in message] == [], message


def test_no_binlog(place: Field) -> None:
    message = place.check(place.task("bare"))
    assert "log_bin is OFF, and should be ON" in message
    assert "Set log-bin" in message


def test_target_table_that_lacks_columns(place: Field) -> None:
    place.target.execute("CREATE DATABASE shop", "CREATE TABLE shop.orders (id INT PRIMARY KEY, note VARCHAR(20))")
    try:
        message = place.refused(place.task("root"))
    finally:
        place.target.execute("DROP DATABASE shop")
    parts = ("lacks the column item", "root `shop`.`orders`", "target `shop`.`orders`", "Add them")
    assert [part for part in parts if part not in message] == [], message


def test_missing_target_privilege_pauses_the_task_with_what_to_grant(place: Field) -> None:
    """As in DM, the precheck only warns, because it cannot see all forms of grants."""
    grant(place.target, "SELECT, UPDATE, DELETE ON *.*", "ALL ON dm_meta.*")
    text = place.task("root", name="grants", mode="full", account=f"user: dm, password: {SECRET}")
    path = place.cluster.write_task(text, "grants.yaml")
    told = place.cluster.dmctl("start-task", path)["checkResult"]
    assert [
        one for one in ("Create", "Insert") if f"lack of {one} global (*.*) privilege, or of it on `shop`.*" not in told
    ] == [], told
    assert "GRANT CREATE ON `shop`.* TO 'dm' on the target." in told
    error = paused(place, "grants")
    assert "Error 1044 (42000)" in error["RawCause"]
    assert "Error 1044 (42000)" not in error["Message"]
    assert error["ErrScope"] == "downstream"
    assert "Grant" in error["Workaround"]
    grant(place.target, "ALL ON *.*")
    place.cluster.dmctl("resume-task", "grants")
    # Not by wait_stage: it sees the old error until the worker has read the request.
    wait_until(lambda: stages(place, "grants") == ["Finished"], "the copy is done", WAIT_TIMEOUT, step=0.3)
    assert rows(place.target) == rows(place.upstream)
    place.cluster.ok("stop-task", "grants")
    place.target.wipe()


# -- a running task ---------------------------------------------------------------------------------------------------


def rows(server: SQLServer) -> list[tuple[Any, ...]]:
    return server.execute("SELECT * FROM shop.orders ORDER BY id")


def stages(place: Field, task: str) -> list[str]:
    return [status["stage"] for status in place.cluster.subtasks(task).values()]


def paused(place: Field, task: str) -> dict[str, Any]:
    """Waits until the task has paused with an error; returns that error."""
    found: dict[str, Any] = {}

    def stopped() -> bool:
        for status in place.cluster.subtasks(task).values():
            errors = (status["result"] or {}).get("errors") or []
            if status["stage"] == "Paused" and errors:
                found.update(errors[0])
        return bool(found)

    wait_until(stopped, f"{task} pauses with an error", 120, step=0.2)
    return found


def checkpoint(place: Field) -> tuple[Any, ...]:
    query = "SELECT binlog_name, binlog_pos FROM dm_meta.live_syncer_checkpoint WHERE is_global"
    return next(iter(place.target.execute(query)), ())


@pytest.fixture(scope="module")
def live(place: Field) -> Iterator[Field]:
    """A task that replicates."""
    place.target.wipe()
    place.cluster.ok("start-task", place.cluster.write_task(validated(place.task("root", name="live")), "live.yaml"))
    place.cluster.wait_stage("live", "Running", unit="Sync")
    place.upstream.execute("INSERT INTO shop.orders VALUES (3, 'salt', NULL)")
    caught_up(place)
    yield place
    certify(place.cluster, "live")
    place.cluster.dmctl("stop-task", "live")
    place.target.wipe()


def caught_up(place: Field) -> None:
    """Waits until the rows are equal and the checkpoint is at the upstream's position."""
    end = place.upstream.binlog_status()[:2]
    wait_until(lambda: checkpoint(place) == end, "a checkpoint at the end of the binlog", 120, step=0.3)
    assert rows(place.target) == rows(place.upstream)
    place.cluster.wait_stage("live", "Running", unit="Sync")


@pytest.mark.parametrize(
    ("spoil", "change", "mend", "told"),
    [
        (
            "INSERT INTO shop.orders VALUES (10, 'by hand', NULL)",
            "INSERT INTO shop.orders VALUES (10, 'tea', NULL)",
            "DELETE FROM shop.orders WHERE id = 10",
            ("Error 1062 (23000)", "Duplicate entry '10'", "`shop`.`orders`"),
        ),
        (
            "ALTER TABLE shop.orders DROP COLUMN note",
            "UPDATE shop.orders SET note = 'fine' WHERE id = 3",
            "ALTER TABLE shop.orders ADD COLUMN note VARCHAR(20)",
            ("Error 1054 (42S22)", "note", "`shop`.`orders`"),
        ),
        (
            "RENAME TABLE shop.orders TO shop.away",
            "INSERT INTO shop.orders VALUES (11, 'oil', NULL)",
            "RENAME TABLE shop.away TO shop.orders",
            ("Error 1146 (42S02)", "`shop`.`orders`"),
        ),
    ],
    ids=["duplicate", "column", "table"],
)
def test_error_pauses_the_task_at_its_place_until_it_is_mended(
    live: Field, spoil: str, change: str, mend: str, told: tuple[str, ...]
) -> None:
    before = checkpoint(live)
    live.target.execute(spoil)
    live.upstream.execute(change, "INSERT INTO shop.orders SELECT MAX(id) + 90, 'later', NULL FROM shop.orders")
    error = paused(live, "live")
    parts = (*told, "startLocation: [position: (", "endLocation: [position: (", "gtid-set: ")
    assert [part for part in parts if part not in error["Message"] + error["RawCause"]] == [], error
    assert told[0] not in error["Message"], "the server's text is in RawCause alone"
    assert error["ErrCode"] > 10000
    assert error["ErrScope"] == "downstream"
    assert error["Workaround"], error
    assert checkpoint(live) == before
    live.target.execute(mend)
    live.cluster.dmctl("resume-task", "live")
    caught_up(live)


def test_target_that_is_away_for_a_while_needs_no_operator(live: Field) -> None:
    live.target.kill()
    for i in range(8):
        live.upstream.execute(f"INSERT INTO shop.orders VALUES ({1000 + i}, 'meanwhile', NULL)")
        time.sleep(1)
    live.target.start()
    caught_up(live)
