"""Task and source files on the operator's side: reads them, checks what only this side can check, and makes them
self-contained."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml

from dmctl.failure import CommandError
from pkg import errors
from pkg.errors import Code

#: What operators write instead of a file name.
STDIN = "-"
_TLS_KEYS = ("ssl-ca", "ssl-cert", "ssl-key")


def read_text(path: str) -> str:
    """The file's text; that of standard input for ``-``. Raises :class:`CommandError` if it can't be read."""
    try:
        return sys.stdin.read() if path == STDIN else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else exc
        raise CommandError(f"error in get file content: open {path}: {reason}") from exc


def read_task(path: str) -> str:
    """A task file's text, ready to send.

    Raises DMError 20003 for invalid YAML, and :class:`CommandError` for other mistakes that this side can see.
    """
    text = read_text(path)
    root = _root(text, path)
    if root is None:
        return text
    _refuse_contradicting_shard_mode(root, path)
    return _inline_tls(text, [_member(root, "target-database")], path)


def read_diff(path: str) -> str:
    """A comparison's file, ready to send. Raises as :func:`read_source`."""
    text = read_text(path)
    root = _root(text, path)
    if root is None:
        return text
    upstreams = _member(root, "mysql-instances")
    entries = upstreams.value if isinstance(upstreams, yaml.SequenceNode) else ()
    servers = [_member(entry, "from") for entry in entries if isinstance(entry, yaml.MappingNode)]
    return _inline_tls(text, [_member(root, "target-database"), *servers], path)


def _refuse_contradicting_shard_mode(root: yaml.MappingNode, path: str) -> None:
    """The master cannot distinguish is-sharding: false from a file without it: both parse to the same value."""
    is_sharding, mode = _scalar(root, "is-sharding"), _scalar(root, "shard-mode")
    if is_sharding is None or mode is None or not mode.value:
        return
    sharded = is_sharding.value.lower() == "true"
    if not sharded or mode.value != "pessimistic":
        meaning = "pessimistic" if sharded else "no sharding"
        raise CommandError(
            f"{path}:{mode.start_mark.line + 1}: shard-mode {mode.value!r} contradicts is-sharding: "
            f"{is_sharding.value}, which means {meaning}; please use `shard-mode` only."
        )


def read_source(path: str) -> str:
    """A source file's text, ready to send. Raises :class:`CommandError` or DMError 20003 for an unreadable file."""
    text = read_text(path)
    root = _root(text, path)
    return text if root is None else _inline_tls(text, [_member(root, "from")], path)


def source_id(path: str) -> str:
    """The ``source-id`` in a source file. Raises :class:`CommandError` if there is none."""
    root = _root(read_text(path), path)
    node = None if root is None else _scalar(root, "source-id")
    if node is None or not node.value:
        raise CommandError(f"{path}: it has no source-id")
    return str(node.value)


def task_name(argument: str) -> str:
    """The task name in ``argument``: a task file's ``name`` if it looks like a readable file, otherwise the
    argument."""
    if not argument.endswith((".yaml", ".yml")) or not Path(argument).is_file():
        return argument
    return name_in(read_text(argument), argument, "the task file")


def name_in(text: str, path: str, what: str) -> str:
    """The ``name`` in a file's text. Raises :class:`CommandError` if there is none."""
    root = _root(text, path)
    node = None if root is None else _scalar(root, "name")
    if node is None or not node.value:
        raise CommandError(f"{path}: {what} has no name")
    return str(node.value)


def _root(text: str, path: str) -> yaml.MappingNode | None:
    """The document's mapping; None for anything else, which the master rejects with a better message."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as exc:
        mark = getattr(exc, "problem_mark", None)
        location = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else path
        problem = getattr(exc, "problem", None) or type(exc).__name__
        raise errors.new(
            Code.ConfigYamlTransform, f"{location}: not valid YAML: {problem}", workaround="Correct the file there."
        ) from exc
    return root if isinstance(root, yaml.MappingNode) else None


def _member(mapping: yaml.MappingNode, key: str) -> yaml.Node | None:
    return next((value for name, value in mapping.value if name.value == key), None)


def _scalar(mapping: yaml.MappingNode, key: str) -> yaml.ScalarNode | None:
    node = _member(mapping, key)
    return node if isinstance(node, yaml.ScalarNode) else None


def _inline_tls(text: str, servers: Iterable[yaml.Node | None], path: str) -> str:
    """``text`` with the TLS files in the ``security`` of these blocks embedded, since the master can't read this side's
    files.

    Each ``ssl-ca: file`` becomes ``ssl-ca-base64: content`` on the same line, so that all other lines, and the line
    numbers in the master's messages, stay the same.
    """
    entries = [entry for server in servers for entry in _tls_entries(server)]
    for key_node, value_node in sorted(entries, key=lambda entry: -entry[0].start_mark.index):
        try:
            content = base64.b64encode(Path(value_node.value).read_bytes()).decode("ascii")
        except OSError as exc:
            location = f"{path}:{value_node.start_mark.line + 1}"
            raise CommandError(f"{location}: {key_node.value}: open {value_node.value}: {exc.strerror}") from exc
        entry = f'{key_node.value}-base64: "{content}"'
        text = text[: key_node.start_mark.index] + entry + text[value_node.end_mark.index :]
    return text


def _tls_entries(database: yaml.Node | None) -> Iterator[tuple[yaml.ScalarNode, yaml.ScalarNode]]:
    security = _member(database, "security") if isinstance(database, yaml.MappingNode) else None
    if not isinstance(security, yaml.MappingNode):
        return
    for key, value in security.value:
        if key.value in _TLS_KEYS and isinstance(value, yaml.ScalarNode) and value.value:
            yield key, value
