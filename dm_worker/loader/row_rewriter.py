"""Applies merge rules to the rows of dump files: column mapping, and the columns that extracts add. Pure.

The statement gets mapped literals in place of the file's, a constant for each extracted column at the end of every
row, and a column list. Compiled code maps integers under ``partition id``; :class:`TableMapping`, which the syncer uses
too, maps all other values one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dm_worker.loader.dump_literals import UTF8, plain_literal
from dm_worker.loader.sql_file import BEFORE_ROWS, FileStatement, column_list, column_names
from dm_worker.loader.tuples import ChangeError, NoTupleError, add_bases, change_rows, tuples
from pkg import errors
from pkg.errors import Code, DMError, ErrorKind
from pkg.rules.column_mapping import Affix, PartitionId, TableMapping, Transform

_WORKAROUND = "Check that the file is a complete data file of this table, or dump again."


@dataclass(frozen=True, slots=True)
class RowRules:
    """The rules of one upstream table, compiled. Picklable.

    ``columns`` are all names in the table's order, which the mapping's positions count; an INSERT without a column list
    has values for the ``visible`` ones, perhaps without generated ones. ``extracted``: column and text that each row
    gets.
    """

    columns: tuple[str, ...]
    visible: tuple[str, ...]
    stored: tuple[str, ...]
    mapping: TableMapping | None
    extracted: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class _Head:
    """The data derived from a statement's column list. ``bases``: the compiled code can map it."""

    text: bytes
    width: int
    transforms: tuple[Transform, ...]
    bases: tuple[int | None, ...] | None


class RowRewriter:
    """Applies a table's rules to the statements of one of its files.

    ``charset`` returns the session's character_set_client, ``text_by_bytes`` whether the target takes text in any
    charset by its bytes; they are called when a statement depends on them.
    """

    def __init__(
        self, rules: RowRules, file: str, charset: Callable[[], str], text_by_bytes: Callable[[], bool] = lambda: True
    ) -> None:
        self._text_by_bytes = text_by_bytes
        self._rules = rules
        self._file = file
        self._charset = charset
        self._heads: dict[tuple[bytes, int], _Head] = {}

    def rewrite(self, statement: FileStatement) -> FileStatement:
        """The statement with the rules applied; its text begins after the table's name.

        Raises 34004 for a value that can't be mapped, 34011 for a column that the file does not have, 34003 for text
        that is not rows; each with file and byte.
        """
        text = statement.text
        begin = statement.end - 1 - len(text)
        match = BEFORE_ROWS.match(text, statement.head)
        if match is None:
            raise self._fault(
                Code.LoadUnitParseQuoteValues, begin, "there is no VALUES with rows after the table's name"
            )
        try:
            head = self._head(match[1], text, match.end(), begin)
            more = b"".join(b"," + self._constant(value) for _, value in self._rules.extracted)
            rows = None
            if head.bases is not None:
                rows = add_bases(text, match.end(), head.bases, more, head.text)
            if rows is None:
                rows = change_rows(text, match.end(), head.width, self._changer(head.transforms), more, head.text)
        except NoTupleError as exc:
            raise self._fault(Code.LoadUnitParseQuoteValues, begin + exc.offset, str(exc)) from exc
        except ChangeError as exc:
            if not isinstance(exc.cause, DMError):
                raise exc.cause from exc
            raise self._placed(exc.cause, begin + exc.offset) from exc
        return replace(statement, text=memoryview(rows), head=0)

    def _head(self, listed: bytes | None, text: memoryview, rows: int, begin: int) -> _Head:
        width = 0 if listed is not None else len(next(tuples(text, rows))[1])
        key = (listed or b"", width)
        head = self._heads.get(key)
        if head is None:
            head = self._heads[key] = self._new_head(listed, width, begin)
        return head

    def _new_head(self, listed: bytes | None, width: int, begin: int) -> _Head:
        rules = self._rules
        names = column_names(listed) if listed is not None else self._unlisted(width, begin)
        there = {name.lower(): i for i, name in enumerate(names)}
        for column, _ in rules.extracted:
            if column.lower() in there:
                raise self._fault(
                    Code.LoadUnitGenTableRouter, begin, f"the file has a column `{column}`, which the route must fill"
                )
        transforms = tuple(self._moved(t, there, begin) for t in (rules.mapping.transforms if rules.mapping else ()))
        text = b"(%b) VALUES " % column_list([*names, *(column for column, _ in rules.extracted)])
        return _Head(text, len(names), transforms, _bases(transforms, len(names)))

    def _unlisted(self, width: int, begin: int) -> Sequence[str]:
        for names in (self._rules.visible, self._rules.stored):
            if len(names) == width:
                return names
        raise self._fault(
            Code.LoadUnitParseQuoteValues,
            begin,
            f"the rows have {width} values and no list of columns, but the table has {len(self._rules.visible)} "
            "columns",
        )

    def _moved(self, transform: Transform, there: dict[str, int], begin: int) -> Transform:
        """The transform with the positions of its columns in the file's list."""
        places = []
        for i in (transform.source, transform.target):
            name = self._rules.columns[i]
            if name.lower() not in there:
                raise self._fault(
                    Code.LoadUnitGenColumnMapping,
                    begin,
                    f"the file has no column `{name}`, which the column mapping needs",
                    "Dump the table with all of its columns.",
                )
            places.append(there[name.lower()])
        return replace(transform, source=places[0], target=places[1])

    def _changer(self, transforms: Sequence[Transform]) -> Callable[[list[bytes]], list[tuple[int, bytes]]]:
        # The charset of strings matters for texts that something is added to.
        text = any(isinstance(t, Affix) for t in transforms)
        charset = self._charset() if text else ""
        by_bytes = not text or charset in UTF8 or self._text_by_bytes()

        def change(row: list[bytes]) -> list[tuple[int, bytes]]:
            plain = ((t, plain_literal(row[t.source], t, charset, text_by_bytes=by_bytes)) for t in transforms)
            return [(t.target, t.literal(literal)) for t, literal in plain]

        return change

    def _constant(self, text: str) -> bytes:
        plain = "\\" not in text and (text.isascii() or self._charset() in UTF8)
        return b"'%b'" % text.replace("'", "''").encode() if plain else b"_utf8mb4 x'%b'" % text.encode().hex().encode()

    def _placed(self, error: DMError, offset: int) -> DMError:
        return errors.new(
            error.kind,
            f"{error.message}; in {self._file} at byte {offset}",
            raw=error.raw_cause,
            workaround=error.workaround,
        )

    def _fault(self, kind: ErrorKind, offset: int, why: str, workaround: str = _WORKAROUND) -> DMError:
        return errors.new(kind, f"cannot read dump file {self._file} at byte {offset}: {why}", workaround=workaround)


def _bases(transforms: Sequence[Transform], width: int) -> tuple[int | None, ...] | None:
    """The base that the compiled code adds to each column; None when it cannot apply the transforms."""
    bases: list[int | None] = [None] * width
    for transform in transforms:
        if not isinstance(transform, PartitionId) or transform.source != transform.target:
            return None
        bases[transform.target] = transform.base
    return tuple(bases)
