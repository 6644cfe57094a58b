"""Row images as SQL: decoders per table shape. Pure; runs inside Spark tasks.

A decoder belongs to one TABLE_MAP and one tracked structure. Creating one is cheap when the process knows the shape: it
caches the readers of the compiled kernel and those in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from types import ModuleType
from typing import Any

from pkg import errors, native
from pkg.binlog import constants as c
from pkg.binlog.cursor import MALFORMED, malformed, whereabouts
from pkg.binlog.events import event_from_bytes, inflate
from pkg.binlog.rows.column_programs import derived_programs, programs
from pkg.binlog.rows.derived_literals import Derived
from pkg.binlog.rows.literals import Codec, codec_for
from pkg.binlog.rows.partial_images import completable
from pkg.binlog.rows.partial_updates import PartialUpdates
from pkg.binlog.rows.row_reader import PythonReaders, RowReaders
from pkg.binlog.rows.table_check import check_table_map
from pkg.binlog.table_map import RowsHeader, TableMap, parse_rows_header
from pkg.errors import Code
from pkg.mysql.schema import Column

#: op (0 insert, 1 update, 2 delete), key, values, old key.
RowChange = tuple[int, bytes, bytes, bytes]
#: op, literals before, literals after.
RowImages = tuple[int, list[bytes] | None, list[bytes] | None]

#: The compiled row kernel, None to use the Python code.
KERNEL: ModuleType | None = native.load("rows")
#: (data, start, end, append) → the offset where it stopped.
_Read = Callable[[bytes, int, int, Callable[[Any], None]], int]
#: (event, offset of the images) → the event with complete images.
_Complete = Callable[[bytes, int], bytes]
_HEADERS_KEPT = 64


@lru_cache(maxsize=1024)
def _readers(
    types: bytes,
    metas: tuple[int, ...],
    nullable: tuple[bool, ...],
    collations: tuple[int, ...],
    columns: tuple[Column, ...],
    key: tuple[int, ...],
    write: tuple[int, ...],
    derived: tuple[Derived, ...],
    kernel: ModuleType | None,
) -> RowReaders:
    codecs = _codecs(types, metas, collations, columns)
    if kernel is None:
        return PythonReaders(codecs, nullable, key, write, derived)
    readers: RowReaders = kernel.Readers(programs(codecs, nullable), key, write, derived_programs(derived))
    return readers


@lru_cache(maxsize=128)
def _partial_updates(
    types: bytes,
    metas: tuple[int, ...],
    nullable: tuple[bool, ...],
    collations: tuple[int, ...],
    columns: tuple[Column, ...],
) -> PartialUpdates:
    return PartialUpdates(types, _codecs(types, metas, collations, columns), nullable)


def _codecs(
    types: bytes, metas: tuple[int, ...], collations: tuple[int, ...], columns: tuple[Column, ...]
) -> list[Codec]:
    return [codec_for(*shape) for shape in zip(types, metas, columns, collations, strict=True)]


def _bitmap(present: Sequence[bool]) -> bytes:
    bits = sum(1 << number for number, there in enumerate(present) if there)
    return bits.to_bytes((len(present) + 7) // 8, "little")


class RowDecoder:
    """Turns the rows events of one table map into SQL literals.

    ``columns`` is the upstream's structure at this position; ``key`` and ``write`` are numbers of columns in it, or of
    ``derived`` literals, which follow the columns in numbers and in images. ``needed`` are other columns whose values
    are read: other generated columns may be missing in the images. ``kernel``: the compiled row kernel, or None for the
    Python code. ``readers`` belong to it.
    Raises 36027 when it does not fit the table map (see :func:`check_table_map`), 11076 for types without literals.
    """

    def __init__(
        self,
        table_map: TableMap,
        columns: Sequence[Column],
        *,
        key: Sequence[int],
        write: Sequence[int],
        derived: Sequence[Derived] = (),
        needed: Sequence[int] = (),
        kernel: ModuleType | None = KERNEL,
    ) -> None:
        check_table_map(table_map, columns)
        self.table_map = table_map
        collations = table_map.collations or (0,) * table_map.column_count
        self._shape = (table_map.types, table_map.metas, table_map.nullable, collations, tuple(columns))
        self.readers = _readers(*self._shape, tuple(key), tuple(write), tuple(derived), kernel)
        bitmap = (table_map.column_count + 7) // 8
        count = 1 if table_map.column_count < 251 else 3
        self._sizes = (count + bitmap, count + 2 * bitmap)
        read = {*key, *write, *needed, *(one.source for one in derived)}
        self._spared = tuple(bool(column.generated) and n not in read for n, column in enumerate(columns))
        #: Event headers that passed the checks, and how their images become complete.
        self._known: dict[bytes, _Complete | None] = {}

    def changes(self, data: bytes, file: str = "") -> list[RowChange]:
        """Every row change of a rows event, in order.

        ``data`` is the event as the stream gives it. A change's ``key`` is the key columns' literals joined by commas;
        ``values`` the ``(literal,…)`` of the columns to write, b'' for a delete; ``old key`` the key before an update
        (equal when it did not change), b'' for the others. Raises 11126 for an image that lacks columns, 36027 for one
        with another number of columns, 11071 for torn or invalid bytes.
        """
        readers = self.readers
        out: list[RowChange] = []
        self._run((readers.insert, readers.update, readers.delete), data, file, out.append)
        return out

    def images(self, data: bytes, file: str = "") -> list[RowImages]:
        """Every row with all literals before and after, derived ones included; slower than :meth:`changes`."""
        readers = self.readers
        rows: list[Any] = []
        op = self._run((readers.image, readers.image_pair, readers.image), data, file, rows.append)
        if op == c.OP_INSERT:
            return [(op, None, row) for row in rows]
        if op == c.OP_DELETE:
            return [(op, row, None) for row in rows]
        return [(op, before, after) for before, after in rows]

    def prepare(self, data: bytes, file: str = "") -> tuple[bytes, int, int]:
        """The event with its images inflated and complete, its operation, and the images' offset.

        Raises as :meth:`changes`.
        """
        if len(data) < c.HEADER_SIZE:
            event_from_bytes(data)
        kind = data[4]
        op = c.ROWS_EVENTS.get(kind, -1)
        # v1 has the columns after table id and flags; v2 after two more bytes if it has no extra data.
        start = 29 if kind in c.ROWS_EVENTS_V2 else 27
        body = start + self._sizes[op == c.OP_UPDATE]
        head = data[27:body] + data[4:5]
        if head in self._known:
            complete = self._known[head]
        else:
            body, complete = self._checked(data, body, file)
        if complete is not None or kind in c.ROWS_EVENTS_COMPRESSED or kind == c.PARTIAL_UPDATE_ROWS_EVENT:
            try:
                data = self._with_images(data, body)
                data = data if complete is None else complete(data, body)
            except MALFORMED as exc:
                raise self.malformed(data, file, exc) from exc
        return data, op, body

    def _with_images(self, data: bytes, body: int) -> bytes:
        """The event with its images in the ordinary form."""
        if data[4] == c.PARTIAL_UPDATE_ROWS_EVENT:
            return _partial_updates(*self._shape).completed(data, body)
        return data[:body] + inflate(data[body:]) if data[4] in c.ROWS_EVENTS_COMPRESSED else data

    def _run(self, readers: tuple[_Read, _Read, _Read], data: bytes, file: str, append: Callable[[Any], None]) -> int:
        data, op, body = self.prepare(data, file)
        end = len(data)
        try:
            stopped = readers[op](data, body, end, append)
        except MALFORMED as exc:
            raise self.malformed(data, file, exc) from exc
        if stopped != end:
            raise self.malformed(data, file, f"the last row ends at byte {stopped} of {end}")
        return op

    def _checked(self, data: bytes, usual_body: int, file: str) -> tuple[int, _Complete | None]:
        """The images' offset, and how they become complete. Checks the columns of a rows event; caches valid
        headers."""
        event = event_from_bytes(data)
        if event.type not in c.ROWS_EVENTS:
            raise errors.new(Code.BinlogExpectRowsEv, f"binlog event type {event.type} does not contain rows ({file})")
        header = parse_rows_header(event, file)
        location = f"{self.table_map} in the rows event {whereabouts(file, event.log_pos)}"
        if header.column_count != self.table_map.column_count:
            raise errors.new(
                Code.SyncerUnitDMLColumnNotMatch,
                f"{header.column_count} columns of {location}, but its table map has {self.table_map.column_count}",
                workaround="The binlog is inconsistent here; migrate the table again from a full copy.",
            )
        complete = None
        after = header.present_after if header.op == c.OP_UPDATE else None
        if not (all(header.present) and all(header.present_after)):
            if event.type == c.PARTIAL_UPDATE_ROWS_EVENT or not completable(header.present, after, self._spared):
                raise self._incomplete(header, location)
            held = None if after is None else _bitmap(after)
            complete = partial(self.readers.completed, _bitmap(header.present), held)
        if header.body == usual_body and len(self._known) < _HEADERS_KEPT:
            self._known[data[27:usual_body] + data[4:5]] = complete
        return header.body, complete

    def _incomplete(self, header: RowsHeader, location: str) -> errors.DMError:
        """11126 for an image that lacks a column that is read."""
        logged = min(sum(header.present), sum(header.present_after))
        return errors.new(
            Code.BinlogNotLogColumn,
            f"only {logged} of {header.column_count} columns were logged for {location}",
            workaround="On the upstream, SET GLOBAL binlog_row_image=FULL and SET GLOBAL binlog_format=ROW (in MIXED, "
            "MariaDB logs only the written columns for some statements, such as INSERT … ON DUPLICATE KEY UPDATE), "
            "reconnect its clients, and migrate the rows that were changed meanwhile again. MariaDB 11.8 leaves "
            "generated columns out in any case: rules (expression filters, column mappings) and keys can't use these.",
            scope="upstream",
        )

    def malformed(self, data: bytes, file: str, cause: BaseException | str) -> errors.DMError:
        """11071 for an event of this table with malformed images."""
        event = event_from_bytes(data)
        error = malformed(event.type, event.log_pos, event.size, file, cause)
        error.message += f" (rows of {self.table_map})"
        return error
