"""One etcd member's address: the ``etcd3`` client, extended by what it lacks."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import grpc

from pkg.errors import Code, new
from pkg.etcd.errors import EtcdFailure
from pkg.etcd.login import Login
from pkg.etcd.stubs import etcd3, rpc
from pkg.settings.connections import SecurityConfig

#: etcd computes a slow hash for each login. Who gives up early on a busy machine has it compute another one, for ever.
_LOGIN_SECONDS = 5.0
#: A dead peer is noticed within about 13 s; etcd refuses clients that ping more often than every 5 s.
_CHANNEL_OPTIONS = (
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # Listing every source and subtask may exceed gRPC's 4 MiB.
    ("grpc.max_receive_message_length", -1),
    # A proxy from the environment never leads to etcd; and clients must not share each other's backoff.
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
)


class Endpoint(etcd3.Etcd3Client):  # type: ignore[misc]  # etcd3 has no types
    """``etcd3``'s client for one address: its channel, its calls for keys and members and its errors as they are.

    What is ours, and why:

    - the options of the channel, through the constructor: ``etcd3`` sets no keepalive;
    - :meth:`_get_secure_creds`: ``etcd3`` reads TLS from files only, and only with a CA;
    - :meth:`login`: ``etcd3`` logs in within its constructor, so that a member that is down could not even be named,
      and never again, although tokens expire;
    - two more stubs on the same channel: ``etcd3`` hides that of watches in a thread that cannot resume one, and has
      none for users. Transactions, keepalives and watches go by the stubs, whose answers have the revisions.
    """

    def __init__(self, url: str, *, tls: SecurityConfig | None, login: Login | None, timeout: float) -> None:
        self.address = address_of(url)
        self._tls = tls
        self._login = login
        self._logged_in = False
        host, _, port = self.address.rpartition(":")
        # A CA, of whatever name, is how etcd3 is asked for TLS; the files are read in _get_secure_creds.
        ca = None if tls is None else tls.ssl_ca
        super().__init__(host, port, ca_cert=ca, timeout=timeout, grpc_options=_CHANNEL_OPTIONS)
        self.watchstub = rpc.WatchStub(self.channel)
        self.authstub = rpc.AuthStub(self.channel)

    def _get_secure_creds(self, *_files: str | None) -> grpc.ChannelCredentials:
        assert self._tls is not None, "etcd3 asks for credentials only with a CA"
        return _credentials(self._tls)

    @property
    def has_user(self) -> bool:
        return self._login is not None

    def login(self, *, again: bool = False) -> None:
        """Gets a token unless there is one (or ``again``: it expired); does nothing without a user."""
        if self._login is not None and (again or not self._logged_in):
            token = self._login.token(self._authenticate)
            self.metadata = None if token is None else (("token", token),)
            self._logged_in = True

    def may_log_in_again(self, failure: EtcdFailure) -> bool:
        """Whether a new login may help: the token is stale, or there is none because etcd asked for none so far."""
        return self._login is not None and (
            failure.stale_token or (failure.unauthorized and self._logged_in and self.metadata is None)
        )

    def _authenticate(self, name: str, password: str) -> str:
        request = rpc.AuthenticateRequest(name=name, password=password)
        return str(self.authstub.Authenticate(request, max(self.timeout, _LOGIN_SECONDS)).token)


def address_of(url: str) -> str:
    """``host:port`` of an endpoint given as such or as a URL; raises 42502 for anything else."""
    parts = urlsplit(url if "://" in url else f"//{url}")
    try:
        port = parts.port
    except ValueError:
        port = None
    if not parts.hostname or port is None:
        raise new(Code.HAInvalidItem, f"invalid etcd endpoint {url!r}", workaround="Write it as host:port.")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{host}:{port}"


def _credentials(tls: SecurityConfig) -> grpc.ChannelCredentials:
    def pem(inline: bytes, path: str) -> bytes | None:
        return inline or (Path(path).read_bytes() if path else None)

    return grpc.ssl_channel_credentials(
        pem(tls.ssl_ca_bytes, tls.ssl_ca), pem(tls.ssl_key_bytes, tls.ssl_key), pem(tls.ssl_cert_bytes, tls.ssl_cert)
    )
