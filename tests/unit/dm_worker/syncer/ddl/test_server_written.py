"""Which CREATE TABLE is read as UTF-8, whatever its session says."""

from __future__ import annotations

import pytest

from dm_worker.syncer.ddl.server_written import in_its_charset
from pkg.binlog.events import QueryEvent
from pkg.errors import DMError

LATIN1, UTF8MB4 = 8, 45
BY_SERVER = "CREATE TABLE `d`.`u` (\n  `e` enum('é')\n)"
#: The same of sessions with ANSI_QUOTES, and without sql_quote_show_create.
OF_OTHER_SESSIONS = (BY_SERVER.replace("`", '"'), BY_SERVER.replace("`", ""), "CREATE TABLE é (\n  `a b` int\n)")


def query(text: bytes, client: int = LATIN1) -> QueryEvent:
    return QueryEvent(1, 0, 0, "d", text, charsets=(client, client, LATIN1))


@pytest.mark.parametrize("text", [BY_SERVER, *OF_OTHER_SESSIONS])
def test_the_server_s_own_is_utf_8(text: str) -> None:
    read = in_its_charset(query(text.encode()), inside=True)
    assert (read.sql, read.charsets) == (text, (UTF8MB4, UTF8MB4, LATIN1))


@pytest.mark.parametrize(
    "one",
    [
        query(BY_SERVER.encode(), UTF8MB4),
        query(BY_SERVER.encode("latin1")),
        query(b"CREATE TABLE `d`.`u` (\n  `e` enum('e')\n)"),
        query("CREATE TABLE d.u (e ENUM('é'))".encode()),
        QueryEvent(1, 0, 0, "d", BY_SERVER.encode()),
    ],
    ids=["a session in UTF-8", "bytes that are not UTF-8", "ASCII", "a form that no server writes", "no charset"],
)
@pytest.mark.parametrize("inside", [False, True])
def test_what_a_client_sent_or_reads_alike_is_not_changed(one: QueryEvent, inside: bool) -> None:
    assert in_its_charset(one, inside=inside) is one


@pytest.mark.parametrize("text", [BY_SERVER, *OF_OTHER_SESSIONS])
def test_one_that_both_may_have_written_is_refused(text: str) -> None:
    with pytest.raises(DMError, match="session in latin1 is valid UTF-8 too") as caught:
        in_its_charset(query(text.encode()), inside=False)
    assert caught.value.code == 11054
