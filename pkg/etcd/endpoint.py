"""One etcd member's address: an extension of the ``etcd3`` client."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import grpc

from pkg.errors import Code, new
from pkg.etcd.errors import EtcdFailure
from pkg.etcd.login import Login
from pkg.etcd.stubs import etcd3, rpc
from pkg.settings.connections import SecurityConfig

#: etcd computes a slow hash for each login. A client with a short timeout on a busy machine would repeat it forever.
_LOGIN_SECONDS = 5.0
#: A dead peer is detected within about 13 s; etcd refuses clients that ping more often than every 5 s.
_CHANNEL_OPTIONS = (
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # A list of all sources and subtasks may exceed gRPC's 4 MiB.
    ("grpc.max_receive_message_length", -1),
    # A proxy from the environment never leads to etcd; and clients must not share their backoff.
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
)


class Endpoint(etcd3.Etcd3Client):  # type: ignore[misc]  # etcd3 has no types
    """``etcd3``'s client for one address: its channel, its calls for keys and members, and its errors, unchanged.

    The differences, and their reasons:

    - the options of the channel, through the constructor: ``etcd3`` sets no keepalive;
    - :meth:`_get_secure_creds`: ``etcd3`` reads TLS from files only, and only with a CA;
    - :meth:`login`: ``etcd3`` logs in inside its constructor, so an endpoint that is down could not be created, and
      never again, although tokens expire;
    - two more stubs on the same channel: ``etcd3`` hides the watch stub in a thread that cannot resume a watch, and has
      none for users. Transactions, keepalives and watches use the stubs, whose answers have the revisions.
    """

    def __init__(self, url: str, *, tls: SecurityConfig | None, login: Login | None, timeout: float) -> None:
        """An http:// ``url`` means plain text although ``tls`` is given, as in etcd's own client."""
        self.address = address_of(url)
        tls = None if url.lower().startswith("http://") else tls
        self._tls = tls
        self._login = login
        self._logged_in = False
        host, _, port = self.address.rpartition(":")
        # Any CA file name makes etcd3 use TLS; _get_secure_creds reads the real files.
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
        """Whether a new login may help: the token is stale, or missing because etcd required none so far."""
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
