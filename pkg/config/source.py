"""Source files (``operate-source create``): strict YAML in, :class:`SourceConfig` out, and back with secrets hidden."""

from __future__ import annotations

import dataclasses
from typing import Any

from pkg.binlog.gtid import parse_gtid_set
from pkg.binlog.position import file_number
from pkg.config.effects.effect import warning, warnings_about
from pkg.config.effects.source_keys import SOURCE_EFFECTS
from pkg.config.keys import SOURCE
from pkg.config.model import CheckerConfig, PurgeConfig, SourceConfig
from pkg.config.names import read_source_id
from pkg.config.source_session import check_source_session
from pkg.errors import Code, DMError
from pkg.rules.model import BinlogFilterRule
from pkg.rules.yaml_blocks import check_filters, read_filter
from pkg.settings.connections import DBConfig, SecurityConfig
from pkg.settings.database import read_database
from pkg.settings.units import format_duration
from pkg.settings.yaml_reader import REDACTED, Section, dump_yaml, read_document

_YAML = Code.ConfigYamlTransform


def load_source(text: str, path: str = "source.yaml", warnings: list[str] | None = None) -> SourceConfig:
    """Reads a source file; adds the keys without effect to ``warnings``.

    Raises 20003 (keys, types), 40005, 40006, 20003 (source-id), 40007 (relay-binlog-name), 11093, 11095
    (relay-binlog-gtid), 11010 (flavor), 20037 (filters) or 20043 (checker), each with its location.
    """
    notes = warnings if warnings is not None else []
    top = read_document(text, path, SOURCE)
    notes += warnings_about(top, "", (one for one in SOURCE_EFFECTS if one.key == one.name))
    if top.has("relay-dir"):
        notes.append("relay-dir of a source is deprecated: set relay-dir of the worker")
    database = top.section("from")
    if database is None:
        raise top.error(_YAML, "from", "from is missing", "Add host, port, user and password of the upstream.")
    notes += warnings_about(database, "from", (one for one in SOURCE_EFFECTS if one.key == f"from.{one.name}"))
    if database.has("session") and "time_zone" in dict(database.pairs("session")):
        notes.append(warning("time_zone", "from.session", "rows are read in UTC and stay the same"))
    server = read_database(database, _YAML, notes)
    check_source_session(database, dict(server.session))
    return SourceConfig(
        source_id=_source_id(top),
        from_=server,
        enable=top.flag("enable", True),
        enable_gtid=top.flag("enable-gtid", False),
        enable_relay=top.flag("enable-relay", False),
        relay_dir=top.text("relay-dir"),
        relay_binlog_name=_relay_binlog_name(top),
        relay_binlog_gtid=_relay_binlog_gtid(top, notes),
        flavor=_flavor(top),
        server_id=top.whole("server-id", 0, most=2**32 - 1),
        purge=_purge(top.section("purge")),
        checker=_checker(top.section("checker")),
        case_sensitive=top.flag("case-sensitive", False),
        filters=tuple(_filters(top)),
    )


def source_id_of(text: str, path: str) -> str:
    """The name of the source in a file. Raises 20003, 40005 or 40006."""
    return _source_id(read_document(text, path, SOURCE))


def _source_id(top: Section) -> str:
    return read_source_id(
        top, Code.WorkerNeedSourceID, Code.WorkerTooLongSourceID, "Give the source a short, unique name."
    )


def _relay_binlog_name(top: Section) -> str:
    name = top.text("relay-binlog-name")
    if name:
        try:
            file_number(name)
        except DMError as exc:
            raise top.error(
                Code.WorkerRelayBinlogName, "relay-binlog-name", exc.message, "Name a file such as mysql-bin.000001."
            ) from None
    return name


def _relay_binlog_gtid(top: Section, warnings: list[str]) -> str:
    """Checks the form here, where the location is known; without a flavor, either server's form is valid."""
    text = top.text("relay-binlog-gtid")
    if not text:
        return ""
    flavor = _flavor(top)
    problems = []
    for each in (flavor,) if flavor else ("mysql", "mariadb"):
        try:
            parse_gtid_set(text, each)
            break
        except DMError as exc:
            problems.append(exc)
    else:
        raise top.error(
            problems[0].kind,
            "relay-binlog-gtid",
            f"relay-binlog-gtid: {problems[0].message}",
            "Write a GTID set as the upstream shows it (MySQL: uuid:1-9, MariaDB: 0-1-9), or remove the key.",
        )
    if not top.flag("enable-gtid", False):
        warnings.append(warning("relay-binlog-gtid", "", "the source has enable-gtid: false"))
    return text


