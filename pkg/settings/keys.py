"""Declares the keys of a configuration file: one entry defines everything about a key except its effect. Pure.

A file is a tree of :class:`FileKey` and :class:`Block`, in the order in which files are written. It is the source of
the shape that a file is checked against, the reading of simple values with their limits (``pkg/config/fields.py``), the
warnings and the page about keys (``pkg/config/effects``), the sample, and the settings that a stopped task may change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from pkg.settings.shape import LEAF, Free, Items, Named, Shape

if TYPE_CHECKING:
    from pkg.errors import ErrorKind
    from pkg.settings.yaml_reader import Section

#: works: the program uses the value. warned: an answer warns that the value has no effect. refused: an error names it.
EffectKind = Literal["works", "warned", "refused"]
#: one: keys directly below. named: a mapping from the user's names to such blocks. items: a list of them.
BlockForm = Literal["one", "named", "items"]


@dataclass(frozen=True, slots=True)
class Choices:
    """The allowed values of a key, and the error for another value. Empty is always allowed: the default."""

    values: tuple[str, ...]
    error: ErrorKind
    workaround: str = ""
    any_case: bool = True


@dataclass(frozen=True, slots=True)
class FileKey:
    """One key.

    ``default`` is the default on the page; None: that of the block's class. ``acts`` is the module that uses the value,
    from the repository's root; '' for keys that are not *works*, and for those that the reader of the file executes
    itself. ``field`` is the field with the value if its name differs from the key's.

    The field's type determines how a value is read. ``zero_is_default``: 0 or empty gives the default, as an absent
    key. ``choices`` limits it. ``read`` reads or checks values that are not that simple; a key without a field is only
    checked if it has ``read``. ``free``: a mapping whose keys are the user's own. ``updatable``: ``update-task`` may
    change it.

    ``sample`` is the value in the full sample, one for each name of a named block; ``comment`` precedes it, with an
    empty first line for a gap.
    """

    name: str
    effect: str
    acts: str = ""
    kind: EffectKind = "works"
    default: str | None = None
    field: str = ""
    zero_is_default: bool = False
    choices: Choices | None = None
    read: Callable[[Section, str], object] | None = None
    free: bool = False
    updatable: bool = False
    sample: str | tuple[str, ...] = ""
    comment: str = ""

    @property
    def target(self) -> str:
        """The field for the value, if the block's class has it."""
        return self.field or self.name.replace("-", "_")


@dataclass(frozen=True, slots=True)
class Block:
    """Keys below a key. ``model`` is the class with their values as fields.

    With ``effect`` the page has one row for the whole block. ``names``: the names of the entries in the full sample.
    """

    name: str
    keys: tuple[FileKey | Block, ...]
    form: BlockForm = "one"
    model: type | None = None
    effect: str = ""
    acts: str = ""
    field: str = ""
    updatable: bool = False
    names: tuple[str, ...] = ()
    comment: str = ""


FilePart: TypeAlias = "FileKey | Block"


def shape_of(parts: Iterable[FilePart]) -> Mapping[str, Shape]:
    """The allowed keys of a file or block."""
    return {part.name: _shape(part) for part in parts}


def _shape(part: FilePart) -> Shape:
    if isinstance(part, FileKey):
        return Free() if part.free else LEAF
    inner = shape_of(part.keys)
    if part.form == "named":
        return Named(inner)
    return Items(inner) if part.form == "items" else inner


def updatable_fields(parts: Iterable[FilePart]) -> Iterator[str]:
    """The fields of a subtask that a stopped task may change."""
    for part in parts:
        if part.updatable:
            yield part.field or part.name.replace("-", "_")
        elif isinstance(part, Block):
            yield from updatable_fields(part.keys)
