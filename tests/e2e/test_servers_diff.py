"""`dmctl diff --config`: two servers that no task connects, compared by a worker without a source."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from deploy.local.process import HarnessError, wait_until

USER, PASSWORD = "'reading'@'127.0.0.1'", "R3ading-password"
ROWS = 3000
FILE = """\
name: shop-servers
settle-time: {settle}
chunk-rows: 500
output-dir: {folder}
target-database: {{host: 127.0.0.1, port: {target}, user: reading, password: "{password}"}}
mysql-instances:
- source-id: s1
  from: {{host: 127.0.0.1, port: {first}, user: reading, password: "{password}"}}
  route-rules: [m]
  column-mapping-rules: [note]
- source-id: s2
  from: {{host: 127.0.0.1, port: {second}, user: reading, password: "{password}"}}
  route-rules: [m]
  column-mapping-rules: [note]
routes:
  m: {{schema-pattern: "s_*", table-pattern: "t_*", target-schema: shop, target-table: t}}
column-mappings:
  note:
    {{schema-pattern: "s_*", table-pattern: "t_*", expression: add prefix, arguments: ["x-"], source-column: note,
     target-column: note}}
"""

WriteFile = Callable[..., str]


@pytest.fixture
def sides(
    mariadb_upstream: MariaDBServer, mysql_upstream: MySQLServer, target: SQLServer
) -> Iterator[tuple[SQLServer, SQLServer, SQLServer]]:
    servers = (mariadb_upstream, mysql_upstream, target)
    for server in servers:
        server.execute(
            f"DROP USER IF EXISTS {USER}", f"CREATE USER {USER} IDENTIFIED BY '{PASSWORD}'",
            f"GRANT SELECT ON *.* TO {USER}",
        )  # fmt: skip
    for number, server in enumerate(servers[:2]):
        server.execute(f"CREATE DATABASE s_{number}", f"CREATE TABLE s_{number}.t_{number} {COLUMNS}",
                       _rows(f"s_{number}.t_{number}", number * ROWS, "note"))  # fmt: skip
    target.execute("CREATE DATABASE shop", f"CREATE TABLE shop.t {COLUMNS}", _rows("shop.t", 0, "x-note"),
                   _rows("shop.t", ROWS, "x-note"))  # fmt: skip
    yield servers
    for server in servers:
        server.execute(f"DROP USER IF EXISTS {USER}")


COLUMNS = "(id INT PRIMARY KEY, note VARCHAR(20), v INT)"


def _rows(table: str, first: int, note: str) -> str:
    return f"INSERT INTO {table} VALUES {', '.join(f'({n}, {note!r}, {n})' for n in range(first, first + ROWS))}"


@pytest.fixture
def file(sides: tuple[SQLServer, SQLServer, SQLServer], tmp_path: Path) -> WriteFile:
    first, second, target = sides

    def write(settle: str = "1s", **changes: str) -> str:
        text = FILE.format(settle=settle, folder=tmp_path / "files", password=PASSWORD, first=first.port,
                           second=second.port, target=target.port)  # fmt: skip
        for before, after in changes.items():
            text = text.replace(before, after)
        path = tmp_path / "diff.yaml"
        path.write_text(text)
        return str(path)

    return write


def ended(cluster: Cluster, path: str) -> dict[str, Any]:
    answer: dict[str, Any] = {}

    def done() -> bool:
        answer.clear()
        answer.update(cluster.dmctl("diff", "status", "--config", path))
        return str(answer["verdict"]) != "running"

    wait_until(done, "the comparison has ended", 240, step=0.5)
    return answer


def test_two_servers_are_compared_and_exactly_the_faults_are_found(
    free_cluster: Cluster, sides: tuple[SQLServer, SQLServer, SQLServer], file: WriteFile, tmp_path: Path
) -> None:
    path = file()
    shown = free_cluster.dmctl_text("diff", "start", "--config", path, "--once", timeout=300)
    assert "verdict: equal" in shown
    sides[2].execute("DELETE FROM shop.t WHERE id = 17", f"UPDATE shop.t SET v = -1 WHERE id = {ROWS + 17}")
    free_cluster.ok("diff", "start", "--config", path)
    answer = ended(free_cluster, path)
    assert answer["verdict"] == "different"
    (table,) = [table for source in answer["sources"] for table in source["tables"]]
    assert (table["target"], table["missing"], table["changed"], table["extra"]) == ("`shop`.`t`", "1", "1", "0")
    (differences,) = [source["differences"] for source in answer["sources"] if source["differences"]]
    lines = [json.loads(line) for line in Path(differences).read_text().splitlines()]
    assert sorted((one["kind"], one["key"]["id"]) for one in lines) == [("changed", str(ROWS + 17)), ("missing", "17")]
    # The statements are those that make the target equal.
    (repairs,) = [source["repairs"] for source in answer["sources"] if source["repairs"]]
    with sides[2].connect(autocommit=True) as conn:
        for statement in Path(repairs).read_bytes().split(b";\n"):
            if statement:
                conn.query(statement.decode())
    assert "verdict: equal" in free_cluster.dmctl_text("diff", "start", "--config", path, "--once", timeout=300)
    # The password is in the operator's file only.
    written = [one for one in (tmp_path / "files").rglob("*") if one.is_file()]
    assert len(written) >= 2
    logs = [one for process in (free_cluster.master, *free_cluster.workers) for one in process.dir.rglob("*")]
    for one in (*written, *(log for log in logs if log.is_file() and log.suffix in (".log", ".out", ".err", ".txt"))):
        assert PASSWORD.encode() not in one.read_bytes(), one


def test_a_comparison_continues_after_the_death_of_its_worker(
    free_cluster: Cluster, sides: tuple[SQLServer, SQLServer, SQLServer], file: WriteFile, tmp_path: Path
) -> None:
    """Its rate leaves time to end the worker. The next start with the same file continues the run."""
    sides[2].execute("DELETE FROM shop.t WHERE id = 17")
    path = file()
    slow = ("--rate", "30KiB", "--threads", "1")
    begun = free_cluster.ok("diff", "start", "--config", path, *slow)
    (name,) = {source["worker"] for source in begun["sources"]}
    state = tmp_path / "files" / "shop-servers" / "s1" / "state.jsonl"
    wait_until(lambda: b'"counts"' in state.read_bytes(), "a chunk is done", 120)
    (worker,) = [one for one in free_cluster.workers if one.member == name]
    worker.kill()
    with pytest.raises(HarnessError, match=r"no worker has a comparison shop-servers|does not answer"):
        free_cluster.dmctl("diff", "status", "--config", path)
    worker.start()
    again = free_cluster.ok("diff", "start", "--config", path, *slow)
    assert [one["run"] for one in again["sources"]] == [one["run"] for one in begun["sources"]]
    answer = ended(free_cluster, path)
    assert answer["verdict"] == "different"
    (table,) = [table for source in answer["sources"] for table in source["tables"]]
    assert table["missing"] == "1"


def test_it_is_shown_and_stopped_by_its_name_and_mistakes_are_named(
    free_cluster: Cluster, sides: tuple[SQLServer, SQLServer, SQLServer], file: WriteFile
) -> None:
    path = file(**{"name: shop-servers": "name: stopped"})
    with pytest.raises(HarnessError, match="no worker has a comparison stopped"):
        free_cluster.dmctl("diff", "stop", "--config", path)
    free_cluster.ok("diff", "start", "--config", path, "--rate", "1KiB")
    shown = free_cluster.dmctl("diff", "status", "--config", path)
    assert shown["verdict"] == "running"
    with pytest.raises(HarnessError, match="a comparison stopped is running"):
        free_cluster.dmctl("diff", "start", "--config", path)
    free_cluster.ok("diff", "stop", "--config", path)
    assert {one["stage"] for one in free_cluster.dmctl("diff", "status", "--config", path)["sources"]} == {"Stopped"}
    for flags in (("--repair",), ("--lock",), ("--most-lag", "5")):
        with pytest.raises(HarnessError, match="need a task"):
            free_cluster.dmctl("diff", "start", "--config", path, *flags)
    with pytest.raises(HarnessError, match=r"denied.*\(s1\)"):
        free_cluster.dmctl("diff", "start", "--config", file(**{f"port: {sides[0].port}, user: reading":
                                                               f"port: {sides[0].port}, user: nobody"}))  # fmt: skip
    with pytest.raises(HarnessError, match="names 'n', which routes does not have"):
        free_cluster.dmctl("diff", "start", "--config", file(**{"[m]": "[n]"}))
