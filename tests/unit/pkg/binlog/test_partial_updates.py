"""Hazard: the differences of a partial JSON update make another document than the server has, or damaged ones are
taken for good ones."""

from __future__ import annotations

import copy
import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkg import errors
from pkg.binlog import constants as c
from pkg.binlog.rows.json_diffs import apply_diffs, parse_path
from pkg.binlog.rows.jsonb import to_text
from pkg.binlog.table_map import parse_table_map
from pkg.errors import Code
from pkg.mysql.schema import Column
from tests.both_decoders import BothDecoders
from tests.harness import binlog_bytes
from tests.unit.pkg.binlog.support import TYPED, encoded_document, keys

REPLACE, INSERT, REMOVE = 0, 1, 2
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=150),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=8,
)  # fmt: skip


def difference(operation: int, path: str, value: bytes = b"") -> bytes:
    where = path.encode()
    # Longer values have a longer length in front.
    size = bytes([len(value)]) if len(value) < 251 else b"\xfc" + struct.pack("<H", len(value))
    return bytes([operation, len(where)]) + where + (size + value if operation != REMOVE else b"")


def _leg(step: Any) -> str:
    return f"[{step}]" if isinstance(step, int) else f".{json.dumps(step, ensure_ascii=False)}"


def _drawn_change(data: st.DataObject, document: Any, large: bool) -> bytes:
    """Changes a document in place at a place drawn; the difference that says so."""
    path, place = "$", document
    step: Any
    while True:
        steps = [key for key in place if isinstance(place[key], (dict, list))] if isinstance(place, dict) else [
            i for i, item in enumerate(place) if isinstance(item, (dict, list))]  # fmt: skip
        if not steps or data.draw(st.booleans()):
            break
        step = data.draw(st.sampled_from(steps))
        path, place = path + _leg(step), place[step]
    operation = data.draw(st.sampled_from([REPLACE, INSERT, REMOVE])) if place else INSERT
    value = data.draw(values)
    if operation == INSERT:
        if isinstance(place, dict):
            step = data.draw(keys.filter(lambda key: key not in place))
            place[step] = value
        else:
            step = data.draw(st.integers(0, len(place) + 2))
            place.insert(step, value)
    else:
        step = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else list(range(len(place)))))
        if operation == REPLACE:
            place[step] = value
        else:
            del place[step]
    return difference(operation, path + _leg(step), encoded_document(value, large))


@given(st.dictionaries(keys, values, max_size=5) | st.lists(values, max_size=5), st.booleans(), st.data())
def test_differences_give_the_document_after(before: Any, large: bool, data: st.DataObject) -> None:
    """Also several in turn, into what one before them has put there."""
    after = copy.deepcopy(before)
    diffs = b"".join(_drawn_change(data, after, large) for _ in range(data.draw(st.integers(0, 4))))
    made = apply_diffs(encoded_document(before, large), diffs)
    assert to_text(made) == to_text(encoded_document(after, True))


@given(st.binary(max_size=80), st.binary(max_size=60))
def test_random_bytes_raise_plain_errors(document: bytes, diffs: bytes) -> None:
    try:
        to_text(apply_diffs(document, diffs))
    except (ValueError, IndexError, struct.error):
        return


def test_values_of_sql_types_beside_a_change_stay_what_they_are() -> None:
    document = apply_diffs(TYPED, difference(REMOVE, "$[7].t") + difference(REPLACE, "$[6]", b"\x05\xff\xff"))
    before = to_text(TYPED)
    assert to_text(document) == before.replace("2.0", "-1").replace(', "t": true', "").replace('"t": true, ', "")


@pytest.mark.parametrize(
    ("path", "legs"),
    [
        ("$", []),
        ("$.a[3].b", [b"a", (3, False), b"b"]),
        ('$."k \\"q\\" ".é[last-2][last]', [b'k "q" ', "é".encode(), (2, True), (0, True)]),
        ('$."a.b"."[0]"', [b"a.b", b"[0]"]),
    ],
)
def test_paths(path: str, legs: list[Any]) -> None:
    assert parse_path(path) == legs


@pytest.mark.parametrize("path", ["", "a", "$.", "$[", "$.a[*]", "$**.a", '$."a', "$.a[-1]", "$ a"])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="not a JSON path"):
        parse_path(path)


