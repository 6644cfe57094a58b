"""Hazard: C and Python number event types, operations or parts of a block differently, and rows are lost in silence."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from dm_worker.relay import transactions
from dm_worker.syncer.execution import compaction, row_block
from dm_worker.syncer.planning import batch, event_buffer
from dm_worker.syncer.rows import kernel_layout
from pkg import native
from pkg.binlog import constants
from pkg.binlog.rows.column_programs import ColumnOp
from pkg.mysql import bulk_types

FOLDER = Path(native.__file__).parent


def enums(path: str) -> dict[str, int]:
    """The members of all enums in a C file, with their values."""
    text = re.sub(r"/\*.*?\*/", "", (FOLDER / path).read_text(), flags=re.DOTALL)
    found: dict[str, int] = {}
    for body in re.findall(r"enum \{(.*?)\}", text, re.DOTALL):
        following = 0
        for member in filter(None, (part.strip() for part in body.split(","))):
            name, _, value = (part.strip() for part in member.partition("="))
            found[name] = int(value, 0) if value else following
            following = found[name] + 1
    return found


@pytest.mark.parametrize(("name", "value"), enums("common/binlog_format.h").items())
def test_numbers_of_the_binlog_format_are_those_of_the_constants(name: str, value: int) -> None:
    assert getattr(constants, name) == value


def test_the_ops_of_column_programs_are_the_same() -> None:
    found = {name.removeprefix("OP_"): number for name, number in enums("rows/literals.h").items()}
    assert found.pop("COUNT") == len(ColumnOp)
    assert found == {op.name: op.value for op in ColumnOp}


@pytest.mark.parametrize(
    ("path", "module", "names"),
    [
        (
            "rows/compact.h",
            compaction,
            "INSERT UPDATE DELETE INSERTED UPDATED DELETED REPLACED GONE STATE_COUNT MIXED JOINED MARKS",
        ),
        ("scan/scan.h", event_buffer, "STOPPED CUT CLOSE"),
        ("relay/module.c", transactions, "OUTSIDE BEGUN INSIDE"),
        ("sqlscan/bulk_rows.c", bulk_types, "INTEGER FOUR_DIGITS FRACTION EXPONENT STRING BINARY EMPTY"),
    ],
)
def test_states_and_kinds_are_the_same(path: str, module: ModuleType, names: str) -> None:
    ours = enums(path)
    assert {name: ours[name] for name in names.split()} == {name: getattr(module, name) for name in names.split()}


def test_the_parts_of_a_block_have_the_same_sizes() -> None:
    sizes = enums("rows/blocks.h")
    assert sizes == {
        "RECORD_SIZE": batch.RECORD.size,
        "BLOCK_HEADER": row_block.HEADER.size,
        "SECTION_SIZE": row_block.SECTION.size,
        "STATE_SIZE": row_block.STATE.size,
        "ROW_SIZE": row_block.ROW.size,
        "STATE_AT": row_block.STATE_AT,
        "SECTION_STATES": row_block.STATES,
        "SECTION_ROWS": row_block.ROWS,
    }
    assert enums("scan/event_buffer.h")["RECORD"] == batch.RECORD.size


def test_key_normalizers_have_the_same_kinds() -> None:
    found = {name.removeprefix("NORMALIZE"): number for name, number in enums("rows/normalizer.h").items()}
    assert found.pop("_COUNT") == len(found)
    assert found == {name: getattr(kernel_layout, name) for name in found}
