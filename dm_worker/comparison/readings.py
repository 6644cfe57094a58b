"""Reads forms so that different texts of equal values become equal. Pure."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import marshal
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dm_worker.comparison.row_difference import Item, MakeItem
from dm_worker.comparison.value_forms import Reading
from dm_worker.table_reads.column_literals import TOO_LONG, FieldValue

#: The version of marshal in which equal values have equal bytes: later ones refer to objects that occurred before.
_PLAIN = 2
#: Converts a form that is not NULL into bytes that are equal exactly for equal values.
ReadForm = Callable[[bytes], bytes]


class UnreadableValueError(Exception):
    """A server could not build the form of a value, because it is longer than max_allowed_packet."""


def reader_of(reading: Reading, *, guarded: bool) -> ReadForm | None:
    """None if forms are compared unchanged."""
    read = _READERS.get(reading)
    if not guarded:
        return read

    def checked(form: bytes) -> bytes:
        if form[:1] == TOO_LONG:
            raise UnreadableValueError
        return read(form) if read is not None else form

    return checked


def row_digest_maker(readers: Sequence[ReadForm | None], key: Sequence[int]) -> MakeItem:
    """The item of a row of forms: the values of its key, and the digest of the whole row."""

    def make(row: tuple[FieldValue, ...]) -> Item:
        read = canonical(readers, row)
        return (*(read[number] for number in key), digest(read))

    def make_plain(row: tuple[FieldValue, ...]) -> Item:
        return (*(row[number] for number in key), digest(row))

    return make if any(readers) else make_plain


def canonical(readers: Sequence[ReadForm | None], row: Sequence[FieldValue]) -> list[FieldValue]:
    """The row's values in their compared form."""
    return [
        value if reader is None or value is None else reader(value) for reader, value in zip(readers, row, strict=True)
    ]


def digest(row: Sequence[FieldValue]) -> bytes:
    """A digest of values: of bytes from which they can be read back."""
    return hashlib.blake2b(marshal.dumps(tuple(row), _PLAIN), digest_size=16).digest()


def _float(form: bytes) -> bytes:
    return struct.pack(">d", float(form))


def _number(form: bytes) -> bytes:
    return _plain(form.decode()).encode()


def _plain(number: str) -> str:
    """A number's sign, digits and power of ten. However many digits it has, none is rounded. Raises ValueError for a
    power of thousands of digits."""
    mantissa, _, power = number.removeprefix("-").lower().partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    kept = digits.rstrip("0")
    exponent = int(power or "0") - len(fraction) + len(digits) - len(kept) if kept else 0
    return f"{'-' if number.startswith('-') else ''}{kept}e{exponent}"


def _members(form: bytes) -> bytes:
    # Empty for no member; else ``=`` and the names, of which one may be empty.
    return form[:1] + b",".join(sorted(form[1:].split(b",")))


def _document(form: bytes) -> bytes:
    """A document without its spaces and the order of its members; as it is if it is none. Whole numbers differ from
    others, as they do in MySQL. Of members with one name the last one counts, as it does there."""
    return _read_document(form, dict)


def _written_document(form: bytes) -> bytes:
    """As :func:`_document`, but with all members of one name, in their order: a text keeps them, and readers do not
    agree about the one that counts."""
    return _read_document(form, _WrittenMembers)


def _read_document(form: bytes, members: type[dict[str, Any] | _WrittenMembers]) -> bytes:
    try:
        found = json.loads(
            form, parse_int=_Exact, parse_float=_Exact, parse_constant=_no_number, object_pairs_hook=members
        )
        return json.dumps(_shown(found), sort_keys=True, ensure_ascii=True).encode()
    except (ValueError, RecursionError):
        return b"text:" + form


class _Exact(str):
    """A number as it was written."""


class _WrittenMembers(list[tuple[str, Any]]):
    """The members of an object, in their order."""


def _no_number(name: str) -> None:
    raise ValueError(f"a document has no {name}")


def _shown(value: Any) -> Any:
    if isinstance(value, dict):
        return {"members": {key: _shown(member) for key, member in value.items()}}
    if isinstance(value, _WrittenMembers):
        by_name: dict[str, list[Any]] = {}
        for key, member in value:
            by_name.setdefault(key, []).append(_shown(member))
        return {"members": by_name}
    if isinstance(value, list):
        return [_shown(member) for member in value]
    if isinstance(value, _Exact):
        whole = value.removeprefix("-").isdigit()
        return {"whole": str(value)} if whole else {"number": _plain(value)}
    return value


def _address(form: bytes) -> bytes:
    return ipaddress.ip_address(form.decode()).packed


_READERS: Mapping[Reading, ReadForm] = {
    Reading.FLOAT: _float,
    Reading.NUMBER: _number,
    Reading.MEMBERS: _members,
    Reading.DOCUMENT: _document,
    Reading.WRITTEN_DOCUMENT: _written_document,
    Reading.ADDRESS: _address,
}
