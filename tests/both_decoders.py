"""The compiled row kernel and the Python code as one decoder, for the tests of either."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pkg.binlog.rows.row_decoder import RowChange, RowDecoder, RowImages
from pkg.binlog.table_map import TableMap
from pkg.errors import DMError
from pkg.mysql.schema import Column
from tests.compiled import kernels

T = TypeVar("T")


class BothDecoders:
    """A ``RowDecoder`` that asserts that both kernels agree; with DM_KERNEL=python it is the Python one alone."""

    def __init__(
        self, table_map: TableMap, columns: Sequence[Column], *, key: Sequence[int], write: Sequence[int]
    ) -> None:
        self.table_map = table_map
        self._python = RowDecoder(table_map, columns, key=key, write=write, kernel=None)
        self._used = RowDecoder(table_map, columns, key=key, write=write, kernel=kernels()[-1])

    def changes(self, data: bytes, file: str = "") -> list[RowChange]:
        return self._both(lambda decoder: decoder.changes(data, file))

    def images(self, data: bytes, file: str = "") -> list[RowImages]:
        return self._both(lambda decoder: decoder.images(data, file))

    def _both(self, read: Callable[[RowDecoder], T]) -> T:
        (one, failure), (other, expected) = _outcome(self._used, read), _outcome(self._python, read)
        assert one == other
        assert (failure and failure.code) == (expected and expected.code)
        if failure is not None:
            raise failure
        return one  # type: ignore[no-any-return]


def _outcome(decoder: RowDecoder, read: Callable[[RowDecoder], T]) -> tuple[Any, DMError | None]:
    try:
        return read(decoder), None
    except DMError as exc:
        return None, exc
