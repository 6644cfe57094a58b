"""Hazards: a distant target that waits once per statement; statements sent ahead of one that fails."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing

import pymysql
import pytest

from deploy.local.mysql import MariaDBServer
from dm_worker.syncer.execution import apply
from dm_worker.syncer.execution.apply import BucketResult, apply_bucket
from dm_worker.syncer.execution.compaction import DELETED, INSERTED, UPDATED
from dm_worker.syncer.execution.row_statements import RowStatement, StatementForm
from pkg.errors import DMError
from pkg.mysql.connection import connect
from pkg.mysql.pipeline import AHEAD, Refused, send_ahead
from tests.harness.proxy import CountingProxy
from tests.integration.apply.support import (
    MARKERS,
    TOKEN,
    content_of,
    marker,
    next_batch,
    plan_of,
    prepare,
    spec_of,
    states_of,
)


@pytest.fixture
def proxy(target: MariaDBServer) -> Iterator[CountingProxy]:
    made = CountingProxy(target.port)
    yield made
    made.close()


@pytest.mark.target_with("several statements")
def test_a_bucket_takes_two_round_trips_however_many_statements_it_has(
    target: MariaDBServer, proxy: CountingProxy
) -> None:
    prepare(target, "CREATE TABLE d.t (id INT PRIMARY KEY, v VARBINARY(9))")
    target.execute("INSERT INTO d.t VALUES (1, 'a'), (2, 'b')")
    plans = {1: plan_of(target, "t")}
    spec = spec_of(target, port=proxy.port)
    apply_bucket(spec, TOKEN, 0, content_of(plans, states_of([(UPDATED, b"1", b"(1,'c')")])), plans)
    next_batch(target)
    rows = [(DELETED, b"1", b""), (UPDATED, b"2", b"(2,x'64')")]
    rows += [(INSERTED, b"%d" % i, b"(%d,x'65')" % i) for i in range(10, 900)]
    # What is sent ahead is sent before the first answer comes, also where sending it is interrupted.
    proxy.delay = 0.5
    before = proxy.round_trips
    result = apply_bucket(spec, TOKEN, 0, content_of(plans, states_of(rows)), plans)
    assert result.statements == 3
    # Marker and statements, then COMMIT; before them, once for each connection, what is executed in bulk is prepared.
    assert proxy.round_trips - before == 3
    next_batch(target)
    rows = [(DELETED, b"%d" % i, b"") for i in range(10, 900)] + [(DELETED, b"2", b""), (INSERTED, b"1", b"(1,x'63')")]
    rows += [(INSERTED, b"%d" % i, b"(%d,x'65')" % i) for i in range(1010, 1900)]
    before = proxy.round_trips
    assert apply_bucket(spec, TOKEN, 0, content_of(plans, states_of(rows)), plans).statements == 2
    assert proxy.round_trips - before == 2
    assert target.execute("SELECT COUNT(*) FROM d.t") == [(891,)]
    next_batch(target)
    states = states_of([(UPDATED, b"%d" % i, b"(%d,x'66')" % i) for i in range(1010, 1024)])
    form = StatementForm(multiple=False)
    before = proxy.round_trips
    result = apply_bucket(spec_of(target, form, port=proxy.port), TOKEN, 0, content_of(plans, states, form), plans)
    assert result.statements == 14
    assert proxy.round_trips - before == 2


def test_fenced_writer_leaves_nothing_though_its_rows_were_sent_ahead(target: MariaDBServer) -> None:
    prepare(target, "CREATE TABLE d.t (id INT PRIMARY KEY)")
    plans = {1: plan_of(target, "t")}
    content = content_of(plans, states_of([(INSERTED, b"1", b"(1)")]))
    target.execute(f"UPDATE {MARKERS} SET epoch = 2")
    with pytest.raises(DMError, match="may not write"):
        apply_bucket(spec_of(target), TOKEN, 0, content, plans)
    target.execute(f"UPDATE {MARKERS} SET epoch = 1, batch = 1")
    assert apply_bucket(spec_of(target), TOKEN, 0, content, plans).skipped
    assert target.execute("SELECT COUNT(*) FROM d.t") == [(0,)]
    # The answers to what was sent for nothing were read: the connection was of use still.
    assert apply._POOL.may_send_ahead(spec_of(target).address)
    next_batch(target)
    assert not apply_bucket(spec_of(target), TOKEN, 0, content, plans).skipped
    assert target.execute("SELECT COUNT(*) FROM d.t") == [(1,)]


@pytest.mark.target_with("sequence tables")
def test_deadlock_in_the_middle_is_tried_again_as_a_whole(target: MariaDBServer) -> None:
    prepare(target, "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)", "INSERT INTO d.t VALUES (1, 0), (2, 0)")
    plans = {1: plan_of(target, "t")}
    form = StatementForm(multiple=False)
    rows = [(UPDATED, b"1", b"(1,7)"), (UPDATED, b"2", b"(2,7)"), (INSERTED, b"3", b"(3,7)")]
    content = content_of(plans, states_of(rows), form)
    with ThreadPoolExecutor(1) as pool, closing(target.connect(autocommit=False, database="d")) as other:
        cursor = other.cursor()
        # A big transaction, so that the server picks the writer as the victim.
        cursor.execute("INSERT INTO d.t SELECT seq, 0 FROM seq_1000_to_3000")
        cursor.execute("UPDATE d.t SET v = 1 WHERE id = 2")
        writing = pool.submit(apply_bucket, spec_of(target, form), TOKEN, 0, content, plans)
        _wait_for_lock(target, writing)
        deadlocks = _status(target, "Innodb_deadlocks")
        cursor.execute("UPDATE d.t SET v = v + 100 WHERE id = 1")
        other.commit()
        result = writing.result(120)
    assert result.statements == 3
    assert _status(target, "Innodb_deadlocks") > deadlocks
    assert (result.failures, "Deadlock" in result.cause, result.waited > 0) == (1, True, True), "it is in the log"
    assert target.execute("SELECT * FROM d.t WHERE id < 4 ORDER BY id") == [(1, 7), (2, 7), (3, 7)]
    assert marker(target) == 1


def _status(server: MariaDBServer, name: str) -> int:
    return int(server.execute(f"SHOW GLOBAL STATUS LIKE '{name}'")[0][1])


def _wait_for_lock(server: MariaDBServer, writing: Future[BucketResult]) -> None:
    """Waits until the writer waits for a row; raises what ended it before.

    The counter is of the moment. information_schema.INNODB_LOCK_WAITS is not: the server shows the same for as long as
    it is asked more than ten times a second.
    """
    end = time.monotonic() + 60
    while not _status(server, "Innodb_row_lock_current_waits"):
        assert not writing.done(), f"the writer waited for nobody: {writing.result()}"
        assert time.monotonic() < end, "nobody waits for a lock"
        time.sleep(0.02)


def test_connection_lost_while_statements_are_on_their_way_is_tried_again_one_by_one(
    target: MariaDBServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As behind a proxy that ends connections with more than one command on its way.
    prepare(target, "CREATE TABLE d.t (id INT PRIMARY KEY)")
    plans = {1: plan_of(target, "t")}
    content = content_of(plans, states_of([(INSERTED, b"1", b"(1)")]))
    tried: list[int] = []

    def breaking(conn: object, run: object, text: object, *, ahead: int) -> object:
        tried.append(ahead)
        if ahead > 1:
            raise Refused(RowStatement(b"", -1), pymysql.err.OperationalError(2013, "Lost connection"))
        return send_ahead(conn, run, text, ahead=ahead)  # type: ignore[arg-type]

    monkeypatch.setattr(apply, "send_ahead", breaking)
    spec = spec_of(target, sql_notes="0")  # an address of its own
    apply_bucket(spec, TOKEN, 0, content, plans)
    next_batch(target)
    target.execute("DELETE FROM d.t")
    apply_bucket(spec, TOKEN, 0, content, plans)
    assert tried == [AHEAD, 1, 1]


@pytest.mark.target_with("rows over 6 MB")
def test_answers_stay_in_step_with_statements_of_every_size(target: MariaDBServer) -> None:
    prepare(target, "CREATE TABLE d.t (id INT PRIMARY KEY, v LONGTEXT)")
    sizes = [1, 20 << 20, 5, (1 << 24) - 60, 3 << 20, 2 << 20, 9]
    texts = [b"INSERT INTO d.t VALUES (%d, '%b')" % (n, b"x" * size) for n, size in enumerate(sizes)]
    conn = connect(target.db_config, scope="downstream", autocommit=False)
    with closing(conn):
        answers = list(send_ahead(conn, texts, bytes))
        assert [text for text, _ in answers] == texts
        assert [answer.matched for _, answer in answers] == [1] * len(sizes)
        conn.commit()
        assert target.execute("SELECT LENGTH(v) FROM d.t ORDER BY id") == [(size,) for size in sizes]
        again = [b"INSERT INTO d.t VALUES (100, '')", b"INSERT INTO d.t VALUES (0, '')", b"DELETE FROM d.t"]
        with pytest.raises(Refused) as caught:
            list(send_ahead(conn, again, bytes))
        assert caught.value.statement == again[1]
        # What was sent after it ran as well, and goes with the transaction.
        conn.rollback()
    assert target.execute("SELECT COUNT(*) FROM d.t") == [(len(sizes),)]
