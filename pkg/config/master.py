"""dm-master's settings: flags over a strict TOML file, checked and completed with DM's defaults."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from importlib import resources
from typing import Any
from urllib.parse import urlsplit

from pkg import errors
from pkg.config.effects.program_keys import option_effects, settings_warnings
from pkg.errors import Code
from pkg.settings.connections import SecurityConfig
from pkg.settings.encrypt import read_secret_key
from pkg.settings.etcd_user import EtcdUser, read_etcd_user
from pkg.settings.options import (
    Option,
    OptionErrors,
    check_logging,
    common_options,
    read_settings,
    take_security,
    to_toml,
    usage,
)
from pkg.settings.password_hash import read_users
from pkg.settings.units import format_duration, is_unspecified, join_address, split_address

_MIB = 1024 * 1024
_LEAST_QUOTA = 500 * _MIB
#: The embedded etcd's ports for the cluster's programs, relative to the master's own port.
CLIENT_PORT_OFFSET = 1000
#: etcd's administrator; masters add and remove members of the embedded one.
EMBEDDED_USER = "root"

CODES = OptionErrors(
    flags=Code.MasterConfigParseFlagSet,
    arguments=Code.MasterConfigInvalidFlag,
    unknown_key=Code.MasterConfigUnknownItem,
    toml=Code.MasterConfigTomlTransform,
)

_ETCD = "dm_master/election/etcd_arguments.py"
_EMBEDDED = "dm_master/election/embedded_etcd.py"
_SERVER = "dm_master/server.py"
OPTIONS = (
    *common_options("dm_master/cli.py"),
    Option("name", effect="Name of this master, unique in the cluster.", default="dm-master-HOSTNAME", acts=_ETCD),
    Option("master-addr", effect="Address to listen on, host:port or :port.", default="required", acts=_SERVER),
    Option("advertise-addr", effect="Address at which others reach this master.", default="master-addr", acts=_SERVER),
    Option(
        "peer-urls",
        effect="URLs where the embedded etcd listens for its peers; without a scheme, http:// (https:// with TLS).",
        default="http://127.0.0.1:8291",
        acts=_ETCD,
    ),
    Option(
        "advertise-peer-urls", effect="URLs that peers reach it at, in the same form.", default="peer-urls", acts=_ETCD
    ),
    Option(
        "initial-cluster",
        effect="name=url,... of all masters of a new cluster.",
        default="this master alone",
        acts=_EMBEDDED,
    ),
    Option("initial-cluster-state", effect="new or existing.", default="new", acts=_EMBEDDED, flag=False),
    Option("join", effect="Masters of a running cluster to join.", acts=_EMBEDDED),
    Option("data-dir", effect="Folder of the embedded etcd.", default="default.NAME", acts=_ETCD),
    Option("max-txn-ops", "int", "Limit of operations in one etcd transaction.", default="2048", acts=_ETCD),
    Option("max-request-bytes", "int", "Largest request to etcd.", default="1572864", acts=_ETCD),
    Option("auto-compaction-mode", effect="periodic or revision.", default="periodic", acts=_ETCD),
    Option("auto-compaction-retention", effect="How much of etcd's history stays.", default="1h", acts=_ETCD),
    Option(
        "quota-backend-bytes", "int", "Largest size of etcd's data; at least 500 MiB.", default="2147483648", acts=_ETCD
    ),
    Option("openapi", "bool", "Serves the OpenAPI below /api/v1.", default="false", acts=_SERVER),
    Option(
        "experimental.openapi",
        "bool",
        "Older spelling of openapi.",
        default="false",
        acts="pkg/config/master.py",
        flag=False,
    ),
    Option("console", "bool", "Serve the console, the cluster in a browser, at `/`.", default="true", acts=_SERVER),
    Option(
        "console-users-path",
        effect="File of the console's users, a line for each as `dmctl console-user` prints it; empty: no logins.",
        acts=_SERVER,
    ),
    Option(
        "rpc-timeout", "duration", "How long a request to a worker may take.", default="30s", acts=_SERVER, flag=False
    ),
    Option("rpc-rate-limit", "float", "Requests per second to one worker.", default="10.0", acts=_SERVER, flag=False),
    Option(
        "rpc-rate-burst",
        "int",
        "Requests to one worker that may come together.",
        default="40",
        acts=_SERVER,
        flag=False,
    ),
    Option(
        "v1-sources-path",
        effect="Refused (38053): importing sources of DM 1.0 is not supported.",
        effect_kind="refused",
    ),
    Option(
        "secret-key-path",
        effect="File of 64 hex digits, the key that passwords are encrypted with.",
        acts="dm_master/service/config_service.py",
    ),
    Option("allowed-hosts", "list", "Further host names for HTTP requests.", default="[]", acts=_SERVER),
    Option(
        "etcd-endpoints",
        "list",
        "An etcd to use instead of the embedded one; plain text with http://, otherwise with the master's TLS.",
        default="[]",
        acts=_SERVER,
    ),
    Option(
        "etcd-username",
        effect="User of etcd; a new embedded etcd has root alone, and asks for its password from the start on.",
        acts=_SERVER,
    ),
    Option(
        "etcd-password-path", effect="File with the password of etcd's user; it is read at each login.", acts=_SERVER
    ),
    Option(
        "etcd-client-urls",
        effect="URL where the embedded etcd serves the cluster's programs.",
        default="port + 1000",
        acts=_ETCD,
    ),
    Option(
        "election-ttl",
        "int",
        "Seconds without a heartbeat after which a leader is replaced.",
        default="60",
        acts=_SERVER,
        flag=False,
    ),
)
#: The rows about the file's keys, in the order of the page.
MASTER_EFFECTS = option_effects(OPTIONS)


@dataclass(frozen=True, slots=True)
class MasterConfig:
    """Checked settings of a dm-master. Durations are seconds, sizes bytes.

    ``version``, ``print_sample_config`` and ``help`` request text instead of a run; the rest is unchecked then.
    ``etcd_endpoints`` non-empty means an external etcd: no embedded one is started.
    """

    config: str = ""
    version: bool = False
    print_sample_config: bool = False
    help: bool = False
    name: str = ""
    log_level: str = "info"
    log_file: str = ""
    log_format: str = "text"
    log_rotate: str = ""
    master_addr: str = ""
    advertise_addr: str = ""
    peer_urls: str = "http://127.0.0.1:8291"
    advertise_peer_urls: str = ""
    initial_cluster: str = ""
    initial_cluster_state: str = "new"
    join: str = ""
    data_dir: str = ""
    max_txn_ops: int = 2048
    max_request_bytes: int = 1536 * 1024
    auto_compaction_mode: str = "periodic"
    auto_compaction_retention: str = "1h"
    quota_backend_bytes: int = 2048 * _MIB
    openapi: bool = False
    console: bool = True
    console_users_path: str = ""
    rpc_timeout: float = 30.0
    rpc_rate_limit: float = 10.0
    rpc_rate_burst: int = 40
    v1_sources_path: str = ""
    secret_key_path: str = ""
    allowed_hosts: tuple[str, ...] = ()
    etcd_endpoints: tuple[str, ...] = ()
    etcd_client_urls: str = ""
    etcd_username: str = ""
    etcd_password_path: str = ""
    election_ttl: int = 60
    security: SecurityConfig | None = None
    secret_key: bytes = field(default=b"", repr=False)

    @property
    def listen(self) -> tuple[str, int]:
        """Host and port to listen on; the host may be empty for all interfaces."""
        return split_address(self.master_addr)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names of this master's port, besides IP addresses and ``localhost``."""
        own = (split_address(address)[0] for address in (self.master_addr, self.advertise_addr))
        return (*(host for host in own if not is_unspecified(host)), socket.gethostname(), *self.allowed_hosts)

    @property
    def etcd_user(self) -> EtcdUser | None:
        """This master's login to etcd; None if etcd requires no password."""
        return EtcdUser(self.etcd_username, self.etcd_password_path) if self.etcd_username else None

    @property
    def join_addresses(self) -> tuple[str, ...]:
        return tuple(part.strip() for part in self.join.split(",") if part.strip())

    def warnings(self) -> list[str]:
        """Sentences about given settings without effect."""
        default = type(self)()
        changed = [f.name for f in fields(self) if getattr(self, f.name) != getattr(default, f.name)]
        return settings_warnings(MASTER_EFFECTS, changed, self.log_rotate)

    def to_toml(self) -> str:
        """The effective settings, without any secret."""
        hidden = {"config", "version", "print_sample_config", "help", "security", "secret_key"}
        shown: dict[str, Any] = {
            f.name.replace("_", "-"): getattr(self, f.name) for f in fields(self) if f.name not in hidden
        }
        shown["rpc-timeout"] = format_duration(self.rpc_timeout)
        return to_toml({**shown, **security_settings(self.security)})


