"""Hazard: the compiled scan takes other events than the Python one, or reports something else about them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm_worker.relay.scan import Scanned, python_scan
from tests.compiled import required
from tests.harness import binlog_bytes
from tests.sweeps import examples
from tests.unit.dm_worker.relay.server_files import Upstream, Work, works

compiled = required("relay")

flavors = st.sampled_from(["mysql", "mariadb"])


def both(*what: Any) -> Scanned:
    ours, theirs = python_scan(*what), Scanned(*compiled.scan(*what))
    assert ours == theirs
    return ours


@settings(max_examples=examples(200))
@given(flavors, st.booleans(), st.booleans(), st.booleans(), st.lists(works, max_size=8), st.data())
def test_both_scans_agree(
    flavor: str, checksum: bool, packets: bool, placeless: bool, transactions: list[Work], data: st.DataObject
) -> None:
    """On whole and torn bytes, with damage anywhere, and from the middle of a transaction."""
    (file,) = Upstream(flavor, checksum, [transactions], placeless=placeless).files
    events = file.events[2:]
    raw = bytearray(binlog_bytes.packets(events) if packets else b"".join(events))
    for _ in range(data.draw(st.integers(0, 2)) if raw else 0):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    whole = bytes(raw[: data.draw(st.integers(0, len(raw)))])
    offset = file.starts()[2] if len(file.events) > 2 else len(file.data)
    state = data.draw(st.integers(0, 2))
    gtid = data.draw(st.sampled_from([None, (bytes(8), 5), (bytes(16), 6), (b"u" * 16 + b"tag", 7), (b"u" * 48, 8)]))
    found = both(whole, 0, packets, checksum, offset, state, gtid)
    # The next call goes on where this one stopped.
    both(whole, found.pos, packets, checksum, offset + len(found.data), found.state, found.gtid)


@settings(max_examples=examples(50))
@given(flavors, st.booleans(), st.booleans(), st.booleans(), st.lists(works, max_size=8), st.integers(-200, 200))
def test_whole_files_are_taken_at_any_offset(
    flavor: str, checksum: bool, packets: bool, placeless: bool, transactions: list[Work], around: int
) -> None:
    (file,) = Upstream(flavor, checksum, [transactions], placeless=placeless).files
    offset = (1 << 32) + around
    events: list[bytes] = []
    for event in file.events[2:]:
        plain = event[:-4] if checksum else event
        offset_after = offset + sum(map(len, events)) + len(event)
        kind, body, flags = plain[4], plain[19:], int.from_bytes(plain[17:19], "little")
        log_pos = offset_after & 0xFFFFFFFF if any(plain[13:17]) else 0
        events.append(binlog_bytes.raw(kind, body, checksum=checksum, flags=flags, log_pos=log_pos))
    raw = binlog_bytes.packets(events) if packets else b"".join(events)
    found = both(raw, 0, packets, checksum, offset, 0, None)
    assert found.pos == len(raw)
    assert found.data == (b"".join(events) if packets else b"")
    assert found.boundary == (offset + sum(map(len, events)) if events else -1)


def test_many_sources_end_a_scan_and_none_is_lost() -> None:
    events, offset = [], 1000
    for number in range(600):
        body = b"\1" + number.to_bytes(16, "little") + (7).to_bytes(8, "little")
        for kind, content in ((33, body), (2, bytes(13) + b"\0DDL")):
            offset += 19 + len(content)
            events.append(binlog_bytes.raw(kind, content, log_pos=offset))
    raw, pos, at, sources = binlog_bytes.packets(events), 0, 1000, []
    while pos < len(raw):
        found = both(raw, pos, True, False, at, 0, None)
        assert found.pos > pos
        pos, at = found.pos, at + len(found.data)
        sources += [source for source, _, _ in found.runs]
    assert sources == [number.to_bytes(16, "little") for number in range(600)]


@pytest.mark.parametrize("what", [(b"", 1), (b"", -1), (b"", 0, True, True, 0, 0, (b"x", 1)), (b"", 0, 1, 1, 0, 0, 5)])
def test_wrong_arguments_are_refused(what: tuple[Any, ...]) -> None:
    rest = (True, True, 0, 0, None)[len(what) - 2 :]
    with pytest.raises((ValueError, TypeError)):
        compiled.scan(*what, *rest)
