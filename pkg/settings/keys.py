"""The declaration of a configuration file's keys: one entry says everything about a key but what its value does. Pure.

A file is a tree of :class:`FileKey` and :class:`Block`, in the order in which we write the keys. From it come the shape
that a file is checked against, the reading of simple values with their limits (``pkg/config/fields.py``), the warnings
and the page about keys (``pkg/config/effects``), the sample, and which settings a stopped task may change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from pkg.settings.shape import LEAF, Free, Items, Named, Shape

if TYPE_CHECKING:
    from pkg.errors import ErrorKind
    from pkg.settings.yaml_reader import Section

#: works: the product acts on the value. warned: an answer says that the value does nothing. refused: an error names it.
EffectKind = Literal["works", "warned", "refused"]
#: one: keys right here. named: a mapping from the user's names to such blocks. items: a list of them.
BlockForm = Literal["one", "named", "items"]


@dataclass(frozen=True, slots=True)
class Choices:
    """The values that a key may have, and the error for another one. Empty is always allowed: the default."""

    values: tuple[str, ...]
    error: ErrorKind
    workaround: str = ""
    any_case: bool = True


@dataclass(frozen=True, slots=True)
class FileKey:
    """One key.

    ``default`` is as the page shows it; None: as the class of the block has it. ``acts`` is the module that acts on the
    value, from the repository's root; '' for keys that are not *works*, and for what the reader of the file carries out
    itself. ``field`` is the field with the value if its name is not the key's.

    A value is read by the field's type. ``zero_is_default``: 0 or empty gives the default, as an absent key.
    ``choices`` limits it. ``read`` reads or checks what is not that simple; a key without field needs it to be checked
    at all. ``free``: a mapping whose keys are the user's own. ``updatable``: ``update-task`` may change it.

    ``sample`` is the value in the full sample, one for each name of a named block; ``comment`` is what stands before
    it, with an empty first line for a gap.
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
        """The field that the value goes to, if the block's class has it."""
        return self.field or self.name.replace("-", "_")


@dataclass(frozen=True, slots=True)
class Block:
    """Keys below a key. ``model`` is the class that has their values as fields.

    With ``effect`` the page has one row for the whole block. ``names``: those of the entries in the full sample.
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
    """The keys that a file, or a block of it, may have."""
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
