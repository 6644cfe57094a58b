"""All codes that columns of each charset can store, as tests ask servers to keep them."""

from __future__ import annotations

import pytest

from deploy.local.mysql import SQLServer

_UNICODE = frozenset({"ucs2", "utf16", "utf16le", "utf32", "utf8mb3", "utf8mb4"})
#: Longer codes: a few of each charset that has them.
_LONG = {
    "ujis": ("8FA2AF", "8FEDE3", "8FF3FE"),
    "eucjpms": ("8FA2AF", "8FF3F3", "8FF4FE", "8FF5A1", "8FFEFE"),
    "gb18030": ("81308130", "8431A439", "FE39FE39", "90308130"),
    "utf16": ("D83DDE00", "DBFFDFFF"),
    "utf16le": ("3DD800DE", "FFDBFFDF"),
    "utf32": ("00000041", "0001F600", "0010FFFF"),
    "utf8mb4": ("E38081", "EFBCBC", "F09F9880", "F48FBFBF"),
    "utf8mb3": ("E38081", "EFBCBC", "EFBFBD"),
}
#: Second bytes that are quotes or escapes to who reads them as ASCII: never left out.
_SPECIAL = frozenset(b"'\"\\`|@~")
#: What `make test` takes of the pairs, and what `make test-long` does: one in so many.
STEPS = [pytest.param(11, id="some codes"), pytest.param(1, id="every code", marks=pytest.mark.slow)]
#: Stands for the rows of a table, whatever their order.
DIGEST = "COUNT(*), SUM(CAST(CONV(LEFT(SHA1(CONCAT(id, '/', HEX(v), '/', HEX(c))), 12), 16, 10) AS UNSIGNED))"


def charsets(server: SQLServer) -> dict[str, int]:
    """The server's charsets, and how many bytes a character may take."""
    rows = server.execute("SELECT CHARACTER_SET_NAME, MAXLEN FROM information_schema.CHARACTER_SETS ORDER BY 1")
    return {str(name): int(width) for name, width in rows}


def codes(charset: str, width: int, step: int = 1) -> list[str]:
    """All bytes, pairs where a character may be two bytes, and longer codes, as hex. Not all are codes.

    ``step``: of the pairs, one in so many, and those whose second byte is a quote or an escape in ASCII.
    """
    # Unicode's own forms are many and have no twins: some pairs, among them surrogates.
    unicode = charset in _UNICODE
    chosen = (n for n in range(0x10000) if n % (29 if unicode else step) == 0 or (not unicode and n & 0xFF in _SPECIAL))
    pairs = (f"{n:04X}" for n in chosen) if width > 1 else ()
    return [*(f"{n:02X}" for n in range(0x100)), *pairs, *_LONG.get(charset, ())]


def fill(server: SQLServer, charset: str, width: int, table: str, step: int, *, plain: bool = True) -> None:
    """Makes ``cs.<table>`` of the codes, and whatever else the server makes of bytes that are none; not ``plain``:
    without pairs that begin with an ASCII character."""
    columns = "id INT PRIMARY KEY, v VARCHAR(9), c CHAR(9)"
    found = [code for code in codes(charset, width, step) if plain or len(code) == 2 or code[0] > "7"]
    rows = [f"({n},0x{code},0x{code}41)" for n, code in enumerate(found)]
    server.execute(
        "SET SESSION sql_mode = ''",
        f"CREATE TABLE cs.{table} ({columns}) DEFAULT CHARSET {charset} COLLATE {charset}_bin",
        *(f"INSERT IGNORE INTO cs.{table} VALUES {','.join(rows[n : n + 5000])}" for n in range(0, len(rows), 5000)),
        f"INSERT INTO cs.{table} VALUES (-1, NULL, NULL)",
    )
