"""The settings of the embedded etcd member. No I/O, except for inline PEM certificates that etcd needs as files."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from pkg.config.master import MasterConfig
from pkg.errors import Code, new
from pkg.etcd import Member
from pkg.settings.connections import SecurityConfig

_TLS_FOLDER = "tls"


def etcd_arguments(config: MasterConfig, initial_cluster: str, state: str) -> list[str]:
    """etcd's arguments for a master's settings. Raises 38051 for TLS settings that etcd does not support."""
    return [
        f"--name={config.name}",
        f"--data-dir={config.data_dir}",
        f"--listen-peer-urls={_each(config.peer_urls)}",
        f"--initial-advertise-peer-urls={config.advertise_peer_urls}",
        f"--listen-client-urls={_each(config.etcd_client_urls)}",
        f"--advertise-client-urls={config.etcd_client_urls}",
        f"--initial-cluster={initial_cluster}",
        f"--initial-cluster-state={state}",
        f"--auto-compaction-mode={config.auto_compaction_mode}",
        f"--auto-compaction-retention={config.auto_compaction_retention}",
        f"--quota-backend-bytes={config.quota_backend_bytes}",
        f"--max-txn-ops={config.max_txn_ops}",
        f"--max-request-bytes={config.max_request_bytes}",
        # Any web page could post to the JSON gateway through a browser; the cluster's programs speak gRPC.
        "--enable-grpc-gateway=false",
        # A member that comes back from a partition must not unseat a healthy leader.
        "--pre-vote=true",
        "--logger=zap",
        "--log-outputs=stderr",
        "--log-level=warn",
        *(_tls_arguments(config.security, Path(config.data_dir)) if config.security else ()),
    ]


def etcd_environment(arguments: Sequence[str]) -> dict[str, str]:
    """``--name=value`` as etcd's environment variables.

    A command line would name the other members: a command that ends processes by name would end this one, too.
    """
    pairs = (argument.removeprefix("--").partition("=") for argument in arguments)
    return {f"ETCD_{name.upper().replace('-', '_')}": value for name, _, value in pairs}


def initial_cluster_of(members: Sequence[Member], name: str, urls: Sequence[str]) -> str:
    """``name=url,…`` of all members; the member without a name that has our ``urls`` is this one."""
    return ",".join(
        f"{member.name or name}={url}"
        for member in members
        if member.name or set(member.peer_urls) == set(urls)
        for url in member.peer_urls
    )


def listen_url(url: str) -> str:
    """Where etcd binds for an advertised URL: it takes addresses only, so a host name means every interface."""
    parts = urlsplit(url)
    try:
        ipaddress.ip_address(parts.hostname or "")
    except ValueError:
        return url if parts.hostname == "localhost" else f"{parts.scheme}://0.0.0.0:{parts.port}"
    return url


def _each(urls: str) -> str:
    return ",".join(dict.fromkeys(listen_url(url.strip()) for url in urls.split(",")))


def _tls_arguments(security: SecurityConfig, data_dir: Path) -> list[str]:
    """Clients and peers both show certificates of the same authority."""
    files = {
        "cert": _pem_file(security.ssl_cert, security.ssl_cert_bytes, data_dir / _TLS_FOLDER / "cert.pem"),
        "key": _pem_file(security.ssl_key, security.ssl_key_bytes, data_dir / _TLS_FOLDER / "key.pem"),
        "ca": _pem_file(security.ssl_ca, security.ssl_ca_bytes, data_dir / _TLS_FOLDER / "ca.pem"),
    }
    if len(security.cert_allowed_cn) > 1:
        raise new(
            Code.MasterTLSConfigNotValid,
            "the embedded etcd can check one allowed common name, and cert-allowed-cn has several",
            workaround="Give all programs certificates with one common name, or run etcd separately "
            "(`etcd-endpoints`).",
        )
    arguments = []
    for side in ("", "peer-"):
        arguments += [
            f"--{side}cert-file={files['cert']}",
            f"--{side}key-file={files['key']}",
            f"--{side}trusted-ca-file={files['ca']}",
            f"--{side}client-cert-auth=true",
        ]
    # etcd checks names of peers only; its clients need only a certificate of the authority.
    return arguments + [f"--peer-cert-allowed-cn={name}" for name in security.cert_allowed_cn]


def _pem_file(path: str, content: bytes, file: Path) -> str:
    if path or not content:
        return path
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    file.touch(mode=0o600)
    os.chmod(file, 0o600)
    file.write_bytes(content)
    return str(file)
