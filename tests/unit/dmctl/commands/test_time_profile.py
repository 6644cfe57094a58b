"""Hazard: the profile blames the wrong part."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmctl.commands.time_profile import WIDTH, profile_text
from pkg.pb import dmworker_pb2 as pb
from pkg.status.profile import ProfileNode, main_loop

SUMS = {
    "main/waiting": 30.0, "main/job": 60.0, "main/checkpoint": 10.0, "reader/source": 75.0, "reader/reading": 25.0,
    "busy": 45.0, "job": 60.0, "work/decode": 20.0, "work/write": 70.0, "batches": 12, "changes": 34567, "rows": 1234,
}  # fmt: skip
TEXT = """\
task t1, source s1: the last 100 s, 12 batches, 34,567 row changes, 1,234 rows written; now: source_idle
main loop                         100.0 %  ████████████████████████████████████████████████████████████
  wait for events                  30.0 %  ██████████████████
  batches                          60.0 %                    ████████████████████████████████████
    decode rows                    10.0 %                    ██████
    write to the target            35.0 %                          █████████████████████
    Spark                          15.0 %                                               █████████
  checkpoint                       10.0 %                                                        ██████
reader                            100.0 %  ████████████████████████████████████████████████████████████
  wait for the source              75.0 %  █████████████████████████████████████████████
  read events                      25.0 %                                               ███████████████"""


def status(seconds: float, sums: dict[str, float]) -> pb.SubTaskStatus:
    profile, sync = pb.TimeProfile(seconds=seconds, sums=sums), pb.SyncStatus(lagReason="source_idle")
    return pb.SubTaskStatus(name="t1", unit=pb.Sync, profile=profile, sync=sync)


def test_a_bar_stands_below_its_part_of_the_bar_above() -> None:
    assert profile_text("s1", status(100.0, SUMS)) == TEXT


def test_a_task_that_does_not_replicate_has_none() -> None:
    text = profile_text("s1", pb.SubTaskStatus(name="t1", unit=pb.Load))
    assert text == "task t1, source s1: it does not replicate, so there is no profile (unit Load)"
    assert profile_text("s1", status(0.0, {})).endswith("it has just begun; ask again in some seconds")


@given(
    st.dictionaries(
        st.sampled_from([*SUMS, "main/ddl", "main/driver", "work/shuffle", "work/compact", "reader/planning"]),
        st.floats(0, 1e6),
    )
)
def test_parts_never_exceed_the_whole(sums: dict[str, float]) -> None:
    def check(node: ProfileNode) -> None:
        if node.parts:
            assert sum(part.seconds for part in node.parts) == pytest.approx(node.seconds, abs=1e-6)
        assert node.seconds >= -1e-6
        for part in node.parts:
            check(part)

    check(main_loop(sums))
    for line in profile_text("s1", status(60.0, sums)).splitlines()[1:]:
        assert len(line) <= 43 + WIDTH + 1
