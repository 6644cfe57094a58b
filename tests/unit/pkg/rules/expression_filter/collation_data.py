"""Writes the data of pkg/rules/expression_filter from real servers.

To run: ``python -m tests.unit.pkg.rules.expression_filter.collation_data``.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pkg.rules.expression_filter
from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from deploy.local.process import up
from pkg.mysql.collation_weights import fetch_collation_weights

FOLDER = Path(pkg.rules.expression_filter.__file__).parent
_PIECE = 512


def case_maps(server: SQLServer) -> bytes:
    """Weight, lower and upper case of utf8mb4_general_ci's characters, then the same of latin1_swedish_ci's bytes."""
    maps = [*_general(server), *_swedish(server)]
    return zlib.compress(b"".join(map(_map, maps)), 9)


def _general(server: SQLServer) -> Iterator[Mapping[int, int]]:
    found: tuple[dict[int, int], ...] = ({}, {}, {})
    for start in (*range(0, 0xD800, _PIECE), *range(0xE000, 0x10000, _PIECE)):
        points = range(start, start + _PIECE)
        text = "".join(map(chr, points)).encode("utf-16-be").hex()
        given = f"CONVERT(_ucs2 x'{text}' USING utf8mb4) COLLATE utf8mb4_general_ci"
        [(weight, lower, upper)] = server.execute(f"SELECT WEIGHT_STRING({given}), LOWER({given}), UPPER({given})")
        values = (weight, lower.encode("utf-16-be"), upper.encode("utf-16-be"))
        for one, value in zip(found, values, strict=True):
            one.update(zip(points, struct.unpack(f">{_PIECE}H", value), strict=True))
    yield from found


def _swedish(server: SQLServer) -> Iterator[Mapping[int, int]]:
    given = f"_latin1 x'{bytes(range(256)).hex()}'"
    [values] = server.execute(
        f"SELECT WEIGHT_STRING({given} COLLATE latin1_swedish_ci), BINARY LOWER({given}), BINARY UPPER({given})"
    )
    for value in values:
        yield dict(enumerate(value))


def _map(values: Mapping[int, int]) -> bytes:
    """The characters that differ from their value, and by how much."""
    differing = {one: (value - one) & 0xFFFF for one, value in values.items() if value != one}
    numbers = (len(differing), *differing, *differing.values())
    return struct.pack(f"<{len(numbers)}H", *numbers)


def uca_900(server: SQLServer) -> bytes:
    """The weights of MySQL 8's utf8mb4_0900_ai_ci."""
    conn = server.connect()
    try:
        found = fetch_collation_weights(conn, "utf8mb4", "utf8mb4_0900_ai_ci")
    finally:
        conn.close()
    assert found is not None
    return found.packed


def main() -> None:
    """Writes both files."""
    with up(mariadb := MariaDBServer()), up(mysql := MySQLServer()):
        (FOLDER / "case_maps.bin").write_bytes(case_maps(mariadb))
        (FOLDER / "uca_900.bin").write_bytes(uca_900(mysql))


if __name__ == "__main__":
    main()
