"""dm-worker's settings: flags over a strict TOML file, checked and completed with DM's defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib import resources
from typing import Any

from pkg import errors
from pkg.config.effects.program_keys import option_effects, settings_warnings
from pkg.config.master import security_settings
from pkg.errors import Code
from pkg.settings.connections import SecurityConfig
from pkg.settings.encrypt import read_secret_key
from pkg.settings.etcd_user import EtcdUser, read_etcd_user
from pkg.settings.options import (
    Option,
    OptionErrors,
    check_logging,
    common_options,
    location_of,
    read_settings,
    take_security,
    to_toml,
    usage,
)
from pkg.settings.units import is_unspecified, join_address, parse_size, split_address

CODES = OptionErrors(
    flags=Code.WorkerParseFlagSet,
    arguments=Code.WorkerInvalidFlag,
    unknown_key=Code.WorkerUndecodedItemFromFile,
    toml=Code.WorkerDecodeConfigFromFile,
)

_SERVER = "dm_worker/server.py"
OPTIONS = (
    *common_options("dm_worker/cli.py"),
    Option("name", effect="Name of this worker, unique in the cluster.", default="advertise-addr", acts=_SERVER),
    Option("worker-addr", effect="Address to listen on, host:port or :port.", default="required", acts=_SERVER),
    Option("advertise-addr", effect="Address at which masters reach this worker.", default="worker-addr", acts=_SERVER),
    Option("join", effect="Addresses of the masters.", default="required", acts=_SERVER),
    Option(
        "keepalive-ttl",
        "int",
        "Seconds without a heartbeat after which this worker is offline.",
        default="60",
        acts=_SERVER,
    ),
    Option(
        "relay-keepalive-ttl",
        "int",
        "Keepalive-ttl also applies to a worker with a relay log; its successor fetches what is missing.",
        default="1800",
        effect_kind="warned",
    ),
    Option("relay-dir", effect="Folder for relay logs, over the source's.", acts=_SERVER),
    Option("redact-info-log", "bool", "Hides the values of rows in logs.", default="false", acts="dm_worker/cli.py"),
    Option(
        "secret-key-path", effect="Copy of the masters' key, 64 hex digits; needed without mutual TLS.", acts=_SERVER
    ),
    Option("etcd-username", effect="User of etcd, if it asks for passwords.", acts=_SERVER),
    Option(
        "etcd-password-path", effect="File with the password of etcd's user; it is read at each login.", acts=_SERVER
    ),
    Option("spark.master", effect="Spark cluster to use.", default="embedded", acts=_SERVER, flag=False),
    Option("spark.slots", "int", "Parallel tasks; 0 is 16.", default="0", acts=_SERVER, flag=False),
    Option("spark.driver-memory", effect="Memory of the driver's JVM, at least 480m.", acts=_SERVER, flag=False),
    Option(
        "spark.memory-budget",
        effect="Memory for events and rows of each subtask, at least 32m.",
        default="1g",
        acts=_SERVER,
        flag=False,
    ),
    Option(
        "spark.executor-timeout",
        "int",
        "Seconds that a cluster may take to start executors.",
        default="120",
        acts=_SERVER,
        flag=False,
    ),
    Option(
        "spark.private-network",
        "bool",
        "true: the cluster's network needs no protection by Spark.",
        default="false",
        acts="dm_worker/engine/security.py",
        flag=False,
    ),
    Option("spark.conf", "map", "Any of Spark's own settings.", default="{}", acts=_SERVER, flag=False),
)
#: The rows about the file's keys, in the order of the page.
WORKER_EFFECTS = option_effects(OPTIONS)


#: With less memory, batches would hold only a few events.
LEAST_MEMORY_BUDGET = 32 << 20
#: Spark refuses a heap below 450 MiB, without the collector's reserve (a thirtieth).
LEAST_DRIVER_MEMORY = 480 << 20
#: Slots of the embedded engine without a setting.
DEFAULT_SLOTS = 16
#: A heap's size in Java's form: one letter for the unit.
_HEAP = re.compile(r"([0-9]+)([kmgt]?)", re.IGNORECASE)
#: The default of Spark's own spark.redaction.regex, and passwords of key stores.
_SECRET = re.compile(r"(?i)secret|password|token|access[.]?key|credential")


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """The engine: ``master`` is empty for the embedded one, ``slots`` 0 for its default, ``conf`` Spark's own settings.

    ``private_network`` permits a cluster without authentication and encryption. ``executor_timeout`` is the maximum
    seconds for a cluster to start executors. ``memory_budget`` is the maximum memory of each subtask's replication,
    such as ``1g``; empty for its default.
    """

    master: str = ""
    slots: int = 0
    driver_memory: str = ""
    memory_budget: str = ""
    executor_timeout: int = 120
    private_network: bool = False
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def embedded_slots(self) -> int:
        """The slots of the embedded engine; 0 if a Spark cluster is used, whose executors decide."""
        return 0 if self.master else self.slots or DEFAULT_SLOTS

    def shown(self) -> dict[str, Any]:
        """The settings as TOML's values; possible secrets are hidden, by Spark's own rule."""
        conf = {key: "******" if _SECRET.search(key) else value for key, value in self.conf.items()}
        plain = {"master": self.master, "slots": self.slots, "driver-memory": self.driver_memory}
        plain["memory-budget"] = self.memory_budget
        timeout, private = self.executor_timeout, self.private_network
        return {**plain, "executor-timeout": timeout, "private-network": private, "conf": conf}


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """Checked settings of a dm-worker. TTLs are seconds.

    ``version``, ``print_sample_config`` and ``help`` request text instead of a run; the rest is unchecked then.
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
    redact_info_log: bool = False
    worker_addr: str = ""
    advertise_addr: str = ""
    join: str = ""
    keepalive_ttl: int = 60
    relay_keepalive_ttl: int = 1800
    relay_dir: str = ""
    secret_key_path: str = ""
    etcd_username: str = ""
    etcd_password_path: str = ""
    security: SecurityConfig | None = None
    spark: SparkSettings = SparkSettings()
    secret_key: bytes = field(default=b"", repr=False)

    @property
    def listen(self) -> tuple[str, int]:
        """Host and port to listen on; the host may be empty for all interfaces."""
        return split_address(self.worker_addr)

    @property
    def etcd_user(self) -> EtcdUser | None:
        """This worker's login to etcd; None if etcd requires no password."""
        return EtcdUser(self.etcd_username, self.etcd_password_path) if self.etcd_username else None

    @property
    def master_addresses(self) -> tuple[str, ...]:
        """The masters of ``join`` as host:port; ``:8261`` means this machine."""
        return tuple(_master_address(part) for part in self.join.split(",") if part.strip())

    def warnings(self) -> list[str]:
        """Sentences about given settings without effect."""
        default = type(self)()
        changed = [f.name for f in fields(self) if getattr(self, f.name) != getattr(default, f.name)]
        return settings_warnings(WORKER_EFFECTS, changed, self.log_rotate)

    def to_toml(self) -> str:
        """The effective settings, without any secret."""
        hidden = {"config", "version", "print_sample_config", "help", "security", "secret_key", "spark"}
        shown: dict[str, Any] = {
            f.name.replace("_", "-"): getattr(self, f.name) for f in fields(self) if f.name not in hidden
        }
        return to_toml({**shown, **security_settings(self.security), "spark": self.spark.shown()})