def security_settings(security: SecurityConfig | None) -> dict[str, Any]:
    """The TLS settings that can be shown: paths and names, never key material."""
    chosen = security or SecurityConfig()
    return {
        "ssl-ca": chosen.ssl_ca,
        "ssl-cert": chosen.ssl_cert,
        "ssl-key": chosen.ssl_key,
        "cert-allowed-cn": chosen.cert_allowed_cn,
    }


def load_master_config(argv: Sequence[str]) -> MasterConfig:
    """Reads the command line (without the program's name) and the file that it names.

    Raises 38010, 38012 (flags), 20018 (unreadable file), 38013 (TOML, wrong type), 38011 (unknown key), 38014 (a
    duration), 38035, 38039, 38042, 38050 (addresses), 38037 (etcd settings), 20067 (secret key) or
    38053 (v1-sources-path).
    """
    if any(word in ("-h", "-help", "--help") for word in argv):
        return MasterConfig(help=True)
    values = read_settings(argv, OPTIONS, CODES)
    security = take_security(values)
    openapi = values.pop("experimental_openapi", False)
    config = MasterConfig(**values, security=security)
    if config.version or config.print_sample_config:
        return config
    return _adjust(replace(config, openapi=config.openapi or openapi))


def _adjust(config: MasterConfig) -> MasterConfig:
    check_logging(config.log_level, config.log_format, config.log_rotate, CODES)
    _check_ranges(config)
    if config.v1_sources_path:
        raise errors.new(
            Code.MasterFailToImportFromV10x,
            "v1-sources-path: importing sources of DM 1.0 is not supported yet",
            workaround="Remove the key and add the sources with `dmctl operate-source create`.",
        )
    config = replace(
        config,
        peer_urls=_with_scheme(config.peer_urls, config.security),
        advertise_peer_urls=_with_scheme(config.advertise_peer_urls, config.security),
    )
    advertise = _advertise_addr(config)
    name = config.name or f"dm-master-{socket.gethostname()}"
    peers = config.advertise_peer_urls or config.peer_urls
    read_users(config.console_users_path)
    read_etcd_user(config.etcd_username, config.etcd_password_path, Code.MasterGenEmbedEtcdConfigFail)
    if not config.etcd_endpoints:
        _check_embedded_user(config)
        _check_urls("peer-urls", config.peer_urls)
        _check_advertised_peers(peers)
        _check_bootstrap(config)
    members = ",".join(f"{name}={url.strip()}" for url in peers.split(","))
    return replace(
        config,
        name=name,
        advertise_addr=advertise,
        advertise_peer_urls=peers,
        initial_cluster=config.initial_cluster or ("" if config.join else members),
        data_dir=config.data_dir or f"default.{name}",
        etcd_client_urls=config.etcd_client_urls or _client_url(advertise, config.security),
        quota_backend_bytes=max(config.quota_backend_bytes, _LEAST_QUOTA),
        secret_key=read_secret_key(config.secret_key_path),
    )


