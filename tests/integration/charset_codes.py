"""All codes that columns of each charset can store, as tests ask servers to keep them."""

from __future__ import annotations

from tests.harness.mysql import SQLServer

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


def charsets(server: SQLServer) -> dict[str, int]:
    """The server's charsets, and how many bytes a character may take."""
    rows = server.execute("SELECT CHARACTER_SET_NAME, MAXLEN FROM information_schema.CHARACTER_SETS ORDER BY 1")
    return {str(name): int(width) for name, width in rows}


def codes(charset: str, width: int, step: int = 1) -> list[str]:
    """All bytes, all or some pairs where a character may be two bytes, and longer codes, as hex. Not all are codes."""
    # Unicode's own forms are many and have no twins: some pairs, among them surrogates.
    step = 29 if charset in _UNICODE else step
    pairs = (f"{n:04X}" for n in range(0, 0x10000, step)) if width > 1 else ()
    return [*(f"{n:02X}" for n in range(0x100)), *pairs, *_LONG.get(charset, ())]
