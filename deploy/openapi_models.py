"""Writes ``dm_master/openapi/models.py`` from the contract; ``make openapi-models`` runs it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dm_master.openapi.contract import Schema, contract

TARGET = Path(__file__).resolve().parents[1] / "dm_master" / "openapi" / "models.py"
_HEAD = '''"""The types of the contract, written by ``make openapi-models``."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict
'''
_SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}


def models() -> str:
    schemas: dict[str, Any] = contract().document["components"]["schemas"]
    return _HEAD + "".join(_class(name, one) for name, one in schemas.items() if one.get("properties"))


def _class(name: str, schema: Schema) -> str:
    required = set(schema.get("required", ()))
    fields = {key: _optional(_type(one), key in required) for key, one in schema["properties"].items()}
    if all(re.fullmatch(r"\w+", key) for key in fields):
        return "".join(
            (f"\n\nclass Api{name}(TypedDict):\n", *(f"    {key}: {kind}\n" for key, kind in fields.items()))
        )
    return "".join(_call(name, fields))


def _call(name: str, fields: dict[str, str]) -> Iterator[str]:
    """The form for a key that is no name of Python."""
    yield f'\n\nApi{name} = TypedDict(\n    "Api{name}",\n    {{\n'
    for key, kind in fields.items():
        yield f"        {key!r}: {kind!r},\n"
    yield "    },\n)\n"


def _optional(kind: str, required: bool) -> str:
    return kind if required else f"NotRequired[{kind}]"


def _type(schema: Schema) -> str:
    if "$ref" in schema:
        resolved = contract().resolved(schema)
        return f"Api{schema['$ref'].rpartition('/')[2]}" if resolved.get("properties") else _type(resolved)
    if "enum" in schema:
        return f"Literal[{', '.join(map(json.dumps, schema['enum']))}]"
    if schema["type"] == "array":
        return f"list[{_type(schema['items'])}]"
    if schema["type"] == "object":
        other = schema.get("additionalProperties")
        return f"dict[str, {_type(other) if isinstance(other, dict) else 'Any'}]"
    return _SCALARS[schema["type"]]


if __name__ == "__main__":
    TARGET.write_text(models(), encoding="utf-8")
