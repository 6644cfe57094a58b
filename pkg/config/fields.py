"""Reads the keys of a block into the fields of its class, by the type of each field and the limits of its key."""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pkg.settings.keys import Block, Choices, FileKey, FilePart
from pkg.settings.yaml_reader import Section

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_T = TypeVar("_T")
_READERS: Mapping[object, Callable[[Section, str, Any], object]] = {
    int: Section.whole,
    bool: Section.flag,
    str: Section.text,
    bool | None: lambda section, key, _: section.maybe_flag(key),
    float: Section.seconds,
    tuple[str, ...]: lambda section, key, default: section.strings(key) or default,
}


def read_block(section: Section, keys: Collection[FilePart], model: type[_T], **given: object) -> _T:
    """The block's object; ``given`` are fields that depend on more than one key.

    Also checks a key without a field. Raises the error of a key's choices, that of its own reader, or 20003.
    """
    return model(**{**_values(section, keys, model), **given})


def check_keys(section: Section, keys: Collection[FilePart]) -> None:
    """Checks keys whose values are not used."""
    for key in keys:
        if isinstance(key, FileKey):
            _checked(section, key)
        else:
            _check_inner(section, key)


def _check_inner(section: Section, block: Block) -> None:
    inner = section.section(block.name) if block.form == "one" else None
    if inner is not None:
        check_keys(inner, block.keys)


def _values(section: Section, keys: Collection[FilePart], model: type) -> Mapping[str, object]:
    types, defaults = _types(model), field_defaults(model)
    found = {}
    for key in keys:
        if not isinstance(key, FileKey):
            _check_inner(section, key)
            continue
        default = defaults.get(key.target)
        value = _checked(section, key)
        if key.target not in types:
            continue
        if key.read is None and key.choices is None:
            value = _by_type(section, key, types[key.target], default)
        found[key.target] = default if value is None else value
    return found


def _by_type(section: Section, key: FileKey, kind: object, default: object) -> object:
    value = _READERS[kind](section, key.name, default)
    return default if key.zero_is_default and not value else value


def _checked(section: Section, key: FileKey) -> object:
    """The value from the key's own reader or its choices."""
    if key.read is not None:
        return key.read(section, key.name)
    return None if key.choices is None else _choice(section, key, key.choices)


def _choice(section: Section, key: FileKey, choices: Choices) -> str | None:
    value = section.text(key.name)
    if choices.any_case:
        value = value.lower()
    if value and value not in choices.values:
        workaround = choices.workaround or f"Set one of {', '.join(choices.values)}."
        raise section.error(choices.error, key.name, f"{key.name} {value!r} is not valid", workaround)
    return value or None


def field_defaults(model: type) -> Mapping[str, object]:
    """Field → default, for the fields of a configuration's class that have a default."""
    fields = dataclasses.fields(cast("type[DataclassInstance]", model))
    return {field.name: field.default for field in fields if field.default is not dataclasses.MISSING}


@functools.cache
def _types(model: type) -> Mapping[str, object]:
    return typing.get_type_hints(model)
