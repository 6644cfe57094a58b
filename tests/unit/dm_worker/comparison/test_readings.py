"""Hazard: two texts of one value that count as a difference, or of two values that do not."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm_worker.comparison.readings import UnreadableValueError, digest, reader_of
from dm_worker.comparison.value_forms import Reading
from dm_worker.table_reads.column_literals import TOO_LONG

SAME = [
    (Reading.FLOAT, b"1e20", b"100000000000000000000"),
    (Reading.FLOAT, b"0.1", b"1e-1"),
    (Reading.NUMBER, b"1.50", b"1.5"),
    (Reading.NUMBER, b"0.00", b"0"),
    (Reading.MEMBERS, b"=a,b", b"=b,a"),
    (Reading.DOCUMENT, b'{"a": 1, "b": 2}', b'{"b":2,"a":1}'),
    (Reading.DOCUMENT, b"[1.50]", b"[1.5]"),
    (Reading.DOCUMENT, b'"\\u00e4"', '"ä"'.encode()),
    (Reading.DOCUMENT, b"1e2", b"100.0"),
    (Reading.DOCUMENT, b"1.0e1000000", b"10e999999"),
    (Reading.DOCUMENT, b'{"a": 9, "a": 1}', b'{"a": 1}'),
    (Reading.WRITTEN_DOCUMENT, b'{"a": 1, "b": 2}', b'{"b":2,"a":1}'),
    (Reading.WRITTEN_DOCUMENT, b'[{"a": 9, "a": 1}]', b'[{"a":9,"a":1}]'),
    (Reading.ADDRESS, b"::ffff:1.2.3.4", b"::ffff:102:304"),
]
DIFFERENT = [
    (Reading.FLOAT, b"0", b"-0"),
    (Reading.FLOAT, b"0.30000000000000004", b"0.3"),
    (Reading.NUMBER, b"1.5", b"1.51"),
    (Reading.NUMBER, b"-1", b"1"),
    (Reading.NUMBER, b"12345678901234567890123456789012345", b"12345678901234567890123456789012344"),
    (Reading.NUMBER, b"10", b"1"),
    (Reading.MEMBERS, b"", b"="),
    (Reading.MEMBERS, b"=a", b"=a,b"),
    (Reading.DOCUMENT, b"1", b"1.0"),
    (Reading.DOCUMENT, b"1.0", b"-1.0"),
    (Reading.DOCUMENT, b"0.0", b"-0.0"),
    (Reading.DOCUMENT, b"1", b'"1"'),
    (Reading.DOCUMENT, b"1", b'{"whole": "1"}'),
    (Reading.DOCUMENT, b"{}", b'{"members": {}}'),
    (Reading.DOCUMENT, b"[1,2]", b"[2,1]"),
    (Reading.DOCUMENT, b"12345678901234567890", b"12345678901234567891"),
    (Reading.DOCUMENT, b"0.1234567890123456789012345678901", b"0.1234567890123456789012345678902"),
    (Reading.DOCUMENT, b"1", b"1e1000000"),
    (Reading.DOCUMENT, b"NaN", b"1"),
    (Reading.WRITTEN_DOCUMENT, b'{"a": 1}', b'{"a": 9, "a": 1}'),
    (Reading.WRITTEN_DOCUMENT, b'{"a": 1, "a": 9}', b'{"a": 9, "a": 1}'),
    (Reading.WRITTEN_DOCUMENT, b'{"a": 1, "a": 1}', b'{"members": {"a": 1}}'),
    (Reading.DOCUMENT, b"not a document", b"not  a document"),
    (Reading.DOCUMENT, b"true", b"1"),
    (Reading.ADDRESS, b"::1.2.3.4", b"::ffff:1.2.3.4"),
]


@pytest.mark.parametrize(("reading", "one", "another"), SAME)
def test_two_texts_of_one_value_are_equal(reading: Reading, one: bytes, another: bytes) -> None:
    read = reader_of(reading, guarded=False)
    assert read is not None
    assert read(one) == read(another)


@pytest.mark.parametrize(("reading", "one", "another"), DIFFERENT)
def test_two_values_are_different(reading: Reading, one: bytes, another: bytes) -> None:
    read = reader_of(reading, guarded=False)
    assert read is not None
    assert read(one) != read(another)


def test_a_value_that_a_server_can_not_show_is_never_equal() -> None:
    read = reader_of(Reading.SAME, guarded=True)
    assert read is not None
    assert read(b"x") == b"x"
    with pytest.raises(UnreadableValueError):
        read(TOO_LONG)


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
def test_floats_are_equal_bit_by_bit(one: float, another: float) -> None:
    read = reader_of(Reading.FLOAT, guarded=False)
    assert read is not None
    assert (read(repr(one).encode()) == read(repr(another).encode())) == (repr(one) == repr(another))


DOCUMENTS = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3)),
    lambda children: st.one_of(
        st.lists(children, max_size=3), st.dictionaries(st.text(max_size=2), children, max_size=3)
    ),
    max_leaves=6,
)


@given(DOCUMENTS, DOCUMENTS)
def test_documents_are_equal_if_their_values_are(one: object, another: object) -> None:
    read = reader_of(Reading.DOCUMENT, guarded=False)
    assert read is not None
    texts = [json.dumps(document, sort_keys=True) for document in (one, another)]
    spelled = json.dumps(one, indent=2, ensure_ascii=False).encode("utf-8", "surrogatepass")
    assert (read(texts[0].encode()) == read(texts[1].encode())) == (texts[0] == texts[1])
    assert read(texts[0].encode()) == read(spelled)


ROW = st.lists(st.one_of(st.none(), st.binary(max_size=3), st.sampled_from([b"N", b"1:", b":"])), max_size=4)


@given(ROW, ROW)
def test_rows_have_one_digest_only_if_equal(one: list[bytes | None], another: list[bytes | None]) -> None:
    assert (digest(one) == digest(another)) == (one == another)
