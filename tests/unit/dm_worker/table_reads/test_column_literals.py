"""Hazard: a value changes on its way through a literal."""

from __future__ import annotations

from dm_worker.table_reads.column_literals import LiteralKind, RowRenderer


def test_floating_literals_keep_the_sign_of_zero_and_are_no_decimals() -> None:
    assert RowRenderer([LiteralKind.FLOATING]).render([b"-0", None, b"1e-7", b"344.221435546875"], 4) == (
        b"(-0e0),\n(NULL),\n(1e-7),\n(344.221435546875e0)"
    )
