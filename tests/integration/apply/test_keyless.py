"""Hazards: of two rows without a key that are equal to a collation or in another charset, the wrong one changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from dm_worker.syncer.execution import keyless, keyless_writer
from dm_worker.syncer.execution.apply import BucketResult, apply_bucket
from dm_worker.syncer.execution.keyless import KeylessRows
from dm_worker.syncer.execution.merge import BucketContent
from dm_worker.syncer.execution.row_block import OrderedRow
from dm_worker.syncer.execution.row_statements import StatementForm
from dm_worker.syncer.rows.table_plan import TablePlan
from pkg.binlog.position import Location
from pkg.binlog.rows.row_decoder import RowImages
from pkg.errors import DMError
from pkg.mysql import driver
from tests.integration.apply.support import TOKEN, marker, next_batch, plan_of, prepare, spec_of
from tests.integration.binlog_replay import decode_images, events_between, here
from tests.integration.charset_codes import STEPS, charsets, codes
from tests.integration.sql_values import COMMON_COLUMNS, MARIADB_COLUMNS, value_for


@pytest.fixture(scope="module")
def mysql_target() -> Iterator[MySQLServer]:
    server = MySQLServer()
    try:
        server.start()
        yield server
    finally:
        server.cleanup()


@pytest.fixture(params=["mariadb", "mysql"])
def server(request: pytest.FixtureRequest) -> SQLServer:
    """A server that is upstream and target."""
    name = "mariadb_upstream" if request.param == "mariadb" else "mysql_target"
    found: SQLServer = request.getfixturevalue(name)
    return found


def _ordered(images: Sequence[tuple[int, list[bytes] | None, list[bytes] | None]]) -> list[OrderedRow]:
    return [(n, op, 1, 1000 + n, before, after) for n, (op, before, after) in enumerate(images)]


def _apply(server: SQLServer, rows: list[OrderedRow], form: StatementForm | None = None) -> BucketResult:
    next_batch(server)
    plans = {1: plan_of(server, "t", source="up")}
    return apply_bucket(spec_of(server, form), TOKEN, 0, BucketContent(ordered={1: rows}, changes=len(rows)), plans)


def _images_since(server: SQLServer, start: Location) -> list[RowImages]:
    """What the binlog holds of d.up behind ``start``."""
    return decode_images(server, events_between(server, start, here(server).position), "d", "up")


def _replicate(server: SQLServer, *changes: str) -> BucketResult:
    """Runs the statements on d.up and applies what the binlog then holds of it to d.t."""
    start = here(server)
    server.execute("SET SESSION sql_mode = 'ALLOW_INVALID_DATES'", *changes)
    return _apply(server, _ordered(_images_since(server, start)))


@pytest.fixture
def merged(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows went as a multiset, each time it did to the end."""
    seen: list[int] = []
    write = keyless_writer.write

    def spy(conn: Any, step: KeylessRows, form: StatementForm, most: int) -> int:
        count = write(conn, step, form, most)
        seen.append(len(step.rows))
        return count

    monkeypatch.setattr(keyless_writer, "write", spy)
    return seen


def _rows(server: SQLServer, table: str, fields: Sequence[str]) -> Counter[tuple[object, ...]]:
    return Counter(server.execute(f"SELECT {', '.join(fields)} FROM {table}"))


def _check_codes(server: SQLServer, charset: str) -> None:
    """Asserts that both tables have the same codes; a sum of digests stands for the multiset."""
    digests = "COUNT(*), SUM(CAST(CONV(LEFT(SHA1(CONCAT(HEX(v), '/', n)), 12), 16, 10) AS UNSIGNED))"
    got, want = (server.execute(f"SELECT {digests} FROM d.{table}") for table in ("t", "up"))
    assert got == want, charset


