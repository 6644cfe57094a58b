"""Files as they are shown, with their secrets again. Pure.

Programs show passwords and keys as ``******``. A file that comes back like that keeps the stored ones.
"""

from __future__ import annotations

import base64

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode

from pkg.settings.connections import DBConfig
from pkg.settings.yaml_reader import REDACTED

_TEXT, _BINARY = "tag:yaml.org,2002:str", "tag:yaml.org,2002:binary"


def with_stored_secrets(text: str, block: str, known: DBConfig) -> str:
    """The file ``text`` with the secrets of ``known`` where its ``block`` (a server) shows them as ``******``.

    A text that is no such file stays as it is: its reader tells what is wrong.
    """
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError):
        return text
    if not _restore(_inner(root, block), known):
        return text
    return str(yaml.serialize(root, Dumper=yaml.SafeDumper, allow_unicode=True))


def _restore(server: MappingNode | None, known: DBConfig) -> bool:
    """Whether anything was restored."""
    key = base64.b64encode(known.security.ssl_key_bytes).decode() if known.security is not None else ""
    restored = _replace(server, "password", known.password, _TEXT)
    return _replace(_inner(server, "security"), "ssl-key-bytes", key, _BINARY) or restored


def _replace(block: MappingNode | None, name: str, value: str, tag: str) -> bool:
    for number, (key, node) in enumerate(block.value if block is not None else ()):
        if key.value == name and isinstance(node, ScalarNode) and node.value == REDACTED:
            assert block is not None
            block.value[number] = (key, ScalarNode(tag, value, style='"'))
            return True
    return False


def _inner(node: Node | None, name: str) -> MappingNode | None:
    if not isinstance(node, MappingNode):
        return None
    return next((value for key, value in node.value if key.value == name and isinstance(value, MappingNode)), None)
