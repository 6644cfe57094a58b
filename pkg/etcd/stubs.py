"""Gives ``etcd3`` stubs that the current protobuf accepts, before it is imported.

``etcd3`` 0.12, its last release, ships stubs for protobuf 3. Current runtimes refuse them, so ``import etcd3`` fails.
Ours are generated from our own declaration of etcd's public API (proto/etcd) and are put into ``sys.modules`` where
``etcd3`` looks for its own. Nothing else in the package is changed; :class:`pkg.etcd.endpoint.Endpoint` extends its
client. Import ``etcd3`` and the messages only from here.

There is no other way: importing any part of ``etcd3``, as a subclass or an adapter must, runs its ``__init__``, which
imports the stubs first. protobuf's variable PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python lets them load, but it makes
all messages of the process slow, and ours can't be loaded beside them: both declare the same messages.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from pkg.etcd.pb import rpc_pb2, rpc_pb2_grpc


def _as_module(name: str) -> ModuleType:
    module = ModuleType(name, "Messages and stubs of etcd's API in one namespace, as etcd3 expects them.")
    for part in (rpc_pb2, rpc_pb2_grpc):
        module.__dict__.update({key: value for key, value in vars(part).items() if not key.startswith("_")})
    return module


sys.modules.setdefault("etcd3.etcdrpc", _as_module("etcd3.etcdrpc"))

import etcd3  # noqa: E402  (only after the stubs are set)
import etcd3.exceptions  # noqa: E402

#: The messages and stubs; generated code has no types.
rpc: Any = sys.modules["etcd3.etcdrpc"]

__all__ = ["etcd3", "rpc"]
