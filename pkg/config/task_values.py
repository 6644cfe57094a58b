"""The top-level values of a task file that need more than a type and choices. Errors name their location."""

from __future__ import annotations

from typing import cast, get_args

from pkg.config.model import ShardMode, TaskMode
from pkg.errors import Code
from pkg.rules.online_tables import compile_online_rule
from pkg.settings.options import nearest
from pkg.settings.units import check_timezone
from pkg.settings.yaml_reader import Section

#: Items of ``ignore-checking-items``; those from *rules* on are our own.
CHECKING_ITEMS = (
    "all", "version", "server_id", "binlog_enable", "binlog_format", "binlog_row_image", "binlog_db",
    "dump_privilege", "replication_privilege", "target_privilege", "conn_number", "online_ddl", "meta_position",
    "table_schema", "schema_of_shard_tables", "auto_increment_ID", "empty_region", "region_distribution",
    "downstream_version", "free_space", "downstream_mutex_features", "downstream_table_empty", "primary_key",
    "rules", "foreign_keys", "table_engine",
)  # fmt: skip


def task_mode(section: Section, key: str) -> TaskMode:
    """Raises 20020."""
    mode, allowed = section.text(key), get_args(TaskMode)
    if mode not in allowed:
        raise section.error(
            Code.ConfigInvalidTaskMode,
            key,
            f"{key} {mode!r} is not valid" if mode else f"{key} is missing",
            f"Set one of {', '.join(allowed)}.",
        )
    return cast(TaskMode, mode)


def shard_mode(section: Section, key: str) -> ShardMode:
    """Raises 20033, and 20066 for strict-optimistic-shard-mode without the mode."""
    kind = Code.ConfigShardModeNotSupport
    mode, old = section.text(key), section.flag("is-sharding", False)
    if mode not in ("", "pessimistic", "optimistic"):
        raise section.error(kind, key, f"{key} {mode!r} is not valid", "Set pessimistic or optimistic.")
    if old and mode == "optimistic":
        raise section.error(
            kind,
            "is-sharding",
            "is-sharding contradicts shard-mode; please use `shard-mode` only.",
            "Remove is-sharding.",
        )
    if section.flag("strict-optimistic-shard-mode", False) and mode != "optimistic":
        raise section.error(
            Code.ConfigStrictOptimisticShardMode,
            "strict-optimistic-shard-mode",
            "strict-optimistic-shard-mode needs shard-mode: optimistic",
            "Remove it.",
        )
    if mode == "optimistic":
        raise section.error(
            kind,
            key,
            f"{key} 'optimistic' is not supported yet",
            "Set pessimistic: then all shards run the same DDL in the same order, and the target gets it once.",
        )
    return "pessimistic" if mode or old else ""


def check_online_scheme(section: Section, key: str) -> None:
    """Raises 20007."""
    scheme = section.text(key)
    if scheme not in ("", "gh-ost", "pt"):
        raise section.error(
            Code.ConfigOnlineSchemeNotSupport,
            key,
            f"{key} {scheme!r} is not valid",
            "Remove it and set online-ddl: true.",
        )


def online_ddl(section: Section, key: str) -> bool:
    """The older spelling also turns it on."""
    return section.flag(key, True) or bool(section.text("online-ddl-scheme"))


def online_rules(section: Section, key: str) -> tuple[str, ...] | None:
    """Raises 20048 for an expression that does not name the real table."""
    rules = []
    for rule in section.strings(key):
        anchored = f"{'' if rule.startswith('^') else '^'}{rule}{'' if rule.endswith('$') else '$'}"
        try:
            groups = compile_online_rule(anchored).groups
        except ValueError as exc:
            raise section.error(
                Code.ConfigOnlineDDLInvalidRegex, key, f"{key}: {rule!r} does not compile: {exc}", "Correct it."
            ) from None
        if groups != 1:
            raise section.error(
                Code.ConfigOnlineDDLInvalidRegex,
                key,
                f"{key}: {rule!r} has {groups} groups instead of one, the real table's name",
                "Mark just the real name with ( ); use (?: ) for other groups.",
            )
        rules.append(anchored)
    return tuple(rules) or None


def checking_items(section: Section, key: str) -> tuple[str, ...]:
    """Raises 20001 for an unknown item."""
    items = section.strings(key)
    for item in items:
        if item not in CHECKING_ITEMS:
            near = nearest(item, CHECKING_ITEMS)
            raise section.error(
                Code.ConfigCheckItemNotSupport,
                key,
                f"checking item {item!r} is unknown",
                f"Did you mean {near!r}?" if near else f"Use some of {', '.join(CHECKING_ITEMS)}.",
            )
    return items


def timezone(section: Section, key: str) -> str:
    """Raises 20008."""
    zone = section.text(key)
    try:
        check_timezone(zone)
    except ValueError as exc:
        raise section.error(
            Code.ConfigInvalidTimezone,
            key,
            f"{key} {exc}",
            "Name a zone such as Asia/Shanghai, or an offset such as +08:00.",
        ) from None
    return zone


def check_async_flush(section: Section, key: str) -> None:
    """Raises 20003 for true."""
    if section.flag(key, False):
        raise section.error(Code.ConfigYamlTransform, key, f"{key} is not supported yet", "Remove it.")
