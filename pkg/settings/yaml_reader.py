"""Strict YAML with positions: every error names ``file:line:column``.

Scalars keep the text of the file, as in DM's parser, so that a password ``0123`` or a time zone ``+08:00`` never
becomes a number.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from pkg import errors
from pkg.errors import Code, DMError, ErrorKind
from pkg.settings.options import nearest, pem_bytes
from pkg.settings.shape import SECRET_KEYS, Free, Items, Leaf, Named, Shape
from pkg.settings.units import parse_duration

_NULL = "tag:yaml.org,2002:null"
_BOOL = "tag:yaml.org,2002:bool"
_INT = "tag:yaml.org,2002:int"
_FLOAT = "tag:yaml.org,2002:float"
_MERGE = "tag:yaml.org,2002:merge"
REDACTED = "******"
_YAML = Code.ConfigYamlTransform


def read_document(text: str, path: str, shape: Mapping[str, Shape]) -> Section:
    """The file's top mapping, its keys checked against ``shape`` at every level. Raises 20003."""
    return Section(_compose(text, path, shape), path, "")


def _compose(text: str, path: str, shape: Mapping[str, Shape]) -> MappingNode:
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else path
        # Not str(exc): that quotes the line, which may contain a password.
        problem = "; ".join(filter(None, (exc.context, exc.problem)))
        raise errors.new(_YAML, f"{where}: not valid YAML: {problem}", workaround="Correct the file there.") from None
    except (yaml.YAMLError, RecursionError) as exc:
        raise errors.new(
            _YAML, f"{path}: not valid YAML", raw=type(exc).__name__, workaround="Check the file's text encoding."
        ) from None
    if not isinstance(root, MappingNode):
        raise errors.new(
            _YAML, f"{path}:1:1: the file must contain keys and values", workaround="See the sample files."
        )
    _check(root, shape, path, "")
    return root


def _check(node: Node, shape: Shape, path: str, name: str) -> None:
    if isinstance(shape, Leaf) or _is_null(node):
        return
    if isinstance(shape, Items):
        if not isinstance(node, SequenceNode):
            raise _error(path, node, f"{name} must be a list, not {_noun(node)}", "Start each entry with a dash.")
        for item in node.value:
            if not isinstance(item, MappingNode):
                raise _error(path, item, f"each entry of {name} must be keys and values, not {_noun(item)}")
            _check(item, shape.shape, path, name)
        return
    if not isinstance(node, MappingNode):
        raise _error(path, node, f"{name} must be keys and values, not {_noun(node)}")
    _merge(node, path)
    _check_duplicates(node, path)
    if isinstance(shape, Free):
        return
    for key, value in node.value:
        if isinstance(shape, Named):
            _check(value, shape.shape, path, f"{name}.{key.value}")
            continue
        if key.value not in shape:
            near = nearest(key.value, list(shape))
            hint = f"Did you mean {near!r}?" if near else f"Remove it; {name or 'the file'} has no such key."
            raise _error(path, key, f"unknown key {key.value!r}" + (f" in {name}" if name else ""), hint)
        _check(value, shape[key.value], path, f"{name}.{key.value}" if name else key.value)


def _merge(node: MappingNode, path: str) -> None:
    """Replaces ``<<`` by the pairs that it refers to; keys of the mapping itself win."""
    own = [pair for pair in node.value if pair[0].tag != _MERGE]
    present = {key.value for key, _ in own if isinstance(key, ScalarNode)}
    merged: list[tuple[Node, Node]] = []
    for key, value in node.value:
        if key.tag != _MERGE:
            continue
        for source in value.value if isinstance(value, SequenceNode) else [value]:
            if not isinstance(source, MappingNode) or source is node:
                raise _error(path, key, "'<<' must refer to keys and values")
            fresh = [pair for pair in source.value if pair[0].value not in present]
            merged += fresh
            present |= {pair[0].value for pair in fresh}
    node.value = own + merged


def _check_duplicates(node: MappingNode, path: str) -> None:
    seen: dict[str, Node] = {}
    for key, _ in node.value:
        if not isinstance(key, ScalarNode):
            raise _error(path, key, "a key must be a plain name")
        if key.value in seen:
            first = seen[key.value].start_mark.line + 1
            raise _error(path, key, f"key {key.value!r} is here twice, first in line {first}", "Remove one of them.")
        seen[key.value] = key


