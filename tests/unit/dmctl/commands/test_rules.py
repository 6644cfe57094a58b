"""show-rules hides no problem and no rule that does nothing, and is shortened only as text for operators."""

from __future__ import annotations

import json
from pathlib import Path

from pkg.pb import dmmaster_pb2 as master
from tests.harness.canned_master import CannedMaster
from tests.unit.dmctl.support import RunDmctl


def _rules_answer() -> master.ShowRulesResponse:
    route = master.AppliedRule(
        block="routes", name="merge", place="task.yaml:7:3", pattern="shop_*", effect="goes to `all`.`t`"
    )
    own = master.AppliedRule(block="source s1", name="filters[0]", pattern="*", effect="Ignore: events delete")
    tables = [
        master.TableRules(
            source="s1", schema="shop_1", table=f"t{i}", targetSchema="all", targetTable="t", rules=[route]
        )
        for i in range(3)
    ]
    tables[2].rules.append(own)
    tables += [
        master.TableRules(source="s1", schema="x", table="y", problem="[code=40080]"),
        master.TableRules(source="s1", schema="crm", table="people", leftOut="no entry of do-dbs matches"),
    ]
    summary = master.RulesSummary(tables=3, targets=1, leftOut=1, unused=["task.yaml:9:3: 'r' of routes does nothing"])
    return master.ShowRulesResponse(result=True, summary=summary, tables=tables)


def test_show_rules_prints_text_for_people(dmctl: RunDmctl, fake: CannedMaster, task_file: Path) -> None:
    fake.answers["ShowRules"] = _rules_answer()
    code, out, err = dmctl("show-rules", str(task_file), "-s", "s1,s2")
    assert (fake.last("ShowRules").task, list(fake.last("ShowRules").sources)) == (task_file.read_text(), ["s1", "s2"])
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "Problems:",
        "  s1  `x`.`y`",
        "      [code=40080]",
        "",
        "Migrated:",
        "  s1  `shop_1`.`t0`  →  `all`.`t`",
        "      routes merge, shop_* (task.yaml:7:3): goes to `all`.`t`",
        "  s1  `shop_1`.`t1`  →  `all`.`t`",
        "      routes merge, shop_* (task.yaml:7:3): goes to `all`.`t`",
        "  s1  `shop_1`.`t2`  →  `all`.`t`",
        "      routes merge, shop_* (task.yaml:7:3): goes to `all`.`t`",
        "      source s1 filters[0], *: Ignore: events delete",
        "",
        "Left out:",
        "  s1  `crm`.`people`  no entry of do-dbs matches",
        "",
        "Rules that do nothing:",
        "  task.yaml:9:3: 'r' of routes does nothing",
        "",
        "3 tables go to 1 target tables; 1 are left out.",
    ]


def test_show_rules_is_bounded_as_text_and_complete_as_json(
    dmctl: RunDmctl, fake: CannedMaster, task_file: Path
) -> None:
    fake.answers["ShowRules"] = _rules_answer()
    _, out, _ = dmctl("show-rules", str(task_file), "--limit", "1")
    assert "  … and 2 more (--limit 0 shows all)\n" in out
    assert "t1" not in out
    _, out, _ = dmctl("show-rules", str(task_file), "--limit", "0")
    assert "t2" in out
    _, out, _ = dmctl("show-rules", str(task_file), "-o", "json", "--limit", "1")
    answer = json.loads(out)
    assert (len(answer["tables"]), answer["summary"]["leftOut"]) == (5, 1)
    assert answer["tables"][0]["rules"][0]["place"] == "task.yaml:7:3"


def test_show_rules_that_fails_says_why(dmctl: RunDmctl, fake: CannedMaster, task_file: Path) -> None:
    fake.answers["ShowRules"] = master.ShowRulesResponse(msg="[code=26002] no upstream")
    code, out, err = dmctl("show-rules", str(task_file))
    assert (code, out) == (1, "")
    assert "code=26002" in err
    assert dmctl("show-rules", str(task_file), "-o", "xml")[0] == 1
