"""Which workers get the cluster's secret key: those on connections where both sides showed certificates. Pure."""

from __future__ import annotations

import hmac

from pkg import errors
from pkg.errors import Code, DMError
from pkg.settings.encrypt import key_proof


def key_for(name: str, proof: bytes, *, key: bytes, mutual: bool) -> bytes:
    """The cluster's ``key`` if the worker ``name`` may have it and needs it, b'' otherwise.

    ``proof`` shows which key the worker has itself, b'' for none; ``mutual`` is true if only holders of the cluster's
    certificates reach this port. Raises 20067 for a worker that could not read passwords.
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
