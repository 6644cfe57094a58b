"""Hazards: two threads read each other's answers from one connection; an error does not say which table it is about."""

from __future__ import annotations

import threading
from typing import cast

import pymysql
import pytest

from dm_worker.syncer.rows import server_lookup
from dm_worker.syncer.rows.server_lookup import ServerLookup
from pkg.errors import DMError
from pkg.settings.connections import DBConfig


class NoConnection:
    def close(self) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> ServerLookup:
    monkeypatch.setattr(server_lookup, "connect", lambda *_, **__: NoConnection())
    return ServerLookup(cast(DBConfig, None), "upstream", lambda: False)


def test_two_threads_never_ask_at_the_same_time(server: ServerLookup) -> None:
    asks, answered = threading.Event(), threading.Event()

    def slow(_: object) -> bool:
        asks.set()
        return answered.wait(60)

    thread = threading.Thread(target=lambda: server.ask(slow))
    thread.start()
    try:
        assert asks.wait(60)
        with pytest.raises(AssertionError, match="two threads"):
            server.ask(lambda _: 1)
    finally:
        answered.set()
        thread.join()
    assert server.ask(lambda _: 1) == 1, "the connection may be handed over"


def test_a_question_may_ask_another_and_a_failed_one_leaves_the_connection_free(server: ServerLookup) -> None:
    assert server.ask(lambda _: server.ask(lambda _: 2)) == 2
    with pytest.raises(ValueError, match="torn"):
        server.ask(lambda _: int("torn"))
    thread_answers: list[int] = []
    thread = threading.Thread(target=lambda: thread_answers.append(server.ask(lambda _: 3)))
    thread.start()
    thread.join()
    assert thread_answers == [3]


def test_a_table_that_the_server_cannot_open_is_named(server: ServerLookup, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise pymysql.OperationalError(1030, "Got error 174 from storage engine InnoDB")

    monkeypatch.setattr(server_lookup, "fetch_table_info", broken)
    with pytest.raises(DMError) as caught:
        server.table("s", "t")
    assert "the upstream refused a statement on `s`.`t`" in str(caught.value)
    assert "CHECK TABLE" in str(caught.value)
