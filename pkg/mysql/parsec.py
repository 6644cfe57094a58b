"""The client's side of MariaDB's PARSEC authentication (11.6 and newer); :mod:`pkg.mysql.driver` sends the bytes.

The server sends a random scramble, then how to derive the account's key from the password; the client proves the key
with a signature: https://mariadb.com/docs/server/reference/plugins/authentication-plugins/authentication-plugin-parsec
"""

from __future__ import annotations

import hashlib

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

#: The plugin's name in the server's account.
PLUGIN = "parsec"
#: Bytes of each side's scramble, and of the key.
SCRAMBLE_SIZE = KEY_SIZE = 32
#: The key derivation's name, PBKDF2, and the largest exponent that MariaDB's own clients accept: otherwise a false
#: server could keep a client busy for hours.
_PBKDF2 = ord("P")
_LARGEST_EXPONENT = 3


def signed_answer(password: bytes, server_scramble: bytes, derivation: bytes, client_scramble: bytes) -> bytes:
    """The client's scramble and its signature of both scrambles, 96 bytes.

    ``derivation`` is the server's second packet: ``P``, the exponent of the iterations, the salt. Raises ValueError for
    a packet of another form.
    """
    if len(server_scramble) != SCRAMBLE_SIZE or len(derivation) < 3 or derivation[0] != _PBKDF2:
        raise ValueError("the server's PARSEC packets have an unknown form")
    exponent, salt = derivation[1], derivation[2:]
    if exponent > _LARGEST_EXPONENT:
        raise ValueError(f"the server asks for 1024 << {exponent} iterations, more than MariaDB's clients accept")
    seed = hashlib.pbkdf2_hmac("sha512", password, salt, 1024 << exponent, KEY_SIZE)
    signature = Ed25519PrivateKey.from_private_bytes(seed).sign(server_scramble + client_scramble)
    return client_scramble + signature