def load_worker_config(argv: Sequence[str]) -> WorkerConfig:
    """Reads the command line (without the program's name) and the file that it names.

    Raises 40001, 40002 (flags), 20018 (unreadable file), 40003 (TOML, wrong type), 40004 (unknown key), 40069
    (addresses) or 20067 (secret key).
    """
    if any(word in ("-h", "-help", "--help") for word in argv):
        return WorkerConfig(help=True)
    values = read_settings(argv, OPTIONS, CODES)
    security = take_security(values)
    spark = {name: values.pop(f"spark_{name}") for name in SparkSettings.__slots__ if f"spark_{name}" in values}
    config = WorkerConfig(**values, security=security, spark=SparkSettings(**spark))
    if config.version or config.print_sample_config:
        return config
    return _adjust(config)


def _check_budget(text: str, location: str) -> None:
    try:
        enough = not text or parse_size(text) >= LEAST_MEMORY_BUDGET
    except ValueError:
        enough = False
    if not enough:
        raise errors.new(
            Code.WorkerDecodeConfigFromFile,
            f"{location}spark.memory-budget {text!r} is not a size of at least {LEAST_MEMORY_BUDGET >> 20}m",
            workaround='Write it like "1g" or "512m".',
        )


def _check_heap(key: str, text: str, location: str) -> None:
    found = _HEAP.fullmatch(text)
    if found is None or int(found[1]) << " kmgt".index(found[2].lower() or " ") * 10 < LEAST_DRIVER_MEMORY:
        raise errors.new(
            Code.WorkerDecodeConfigFromFile,
            f"{location}{key} {text!r} is not a size of at least {LEAST_DRIVER_MEMORY >> 20}m, which Spark needs",
            workaround='Write it like "1g" or "512m", with one letter for the unit.',
        )


