"""Hazard: an INET6 arrives in a text column spelled in another way than a full copy spells it."""

from __future__ import annotations

import random

from deploy.local.mysql import MariaDBServer
from pkg.binlog.rows.literals import inet6_text


def test_addresses_are_spelled_as_the_server_does(mariadb_upstream: MariaDBServer) -> None:
    rnd = random.Random(3)
    groups = [b"\0\0", b"\0\0", b"\0\0", b"\xff\xff", b"\0\x01", b"\x12\x34"]
    addresses = [b"".join(rnd.choice(groups) for _ in range(8)) for _ in range(3000)] + [bytes(16), bytes(15) + b"\1"]
    shown = mariadb_upstream.execute("SELECT " + ",".join(f"CAST(x'{one.hex()}' AS INET6)" for one in addresses))[0]
    assert [inet6_text(one) for one in addresses] == [str(text) for text in shown]
