"""Scripts read the answer of a precheck: its layout, its counts and DM's code must stay."""

from __future__ import annotations

import json
from typing import Any

from dm_master.precheck.result import HEADER, PASSED, CheckResult, PrecheckResult, conclude, fail, warn


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


def _errors(result: PrecheckResult) -> list[dict[str, str]]:
    detail: Any = _detail(result.text)
    return [error for shown in detail["results"] for error in shown["errors"]]


def test_warnings_that_say_the_same_of_many_tables_are_one() -> None:
    many = [warn("no key", "Add one.", subject=f"s1 `d`.`t{i}`", other=f"`x`.`t{i}`") for i in range(300)]
    result = conclude([CheckResult("c", "d", (*many, warn("no rows", "", subject="s1 `d`.`t0`")))], warn_count=2)
    first, second = _errors(result)
    assert first["self"] == "s1 `d`.`t0`, s1 `d`.`t1`, s1 `d`.`t2`, s1 `d`.`t3`, s1 `d`.`t4` and 295 more"
    assert first["other"].endswith("`x`.`t4` and 295 more")
    assert (first["short_error"], second["short_error"]) == ("no key", "no rows"), "one kind counts once"
    assert len(result.results[0].findings) == 301, "the result itself has all"


def test_a_table_named_in_the_text_alone_is_grouped_too() -> None:
    many = [warn(f"table `d`.`_{i}_gho` is not migrated: `x`.`y` is", "Drop it.") for i in range(8)]
    (shown,) = _errors(conclude([CheckResult("c", "d", tuple(many))]))
    assert shown["short_error"] == (
        "table `d`.`_0_gho` is not migrated: `x`.`y` is; the same of `d`.`_1_gho`, `d`.`_2_gho`, `d`.`_3_gho`, "
        "`d`.`_4_gho`, `d`.`_5_gho` and 2 more"
    )
    assert "self" not in shown


def test_what_differs_in_more_than_the_table_stays_apart() -> None:
    apart = [
        warn("the column `a` differs", "i", subject="s1 `d`.`t`"),
        warn("the column `b` differs", "i", subject="s1 `d`.`t`"),
        warn("the column `a` differs", "ALTER TABLE `d`.`u` DROP a", subject="s1 `d`.`u`"),
        *(fail("no key", "i", subject=f"s1 `d`.`t{i}`") for i in range(3)),
    ]
    assert len(_errors(conclude([CheckResult("c", "d", tuple(apart))]))) == 6
