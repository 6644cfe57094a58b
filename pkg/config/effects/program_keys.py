"""The effect of each key of dm-master.toml and dm-worker.toml, and the warnings about keys without effect. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pkg.config.effects.effect import KeyEffect, warning
from pkg.settings.rotation import is_by_time

_ETCD = "dm_master/election/etcd_arguments.py"
_TLS = "pkg/rpc/channel.py"


def _common(cli: str, rpc: str) -> tuple[KeyEffect, ...]:
    return (
        KeyEffect("log-level", "info", "debug, info, warn, error or fatal.", cli),
        KeyEffect("log-file", "", "File to append to; empty: standard error.", cli),
        KeyEffect("log-format", "text", "text or json.", cli),
        KeyEffect(
            "log-rotate",
            "512MiB",
            "Size at which the log file is renamed and a new one begins; `512MiB,10` keeps the last 10 renamed files, "
            "without a number all stay. off: never. DM's day and hour are warned of.",
            cli,
        ),
        KeyEffect("ssl-ca", "", "CA of the cluster's certificates; TLS for all connections.", rpc),
        KeyEffect("ssl-cert", "", "The own certificate.", rpc),
        KeyEffect("ssl-key", "", "The key of the own certificate.", rpc),
        KeyEffect(
            "cert-allowed-cn",
            "[]",
            "Names, one of which a client's certificate must have.",
            "pkg/rpc/server/port_server.py",
        ),
        *(
            KeyEffect(f"{part}-{form}", "", f"{part} as {words} in place of a path.", rpc)
            for form, words in (("bytes", "PEM text"), ("base64", "base64"))
            for part in ("ssl-ca", "ssl-cert", "ssl-key")
        ),
    )


MASTER_EFFECTS: tuple[KeyEffect, ...] = (
    *_common("dm_master/cli.py", _TLS),
    KeyEffect("name", "dm-master-HOSTNAME", "Name of this master.", _ETCD),
    KeyEffect("master-addr", "required", "Address to listen on.", "dm_master/server.py"),
    KeyEffect("advertise-addr", "master-addr", "Address at which others reach this master.", "dm_master/server.py"),
    KeyEffect(
        "peer-urls",
        "http://127.0.0.1:8291",
        "URLs where the embedded etcd listens for its peers; without a scheme, http:// (https:// with TLS).",
        _ETCD,
    ),
    KeyEffect("advertise-peer-urls", "peer-urls", "URLs that peers reach it at, in the same form.", _ETCD),
    KeyEffect(
        "initial-cluster",
        "this master alone",
        "All masters of a new cluster.",
        "dm_master/election/embedded_etcd.py",
    ),
    KeyEffect("initial-cluster-state", "new", "new or existing.", "dm_master/election/embedded_etcd.py"),
    KeyEffect("join", "", "Masters of a running cluster to join.", "dm_master/election/embedded_etcd.py"),
    KeyEffect("data-dir", "default.NAME", "Folder of the embedded etcd.", _ETCD),
    KeyEffect("max-txn-ops", "2048", "Limit of operations in one etcd transaction.", _ETCD),
    KeyEffect("max-request-bytes", "1572864", "Largest request to etcd.", _ETCD),
    KeyEffect("auto-compaction-mode", "periodic", "periodic or revision.", _ETCD),
    KeyEffect("auto-compaction-retention", "1h", "How much of etcd's history stays.", _ETCD),
    KeyEffect("quota-backend-bytes", "2147483648", "Largest size of etcd's data; at least 500 MiB.", _ETCD),
    KeyEffect("openapi", "false", "Serves the OpenAPI below /api/v1.", "dm_master/server.py"),
    KeyEffect("experimental.openapi", "false", "Older spelling of openapi.", "pkg/config/master.py"),
    KeyEffect("console", "true", "Serve the console, the cluster in a browser, at `/`.", "dm_master/server.py"),
    KeyEffect(
        "console-users-path",
        "",
        "File of the console's users, a line for each as `dmctl console-user` prints it; empty: no logins.",
        "dm_master/server.py",
    ),
    KeyEffect("rpc-timeout", "30s", "How long a request to a worker may take.", "dm_master/server.py"),
    KeyEffect("rpc-rate-limit", "10.0", "Requests per second to one worker.", "dm_master/server.py"),
    KeyEffect("rpc-rate-burst", "40", "Requests to one worker that may come together.", "dm_master/server.py"),
    KeyEffect("v1-sources-path", "", "Refused (38053): importing sources of DM 1.0 is not supported.", kind="refused"),
    KeyEffect(
        "secret-key-path",
        "",
        "File of the key that passwords are encrypted with.",
        "dm_master/service/config_service.py",
    ),
    KeyEffect("allowed-hosts", "[]", "Further host names for HTTP requests.", "dm_master/server.py"),
    KeyEffect("etcd-endpoints", "[]", "An etcd to use instead of the embedded one.", "dm_master/server.py"),
    KeyEffect(
        "etcd-username",
        "",
        "User of etcd. A new embedded etcd asks for the password of root from its first start on.",
        "dm_master/server.py",
    ),
    KeyEffect(
        "etcd-password-path",
        "",
        "File with the password of etcd's user; it is read at each login.",
        "dm_master/server.py",
    ),
    KeyEffect("etcd-client-urls", "port + 1000", "URL where the embedded etcd serves the cluster's programs.", _ETCD),
    KeyEffect(
        "election-ttl",
        "60",
        "Seconds without a heartbeat after which a leader is replaced.",
        "dm_master/server.py",
    ),
)

_SERVER = "dm_worker/server.py"
WORKER_EFFECTS: tuple[KeyEffect, ...] = (
    *_common("dm_worker/cli.py", _TLS),
    KeyEffect("name", "advertise-addr", "Name of this worker.", _SERVER),
    KeyEffect("worker-addr", "required", "Address to listen on.", _SERVER),
    KeyEffect("advertise-addr", "worker-addr", "Address at which masters reach this worker.", _SERVER),
    KeyEffect("join", "required", "Addresses of the masters.", _SERVER),
    KeyEffect("keepalive-ttl", "60", "Seconds without a heartbeat after which this worker is offline.", _SERVER),
    KeyEffect(
        "relay-keepalive-ttl",
        "1800",
        "Keepalive-ttl also applies to a worker with a relay log; its successor fetches what is missing.",
        kind="warned",
    ),
    KeyEffect("relay-dir", "", "Folder for relay logs, over the source's.", _SERVER),
    KeyEffect("redact-info-log", "false", "Hides the values of rows in logs.", "dm_worker/cli.py"),
    KeyEffect("secret-key-path", "", "Copy of the masters' key, needed without mutual TLS.", _SERVER),
    KeyEffect("etcd-username", "", "User of etcd, if it asks for passwords.", _SERVER),
    KeyEffect("etcd-password-path", "", "File with the password of etcd's user; it is read at each login.", _SERVER),
    KeyEffect("spark.master", "embedded", "Spark cluster to use.", _SERVER),
    KeyEffect("spark.slots", "0", "Parallel tasks; 0 is 16.", _SERVER),
    KeyEffect("spark.driver-memory", "", "Memory of the driver's JVM, at least 480m.", _SERVER),
    KeyEffect("spark.memory-budget", "1g", "Memory for events and rows of each subtask, at least 32m.", _SERVER),
    KeyEffect("spark.executor-timeout", "120", "Seconds that a cluster may take to start executors.", _SERVER),
    KeyEffect(
        "spark.private-network",
        "false",
        "true: the cluster's network needs no protection by Spark.",
        "dm_worker/engine/security.py",
    ),
    KeyEffect("spark.conf", "{}", "Any of Spark's own settings.", _SERVER),
)


def settings_warnings(effects: Iterable[KeyEffect], changed: Collection[str], rotate: str) -> list[str]:
    """Sentences about the settings without effect among ``changed``, the fields with a value other than the default."""
    ignored = (one for one in effects if one.kind == "warned" and one.key.replace("-", "_") in changed)
    found = [warning(one.key, "", one.effect) for one in ignored]
    if is_by_time(rotate):
        found.append(warning("log-rotate", "", f"{rotate!r} is taken as 512MiB, the size at which DM rotates"))
    return found