def _check_ranges(config: MasterConfig) -> None:
    if config.rpc_timeout <= 0:
        raise errors.new(
            Code.MasterConfigTimeoutParse, "rpc-timeout must be positive", workaround='Set it to "30s", the default.'
        )
    for key in ("max-txn-ops", "max-request-bytes", "rpc-rate-burst", "election-ttl"):
        if getattr(config, key.replace("-", "_")) <= 0:
            raise errors.new(Code.MasterConfigTomlTransform, f"{key} must be positive", workaround="Remove it.")
    if config.rpc_rate_limit <= 0:
        raise errors.new(Code.MasterConfigTomlTransform, "rpc-rate-limit must be positive", workaround="Remove it.")


def _advertise_addr(config: MasterConfig) -> str:
    try:
        host, _ = split_address(config.master_addr)
    except ValueError as exc:
        raise errors.new(
            Code.MasterHostPortNotValid,
            f"master-addr {config.master_addr!r} is not valid",
            raw=exc,
            workaround="Set master-addr to host:port, such as 192.168.0.1:8261.",
        ) from None
    if not config.advertise_addr:
        if is_unspecified(host):
            raise errors.new(
                Code.MasterHostPortNotValid,
                f"master-addr {config.master_addr!r} has no host that others can reach, and advertise-addr is not set",
                workaround="Set advertise-addr to this machine's host:port.",
            )
        return config.master_addr
    try:
        host, _ = split_address(config.advertise_addr)
    except ValueError as exc:
        raise _bad_advertise(config.advertise_addr, exc) from None
    if is_unspecified(host):
        raise _bad_advertise(config.advertise_addr, None)
    return config.advertise_addr


