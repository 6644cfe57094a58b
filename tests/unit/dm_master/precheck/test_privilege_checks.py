"""The privileges that a dump needs depend on its consistency, which may stand in extra-args."""

from __future__ import annotations

import pytest

from dm_master.precheck.privilege_checks import consistency_of


@pytest.mark.parametrize(
    ("args", "consistency"),
    [
        ("", "auto"),
        ("--consistency lock -t 4", "lock"),
        ("--consistency=none", "none"),
        ("-t 4 --no-locks", "none"),
        ("--where 'a = \"--no-locks x\"'", "auto"),
    ],
)
def test_consistency_is_read_from_extra_args(args: str, consistency: str) -> None:
    assert consistency_of(args) == consistency