def _flavor(top: Section) -> str:
    flavor = top.text("flavor").lower()
    if flavor not in ("", "mysql", "mariadb"):
        raise top.error(
            Code.NotSupportedFlavor,
            "flavor",
            f"flavor {flavor!r} is not supported",
            "Set mysql or mariadb, or remove the key: the flavor is then read from the upstream.",
        )
    return flavor


def _purge(section: Section | None) -> PurgeConfig:
    default = PurgeConfig()
    if section is None:
        return default
    return PurgeConfig(
        interval=section.whole("interval", default.interval),
        expires=section.whole("expires", default.expires),
        remain_space=section.whole("remain-space", default.remain_space),
    )


def _checker(section: Section | None) -> CheckerConfig:
    default = CheckerConfig()
    if section is None:
        return default
    checker = CheckerConfig(
        check_enable=section.flag("check-enable", default.check_enable),
        backoff_rollback=section.seconds("backoff-rollback", default.backoff_rollback),
        backoff_max=section.seconds("backoff-max", default.backoff_max),
        check_interval=section.seconds("check-interval", default.check_interval),
        backoff_min=section.seconds("backoff-min", default.backoff_min),
        backoff_jitter=section.flag("backoff-jitter", default.backoff_jitter),
        backoff_factor=section.number("backoff-factor", default.backoff_factor),
    )
    if checker.backoff_max < checker.backoff_min:
        raise section.error(
            Code.ConfigCheckerMaxTooSmall,
            "backoff-max",
            f"backoff-max {format_duration(checker.backoff_max)} is less than"
            f" backoff-min {format_duration(checker.backoff_min)}",
            "Raise backoff-max.",
        )
    if checker.backoff_min <= 0 or checker.check_interval <= 0 or checker.backoff_rollback <= 0:
        raise section.error(_YAML, "backoff-min", "the checker's times must be positive", "Remove the key.")
    if checker.backoff_factor < 1:
        raise section.error(_YAML, "backoff-factor", "backoff-factor must be at least 1", "Remove the key.")
    return checker


def _filters(top: Section) -> list[BinlogFilterRule]:
    rules = [read_filter(section) for section in top.items("filters")]
    check_filters(rules, top.flag("case-sensitive", False), top, "filters")
    return rules


def source_to_yaml(config: SourceConfig, *, redact: bool = True, password: str = REDACTED) -> str:
    """The source as YAML, keys in DM's order; ``redact`` shows secrets as ``******``, the password as ``password``."""
    data = {
        "enable": config.enable,
        "enable-gtid": config.enable_gtid,
        "relay-dir": config.relay_dir,
        "flavor": config.flavor,
        "enable-relay": config.enable_relay,
        "relay-binlog-name": config.relay_binlog_name,
        "relay-binlog-gtid": config.relay_binlog_gtid,
        "source-id": config.source_id,
        "from": _database_data(config.from_, redact, password),
        "purge": _plain(config.purge),
        "checker": {
            **_plain(config.checker),
            "backoff-rollback": format_duration(config.checker.backoff_rollback),
            "backoff-max": format_duration(config.checker.backoff_max),
            "check-interval": format_duration(config.checker.check_interval),
            "backoff-min": format_duration(config.checker.backoff_min),
            "backoff-factor": _number(config.checker.backoff_factor),
        },
        "server-id": config.server_id,
        "case-sensitive": config.case_sensitive,
        "filters": [_plain(rule) for rule in config.filters],
    }
    return dump_yaml(data)


def _number(value: float) -> int | float:
    """Without ``.0``, as DM writes it."""
    return int(value) if value == int(value) else value


def _database_data(config: DBConfig, redact: bool, password: str) -> dict[str, Any]:
    return {
        "host": config.host,
        "port": config.port,
        "user": config.user,
        "password": password if redact and config.password else config.password,
        "session": dict(config.session),
        "security": None if config.security is None else _security_data(config.security, redact),
    }


def _security_data(security: SecurityConfig, redact: bool) -> dict[str, Any]:
    data: dict[str, Any] = {
        "ssl-ca": security.ssl_ca,
        "ssl-cert": security.ssl_cert,
        "ssl-key": security.ssl_key,
        "cert-allowed-cn": list(security.cert_allowed_cn),
    }
    for key in ("ssl-ca-bytes", "ssl-cert-bytes", "ssl-key-bytes"):
        content: bytes = getattr(security, key.replace("-", "_"))
        if content:
            data[key] = REDACTED if redact and key == "ssl-key-bytes" else content
    return data


def _plain(config: Any) -> dict[str, Any]:
    """A flat dataclass with its file's key names."""
    return {
        field.name.replace("_", "-"): list(value) if isinstance(value, tuple) else value
        for field in dataclasses.fields(config)
        for value in (getattr(config, field.name),)
    }
