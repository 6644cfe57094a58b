"""The keys of a comparison's file (``diff start --config``), in the order in which files are written. Pure data.

Servers and rules are described as in a task file; the upstreams' addresses are in the file too.
"""

from __future__ import annotations

from dataclasses import replace

from pkg.config.effects.effect import KeyEffect, effects_of
from pkg.config.effects.shared_keys import database
from pkg.config.effects.task_keys import TASK_KEYS
from pkg.config.model import ServersDiffConfig
from pkg.settings.keys import Block, FileKey, FilePart

_SPLIT = "pkg/config/servers_diff.py"
_RUN = "dm_worker/diff/servers_diff.py"
_TASK_PARTS = {part.name: part for part in TASK_KEYS}


def _packet() -> FileKey:
    return FileKey("max-allowed-packet", "The server's own limit counts.", kind="warned", default="67108864")


def _of_task(name: str, effect: str = "") -> FilePart:
    part = _TASK_PARTS[name]
    return replace(part, effect=effect) if isinstance(part, FileKey) and effect else part


def _upstreams() -> Block:
    block = _TASK_PARTS["mysql-instances"]
    assert isinstance(block, Block)
    names = ("filter-rules", "column-mapping-rules", "route-rules", "expression-filters", "block-allow-list")
    rules = [part for part in block.keys if part.name in names]
    return replace(
        block,
        keys=(
            FileKey("source-id", "A name for the upstream in the answer.", _SPLIT, default="required"),
            database("from", _packet(), "from_"),
            *rules,
        ),
    )


DIFF_KEYS: tuple[FilePart, ...] = (
    _of_task("name", "Name of the comparison, at most 46 characters."),
    FileKey("tables", "Patterns of target tables (db.table, with * and ?) that are compared; all by default.", _RUN),
    FileKey("chunk-rows", "The most rows of a chunk; 0: 200,000, or fewer of large rows.", _RUN),
    FileKey(
        "settle-time",
        "A row that differs is looked at three times within this time. Set more than rows need from one server to the "
        "other.",
        _RUN,
        default="30s",
    ),
    FileKey("output-dir", "Folder of the worker for the state and the differences.", _RUN),
    _of_task("case-sensitive"),
    database("target-database", _packet(), "to"),
    _upstreams(),
    *(_of_task(name) for name in ("routes", "filters", "expression-filter", "column-mappings", "block-allow-list")),
)
DIFF_EFFECTS: tuple[KeyEffect, ...] = tuple(effects_of(DIFF_KEYS, model=ServersDiffConfig))
