"""Converts sources between JSON and source files. Pure. A file has more keys than the JSON (the server-id, the checker,
filters): an update keeps them unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from dm_master.openapi.models import ApiSource
from pkg.settings.yaml_reader import REDACTED, dump_yaml

_PARTS = ("ca", "cert", "key")


def source_file(source: ApiSource, former: Mapping[str, Any] | None = None) -> str:
    """The source as a file; ``former`` is the file whose other keys stay. ``enable_relay`` stays too: an update does
    not switch the relay log."""
    kept = dict(former or {})
    relay = source.get("relay_config", {})
    data: dict[str, Any] = {
        **kept,
        "source-id": source["source_name"],
        "enable": source["enable"],
        "enable-gtid": source["enable_gtid"],
        "flavor": source.get("flavor", kept.get("flavor", "")),
        "from": {
            **kept.get("from", {}),
            "host": source["host"],
            "port": source["port"],
            "user": source["user"],
            "password": source.get("password", REDACTED if former else ""),
        },
    }
    names = {
        "relay_binlog_name": "relay-binlog-name",
        "relay_binlog_gtid": "relay-binlog-gtid",
        "relay_dir": "relay-dir",
    }
    data |= {names[key]: value for key, value in relay.items() if key in names}
    if former is None:
        data["enable-relay"] = relay.get("enable_relay", False)
    if "security" in source:
        data["from"]["security"] = security_block(source["security"])
    if "purge" in source:
        purge = source["purge"]
        data["purge"] = {"interval": purge["interval"], "expires": purge["expires"]}
        data["purge"]["remain-space"] = purge["remain_space"]
    return dump_yaml(data)


def source_of(text: str) -> ApiSource:
    """A source file as JSON, without secrets."""
    data = yaml.safe_load(text)
    server, purge = data["from"], data.get("purge") or {}
    source: ApiSource = {
        "source_name": data["source-id"],
        "host": str(server["host"]),
        "port": server["port"],
        "user": str(server["user"]),
        "password": REDACTED if server.get("password") else "",
        "enable": data.get("enable", True),
        "enable_gtid": data.get("enable-gtid", False),
        "flavor": data.get("flavor") or "",
        "purge": {
            "interval": purge.get("interval", 3600),
            "expires": purge.get("expires", 0),
            "remain_space": purge.get("remain-space", 15),
        },
        "relay_config": {
            "enable_relay": data.get("enable-relay", False),
            "relay_binlog_name": data.get("relay-binlog-name") or "",
            "relay_binlog_gtid": data.get("relay-binlog-gtid") or "",
            "relay_dir": data.get("relay-dir") or "",
        },
    }
    security = security_of(server.get("security"))
    if security is not None:
        source["security"] = security
    return source


def security_block(security: Any) -> dict[str, Any]:
    """TLS settings for a file."""
    block: dict[str, Any] = {f"ssl-{part}-bytes": security[f"ssl_{part}_content"] for part in _PARTS}
    block = {key: value for key, value in block.items() if value}
    if security.get("cert_allowed_cn"):
        block["cert-allowed-cn"] = list(security["cert_allowed_cn"])
    return block


def security_of(block: Mapping[str, Any] | None) -> Any:
    """TLS settings of a file, without the key; None without TLS, and for files given by path, which are not sent."""
    if not block or not any(block.get(f"ssl-{part}-bytes") for part in _PARTS):
        return None
    contents = {f"ssl_{part}_content": _content(block.get(f"ssl-{part}-bytes")) for part in _PARTS}
    if contents["ssl_key_content"]:
        contents["ssl_key_content"] = REDACTED
    names = list(block.get("cert-allowed-cn") or ())
    return {**contents, **({"cert_allowed_cn": names} if names else {})}


def _content(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value or "")
