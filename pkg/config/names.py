"""The names of tasks, comparisons and sources. Pure.

A name is a part of table and folder names: no name may lead out of its folder.
"""

from __future__ import annotations

import re

from pkg.errors import Code, ErrorKind
from pkg.settings.yaml_reader import Section

#: `<task>_syncer_checkpoint` is the longest table named after a task; a name has at most 64 characters.
LONGEST_TASK_NAME = 64 - len("_syncer_checkpoint")
LONGEST_SOURCE_ID = 32
_NO_PART_OF_A_PATH = re.compile(r"[/\\\x00-\x1f\x7f]|\A\.{1,2}\Z")


def task_name(section: Section, key: str) -> str:
    """Raises 20019 without a name, 20003 for one that cannot be part of table and folder names."""
    name = section.text(key)
    if not name:
        raise section.error(Code.ConfigNeedUniqueTaskName, key, "the task has no name", "Add name: unique-name.")
    _ensure_usable(section, key, name, LONGEST_TASK_NAME)
    return name


def read_source_id(section: Section, missing: ErrorKind, too_long: ErrorKind, advice: str) -> str:
    """Raises ``missing`` without a name, ``too_long``, or 20003 for one that cannot be part of folder names."""
    name = section.text("source-id")
    if not name:
        raise section.error(missing, "source-id", "source-id is missing", advice)
    if len(name) > LONGEST_SOURCE_ID:
        message = f"source-id has {len(name)} characters, at most {LONGEST_SOURCE_ID} are allowed"
        raise section.error(too_long, "source-id", message, advice)
    _ensure_usable(section, "source-id", name, LONGEST_SOURCE_ID)
    return name


def _ensure_usable(section: Section, key: str, name: str, longest: int) -> None:
    if len(name) > longest or _NO_PART_OF_A_PATH.search(name) or name != name.strip():
        raise section.error(
            Code.ConfigYamlTransform,
            key,
            f"{key} {name!r} cannot name tables and folders",
            f"Use at most {longest} characters, without slashes, control characters, leading or trailing blanks; "
            "not . or .. alone.",
        )