def _is_null(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.tag == _NULL


def _noun(node: Node) -> str:
    if isinstance(node, MappingNode):
        return "keys and values"
    return "a list" if isinstance(node, SequenceNode) else "a single value"


def _location(path: str, node: Node) -> str:
    return f"{path}:{node.start_mark.line + 1}:{node.start_mark.column + 1}"


def _error(path: str, node: Node, message: str, workaround: str = "Correct the file there.") -> DMError:
    return errors.new(_YAML, f"{_location(path, node)}: {message}", workaround=workaround)


class Section:
    """One mapping of a checked document. A key that is absent or null gives the caller's default.

    All readers raise 20003 with the value's position when it is of another type.
    """

    def __init__(self, node: MappingNode, path: str, name: str) -> None:
        self.name = name
        self._node = node
        self._path = path
        self._values: dict[str, Node] = {key.value: value for key, value in node.value if not _is_null(value)}
        self._keys: dict[str, Node] = {key.value: key for key, _ in node.value}

    def has(self, key: str) -> bool:
        return key in self._values

    def says(self, key: str, value: str) -> bool:
        """Whether ``key`` has exactly this single value, compared without case."""
        node = self._values.get(key)
        return isinstance(node, ScalarNode) and str(node.value).lower() == value.lower()

    def error(self, kind: ErrorKind, key: str, message: str, workaround: str, item: int = -1) -> DMError:
        """An error of ``kind`` at the value of ``key``, or at the section when that is absent.

        ``item`` is the value's index in the list; -1 for the whole value.
        """
        return errors.new(kind, f"{self.location(key, item)}: {message}", workaround=workaround)

    def location(self, key: str, item: int = -1) -> str:
        """``file:line:column`` of the value that :meth:`error` refers to."""
        node = self._values.get(key) or self._keys.get(key) or self._node
        if item >= 0 and isinstance(node, SequenceNode) and item < len(node.value):
            node = node.value[item]
        return _location(self._path, node)

    def text(self, key: str, default: str = "") -> str:
        node = self._values.get(key)
        return default if node is None else self._scalar(key, node)

    def flag(self, key: str, default: bool) -> bool:
        maybe = self.maybe_flag(key)
        return default if maybe is None else maybe

    def maybe_flag(self, key: str) -> bool | None:
        node = self._values.get(key)
        if node is None:
            return None
        text = self._scalar(key, node)
        if node.tag != _BOOL:
            raise self._wrong(key, node, "true or false", text)
        return text.lower() in ("yes", "true", "on")

    def whole(self, key: str, default: int, *, least: int = 0, most: int = 2**63 - 1) -> int:
        node = self._values.get(key)
        if node is None:
            return default
        text = self._scalar(key, node)
        if not isinstance(node, ScalarNode) or node.tag != _INT or ":" in text:
            raise self._wrong(key, node, "a whole number", text)
        number = int(yaml.SafeLoader("").construct_yaml_int(node))
        if not least <= number <= most:
            limit = f"at least {least}" if number < least else f"at most {most}"
            raise _error(self._path, node, f"{key} must be {limit}, not {number}", "Correct the number.")
        return number

    def number(self, key: str, default: float) -> float:
        node = self._values.get(key)
        if node is None:
            return default
        text = self._scalar(key, node)
        if node.tag not in (_INT, _FLOAT) or ":" in text:
            raise self._wrong(key, node, "a number", text)
        try:
            return float(text.replace("_", ""))
        except ValueError:
            raise self._wrong(key, node, "a number", text) from None

    def seconds(self, key: str, default: float) -> float:
        """A duration such as ``5m``."""
        node = self._values.get(key)
        if node is None:
            return default
        text = self._scalar(key, node)
        try:
            return parse_duration(text)
        except ValueError:
            raise self._wrong(key, node, "a duration such as 5s or 1h30m", text) from None

    def strings(self, key: str) -> tuple[str, ...]:
        """A list of strings."""
        node = self._values.get(key)
        if node is None:
            return ()
        if not isinstance(node, SequenceNode):
            raise _error(self._path, node, f"{key} must be a list, not {_noun(node)}", f"Write {key}: [value].")
        return tuple(self._scalar(key, item) for item in node.value)

    def pairs(self, key: str) -> tuple[tuple[str, str], ...]:
        """A mapping of the user's own keys to strings, in the file's order."""
        node = self._values.get(key)
        if not isinstance(node, MappingNode):
            return ()
        return tuple((name.value, self._scalar(f"{key}.{name.value}", value)) for name, value in node.value)

    def blob(self, key: str) -> bytes:
        """Bytes as PEM text, base64, ``!!binary`` or the list of numbers that DM's dmctl sends."""
        node = self._values.get(key)
        if node is None:
            return b""
        try:
            if isinstance(node, SequenceNode):
                return bytes(int(item.value) for item in node.value)
            if node.tag == "tag:yaml.org,2002:binary":
                return base64.b64decode("".join(str(node.value).split()), validate=True)
            return pem_bytes(self._scalar(key, node))
        except (ValueError, TypeError, binascii.Error):
            raise _error(self._path, node, f"{key} must be PEM text or base64 of it") from None

    def section(self, key: str) -> Section | None:
        node = self._values.get(key)
        return Section(node, self._path, key) if isinstance(node, MappingNode) else None

    def sections(self, key: str) -> dict[str, Section]:
        """A mapping of names to sections; an entry without content is an empty section."""
        node = self._values.get(key)
        if not isinstance(node, MappingNode):
            return {}
        return {name.value: self._entry(name, value) for name, value in node.value}

    def items(self, key: str) -> list[Section]:
        node = self._values.get(key)
        if not isinstance(node, SequenceNode):
            return []
        return [Section(item, self._path, f"{key}[{i}]") for i, item in enumerate(node.value)]

    def _entry(self, name: Node, value: Node) -> Section:
        if not isinstance(value, MappingNode):
            value = MappingNode("tag:yaml.org,2002:map", [], name.start_mark, name.end_mark)
        return Section(value, self._path, str(name.value))

    def _scalar(self, key: str, node: Node) -> str:
        if not isinstance(node, ScalarNode):
            raise _error(self._path, node, f"{key} must be a single value, not {_noun(node)}")
        return str(node.value)

    def _wrong(self, key: str, node: Node, wanted: str, text: str) -> DMError:
        quoted = isinstance(node, ScalarNode) and node.style in ("'", '"')
        hint = "Remove the quotes." if quoted and text else f"Write {key}: and {wanted}."
        return _error(self._path, node, f"{key} must be {wanted}, not {text!r}", hint)


def tidy_yaml(text: str, path: str, shape: Mapping[str, Shape], *, redact: bool, password: str = REDACTED) -> str:
    """The document again: keys in our order, names sorted, comments dropped. ``redact`` shows secrets as ``******``,
    passwords as ``password``.

    Raises 20003 as :func:`read_document` does.
    """
    root = _compose(text, path, shape)
    _tidy(root, shape, password if redact else "")
    return str(yaml.serialize(root, Dumper=yaml.SafeDumper, allow_unicode=True))


def _tidy(node: Node, shape: Shape, password: str) -> None:
    """``password``: the replacement for passwords; '' when secrets are shown."""
    if isinstance(node, SequenceNode) and isinstance(shape, Items):
        for item in node.value:
            _tidy(item, shape.shape, password)
    if not isinstance(node, MappingNode) or isinstance(shape, Leaf):
        return
    if isinstance(shape, Mapping):
        order = {name: i for i, name in enumerate(shape)}
        node.value.sort(key=lambda pair: order[pair[0].value])
        if password:
            node.value = [(key, _shown(key.value, value, password)) for key, value in node.value]
        for key, value in node.value:
            _tidy(value, shape[key.value], password)
        return
    node.value.sort(key=lambda pair: str(pair[0].value))
    if isinstance(shape, Named):
        for _, value in node.value:
            _tidy(value, shape.shape, password)


def _shown(key: str, value: Node, password: str) -> Node:
    if key not in SECRET_KEYS or _is_null(value) or value.value in ("", []):
        return value
    text = password if key == "password" else REDACTED
    return ScalarNode("tag:yaml.org,2002:str", text, value.start_mark, value.end_mark, style='"')


def dump_yaml(data: Mapping[str, Any]) -> str:
    """Plain values as YAML, keys in their order."""
    return str(yaml.safe_dump(dict(data), sort_keys=False, allow_unicode=True, default_flow_style=False))
