"""Key normalizers and conflict keys in the compiled kernel's form. Pure. See ``pkg/native/rows/placement.h``."""

from __future__ import annotations

from functools import lru_cache
from types import ModuleType
from typing import Any

from dm_worker.syncer.rows.conflict_sets import ConflictKey
from dm_worker.syncer.rows.key_normalization import BLOCK, EXACT, INCOMPARABLE, TEXT, KeyNormalizer, normalize_function
from dm_worker.syncer.rows.table_plan import RowLink, TablePlan
from pkg.mysql.collation_weights import lengths_and_bytes

#: Kinds of the kernel's ``KeyNormalizer``; it calls Python for the others.
_EXACT, _BLOCK, _ANY, _TEXT, _CALL = range(5)
#: Flags of a link of the kernel.
_SHARED, _ALWAYS = 1, 2


def placement_of(kernel: ModuleType, plan: TablePlan) -> Any:
    """The kernel's ``Placement`` for the rows of a plan, cached by the process."""
    return _placement(kernel, plan.seed, plan.spread, plan.normalizers, plan.conflict_keys)


@lru_cache(maxsize=4096)
def _placement(
    kernel: ModuleType,
    seed: int,
    spread: bool,
    normalizers: tuple[KeyNormalizer, ...],
    conflict_keys: tuple[ConflictKey, ...],
) -> object:
    keys = tuple(
        (key.seed, key.columns, tuple(_normalizer(kernel, one) for one in key.normalizers), key.deciding)
        for key in conflict_keys
    )
    return kernel.Placement(seed, spread, tuple(_normalizer(kernel, normalizer) for normalizer in normalizers), keys)


def links_of(kernel: ModuleType, plan: TablePlan) -> tuple[Any, bytes]:
    """The plan's links, as the conflict keys of a ``Placement``, and their flags; cached by the process."""
    return _links(kernel, plan.links)


@lru_cache(maxsize=1024)
def _links(kernel: ModuleType, links: tuple[RowLink, ...]) -> tuple[object, bytes]:
    keys = tuple(ConflictKey(link.seed, link.columns, link.normalizers) for link in links)
    flags = bytes(_SHARED * link.shared | _ALWAYS * link.always for link in links)
    return _placement(kernel, 0, False, (), keys), flags


@lru_cache(maxsize=1024)
def _normalizer(kernel: ModuleType, normalizer: KeyNormalizer) -> object:
    kind = {EXACT: _EXACT, BLOCK: _BLOCK, INCOMPARABLE: _ANY, TEXT: _TEXT}.get(normalizer.kind, _CALL)
    collation = normalizer.collation_weights
    table = lengths_and_bytes(collation) if kind == _TEXT and collation is not None else None
    far = collation.far if collation is not None else b""
    return kernel.KeyNormalizer(kind, normalizer.prefix, table, far, normalize_function(normalizer))