def _adjust(config: WorkerConfig) -> WorkerConfig:
    check_logging(config.log_level, config.log_format, config.log_rotate, CODES)
    for key in ("keepalive-ttl", "relay-keepalive-ttl"):
        if getattr(config, key.replace("-", "_")) <= 0:
            raise errors.new(Code.WorkerDecodeConfigFromFile, f"{key} must be positive", workaround="Remove it.")
    _check_spark(config.spark, config.config)
    host = _checked_host("worker-addr", config.worker_addr)
    if config.advertise_addr:
        advertise = config.advertise_addr
        host = _checked_host("advertise-addr", advertise)
    else:
        advertise = config.worker_addr
    if is_unspecified(host):
        key = "advertise-addr" if config.advertise_addr else "worker-addr"
        raise errors.new(
            Code.WorkerHostPortNotValid,
            f"{key} {advertise!r} has no host that others can reach"
            + ("" if config.advertise_addr else ", and advertise-addr is not set"),
            workaround="Set advertise-addr to this machine's host:port.",
        )
    _check_join(config)
    read_etcd_user(config.etcd_username, config.etcd_password_path, Code.WorkerDecodeConfigFromFile)
    return replace(
        config,
        advertise_addr=advertise,
        name=config.name or advertise,
        secret_key=read_secret_key(config.secret_key_path),
    )


def _check_spark(spark: SparkSettings, path: str) -> None:
    """``path`` is the file of the settings, for errors."""
    if spark.slots < 0:
        raise errors.new(Code.WorkerDecodeConfigFromFile, "spark.slots must not be negative", workaround="Remove it.")
    _check_budget(spark.memory_budget, location_of(path, "spark.memory-budget"))
    if spark.driver_memory:
        _check_heap("spark.driver-memory", spark.driver_memory, location_of(path, "spark.driver-memory"))
    if heap := spark.conf.get("spark.driver.memory"):
        _check_heap("spark.driver.memory", heap, location_of(path, "spark.conf"))
    if spark.executor_timeout <= 0:
        raise errors.new(
            Code.WorkerDecodeConfigFromFile, "spark.executor-timeout must be positive", workaround="Remove it."
        )
    if spark.conf.get("spark.dynamicAllocation.enabled", "false").strip().lower() == "true":
        raise errors.new(
            Code.WorkerDecodeConfigFromFile,
            "spark.dynamicAllocation.enabled is not supported: a consistent dump starts all of its tasks at once",
            workaround="Remove it, and give the worker a fixed number of executors: `slots` on a standalone cluster, "
            "spark.executor.instances and spark.executor.cores on YARN and Kubernetes.",
        )


def _checked_host(key: str, address: str) -> str:
    try:
        return split_address(address)[0]
    except ValueError as exc:
        raise errors.new(
            Code.WorkerHostPortNotValid,
            f"{key} {address!r} is not valid",
            raw=exc,
            workaround=f"Set {key} to host:port, such as 192.168.0.1:8262.",
        ) from None


def _check_join(config: WorkerConfig) -> None:
    workaround = "Set join to the masters' addresses, such as 192.168.0.1:8261,192.168.0.2:8261."
    try:
        masters = config.master_addresses
    except ValueError as exc:
        raise errors.new(
            Code.WorkerHostPortNotValid, f"join {config.join!r} is not valid", raw=exc, workaround=workaround
        ) from None
    if not masters:
        raise errors.new(Code.WorkerHostPortNotValid, "join is not set", workaround=workaround)


def _master_address(text: str) -> str:
    bare = text.strip().removeprefix("http://").removeprefix("https://").rstrip("/")
    host, port = split_address(bare)
    return join_address(host or "127.0.0.1", port)


def sample_worker_config() -> str:
    """The output of ``-print-sample-config``: the commented sample file."""
    return resources.files("pkg.config.samples").joinpath("dm-worker.toml").read_text(encoding="utf-8")


def worker_usage() -> str:
    """The output of ``-h``."""
    return usage("dm-worker", OPTIONS)
