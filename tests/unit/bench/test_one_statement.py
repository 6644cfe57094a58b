"""The peer that applies one statement per row must keep the order of rows that share a key."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.bench.one_statement import packets, rounds

_KEYS = st.lists(st.sampled_from([b"a", b"b", b"c", b"d", b"e"]), min_size=1, max_size=3, unique=True)


@given(st.lists(_KEYS, max_size=40), st.integers(1, 4))
def test_statements_that_share_a_key_are_in_one_queue_or_in_successive_rounds(
    touched: list[list[bytes]], connections: int
) -> None:
    dealt = rounds([(tuple(keys), b"%d" % i) for i, keys in enumerate(touched)], connections)
    place: dict[int, tuple[int, int, int]] = {}
    for r, one in enumerate(dealt):
        assert len(one) == connections
        for queue, texts in enumerate(one):
            place |= {int(text): (r, queue, i) for i, text in enumerate(texts)}
    assert sorted(place) == list(range(len(touched)))
    for second, keys in enumerate(touched):
        for first in range(second):
            if set(keys) & set(touched[first]):
                before, after = place[first], place[second]
                assert before[0] < after[0] or (before[:2] == after[:2] and before[2] < after[2])


def test_statements_with_different_keys_use_all_connections() -> None:
    (one,) = rounds([((b"%d" % i,), b"x") for i in range(1000)], 16)
    assert min(map(len, one)) > 30


def test_a_connection_commits_after_so_many_statements() -> None:
    sent = packets([b"1", b"2", b"3"], 2)
    assert [packet[5:] for packet in sent] == [b"BEGIN", b"1", b"2", b"COMMIT", b"BEGIN", b"3", b"COMMIT"]
    assert all(int.from_bytes(packet[:3], "little") == len(packet) - 4 for packet in sent)
