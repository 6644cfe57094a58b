"""Scripts read the answer of a precheck: its layout, its counts and DM's code must stay."""

from __future__ import annotations

import json

from dm_master.precheck.result import HEADER, PASSED, CheckResult, conclude, fail, warn


def _detail(text: str) -> dict[str, object]:
    data: dict[str, object] = json.loads(text.partition("detail: ")[2])
    return data


def test_all_well() -> None:
    result = conclude([CheckResult("a", "b")])
    assert (result.passed, result.text) == (True, PASSED)


def test_warnings_pass_and_are_shown() -> None:
    result = conclude([CheckResult("a", "b"), CheckResult("c", "d", (warn("w", "do"),), "place")])
    assert result.passed
    assert result.text.startswith(f'{HEADER}: no errors but some warnings\n detail: {{\n\t\t\t"results"')
    assert _detail(result.text) == {
        "results": [
            {
                "id": 1, "name": "c", "desc": "d", "state": "warn",
                "errors": [{"severity": "warn", "short_error": "w", "instruction": "do"}],
                "instruction": "do", "extra": "place",
            }
        ],
        "summary": {"passed": True, "total": 2, "successful": 1, "failed": 0, "warning": 1},
    }  # fmt: skip


def test_failures_carry_dms_code() -> None:
    result = conclude([CheckResult("c", "d", (fail("f", "do"), warn("w", "")))])
    assert not result.passed
    assert result.text.startswith("[code=26005:class=task-check:scope=internal:level=medium]")
    assert f"Message: {HEADER}: check was failed, please see detail" in result.text
    assert _detail(result.text)["summary"] == {"passed": False, "total": 1, "successful": 0, "failed": 1, "warning": 0}


def test_counts_bound_what_is_shown_but_not_the_verdict() -> None:
    many = [CheckResult(str(i), "", (fail(f"f{i}", ""), warn(f"w{i}", ""))) for i in range(5)]
    result = conclude(many, err_count=2, warn_count=1)
    assert (result.text.count('"fail",'), result.text.count("short_error")) == (4, 3)
    assert not conclude(many, err_count=0, warn_count=0).passed
