"""Configurations as text for etcd: lossless JSON; passwords are encrypted when there is a secret key.

The text is for our own programs. A reader fills a field that an older text lacks with its default; it refuses a field
that it does not know, because acting without it could do harm. For the same reason a field that the previous version
does not know (:data:`pkg.config.model.ADDED`) is written only with a value other than its default: after a rollback
that version reads the text of every task that does not use the field.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import json
import types
import typing
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pkg import errors
from pkg.config.model import SourceConfig, SubTaskConfig
from pkg.errors import Code
from pkg.settings import encrypt

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_T = TypeVar("_T")
_PASSWORD = "password"
_SEALED = "password-encrypted"


def encode_source(config: SourceConfig, key: bytes | None = None) -> str:
    """``key`` defaults to the process's secret key; with none, passwords stay plain."""
    return _encode(config, key)


def decode_source(text: str, key: bytes | None = None) -> SourceConfig:
    """Raises 20035 for text that :func:`encode_source` did not write, 20010 when the key does not fit."""
    return _decode(SourceConfig, text, key)


def encode_subtask(config: SubTaskConfig, key: bytes | None = None) -> str:
    """``key`` defaults to the process's secret key; with none, passwords stay plain."""
    return _encode(config, key)


def decode_subtask(text: str, key: bytes | None = None) -> SubTaskConfig:
    """Raises 20035 for text that :func:`encode_subtask` did not write, 20010 when the key does not fit."""
    return _decode(SubTaskConfig, text, key)


def _encode(config: object, key: bytes | None) -> str:
    return json.dumps(_to_json(config, encrypt.secret_key() if key is None else key), separators=(",", ":"))


def _decode(cls: type[_T], text: str, key: bytes | None) -> _T:
    try:
        data = json.loads(text)
        return cast(_T, _from_json(cls, data, cls.__name__, encrypt.secret_key() if key is None else key))
    except (ValueError, TypeError) as exc:
        raise errors.new(
            Code.ConfigEtcdParse,
            f"a stored {cls.__name__} cannot be read",
            # A JSON error's text is a position, ours are field names: neither contains a value.
            raw=exc,
            workaround="Was it written by a newer version? Stop the task or source and create it again.",
        ) from None


def _to_json(value: object, key: bytes) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        data = {name: _to_json(item, key) for name, item in _stored_fields(value)}
        if key and data.get(_PASSWORD):
            data[_SEALED] = encrypt.encrypt(data.pop(_PASSWORD), key)
        return data
    if isinstance(value, tuple):
        return [_to_json(item, key) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    return value


def _stored_fields(value: DataclassInstance) -> Iterator[tuple[str, object]]:
    for field in dataclasses.fields(value):
        item = getattr(value, field.name)
        if not ("added" in field.metadata and item == field.default):
            yield field.name, item


@functools.cache
def _hints(cls: type) -> Mapping[str, Any]:
    return typing.get_type_hints(cls)


def _from_json(kind: Any, data: Any, location: str, key: bytes) -> Any:
    """``data`` as a value of type ``kind``; raises ``ValueError`` with the field's path."""
    origin = typing.get_origin(kind)
    if origin is typing.Union or origin is types.UnionType:
        options = [option for option in typing.get_args(kind) if option is not type(None)]
        return None if data is None else _from_json(options[0], data, location, key)
    if origin is typing.Literal:
        if data not in typing.get_args(kind):
            raise ValueError(f"{location}: not one of {typing.get_args(kind)}")
        return data
    if origin is tuple:
        return _tuple_from_json(typing.get_args(kind), data, location, key)
    if dataclasses.is_dataclass(kind):
        return _object_from_json(cast(type, kind), data, location, key)
    if kind is bytes:
        return base64.b64decode(data, validate=True)
    if kind is float and type(data) is int:
        return float(data)
    if type(data) is not kind:
        raise ValueError(f"{location}: a {type(data).__name__} instead of a {kind.__name__}")
    return data


def _tuple_from_json(args: tuple[Any, ...], data: Any, location: str, key: bytes) -> tuple[Any, ...]:
    if not isinstance(data, list):
        raise ValueError(f"{location}: not a list")
    if len(args) == 2 and args[1] is Ellipsis:
        return tuple(_from_json(args[0], item, f"{location}[{i}]", key) for i, item in enumerate(data))
    if len(args) != len(data):
        raise ValueError(f"{location}: {len(data)} items instead of {len(args)}")
    return tuple(_from_json(arg, item, location, key) for arg, item in zip(args, data, strict=True))


def _object_from_json(cls: type, data: Any, location: str, key: bytes) -> Any:
    if not isinstance(data, dict):
        raise ValueError(f"{location}: not an object")
    fields = dict(data)
    if _SEALED in fields:
        fields[_PASSWORD] = _unseal(fields.pop(_SEALED), location, key)
    hints = _hints(cls)
    unknown = sorted(set(fields) - set(hints))
    if unknown:
        raise ValueError(f"{location}: unknown field {unknown[0]!r}")
    return cls(**{name: _from_json(hints[name], item, f"{location}.{name}", key) for name, item in fields.items()})


def _unseal(text: Any, location: str, key: bytes) -> str:
    try:
        return encrypt.decrypt(str(text), key)
    except errors.DMError as exc:
        raise errors.new(
            Code.ConfigDecryptDBPassword,
            f"the stored password of {location} cannot be decrypted",
            raw=exc.message,
            workaround="Start masters and workers with the same secret-key-path as when the source or task was "
            "created.",
        ) from None
