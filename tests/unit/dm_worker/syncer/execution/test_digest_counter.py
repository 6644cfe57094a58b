"""Hazard: a digest is counted twice or not at all where the network cuts the result, or an error passes for its end."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm_worker.syncer.execution.digest_counter import DigestCounter

#: Digests that look like heads of packets, among others.
_DIGESTS = (b"\x21\0\0\0\x20" * 6 + b"ab", b"\xfe" * 32, b"\xff" * 32, b"\0" * 32, bytes(range(32)))
_END, _ERROR = b"\xfe\0\0\2\0", b"\xff\x15\4#HY000" + b"x" * 60


def _packets(payloads: list[bytes]) -> bytes:
    return b"".join(
        len(payload).to_bytes(3, "little") + bytes([number % 256]) + payload for number, payload in enumerate(payloads)
    )


def _fed(data: bytes, cuts: list[int]) -> DigestCounter:
    counter = DigestCounter()
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for start, end in pairwise(places):
        counter.feed(memoryview(data)[start:end])
    return counter


@given(
    st.lists(st.sampled_from([*_DIGESTS, None]), max_size=300),
    st.sampled_from([_END, _ERROR]),
    st.lists(st.integers(0, 1 << 20), max_size=6),
)
def test_each_digest_is_counted_however_the_result_is_cut(
    digests: list[bytes | None], last: bytes, cuts: list[int]
) -> None:
    data = _packets([*(b"\xfb" if one is None else b"\x20" + one for one in digests), last])
    counter = _fed(data, cuts)
    assert counter.counts == Counter(digests)
    assert (counter.done, counter.error) == ((True, None) if last is _END else (False, _ERROR))
    assert not _fed(data[:-1], cuts).done


@pytest.mark.parametrize("row", [b"", b"\x1f" + b"x" * 31, b"\x20" + b"x" * 33, b"\xfe" + b"x" * 8, b"\x01x"])
def test_other_rows_are_refused(row: bytes) -> None:
    with pytest.raises(ValueError, match="bytes long"):
        _fed(_packets([b"\x20" + _DIGESTS[0], row, _END]), [])
