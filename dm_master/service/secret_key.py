"""Who gets the cluster's secret key: workers, over connections on which both sides have shown certificates. Pure."""

from __future__ import annotations

import hmac

from pkg import errors
from pkg.errors import Code, DMError
from pkg.settings.encrypt import key_proof


def key_for(name: str, proof: bytes, *, key: bytes, mutual: bool) -> bytes:
    """What the worker ``name`` is told of the cluster's ``key`` when it registers; '' where it needs or may have none.

    ``proof`` tells which key the worker has itself, b'' for none; ``mutual`` says that only bearers of the cluster's
    certificates reach this port. Raises 20067 for a worker that could read no password then.
    """
    if not key:
        return b""
    if proof and not hmac.compare_digest(proof, key_proof(key, name)):
        raise _refused(f"worker {name} has another secret key than the masters")
    if mutual:
        return key
    if not proof:
        raise _refused(
            f"worker {name} has no secret key, which this cluster's passwords are encrypted with and which masters hand"
            " out over mutual TLS only"
        )
    return b""


def _refused(text: str) -> DMError:
    return errors.new(
        Code.ConfigSecretKeyPath,
        text,
        workaround="Give the worker the masters' key file as `secret-key-path`; or give all programs of the cluster"
        " ssl-ca, ssl-cert and ssl-key.",
    )
