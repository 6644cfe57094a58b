"""Hazard: a new key needs its name in many places, and one of them is forgotten.

A key is added here as people would add it: a field of the class, and one declaration. All else follows.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pkg.config.effects.effect import KeyEffect, effects_of, warnings_about
from pkg.config.effects.sample import sample
from pkg.config.fields import read_block
from pkg.errors import Code, DMError
from pkg.settings.keys import Block, Choices, FileKey, shape_of, updatable_fields
from pkg.settings.yaml_reader import Section, read_document, tidy_yaml


@dataclass(frozen=True)
class _Pace:
    """The class of the block, with the new field."""

    threads: int = 4
    pace: str = "fast"


_PACE = FileKey(
    "pace",
    "How fast rows are read.",
    "dm_worker/dumper/dump_unit.py",
    choices=Choices(("fast", "slow"), Code.ConfigYamlTransform),
    updatable=True,
    sample='"fast"',
    comment="fast or slow.",
)
_THREADS = FileKey("threads", "Parallel readers.", "dm_worker/dumper/dump_unit.py", zero_is_default=True, sample="4")
_OLD = FileKey("speed", "pace counts.", kind="warned", default="1")
_FILE = (Block("units", (_THREADS, _PACE, _OLD), "named", _Pace, names=("global",)),)


def _section(content: str) -> Section:
    text = f"units:\n  global:\n    {content}\n"
    return read_document(text, "task.yaml", shape_of(_FILE)).sections("units")["global"]


def _read(content: str) -> _Pace:
    return read_block(_section(content), _FILE[0].keys, _Pace)


def test_it_is_read_by_its_type_and_has_its_default() -> None:
    assert _read("pace: SLOW") == _Pace(pace="slow")
    assert _read("threads: 0") == _Pace()
    assert _read("threads: 7") == _Pace(threads=7)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("pace: fats", "task.yaml:3:11: pace 'fats' is not valid"),
        ("pase: fast", "task.yaml:3:5: unknown key 'pase' in units.global"),
        ("threads: x", "task.yaml:3:14: threads must be a whole number, not 'x'"),
        ("pace: [fast]", "task.yaml:3:11: pace must be a single value, not a list"),
    ],
)
def test_an_error_names_the_location(content: str, message: str) -> None:
    with pytest.raises(DMError) as caught:
        _read(content)
    assert caught.value.message == message


def test_the_page_the_warnings_and_the_sample_have_it() -> None:
    rows = list(effects_of(_FILE))
    assert rows[1] == KeyEffect(
        "units.*.pace", "fast", "How fast rows are read.", "dm_worker/dumper/dump_unit.py", "works"
    )
    assert rows[0].default == "4"
    assert warnings_about(_section("speed: 2"), "global", rows) == ["speed of global has no effect: pace counts"]
    assert warnings_about(_section("speed: 1"), "global", rows) == []
    lines = ["units:", "  global:", "    threads: 4", "    # fast or slow.", '    pace: "fast"', ""]
    assert sample(_FILE).split("\n")[2:] == lines


def test_it_is_written_in_its_order_and_may_be_updated() -> None:
    text = "units:\n  global:\n    pace: fast\n    threads: 4\n"
    shown = tidy_yaml(text, "task.yaml", shape_of(_FILE), redact=True)
    assert shown == "units:\n  global:\n    threads: 4\n    pace: fast\n"
    assert list(updatable_fields(_FILE)) == ["pace"]
