"""Hazard: a subtask stays paused after a passing error, retries too fast, or retries what cannot succeed."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm_worker.subtask.auto_resume import ResumePolicy, resumable
from pkg import errors
from pkg.config.model import CheckerConfig
from pkg.errors import Code

LOST = [errors.new(Code.DBBadConn, "Error 2013: Lost connection")]
PLAIN = CheckerConfig(backoff_jitter=False)


@pytest.mark.parametrize(
    "error",
    [
        errors.new(Code.DBExecuteFailed, "Error 1062 (23000): Duplicate entry '1' for key 'PRIMARY'"),
        errors.new(Code.DBExecuteFailed, "failed", raw="Error 1406 (22001): Data too long for column 'a'"),
        errors.new(Code.DBExecuteFailed, "Error 8200 (HY000): Unsupported modify column: length 10 is less"),
        errors.new(Code.DBExecuteFailed, "Error 1067 (42000): Invalid default value for 'a'"),
        errors.new(Code.DBExecuteFailed, "Error 1059 (42000): Identifier name 'abc' is too long"),
        errors.new(Code.SyncerGetEvent, "Error 1236: Could not find first log file name in binary log index file"),
        errors.DMError(Code.SyncUnitDDLWrongSequence, "shard DDLs differ"),
        errors.DMError(Code.DumpUnitRuntime, "dump failed"),
        errors.DMError(Code.LoadLightningRuntime, "checksum of table t differs"),
    ],
)
def test_what_only_people_can_mend_is_left_to_them(error: errors.DMError) -> None:
    assert not resumable([*LOST, error])


@pytest.mark.parametrize(
    "error",
    [
        *LOST,
        errors.new(Code.DBExecuteFailed, "Error 1213 (40001): Deadlock found"),
        errors.new(Code.DBExecuteFailed, "Error 10620: something else"),
        errors.DMError(Code.LoadLightningRuntime, "connection refused"),
    ],
)
def test_passing_troubles_are_tried_again(error: errors.DMError) -> None:
    assert resumable([error])


def test_delay_doubles_up_to_the_limit_and_each_failure_is_tried_once() -> None:
    policy = ResumePolicy(CheckerConfig(backoff_jitter=False, backoff_max=8))
    now = 0.0
    for delay in (1, 2, 4, 8, 8):
        policy.failed(LOST, now)
        assert not policy.due(now + delay - 0.01)
        now += delay
        assert policy.due(now)
        assert not policy.due(now + 1000)


def test_a_calm_takes_the_delay_back() -> None:
    policy = ResumePolicy(PLAIN)
    for _ in range(3):
        policy.failed(LOST, 0)
    policy.healthy(0)
    policy.healthy(299)
    policy.healthy(300)
    policy.healthy(600)
    policy.failed(LOST, 600)
    assert not policy.due(601.9)
    assert policy.due(602)


def test_a_disabled_checker_never_resumes() -> None:
    policy = ResumePolicy(CheckerConfig(check_enable=False))
    policy.failed(LOST, 0)
    assert not policy.due(1e9)


def test_a_final_error_cancels_an_earlier_plan() -> None:
    policy = ResumePolicy(PLAIN)
    policy.failed(LOST, 0)
    policy.failed([errors.new(Code.DBExecuteFailed, "Error 1062 (23000): Duplicate entry")], 0)
    assert not policy.due(1e9)


@given(seed=st.integers(), failures=st.integers(1, 20))
def test_jitter_stays_between_half_and_the_whole(seed: int, failures: int) -> None:
    policy = ResumePolicy(CheckerConfig(), random.Random(seed))
    for _ in range(failures):
        policy.failed(LOST, 0)
    whole = min(300.0, 2.0 ** (failures - 1))
    assert not policy.due(whole / 2 - 1e-6)
    assert policy.due(whole)
