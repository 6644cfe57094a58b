"""Pieces of SQL text for the tests of the loader."""

from __future__ import annotations

from hypothesis import strategies as st

#: What begins, ends or escapes a literal, a name or a comment.
SQL_TOKENS = st.sampled_from(
    [b"'", b'"', b"`", b"\\", b";", b"-", b"--", b"-- ", b"--\0", b"#", b"/", b"/*", b"*/", b"*", b"\n", b"''", b"\xff"]
)
FILL = st.integers(0, 70).map(lambda n: b"x" * n)