def _bad_advertise(address: str, raw: ValueError | None) -> errors.DMError:
    return errors.new(
        Code.MasterAdvertiseAddrNotValid,
        f"advertise-addr {address!r} is not an address that others can reach",
        raw=raw,
        workaround="Set advertise-addr to this machine's host:port.",
    )


def _with_scheme(urls: str, security: SecurityConfig | None) -> str:
    """``host:port`` as a URL with http://, or https:// with TLS, as in DM."""
    scheme = "https" if security else "http"
    parts = [url.strip() for url in urls.split(",")]
    return ",".join(url if not url or "://" in url else f"{scheme}://{url}" for url in parts)


def _check_urls(key: str, urls: str) -> None:
    for url in urls.split(","):
        try:
            parts = urlsplit(url.strip())
            valid = parts.scheme in ("http", "https") and parts.port is not None
        except ValueError:
            valid = False
        if not valid:
            raise errors.new(
                Code.MasterParseURLFail,
                f"{key}: {url!r} is not a URL such as http://192.168.0.1:8291",
                workaround=f"Write each URL of {key} as http://host:port or https://host:port.",
            )


def _check_advertised_peers(urls: str) -> None:
    _check_urls("advertise-peer-urls", urls)
    for url in urls.split(","):
        if is_unspecified(urlsplit(url.strip()).hostname or ""):
            raise errors.new(
                Code.MasterAdvertisePeerURLsNotValid,
                f"advertise-peer-urls: {url!r} is not a URL that others can reach",
                workaround="Set advertise-peer-urls to this machine's URLs.",
            )


def _check_bootstrap(config: MasterConfig) -> None:
    if config.join and config.initial_cluster:
        raise errors.new(
            Code.MasterGenEmbedEtcdConfigFail,
            "join and initial-cluster exclude each other",
            workaround="Keep initial-cluster for a new cluster, join for a member added to a running one.",
        )
    for key, allowed in (
        ("initial-cluster-state", ("new", "existing")),
        ("auto-compaction-mode", ("periodic", "revision")),
    ):
        value = getattr(config, key.replace("-", "_"))
        if value not in allowed:
            raise errors.new(
                Code.MasterGenEmbedEtcdConfigFail,
                f"{key} {value!r} is not valid",
                workaround=f"Set it to {' or '.join(allowed)}.",
            )


def _check_embedded_user(config: MasterConfig) -> None:
    if config.etcd_username not in ("", EMBEDDED_USER):
        raise errors.new(
            Code.MasterGenEmbedEtcdConfigFail,
            f"etcd-username {config.etcd_username!r}: the embedded etcd has the user {EMBEDDED_USER} alone",
            workaround=f'Set etcd-username = "{EMBEDDED_USER}", or use an etcd of your own (etcd-endpoints).',
        )


def _client_url(advertise: str, security: SecurityConfig | None) -> str:
    host, port = split_address(advertise)
    offset = CLIENT_PORT_OFFSET if port + CLIENT_PORT_OFFSET < 65536 else -CLIENT_PORT_OFFSET
    return f"{'https' if security else 'http'}://{join_address(host, port + offset)}"


def sample_master_config() -> str:
    """The output of ``-print-sample-config``: the commented sample file."""
    return resources.files("pkg.config.samples").joinpath("dm-master.toml").read_text(encoding="utf-8")


def master_usage() -> str:
    """The output of ``-h``."""
    return usage("dm-master", OPTIONS)
