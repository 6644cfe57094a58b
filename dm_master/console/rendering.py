"""Templates and static files. Every value in a page is escaped."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import resources
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined

from pkg.status.error_text import parsed_error

#: The console's path on the port.
BASE = "/console"
_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}


def static_files() -> dict[str, tuple[bytes, str]]:
    """All static files with their types, by name."""
    folder = resources.files("dm_master.console").joinpath("static")
    return {
        file.name: (file.read_bytes(), _TYPES[file.name.rpartition(".")[2]])
        for file in folder.iterdir()
        if file.name.rpartition(".")[2] in _TYPES
    }


def link(page: str, /, **query: object) -> str:
    """The address of a page of the console; values that are empty are left out. A list is several values."""
    given = {name: value for name, value in query.items() if value not in ("", None)}
    return f"{BASE}/{page}?{urlencode(given, doseq=True)}" if given else f"{BASE}/{page}"


class Renderer:
    """Makes pages from templates."""

    def __init__(self) -> None:
        self.files = static_files()
        # A browser keeps a file until its content changes.
        version = hashlib.sha256(b"".join(content for content, _ in self.files.values())).hexdigest()[:12]
        self._environment = Environment(
            loader=PackageLoader("dm_master.console", "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.globals |= {"link": link, "version": version, "base": BASE}
        self._environment.filters |= {"moment": moment, "moment_of": moment_of, "parsed_error": parsed_error}

    def page(self, template: str, values: Mapping[str, Any]) -> str:
        return self._environment.get_template(template).render(values)


def moment(seconds: float) -> str:
    """A time as text, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def moment_of(text: str) -> str:
    """:func:`moment` of a time in RFC 3339."""
    return moment(datetime.fromisoformat(text).timestamp())
