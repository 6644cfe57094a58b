"""Hazard: upstream and target are of different families or versions, and what the one writes, the other refuses or
keeps as something else.

Each pair copies, replicates with and without a relay, and follows DDL in the syntax of the upstream's family.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.local.mysql import MYSQL_8_COLLATION, MariaDBServer, MySQLServer, SQLServer
from deploy.local.process import up
from deploy.local.tidb import TiDBServer
from dm_master.precheck import run_prechecks
from dm_worker.engine.engine import SparkEngine
from pkg.config.model import SourceConfig
from pkg.config.task import load_task
from pkg.schema_tracker import fetch_collations
from tests.harness.full_copy import config, dump, load
from tests.integration.relay_routes import read_through
from tests.integration.syncer.scramble import TABLES, make_tables, scramble
from tests.integration.syncer.support import assert_equal, running

Pair = tuple[SQLServer, SQLServer]
_ALL = [
    ("mysql-8.4", "mariadb-11.8"),
    ("mysql-9.7", "mariadb-11.8"),
    ("mysql-9.7", "mariadb-10.11"),
    ("mariadb-11.8", "mysql-8.4"),
    ("mariadb-11.8", "mysql-9.7"),
    ("mysql-5.7", "mysql-9.7"),
    ("mariadb-11.8", "mariadb-10.11"),
    ("mysql-5.6", "mariadb-11.8"),
    ("mysql-9.7", "tidb"),
    ("mariadb-11.8", "tidb"),
]
_TRIED = _ALL if os.environ.get("DM_TEST_SERVERS") == "all" else [("mariadb-11.8", "mysql-8.0")]
_CHOSEN = {
    ("mariadb", "mysql"): [("utf8mb4_uca1400_ai_ci", "utf8mb4_0900_ai_ci"), ("utf8mb4_uca1400_as_cs", "utf8mb4_bin")],
    ("mysql", "mariadb"): [
        ("utf8mb4_0900_ai_ci", "utf8mb4_uca1400_nopad_ai_ci"),
        ("utf8mb4_ja_0900_as_cs", "utf8mb4_bin"),
    ],
    ("mariadb", "tidb"): [
        ("latin1_swedish_ci", "latin1_bin"),
        ("utf8mb4_uca1400_ai_ci", "utf8mb4_0900_ai_ci"),
        ("utf8mb4_uca1400_as_cs", "utf8mb4_bin"),
    ],
    ("mysql", "tidb"): [("latin1_swedish_ci", "latin1_bin"), ("utf8mb4_ja_0900_as_cs", "utf8mb4_bin")],
}


def _server(name: str, *, binlog: bool) -> SQLServer:
    family, _, version = name.partition("-")
    if family == "tidb":
        return TiDBServer()
    if family == "mariadb":
        return MariaDBServer(version="" if version == "10.11" else version, gtid=binlog, binlog=binlog)
    extra = [] if version in ("5.6", "5.7") else [MYSQL_8_COLLATION]
    return MySQLServer(version=version, gtid=binlog, binlog=binlog, extra=extra)


@pytest.fixture(scope="module", params=_TRIED, ids="-to-".join)
def servers(request: pytest.FixtureRequest) -> Iterator[Pair]:
    upstream, target = _server(request.param[0], binlog=True), _server(request.param[1], binlog=False)
    with up(upstream, target):
        yield upstream, target


@pytest.fixture
def pair(servers: Pair) -> Pair:
    for server in servers:
        server.wipe()
    return servers


_TYPED = (
    "(id INT PRIMARY KEY, s VARCHAR(40), d DECIMAL(20,6), f FLOAT, b BIT(9), y YEAR, e ENUM('a','b'), st SET('x','y'),"
    " ts TIMESTAMP(6) NULL, dt DATETIME(3), ti TIME(2), bl BLOB, bi BINARY(4), k VARCHAR(20) CHARACTER SET latin1)"
)
#: What is compared of tables: a FLOAT's text drops bits, and TiDB shows what others hide.
_SHOWN = {
    "typed": "id, s, d, f * 1e0, b, y, e, st, ts, dt, ti, bl, bi, k",
    "hidden": "id, v",
    "generated_key": "v, t",
    "loose_documents": "id, j",
    "vectors": "id, HEX(v)",
}
_MYSQL_57 = {
    "documents": (
        "(id INT PRIMARY KEY, j JSON, k VARCHAR(30) AS (j ->> '$.key') VIRTUAL, s INT AS (id + 1) STORED NOT NULL,"
        " KEY (k))"
    ),
    "loose_documents": "(id INT, j JSON)",
}
_MYSQL_8 = {
    "expressed": (
        "(id INT PRIMARY KEY, v INT DEFAULT (1 + 2), t VARCHAR(40) DEFAULT (CONCAT('a', 'b')), KEY back (v DESC),"
        " CONSTRAINT positive CHECK (v > 100000) NOT ENFORCED, KEY unseen (t) INVISIBLE)"
    ),
    "hidden": "(id INT PRIMARY KEY, v INT /*!80023 INVISIBLE */ DEFAULT 3)",
    "generated_key": "(v INT, t VARCHAR(40))",
    "words": "(w VARCHAR(20) PRIMARY KEY, n INT) COLLATE utf8mb4_ja_0900_as_cs",
    "points": "(w VARCHAR(20) PRIMARY KEY, n INT) COLLATE utf8mb4_0900_bin",
}
_MARIADB = {
    "documents": "(id INT PRIMARY KEY, j JSON, k VARCHAR(30) AS (JSON_UNQUOTE(JSON_EXTRACT(j, '$.key'))) VIRTUAL)",
    "loose_documents": "(id INT, j JSON)",
    "expressed": (
        "(id INT PRIMARY KEY, v INT DEFAULT (1 + 2), t VARCHAR(40) DEFAULT CONCAT('a', 'b'), d DATE DEFAULT CURDATE(),"
        " x TEXT DEFAULT 'abc', j JSON DEFAULT '{}', CONSTRAINT positive CHECK (v > -100000), KEY unseen (t) IGNORED)"
        " PAGE_CHECKSUM=1"
    ),
    "hidden": "(id INT PRIMARY KEY, v INT INVISIBLE DEFAULT 3, c TEXT COMPRESSED)",
    "words": "(w VARCHAR(20) PRIMARY KEY, n INT) COLLATE utf8mb4_uca1400_as_cs",
    "points": "(w VARCHAR(20) PRIMARY KEY, n INT) COLLATE utf8mb4_nopad_bin",
}
#: Made by hand at a target that lacks the types.
_ADDRESSES = "(id UUID PRIMARY KEY, a INET4, b INET6)", "(id CHAR(36) PRIMARY KEY, a VARCHAR(15), b VARCHAR(39))"
_VECTORS = "(id INT PRIMARY KEY, v VECTOR(3))"
_LACK_VECTORS = ("mysql-8.4", "mysql-8.0", "mariadb-10.11", "tidb")


def _definitions(upstream: str, target: str) -> dict[str, str]:
    """Table → definition: what the upstream has of its own, as far as the target can keep it."""
    found = {"typed": _TYPED}
    if upstream.startswith("mariadb"):
        found |= _MARIADB
    elif upstream != "mysql-5.6":
        found |= _MYSQL_57 if upstream == "mysql-5.7" else _MYSQL_57 | _MYSQL_8
    if upstream in ("mysql-9.7", "mariadb-11.8") and target not in _LACK_VECTORS:
        found["vectors"] = _VECTORS
    lacked = {"tidb": ("expressed",), "mysql-8.0": ("expressed", "hidden", "points")}
    for name in lacked.get(target, ()):
        found.pop(name, None)
    return found


def _write(upstream: SQLServer, tables: dict[str, str], turn: int) -> None:
    ids = range(turn * 20, turn * 20 + 12)
    at = "'2024-02-29 01:02:03.456789'"
    statements = {
        "typed": [
            f"INSERT INTO d.typed VALUES ({n}, 'é😀{n}', {n}.123456, {n} / 7, b'1010', 2024, 'b', 'x,y', {at}, {at},"
            f" '-12:13:14.56', x'00ff0a', x'0100', 'ä{n}')"
            for n in ids
        ]
        + ["UPDATE d.typed SET f = -f, bl = NULL WHERE id % 3 = 1", f"DELETE FROM d.typed WHERE id = {ids[3]}"],
        "documents": [
            f'INSERT INTO d.documents (id, j) VALUES ({n}, \'{{"key": "k{n}", "b":[1, 2.50,null], "a": 2.25}}\')'
            for n in ids
        ]
        + ["UPDATE d.documents SET j = JSON_SET(j, '$.key', 'changed', '$.n', id) WHERE id % 4 = 1"],
        "loose_documents": [
            f'INSERT INTO d.loose_documents VALUES ({n}, \'{{"z":1, "a": [true,{n}]}}\')' for n in ids for _ in "ab"
        ]
        + [
            f"UPDATE d.loose_documents SET j = JSON_ARRAY_APPEND(j, '$.a', 'x') WHERE id = {ids[1]} LIMIT 1",
            f"DELETE FROM d.loose_documents WHERE id = {ids[2]} LIMIT 1",
        ],
        "expressed": [f"INSERT INTO d.expressed (id) VALUES ({n})" for n in ids]
        + [f"UPDATE d.expressed SET v = -5, t = NULL WHERE id = {ids[0]}"],
        "hidden": [f"INSERT INTO d.hidden (id, v) VALUES ({n}, {n} * 2)" for n in ids]
        + [f"UPDATE d.hidden SET v = {turn} WHERE id % 3 = 1"],
        "generated_key": [f"INSERT INTO d.generated_key VALUES ({n}, 'twice'), ({n}, 'twice')" for n in ids]
        + [f"DELETE FROM d.generated_key WHERE v = {ids[4]} LIMIT 1"],
        "words": [
            f"INSERT INTO d.words VALUES ('か{n}', {n}), ('ガ{n}', {n}), ('a{n}', {n}), ('A{n}', {n})" for n in ids
        ]
        + [f"DELETE FROM d.words WHERE w = 'ガ{ids[0]}'"],
        "points": [f"INSERT INTO d.points VALUES ('p{n}', {n}), ('p{n} ', {n}), ('P{n}', {n})" for n in ids]
        + [f"UPDATE d.points SET n = -1 WHERE w = 'p{ids[1]} '", f"DELETE FROM d.points WHERE w = 'p{ids[2]}'"],
        "vectors": [
            f"INSERT INTO d.vectors VALUES ({n}, {'VEC_FromText' if upstream.flavor == 'mariadb' else 'TO_VECTOR'}"
            f"('[{n}.5, -1e-7, 3]'))"
            for n in ids
        ]
        + [f"UPDATE d.vectors SET v = NULL WHERE id = {ids[0]}"],
        "addresses": [
            f"INSERT INTO d.addresses VALUES ('{n:08x}-0000-7000-8000-0000000000{n:02x}', '10.0.0.{n}', '::ffff:{n}')"
            for n in ids
        ]
        + [f"UPDATE d.addresses SET b = '2001:db8::{turn}' WHERE a = '10.0.0.{ids[1]}'"],
    }
    upstream.execute("SET SESSION time_zone = '+00:00'", *[one for name in tables for one in statements[name]])


def _alter(upstream: SQLServer, target: str, turn: int) -> list[str]:
    """DDL in the syntax of the upstream's family; the tables that it makes."""
    made = f"d.made{turn}"
    maria = upstream.flavor == "mariadb"
    statements = [
        f"CREATE TABLE {made} (id INT PRIMARY KEY, v VARCHAR(20), w TIMESTAMP NULL)",
        f"INSERT INTO {made} VALUES (1, 'one', NULL), (2, 'two', '2024-02-29 01:02:03')",
        f"ALTER TABLE {made} ADD COLUMN x INT NOT NULL DEFAULT 7 AFTER id, ADD INDEX by_v (v), ALGORITHM=INPLACE",
        f"ALTER TABLE {made} CHANGE v name VARCHAR(60), LOCK=SHARED",
        f"UPDATE {made} SET x = x + id",
        "ALTER TABLE d.typed MODIFY s VARCHAR(80)",
        "RENAME TABLE d.later TO d.moved, d.moved TO d.later" if turn > 2 else "CREATE TABLE d.later LIKE d.typed",
    ][: 7 if turn == 1 else 6]
    if maria:
        # Replicated, JSON of MariaDB becomes TiDB's own type, which spells documents in its own way.
        documents = "LONGTEXT" if target == "tidb" else "JSON"
        default = "NULL" if target in ("tidb", "mysql-8.0") else "CONCAT('a', 'b')"
        statements += [
            f"CREATE OR REPLACE TABLE {made} (id INT PRIMARY KEY, v VARCHAR(20) DEFAULT {default})",
            f"ALTER ONLINE TABLE {made} ADD COLUMN IF NOT EXISTS j {documents}, ALGORITHM=NOCOPY",
            f'INSERT INTO {made} (id, j) VALUES (1, \'{{"b": 1, "a":2}}\'), (2, NULL)',
            f"ALTER TABLE {made} DROP COLUMN IF EXISTS nothing, ADD COLUMN t VARCHAR(9) COLLATE utf8mb4_uca1400_as_cs",
            f"UPDATE {made} SET t = 'x', j = JSON_SET(j, '$.c', 3)",
        ]
    elif isinstance(upstream, MySQLServer) and upstream.version not in ("5.6", "5.7"):
        kind = "VIRTUAL" if target == "tidb" else "STORED"
        statements += [
            f"ALTER TABLE {made} ADD COLUMN t VARCHAR(9) COLLATE utf8mb4_ja_0900_as_cs DEFAULT 'か'",
            f"ALTER TABLE {made} ADD COLUMN g INT GENERATED ALWAYS AS (x + 1) {kind} NOT NULL, ADD COLUMN j JSON",
            f"ALTER TABLE {made} ALTER INDEX by_v INVISIBLE",
            f"UPDATE {made} SET t = 'ガ', j = JSON_OBJECT('b', 1, 'a', id)",
        ]
    upstream.execute(*statements)
    return [made]


