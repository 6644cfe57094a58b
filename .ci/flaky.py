"""Runs the tests that failed once more, each alone: a failure that does not repeat is shown as flaky.

usage: python .ci/flaky.py REPORT    (REPORT: pytest's JUnit XML of the whole run)

Exits with 0 if at most two tests had failed and all of them pass now, otherwise with 1.
"""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

#: More failures than this are no accident.
MOST_FLAKY = 2


def failed_tests(report: str) -> list[str]:
    """The node ids of the tests that failed in a JUnit ``report``.

    Raises ``ValueError`` when something else than a test failed: collection, or pytest itself.
    """
    found: dict[str, None] = {}
    for case in ET.fromstring(report).iter("testcase"):
        if case.find("failure") is None and case.find("error") is None:
            continue
        module, name = case.get("classname", ""), case.get("name", "")
        if not module.startswith("tests.") or not name.startswith("test_"):
            raise ValueError(f"{module} {name} is not a test")
        found[f"{module.replace('.', '/')}.py::{name}"] = None
    return list(found)


def main(report: str) -> int:
    if not Path(report).exists():
        print(f"flaky: the run left no report at {report}; nothing is run again", file=sys.stderr)
        return 1
    try:
        failed = failed_tests(Path(report).read_text(encoding="utf-8"))
    except (ValueError, ET.ParseError) as exc:
        print(f"flaky: the run failed for another reason than a test: {exc}", file=sys.stderr)
        return 1
    if not 0 < len(failed) <= MOST_FLAKY:
        print(f"flaky: {len(failed)} failed tests; at most {MOST_FLAKY} are run again", file=sys.stderr)
        return 1
    for test in failed:
        print(f"flaky: runs {test} again, alone", flush=True)
        if subprocess.run([sys.executable, "-m", "pytest", "-q", test], check=False).returncode != 0:
            print(f"flaky: {test} fails again")
            return 1
    for test in failed:
        print(f"FLAKY: {test} failed in the whole run and passed alone")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
