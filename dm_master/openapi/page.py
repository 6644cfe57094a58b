"""The page ``/api/v1/docs``: the contract as HTML without scripts or other files. Pure."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from dm_master.openapi.contract import Contract, Schema

_STYLE = """\
:root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}body{max-width:60rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;width:100%}td,th{text-align:left;vertical-align:top;padding:.2rem .8rem .2rem 0}
code{font-family:ui-monospace,monospace;overflow-wrap:anywhere}h3{margin:2rem 0 .2rem}section{margin-bottom:2rem}
"""
#: For the page's Content-Security-Policy.
STYLE_HASH = f"sha256-{base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()}"


def page(contract: Contract) -> str:
    info = contract.document["info"]
    return "".join(
        (
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            f"<title>{escape(info['title'])}</title><style>{_STYLE}</style></head><body>",
            f"<h1>{escape(info['title'])}</h1><p>{escape(info['description'])}</p>",
            '<p>For programs: <a href="dm.json"><code>/api/v1/dm.json</code></a>.</p>',
            *_operations(contract),
            "<h2>Types</h2>",
            *(_type(name, schema) for name, schema in contract.document["components"]["schemas"].items()),
            "</body></html>\n",
        )
    )


def _operations(contract: Contract) -> Iterator[str]:
    for tag in contract.document["tags"]:
        yield f"<section><h2>{escape(tag['description'])}</h2>"
        for path, item in contract.document["paths"].items():
            for method, operation in item.items():
                if tag["name"] in operation["tags"]:
                    yield _operation(contract, method, path, operation)
        yield "</section>"


def _operation(contract: Contract, method: str, path: str, operation: Mapping[str, Any]) -> str:
    rows = [
        _row(one["name"], _text(one["schema"]), one["description"])
        for one in map(contract.resolved, operation.get("parameters", ()))
    ]
    if "requestBody" in operation:
        rows.append(_row("body", _text(_content(operation["requestBody"])), ""))
    for status, answer in operation["responses"].items():
        resolved = contract.resolved(answer)
        rows.append(_row(status, _text(_content(resolved)), resolved["description"]))
    head = f"<code>{method.upper()} {escape(path)}</code>"
    return f"<h3>{head}</h3><p>{escape(operation['summary'])}.</p><table>{''.join(rows)}</table>"


def _content(part: Mapping[str, Any]) -> Schema:
    return next((one["schema"] for one in part.get("content", {}).values()), {})


def _type(name: str, schema: Schema) -> str:
    required = set(schema.get("required", ()))
    rows = [
        _row(key + ("*" if key in required else ""), _text(one), one.get("description", ""))
        for key, one in schema.get("properties", {}).items()
    ]
    text = escape(schema.get("description", ""))
    return f'<h3 id="{name}">{name}</h3><p>{text or _text(schema)}</p><table>{"".join(rows)}</table>'


def _row(name: str, kind: str, text: str) -> str:
    return f"<tr><td><code>{escape(name)}</code></td><td>{kind}</td><td>{escape(text)}</td></tr>"


def _text(schema: Schema) -> str:
    """A short description of a schema, as HTML."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f'<a href="#{name}">{name}</a>'
    if "enum" in schema:
        return escape(" | ".join(map(repr, schema["enum"])))
    if schema.get("type") == "array":
        return f"list of {_text(schema['items'])}"
    default = f", default {schema['default']!r}" if "default" in schema else ""
    return escape(f"{schema.get('type', '')}{default}")