@pytest.mark.timeout(900)
def test_a_copy_and_its_replication_are_equal(
    pair: Pair, spark: SparkEngine, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    upstream, target = pair
    names = request.node.callspec.params["servers"]
    make_tables(upstream)
    tables = _definitions(*names)
    upstream.execute(
        *(["SET SESSION sql_generate_invisible_primary_key = ON"] if "generated_key" in tables else []),
        *[f"CREATE TABLE d.{name} {body}" for name, body in tables.items()],
    )
    if names[0] == "mariadb-11.8":
        tables["addresses"] = _ADDRESSES[0]
        upstream.execute(f"CREATE TABLE d.addresses {_ADDRESSES[0]}")
        if not names[1].startswith("mariadb"):
            target.execute("CREATE DATABASE d", f"CREATE TABLE d.addresses {_ADDRESSES[1]}")
    scramble(upstream, 81, 20)
    _write(upstream, tables, 1)
    cfg = config(upstream, target, tmp_path, online_ddl=False)
    cfg = replace(cfg, target_collations=tuple(_CHOSEN.get(tuple(name.partition("-")[0] for name in names), ())))
    made = []
    with read_through("relay", cfg, upstream, tmp_path / "relay") as relay:
        dump(cfg, spark)
        _write(upstream, tables, 2)
        load(cfg, spark)
        with running(cfg, spark) as run:
            scramble(upstream, 82, 20)
            made += _alter(upstream, names[1], 1)
            run.wait_synced(upstream, 240)
            run.stop(graceful=False)
        _write(upstream, tables, 3)
        with running(cfg, spark, relay=relay) as run:
            scramble(upstream, 83, 20)
            made += _alter(upstream, names[1], 2)
            run.wait_synced(upstream, 240)
    assert_equal(upstream, target, *[f"d.{name}" for name in TABLES], "d.later", *made)
    for name in tables:
        shown = _SHOWN.get(name, "*")
        assert _shown(target, name, shown) == _shown(upstream, name, shown), name


def _shown(server: SQLServer, table: str, columns: str) -> list[tuple[object, ...]]:
    """All rows; documents without the spelling that a server gives them."""
    rows = server.execute(f"SELECT {columns} FROM d.{table}")
    if "documents" in table:
        rows = [tuple(_parsed(value) for value in row) for row in rows]
    return sorted(rows, key=repr)


def _parsed(value: object) -> object:
    is_document = isinstance(value, str) and value[:1] in ("{", "[")
    return json.dumps(json.loads(str(value)), sort_keys=True) if is_document else value


_CHECK = "target structure check"
_WRITE = re.compile(r"target-collations: \{(\w+): (\w+)\}")


def test_check_task_says_which_collations_to_choose(pair: Pair) -> None:
    """What it says is enough: with it, no table is refused."""
    upstream, target = pair
    lacked = {"mariadb": "utf8mb4_uca1400_danish_as_cs", "mysql": "utf8mb4_danish_ci"}[upstream.flavor]
    upstream.execute(
        "CREATE DATABASE d",
        "CREATE TABLE d.usual (k VARCHAR(9) PRIMARY KEY)",
        f"CREATE TABLE d.chosen (k VARCHAR(9) COLLATE {lacked} PRIMARY KEY)",
    )
    source = SourceConfig("s1", upstream.db_config, flavor=upstream.flavor, server_id=4_000_000)
    text = (
        f"name: t\ntask-mode: all\ntarget-database: {{host: 127.0.0.1, port: {target.port}, password: ''}}\n"
        "ignore-checking-items: [dump_privilege, replication_privilege, target_privilege, conn_number]\n"
        "mysql-instances:\n- {source-id: s1}\n"
    )
    chosen: dict[str, str] = {}
    with closing(target.connect()) as conn:
        known = set(fetch_collations(conn).values())
    for _ in range(3):
        task = load_task(f"{text}target-collations: {chosen}\n".replace("'", "") if chosen else text)
        checks = run_prechecks(task, {"s1": source}).results
        failed = [one for check in checks for one in check.findings if one.severity == "fail" and check.name == _CHECK]
        chosen |= dict(pair for one in failed for pair in _WRITE.findall(one.instruction))
        if not failed:
            break
    assert not failed
    usual = upstream.execute("SELECT DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = 'd'")
    assert set(chosen.values()) <= known
    for name in (lacked, usual[0][0]):
        assert (name in chosen) == (name not in known), chosen


_MARIADB_TO_MYSQL = [pair for pair in _TRIED if pair[0].startswith("mariadb") and pair[1].startswith("mysql")]


@pytest.mark.parametrize("servers", _MARIADB_TO_MYSQL, indirect=True, ids="-to-".join)
def test_check_task_names_a_key_that_mysql_can_not_keep(pair: Pair) -> None:
    upstream, target = pair
    upstream.execute("CREATE DATABASE d COLLATE utf8mb4_bin", "CREATE TABLE d.t (id INT PRIMARY KEY, v TEXT UNIQUE)")
    source = SourceConfig("s1", upstream.db_config, flavor=upstream.flavor, server_id=4_000_000)
    text = (
        f"name: t\ntask-mode: all\ntarget-database: {{host: 127.0.0.1, port: {target.port}, password: ''}}\n"
        "mysql-instances:\n- {source-id: s1}\n"
    )
    checks = run_prechecks(load_task(text), {"s1": source}).results
    (refused,) = [one for check in checks for one in check.findings if check.name == _CHECK and one.severity == "fail"]
    assert "Error 1170" in refused.message
    assert "'v'" in refused.message
    assert "Index a prefix" in refused.instruction
