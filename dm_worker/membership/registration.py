"""Joining the cluster: registration with a master, which returns the secret key and the addresses of etcd."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field

import grpc

from pkg import errors
from pkg.errors import Code, DMError
from pkg.pb import dmmaster_pb2, dmmaster_pb2_grpc
from pkg.rpc.channel import open_channel
from pkg.settings.connections import SecurityConfig
from pkg.settings.encrypt import key_proof
from pkg.tls.client import member_context

#: Timeout in seconds for one master.
TIMEOUT = 3.0
_ENDPOINTS_PATH = "/apis/v1alpha1/etcd-endpoints"


@dataclass(frozen=True, slots=True)
class Registration:
    """A master's answer: ``secret_key`` is empty when the cluster has none, or masters do not send it."""

    etcd_endpoints: tuple[str, ...]
    secret_key: bytes = field(default=b"", repr=False)


def register(
    masters: Sequence[str], name: str, address: str, security: SecurityConfig | None, key: bytes = b""
) -> Registration:
    """Registers at the first of ``masters`` that accepts. ``key`` is the worker's own secret key, b'' for none.

    Raises 46003 when another address has the name; 20067 when the worker does not have the cluster's secret key, or has
    another one; 40077 (retryable) when no master accepts, with each one's reason.
    """
    reasons = []
    for master in masters:
        try:
            return _register_at(master, name, address, security, key)
        except grpc.RpcError as exc:
            reasons.append(f"{master}: {exc.code().name}: {exc.details()}")
        except (OSError, ValueError, http.client.HTTPException) as exc:
            reasons.append(f"{master}: {exc}")
        except DMError as exc:
            if not exc.retryable:
                raise
            reasons.append(f"{master}: {exc.message}")
    raise errors.new(
        Code.WorkerFailConnectMaster,
        f"cannot join any of the masters {', '.join(masters)}",
        raw="; ".join(reasons),
        workaround="Check that `join` names the masters' addresses and that they run and have a leader.",
        retryable=True,
    )


def _register_at(master: str, name: str, address: str, security: SecurityConfig | None, key: bytes) -> Registration:
    with open_channel(master, security) as channel:
        request = dmmaster_pb2.RegisterWorkerRequest(name=name, address=address, secretKeyProof=key_proof(key, name))
        stub = dmmaster_pb2_grpc.MasterStub(channel)  # type: ignore[no-untyped-call]
        answer = stub.RegisterWorker(request, timeout=TIMEOUT)
    if not answer.result:
        raise _refusal(answer.msg, name)
    if key and answer.secretKey not in (b"", key):
        raise _other_key("the masters have another secret key than this worker")
    return Registration(_etcd_endpoints(master, security), key or answer.secretKey)


def _refusal(text: str, name: str) -> DMError:
    if f"code={Code.SchedulerWorkerExist.code}:" in text:
        return errors.new(
            Code.SchedulerWorkerExist,
            f"another worker is registered under the name {name}",
            raw=text,
            workaround="Give this worker another `name`, or remove the old one with `dmctl offline-member --worker "
            f"--name {name}`.",
        )
    if f"code={Code.ConfigSecretKeyPath.code}:" in text:
        return _other_key(f"the master refused this worker: {text}")
    return errors.new(Code.WorkerFailConnectMaster, f"the master refused this worker: {text}", retryable=True)


def _other_key(text: str) -> DMError:
    return errors.new(
        Code.ConfigSecretKeyPath,
        text,
        workaround="Set `secret-key-path` of this worker to a copy of the masters' key file, or give all programs of"
        " the cluster ssl-ca, ssl-cert and ssl-key.",
    )


def _etcd_endpoints(master: str, security: SecurityConfig | None) -> tuple[str, ...]:
    connection = _http(master, security)
    try:
        connection.request("GET", _ENDPOINTS_PATH)
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != http.client.OK:
            raise ValueError(f"GET {_ENDPOINTS_PATH} answered {answer.status}")
        endpoints = json.loads(body)
    finally:
        connection.close()
    if not isinstance(endpoints, list) or not endpoints or not all(isinstance(item, str) for item in endpoints):
        raise ValueError(f"GET {_ENDPOINTS_PATH} did not answer with a list of endpoints")
    return tuple(endpoints)


def _http(master: str, security: SecurityConfig | None) -> http.client.HTTPConnection:
    if security is None:
        return http.client.HTTPConnection(master, timeout=TIMEOUT)
    context: ssl.SSLContext = member_context(security)
    return http.client.HTTPSConnection(master, timeout=TIMEOUT, context=context)
