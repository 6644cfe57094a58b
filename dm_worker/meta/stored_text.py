"""The text of a value in a stored fingerprint: of a batch's plans, a task's rules, a dump's settings. Pure.

It is ``repr``, with the names that classes and fields had when such fingerprints were first stored. A renamed class or
field keeps its first name here. Otherwise a batch in progress at an upgrade would count as another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any

from pkg.errors import ErrorKind

#: The first name of a class, by its current one.
_CLASSES: Mapping[str, str] = {
    "ConflictKey": "Tie",
    "FilterDecision": "Decision",
    "KeyNormalizer": "Canon",
    "MappedColumn": "Place",
}
#: The first name of a field, by the current names of the class and the field.
_FIELDS: Mapping[tuple[str, str], str] = {
    ("ConflictKey", "normalizers"): "canons",
    ("KeyNormalizer", "collation_weights"): "folding",
}


#: Types whose ``repr`` is used unchanged.
_PLAIN = frozenset({str, int, bool, bytes, type(None)})


def stored_text(value: object) -> str:
    """Like ``repr``, for tuples, dataclasses and plain values."""
    kind: Any = type(value)
    if kind in _PLAIN:
        return repr(value)
    if isinstance(value, ErrorKind):
        return repr(value.name)
    if isinstance(value, tuple):
        inner = ", ".join([repr(one) if type(one) in _PLAIN else stored_text(one) for one in value])
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    head, labels = _shape(kind)
    if not labels:
        return repr(value)
    parts = []
    for label, name in labels:
        one = getattr(value, name)
        parts.append(label + (repr(one) if type(one) in _PLAIN else stored_text(one)))
    return f"{head}({', '.join(parts)})"


@lru_cache(maxsize=1024)
def _shape(kind: Any) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The name of a dataclass, and the label and name of each field; none for a class with its own ``repr``."""
    name = kind.__name__
    if not is_dataclass(kind) or not getattr(kind, "__dataclass_params__").repr:  # noqa: B009
        return name, ()
    shown = [field.name for field in fields(kind) if field.repr]
    return _CLASSES.get(name, name), tuple((f"{_FIELDS.get((name, field), field)}=", field) for field in shown)