def _store(server: SQLServer, charset: str, all_codes: Sequence[str]) -> None:
    """Puts the codes that a column keeps as they are into d.up, and twins by a conversion to Unicode under one n."""
    firsts = range(0, len(all_codes), 5000)
    pieces = [",".join(f"(0x{code})" for code in all_codes[first : first + 5000]) for first in firsts]
    server.execute(
        "SET SESSION sql_mode = ''",
        f"CREATE TABLE d.raw (v VARCHAR(250) CHARACTER SET {charset})",
        *(f"INSERT IGNORE INTO d.raw VALUES {piece}" for piece in pieces),
        "INSERT INTO d.up SELECT v, CRC32(CONVERT(v USING utf8mb4)) % 997 FROM d.raw GROUP BY CAST(v AS BINARY), v",
    )


def _some_codes(server: SQLServer, charset: str) -> list[str]:
    """Codes without a Unicode character of their own, their twins, and a few others."""
    image = "HEX(CONVERT(v USING utf8mb4))"
    changed = f"HEX(v) <> HEX(CONVERT(CONVERT(v USING utf8mb4) USING {charset}))"
    odd = {row[0] for row in server.execute(f"SELECT {image} FROM d.up WHERE {changed}")}
    listed = ",".join(f"'{code}'" for code in ("", *odd))
    twins = [str(row[0]) for row in server.execute(f"SELECT HEX(v) FROM d.up WHERE {image} IN ({listed}) ORDER BY 1")]
    ((count,),) = server.execute("SELECT COUNT(*) FROM d.up")
    others = server.execute(f"SELECT HEX(v) FROM d.up WHERE CRC32(v) % {max(1, count // 60)} = 0")
    return sorted({*twins[:: max(1, len(twins) // 200)], *twins[:30], *(str(row[0]) for row in others)})


def _change_codes(server: SQLServer, charset: str, width: int, step: int, merged: list[int]) -> None:
    body = f"(v VARCHAR(250) CHARACTER SET {charset}, n INT, KEY (n))"
    prepare(server, f"CREATE TABLE d.up {body}", f"CREATE TABLE d.t {body}")
    start = here(server)
    _store(server, charset, codes(charset, width, step))
    filled = _images_since(server, start)
    assert len(filled) > 90, charset
    _apply(server, _ordered(filled))
    _check_codes(server, charset)
    some = _some_codes(server, charset)
    updated, deleted = (",".join(f"'{code}'" for code in some[first::3]) for first in (0, 1))
    # One by one, then all of them with few scans.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keyless, "LEAST_CHANGES", 1 << 30)
        _replicate(
            server,
            f"UPDATE d.up SET n = n + 1000 WHERE HEX(v) IN ({updated})",
            f"DELETE FROM d.up WHERE HEX(v) IN ({deleted})",
        )
    assert merged == []
    _check_codes(server, charset)
    _replicate(
        server, "UPDATE d.up SET n = n + 1000 WHERE CRC32(HEX(v)) % 3 = 0", "DELETE FROM d.up WHERE CRC32(v) % 3 = 1"
    )
    assert len(merged) == 1, charset
    merged.clear()
    _check_codes(server, charset)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("step", STEPS)
def test_every_code_of_every_charset_finds_its_own_row(server: SQLServer, step: int, merged: list[int]) -> None:
    found = charsets(server)
    assert len(found) > 35
    for charset, width in found.items():
        _change_codes(server, charset, width, step, merged)


#: What has no digest form: such rows are found one by one.
_ONLY_ONE_BY_ONE = ("GEOMETRY", "POINT", "JSON")


def _columns(server: SQLServer, *, mergeable: bool) -> dict[str, str]:
    # MySQL 5.6 has no JSON.
    json = {} if str(server.execute("SELECT VERSION()")[0][0]).startswith("5.6.") else {"j1": "JSON"}
    columns = {**COMMON_COLUMNS, **(MARIADB_COLUMNS if server.flavor == "mariadb" else json)}
    columns |= {"z": "INT(7) ZEROFILL", "dz": "DECIMAL(9,3) ZEROFILL", "k1": "VARBINARY(5)", "k2": "TIMESTAMP(3) NULL"}
    if not mergeable:
        return columns
    return {
        name: kind
        for name, kind in columns.items()
        if name != "e3" and (kind not in _ONLY_ONE_BY_ONE or (kind, server.flavor) == ("JSON", "mariadb"))
    }


def _shown(columns: dict[str, str]) -> list[str]:
    exact = {"FLOAT": "CONCAT(`{0}`*1e0)", "DOUBLE": "CONCAT(`{0}`*1e0)", "BIT": "`{0}`+0"}
    return [exact.get(kind.split("(")[0], "HEX(`{0}`)").format(name) for name, kind in columns.items()]


def _change_every_type(server: SQLServer, columns: dict[str, str], seed: int, changes: int) -> None:
    body = ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
    prepare(
        server,
        "SET SESSION sql_mode = ''",
        f"CREATE TABLE d.up ({body}, KEY (k1), KEY (k2), KEY (i1))",
        "CREATE TABLE d.t LIKE d.up",
    )
    rnd = Random(seed)
    own = {name: kind for name, kind in columns.items() if " AS " not in kind}
    names = ",".join(f"`{name}`" for name in own)

    def value(name: str) -> str:
        return rnd.choice(("'a'", "'A'", "'a '", "NULL")) if name in ("c2", "c5", "k1") else value_for(own[name], rnd)

    rows = [f"({','.join(value(name) for name in own)})" for _ in range(12)]
    # Rows that differ from another one in one column only, and several copies of each.
    rows += [f"({','.join('0' if name == 'f1' else value(name) for name in own)})" for _ in range(3)]
    inserts = [f"INSERT INTO d.up ({names}) VALUES {rnd.choice(rows)}" for _ in range(2 * changes)]
    _replicate(server, *inserts)
    fields = _shown(columns)
    assert _rows(server, "d.t", fields) == _rows(server, "d.up", fields)
    written = []
    for _ in range(changes):
        name = rnd.choice(sorted(own))
        written.append(f"UPDATE d.up SET `{name}` = {value(name)} ORDER BY RAND() LIMIT 1")
        written.append(rnd.choice(("DELETE FROM d.up ORDER BY RAND() LIMIT 1", rnd.choice(inserts))))
    _replicate(server, *written)
    assert _rows(server, "d.t", fields) == _rows(server, "d.up", fields)


def test_rows_of_every_type_are_found_one_by_one(server: SQLServer, merged: list[int]) -> None:
    _change_every_type(server, _columns(server, mergeable=False), seed=1, changes=30)
    assert merged == []


@pytest.mark.parametrize("seed", [2, 3])
def test_rows_of_every_type_are_found_by_one_scan(server: SQLServer, merged: list[int], seed: int) -> None:
    _change_every_type(server, _columns(server, mergeable=True), seed=seed, changes=60)
    assert len(merged) == 1


def test_a_bulk_change_of_a_table_without_a_key_takes_few_statements(server: SQLServer, merged: list[int]) -> None:
    body = "(a INT, s VARCHAR(20) CHARACTER SET utf8mb4)"
    prepare(server, f"CREATE TABLE d.up {body}", f"CREATE TABLE d.t {body}")
    rows = ",".join(f"({n % 1500},'s{n % 1500}')" for n in range(4000))
    _replicate(server, f"INSERT INTO d.up VALUES {rows}")
    result = _replicate(server, "UPDATE d.up SET a = a + 1 WHERE a < 1000", "DELETE FROM d.up WHERE a > 700 LIMIT 900")
    # Once it was a statement and half a scan for each of 3667 changes.
    assert result.changes == merged.pop() > 3500
    assert result.statements < 10
    assert _rows(server, "d.t", ("a", "s")) == _rows(server, "d.up", ("a", "s"))


def _changes(count: int, *, last: str) -> list[OrderedRow]:
    """Deletes of rows (n) and an update of (0) to ``last``."""
    images = [(2, [b"%d" % n, b"'x'"], None) for n in range(1, count)]
    return _ordered([*images, (1, [b"0", b"'x'"], [last.encode(), b"'x'"])])


def _simple(server: SQLServer, rows: int, extra: str = "") -> None:
    prepare(
        server,
        "CREATE TABLE d.up (a INT, s VARCHAR(20) CHARACTER SET utf8mb4)",
        f"CREATE TABLE d.t (a INT, s VARCHAR(20) CHARACTER SET utf8mb4{extra})",
        "INSERT INTO d.t VALUES " + ",".join(f"({n},'x')" for n in range(rows)),
    )


def test_a_row_that_is_missing_in_a_bulk_change_is_named_and_nothing_is_written(
    target: MariaDBServer, merged: list[int]
) -> None:
    _simple(target, 40)
    # Equal to the collation, and another row.
    target.execute("UPDATE d.t SET s = 'X' WHERE a = 0")
    with pytest.raises(DMError, match=r"UPDATE `d`.`t` SET `a`=100.*WHERE `a` <=> 0") as caught:
        _apply(target, _changes(40, last="100"))
    assert "ends at binlog offset 1039" in str(caught.value)
    assert (merged, marker(target)) == ([], 0)
    assert target.execute("SELECT COUNT(*) FROM d.t") == [(40,)]


@pytest.mark.target_with("check constraints")
def test_a_row_that_the_target_refuses_in_a_bulk_change_is_named(target: MariaDBServer, merged: list[int]) -> None:
    _simple(target, 40, ", CHECK (a < 100)")
    with pytest.raises(DMError, match=r"the row \(100,'x'\) of `up`.`up`.*Error 4025 "):
        _apply(target, _changes(40, last="100"))
    assert (merged, marker(target)) == ([], 0)
    assert target.execute("SELECT COUNT(*) FROM d.t") == [(40,)]


def test_copies_of_a_row_that_are_not_changed_stay(target: MariaDBServer, merged: list[int]) -> None:
    _simple(target, 40)
    target.execute("INSERT INTO d.t SELECT * FROM d.t WHERE a < 10", "INSERT INTO d.t SELECT * FROM d.t WHERE a < 5")
    _apply(target, _changes(40, last="7"))
    assert merged == [40]
    want = Counter(dict.fromkeys(range(5), 3) | dict.fromkeys(range(5, 10), 1))
    want[7] += 1
    assert Counter(row[0] for row in target.execute("SELECT a FROM d.t")) == want


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The beginnings of the statements that find rows: of a SELECT of digests, a DELETE, a DELETE that returns rows."""
    seen: list[str] = []
    for name in ("digest_query", "removal", "returning_removal"):
        build = getattr(keyless, name)

        def spy(plan: TablePlan, images: Any, search: keyless.Search, name: str = name, build: Any = build) -> bytes:
            seen.append(f"{name} {'digests' if search.column is None else 'integers'}")
            text: bytes = build(plan, images, search)
            return text

        monkeypatch.setattr(keyless, name, spy)
    return seen


@pytest.mark.parametrize("others", [False, True])
@pytest.mark.parametrize("proxy", [False, True])
def test_rows_with_the_integers_of_changed_rows_stay(
    server: SQLServer,
    merged: list[int],
    statements: list[str],
    monkeypatch: pytest.MonkeyPatch,
    others: bool,
    proxy: bool,
) -> None:
    """``proxy``: it hides that the server is MariaDB."""
    monkeypatch.setattr(keyless, "IMAGES_PER_SCAN", 25)
    if proxy:
        monkeypatch.setattr(driver, "is_mariadb", lambda _: False)
    _simple(server, 40)
    # Equal to the collation, and other rows.
    server.execute("INSERT INTO d.t SELECT a, 'X' FROM d.t WHERE a % 2" if others else "DO 0")
    _apply(server, _changes(40, last="100"))
    assert merged == [40]
    expected = Counter({(100, "x"): 1}) + Counter((n, "X") for n in range(1, 40, 2) if others)
    assert _rows(server, "d.t", ("a", "s")) == expected
    returning = server.flavor == "mariadb" and not proxy
    assert any(one.startswith("returning") for one in statements) == returning
    assert any(one.endswith("removal digests") for one in statements) == others


@pytest.mark.parametrize(
    "why",
    [
        pytest.param("a trigger", marks=pytest.mark.target_with("triggers")),
        "a column of its own",
        pytest.param("MyISAM", marks=pytest.mark.target_with("storage engines")),
    ],
)
def test_where_rows_can_not_be_exchanged_they_are_changed_one_by_one(
    target: MariaDBServer, merged: list[int], why: str
) -> None:
    _simple(target, 40)
    how = {
        "a trigger": "CREATE TRIGGER d.u BEFORE UPDATE ON d.t FOR EACH ROW SET NEW.s = CONCAT(OLD.s, 'y')",
        "a column of its own": "ALTER TABLE d.t ADD own INT DEFAULT 5",
        "MyISAM": "ALTER TABLE d.t ENGINE=MyISAM",
    }[why]
    target.execute(how)
    if why == "a column of its own":
        target.execute("UPDATE d.t SET own = 9")
    _apply(target, _changes(40, last="100"))
    assert merged == []
    assert target.execute("SELECT * FROM d.t") == [(100, *{"a trigger": ("xy",), "MyISAM": ("x",)}.get(why, ("x", 9)))]


def test_rows_with_equal_digests_are_changed_one_by_one(target: MariaDBServer, merged: list[int]) -> None:
    _simple(target, 40)
    plan = plan_of(target, "t", source="up")
    wrong = replace(plan, digests=(("`a`+0", ("", "+1")), plan.digests[1]), texts=("", ""))
    next_batch(target)
    content = BucketContent(ordered={1: _changes(40, last="100")}, changes=40)
    apply_bucket(spec_of(target), TOKEN, 0, content, {1: wrong})
    assert merged == []
    assert target.execute("SELECT * FROM d.t") == [(100, "x")]


@pytest.fixture
def digest_queries(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of images of each call that let the target compute the digests of literals."""
    seen: list[int] = []
    queries = keyless.digest_queries

    def spy(plan: TablePlan, images: keyless.DistinctImages, most: int) -> Iterator[bytes]:
        seen.append(len(images.looked_for))
        return queries(plan, images, most)

    monkeypatch.setattr(keyless, "digest_queries", spy)
    return seen


@pytest.mark.parametrize(
    ("texts", "asked"),
    [
        pytest.param(None, [], id="the target writes its rows as literals"),
        pytest.param(("", ""), [40], id="it can't"),
        pytest.param(("'0'", "'y'"), [40], id="its texts are others"),
    ],
)
def test_the_target_computes_digests_of_literals_only_where_texts_do_not_find_all_rows(
    target: MariaDBServer,
    merged: list[int],
    digest_queries: list[int],
    texts: tuple[str, ...] | None,
    asked: list[int],
) -> None:
    _simple(target, 40)
    plan = plan_of(target, "t", source="up")
    assert all(plan.texts)
    next_batch(target)
    content = BucketContent(ordered={1: _changes(40, last="100")}, changes=40)
    apply_bucket(spec_of(target), TOKEN, 0, content, {1: plan if texts is None else replace(plan, texts=texts)})
    assert (merged, digest_queries) == ([40], asked)
    assert target.execute("SELECT * FROM d.t") == [(100, "x")]


def test_rows_that_a_text_does_not_find_are_not_lost_among_those_that_it_finds(
    target: MariaDBServer, merged: list[int], digest_queries: list[int]
) -> None:
    """Every second row has another text than its literal."""
    _simple(target, 40)
    plan = plan_of(target, "t", source="up")
    texts = (f"IF(`a` % 2, '-0', {plan.texts[0]})", plan.texts[1])
    next_batch(target)
    content = BucketContent(ordered={1: _changes(40, last="3")}, changes=40)
    apply_bucket(spec_of(target), TOKEN, 0, content, {1: replace(plan, texts=texts)})
    assert (merged, digest_queries) == ([40], [40])
    assert target.execute("SELECT * FROM d.t") == [(3, "x")]