@pytest.mark.parametrize(
    "diffs",
    [
        difference(REPLACE, "$.b", b"\x05\x01\x00"),
        difference(INSERT, "$.a", b"\x05\x01\x00"),
        difference(REMOVE, "$.a[3]"),
        difference(REMOVE, "$[0]"),
        difference(REPLACE, "$.a.b", b"\x05\x01\x00"),
        difference(REPLACE, "$", b"\x05\x01\x00"),
        difference(REPLACE, "$.a"),
        difference(3, "$.a"),
        difference(REPLACE, "$.a", b"\x05\x01\x00")[:-1],
    ],
)
def test_differences_that_do_not_fit_the_document_are_refused(diffs: bytes) -> None:
    with pytest.raises(ValueError):
        apply_diffs(encoded_document({"a": [1, 2]}, False), diffs)


# -- events: the images are those that MySQL 8.0.46 wrote for
# CREATE TABLE t (id INT PRIMARY KEY, a JSON, v INT, j JSON)

_COLUMNS = [Column("id", "int", "int", nullable=False), Column("a", "json", "json"), Column("v", "int", "int"),
            Column("j", "json", "json")]  # fmt: skip
_BEFORE = (
    b"\x00\x01\x00\x00\x00\x0d\x00\x00\x00\x00\x01\x00\x0c\x00\x0b\x00\x01\x00\x05\x01\x00a\x02\x00\x00\x00"
    + struct.pack("<I", 27)
    + b'\x00\x02\x00\x1a\x00\x12\x00\x01\x00\x13\x00\x01\x00\x05\x07\x00\x0c\x14\x00bk\x05 it\'s'
)  # fmt: skip


def _event(images: bytes, present: int = -1) -> bytes:
    return binlog_bytes.rows(c.PARTIAL_UPDATE_ROWS_EVENT, 4, images, present=present)


def _decoder() -> BothDecoders:
    table_map = parse_table_map(binlog_bytes.table_map(bytes([3, 245, 3, 245]), bytes([4, 4]), 0b1110))
    return BothDecoders(table_map, _COLUMNS, key=(0,), write=(0, 1, 2, 3))


def test_an_update_has_whole_images_of_what_was_logged_in_part() -> None:
    diffs = difference(REPLACE, "$.b", b"\x0b" + struct.pack("<d", 1.5)) + difference(INSERT, "$.c", b"\x04\x00")
    a_in_full = b"\x01\x02" + b"\x00\x01\x00\x00\x00\x03\x00\x00\x00\x05\x09\x00\x09\x00\x00\x00"
    partial = a_in_full + struct.pack("<I", len(diffs)) + diffs
    unchanged = b"\x01\x03" + b"\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00"
    in_full = b"\x00" + b"\x02\x01\x00\x00\x00" + _BEFORE[22:]
    document, changed = b'{"b": 7, "k": " it\\\'s"}', b'{"b": 1.5, "c": null, "k": " it\\\'s"}'
    before = [b"1", b"'{\"a\": 1}'", b"2", b"'%b'" % document]
    assert _decoder().images(_event(_BEFORE + partial + _BEFORE + unchanged + _BEFORE + in_full)) == [
        (1, before, [b"1", b"'9'", b"9", b"'%b'" % changed]),
        (1, before, before),
        (1, before, [b"1", b"NULL", b"2", b"'%b'" % document]),
    ]


@pytest.mark.parametrize(
    "after",
    [
        b"",
        # Options nobody knows; differences to NULL; to a number; an image that is cut off.
        b"\x02\x0e\x01\x00\x00\x00",
        b"\x01\x02\x00\x01\x00\x00\x00\x0b\x00\x00\x00\x02\x00\x00\x00\x06\x00\x00\x00\x02\x04$.zz",
        b"\x01\x02\x06\x01\x00\x00\x00\x08\x00\x00\x00\x02\x03$.b",
    ],
)  # fmt: skip
def test_damaged_updates_name_their_position(after: bytes) -> None:
    with pytest.raises(errors.DMError) as caught:
        _decoder().changes(_event(_BEFORE + after))
    assert caught.value.kind is Code.BinlogParseSingleEv
    assert "rows of `s`.`t`" in caught.value.message


def test_differences_without_the_whole_row_before_are_refused() -> None:
    """``binlog_row_image=MINIMAL``: what they are differences to was not logged."""
    with pytest.raises(errors.DMError) as caught:
        _decoder().changes(_event(b"\x00\x01\x00\x00\x00", present=1))
    assert caught.value.kind is Code.BinlogNotLogColumn
