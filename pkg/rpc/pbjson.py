"""Messages and plain values as DM's ``dmctl`` prints them.

There are two encoders, as in DM: :func:`to_json` for protobuf messages (all fields printed, in the order of their
numbers) and :func:`marshal_indent` for everything else. Both escape strings as Go's ``encoding/json`` does. Scripts and
golden files compare the output, so empty lists, ``null`` and number forms are part of the interface.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

INDENT = "    "
#: Lists that DM's answers do not have; left out while they are empty.
_OWN_LISTS = frozenset({"warnings", "purgeDistances", "unlocks", "relayWorkers"})
#: The characters that Go's encoder escapes beyond the JSON standard, to make its output safe inside HTML and
#: JavaScript.
_GO_ESCAPES = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"},
)
_QUOTED_INTEGERS = frozenset(
    {
        FieldDescriptor.CPPTYPE_INT64,
        FieldDescriptor.CPPTYPE_UINT64,
    }
)
_FLOATS = frozenset({FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT})


def quote(text: str) -> str:
    """``text`` as a JSON string with Go's escapes."""
    return json.dumps(text, ensure_ascii=False).translate(_GO_ESCAPES)


def marshal_indent(value: Any) -> str:
    """Plain data (dict, list, str, int, bool, None) in the form of Go's ``MarshalIndent`` with four spaces."""
    return json.dumps(value, indent=4, ensure_ascii=False, allow_nan=False).translate(_GO_ESCAPES)


def to_json(message: Message) -> str:
    """A protobuf message with every field printed, without a final newline."""
    return "".join(_object(message, ""))


def _object(message: Message, indent: str) -> Iterator[str]:
    yield "{\n"
    first = True
    declared: Iterable[FieldDescriptor] = message.DESCRIPTOR.fields  # type: ignore[assignment]
    fields = sorted(declared, key=lambda one: one.number)
    for field in fields:
        if _is_unset_choice(message, field) or _is_empty_own_list(message, field):
            continue
        if not first:
            yield ",\n"
        first = False
        yield f'{indent}{INDENT}"{field.json_name}": '
        yield from _field(message, field, indent)
    yield f"\n{indent}}}"


def _is_unset_choice(message: Message, field: FieldDescriptor) -> bool:
    """Whether ``field`` is a member of a oneof that currently holds another member or none."""
    return field.containing_oneof is not None and not message.HasField(field.name)


def _is_empty_own_list(message: Message, field: FieldDescriptor) -> bool:
    return field.name in _OWN_LISTS and not getattr(message, field.name)


def _field(message: Message, field: FieldDescriptor, indent: str) -> Iterator[str]:
    value = getattr(message, field.name)
    if _is_map(field):
        yield from _map(value, field, indent)
    elif field.is_repeated:
        yield from _list(value, field, indent)
    elif field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE and not message.HasField(field.name):
        yield "null"
    else:
        yield from _value(value, field, indent + INDENT)


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _list(values: Any, field: FieldDescriptor, indent: str) -> Iterator[str]:
    """A list opens and closes on its own lines, even when it is empty."""
    inner = indent + INDENT
    yield "["
    separator = ""
    for value in values:
        yield f"{separator}\n{inner}{INDENT}"
        yield from _value(value, field, inner + INDENT)
        separator = ","
    yield f"\n{inner}]"


def _map(entries: Any, field: FieldDescriptor, indent: str) -> Iterator[str]:
    inner = indent + INDENT
    assert field.message_type is not None
    value_field = field.message_type.fields_by_name["value"]
    yield "{"
    separator = ""
    for key in sorted(entries):
        yield f"{separator}\n{inner}{INDENT}{_map_key(key)}: "
        yield from _value(entries[key], value_field, inner + INDENT)
        separator = ","
    yield f"\n{inner}}}"


def _map_key(key: str | int | bool) -> str:
    if isinstance(key, bool):
        return '"true"' if key else '"false"'
    return quote(key) if isinstance(key, str) else f'"{key}"'


def _value(value: Any, field: FieldDescriptor, indent: str) -> Iterator[str]:
    """One value of ``field``'s type; ``indent`` is that of its line."""
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_MESSAGE:
        yield from _object(value, indent)
    elif kind == FieldDescriptor.CPPTYPE_ENUM:
        assert field.enum_type is not None
        known = field.enum_type.values_by_number.get(value)
        yield quote(known.name) if known is not None else str(value)
    elif kind == FieldDescriptor.CPPTYPE_BOOL:
        yield "true" if value else "false"
    elif field.type == FieldDescriptor.TYPE_BYTES:
        # Go distinguishes nil and empty; on the wire both are absent, hence nil.
        yield f'"{base64.b64encode(value).decode("ascii")}"' if value else "null"
    elif kind == FieldDescriptor.CPPTYPE_STRING:
        yield quote(value)
    elif kind in _QUOTED_INTEGERS:
        yield f'"{value}"'
    elif kind in _FLOATS:
        yield _float(value)
    else:
        yield str(value)


def _float(value: float) -> str:
    """Go's form: shortest digits that parse to the same value, no exponent between 1e-6 and 1e21, no ``.0`` at the
    end."""
    if math.isnan(value):
        return '"NaN"'
    if math.isinf(value):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    magnitude = abs(value)
    if magnitude != 0 and (magnitude < 1e-6 or magnitude >= 1e21):
        digits, _, exponent = repr(value).partition("e")
        return f"{digits.removesuffix('.0')}e{exponent[0]}{exponent[1:].lstrip('0')}"
    return _positional(repr(value))


def _positional(text: str) -> str:
    """``text`` (Python's shortest form) without an exponent and without a trailing ``.0``."""
    mantissa, _, exponent = text.partition("e")
    if not exponent:
        return mantissa.removesuffix(".0")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    shift = int(exponent)
    if shift >= 0:
        digits = (whole + fraction).ljust(len(whole) + shift, "0")
        point = len(whole) + shift
        return f"{sign}{digits[:point]}{'.' + digits[point:] if digits[point:] else ''}"
    return f"{sign}0.{'0' * (-shift - 1)}{whole}{fraction}"
