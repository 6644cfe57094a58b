"""A CREATE TABLE that the upstream wrote itself is UTF-8, independent of the charset of its session. Pure.

Servers write one for CREATE TABLE … SELECT and for … LIKE a temporary table, in the form of SHOW CREATE TABLE. The
event has the charset of the client's session. Seen in MySQL 5.7 and 8.0, and MariaDB 10.11.
"""

from __future__ import annotations

import re
from dataclasses import replace

from pkg import errors
from pkg.binlog.events import QueryEvent
from pkg.errors import Code
from pkg.errors.workarounds import Advice

#: In double quotes with ANSI_QUOTES, and without quotes where sql_quote_show_create is off.
_NAME = rb"""(?:`(?:[^`]|``)+`|"(?:[^"]|"")+"|[\w$\x80-\xff]+)"""
_FORM = re.compile(rb"CREATE TABLE (?:%b\.)?%b \(\n  \S" % (_NAME, _NAME))
#: utf8mb4_general_ci in both families.
_UTF8MB4 = 45
_UTF8 = ("utf8", "utf8mb3", "utf8mb4")


def in_its_charset(query: QueryEvent, *, inside: bool) -> QueryEvent:
    """The statement in the charset that its text has.

    ``inside``: a transaction contains it. Only CREATE TABLE … SELECT logs one so: the server wrote it. A client may
    have sent one that stands alone, such as from a dump file. Raises 11054 if both may have written it, with different
    meanings.
    """
    text = query.statement
    if query.charsets is None or text.isascii() or query.client_charset in _UTF8 or _FORM.match(text) is None:
        return query
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return query
    if inside:
        return replace(query, charsets=(_UTF8MB4, _UTF8MB4, query.charsets[2]))
    raise errors.new(
        Code.BinlogEventDecode,
        f"a CREATE TABLE of a session in {query.client_charset} is valid UTF-8 too: servers write a statement of this "
        "form themselves, in UTF-8, for CREATE TABLE … SELECT and … LIKE a temporary table, and it does not show who "
        f"wrote it: {text.decode('utf-8')[:500]}",
        workaround="Compare it with the upstream's SHOW CREATE TABLE, and give the right one in place of it. "
        f"{Advice.SKIP_OR_REPLACE}",
    )
