"""Canonical forms and ties as the compiled kernel takes them. See ``pkg/native/rows/placement.h``."""

from __future__ import annotations

from functools import lru_cache
from types import ModuleType
from typing import Any

from dm_worker.syncer.rows.conflict_sets import Tie
from dm_worker.syncer.rows.key_normalization import ANY, BLOCK, EXACT, TEXT, Canon, maker
from dm_worker.syncer.rows.table_plan import TablePlan
from pkg.mysql.collation_weights import weights

#: Kinds of the kernel's ``KeyNormalizer``; it calls Python for the others.
_EXACT, _BLOCK, _ANY, _TEXT, _CALL = range(5)


def placement_of(kernel: ModuleType, plan: TablePlan) -> Any:
    """The kernel's ``Placement`` for the rows of a plan, kept by the process."""
    return _placement(kernel, plan.seed, plan.spread, plan.canons, plan.ties)


@lru_cache(maxsize=4096)
def _placement(kernel: ModuleType, seed: int, spread: bool, canons: tuple[Canon, ...], ties: tuple[Tie, ...]) -> object:
    bound = tuple((tie.seed, tie.columns, tuple(_canon(kernel, canon) for canon in tie.canons)) for tie in ties)
    return kernel.Placement(seed, spread, tuple(_canon(kernel, canon) for canon in canons), bound)


@lru_cache(maxsize=1024)
def _canon(kernel: ModuleType, canon: Canon) -> object:
    kind = {EXACT: _EXACT, BLOCK: _BLOCK, ANY: _ANY, TEXT: _TEXT}.get(canon.kind, _CALL)
    table = weights(canon.folding) if kind == _TEXT and canon.folding is not None else None
    far = canon.folding.far if canon.folding is not None else b""
    return kernel.KeyNormalizer(kind, canon.prefix, table, far, maker(canon))
