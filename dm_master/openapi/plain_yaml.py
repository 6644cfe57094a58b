"""Converts files into data that JSON can represent: a scalar stays text unless conversion keeps its text. Pure."""

from __future__ import annotations

import re
from typing import Any

import yaml

_TAG = "tag:yaml.org,2002:"
_FORMS = {
    "null": (re.compile(r"~|null|"), ("~", "n", "")),
    "bool": (re.compile(r"true|false|yes|no|on|off", re.IGNORECASE), tuple("tfynoTFYNO")),
    "int": (re.compile(r"-?(?:0|[1-9][0-9]*)"), tuple("-0123456789")),
    "float": (re.compile(r"-?[0-9]+\.[0-9]*[1-9]"), tuple("-0123456789")),
    "merge": (re.compile(r"<<"), ("<",)),
}


class _PlainLoader(yaml.SafeLoader):
    """Does not convert text into times, dates or octal numbers."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML's own form, filled below


for _name, (_form, _first) in _FORMS.items():
    _PlainLoader.add_implicit_resolver(_TAG + _name, re.compile(rf"^(?:{_form.pattern})$", _form.flags), list(_first))


def plain_data(text: str) -> dict[str, Any]:
    """The content of a checked file."""
    loader = _PlainLoader(text)
    try:
        return dict(_jsonable(loader.get_single_data()))
    finally:
        loader.dispose()


def _jsonable(value: Any) -> Any:
    """Converts bytes, which a file has in base64 or as PEM, into text."""
    if isinstance(value, dict):
        return {str(key): _jsonable(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_jsonable(one) for one in value]
    return value.decode("latin-1") if isinstance(value, bytes) else value
