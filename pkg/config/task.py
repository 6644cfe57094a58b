"""Task files (``start-task``): strict YAML in, :class:`TaskConfig` out, every rule resolved by its name.

Settings of DM that are not supported yet are parsed in full and then refused with their location: a setting is applied
or refused, never ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from pkg.config import unit_blocks
from pkg.config.effects.effect import warning, warnings_about
from pkg.config.effects.task_keys import TASK_EFFECTS, TASK_KEYS
from pkg.config.fields import read_block
from pkg.config.keys import TASK
from pkg.config.model import (
    InstanceConfig,
    LoaderConfig,
    Meta,
    MydumperConfig,
    SyncerConfig,
    TaskConfig,
    TaskMode,
    ValidatorConfig,
)
from pkg.config.source import LONGEST_SOURCE_ID
from pkg.config.target_session import check_target_session
from pkg.config.task_values import task_mode
from pkg.errors import Code, ErrorKind
from pkg.rules import yaml_blocks
from pkg.rules.model import (
    BinlogFilterRule,
    BlockAllowList,
    ColumnMappingRule,
    ExpressionFilter,
    RouteRule,
)
from pkg.settings.connections import DBConfig
from pkg.settings.database import read_database
from pkg.settings.options import nearest
from pkg.settings.yaml_reader import REDACTED, Section, read_document, tidy_yaml

_T = TypeVar("_T")


def load_task(text: str, path: str = "task.yaml") -> TaskConfig:
    """Reads a task file. Every error is a DMError with its location; codes as in DM (20001 … 20070)."""
    return _TaskReader(read_document(text, path, TASK), []).read(text)


def task_to_yaml(task: TaskConfig | str, *, redact: bool = True, password: str = REDACTED) -> str:
    """The task's file again: keys in a fixed order, comments dropped. With ``redact`` secrets become ``******`` and the
    password ``password``."""
    text = task if isinstance(task, str) else task.text
    return tidy_yaml(text, "task.yaml", TASK, redact=redact, password=password)


def read_instances(top: Section, target: DBConfig, warnings: list[str]) -> tuple[InstanceConfig, ...]:
    """The upstreams of another file that has rules as a task file has them, in its order."""
    return _TaskReader(top, warnings).instances("all", target)


@dataclass
class _NamedBlocks:
    """The entries of one global map, and those that the instances have named."""

    key: str
    not_found: ErrorKind
    sections: Mapping[str, Section]
    used: set[str] = field(default_factory=set)

    def take(self, name: str, instance: Section, instance_key: str) -> Section:
        section = self.sections.get(name)
        if section is None:
            near = nearest(name, list(self.sections))
            raise instance.error(
                self.not_found,
                instance_key,
                f"{instance_key} names {name!r}, which {self.key} does not have",
                f"Did you mean {near!r}?" if near else f"Add {name!r} to {self.key}.",
            )
        self.used.add(name)
        return section


class _TaskReader:
    """Reads one task document from the top-level keys to the instances."""

    def __init__(self, top: Section, warnings: list[str]) -> None:
        self._top = top
        self._warnings = warnings
        self._case_sensitive = top.flag("case-sensitive", False)

    def read(self, text: str) -> TaskConfig:
        top = self._top
        mode = task_mode(top, "task-mode")
        self._note_older_spellings()
        target_section = top.section("target-database")
        if target_section is None:
            raise top.error(
                Code.ConfigNeedTargetDB,
                "target-database",
                "target-database is missing",
                "Add host, port, user, password.",
            )
        target = read_database(target_section, Code.ConfigNeedTargetDB, self._warnings)
        check_target_session(target_section, target, self._warnings)
        instances = self.instances(mode, target)
        self._note_deprecated()
        self._note_partly_honoured(mode, instances)
        warnings = tuple(dict.fromkeys(self._warnings))
        return read_block(top, TASK_KEYS, TaskConfig, target=target, instances=instances, warnings=warnings, text=text)

    def _note_older_spellings(self) -> None:
        if self._top.has("is-sharding"):
            self._warnings.append("is-sharding is deprecated: use shard-mode")
        if self._top.text("online-ddl-scheme"):
            self._warnings.append("online-ddl-scheme is deprecated: use online-ddl")

    def _note_deprecated(self) -> None:
        self._warnings += warnings_about(self._top, "", (one for one in TASK_EFFECTS if one.key == one.name))

    def _note_partly_honoured(self, mode: TaskMode, instances: Sequence[InstanceConfig]) -> None:
        """Keys that have an effect in other tasks, but not in this one."""
        top = self._top
        if "load" in mode and top.has("clean-dump-file") and top.flag("clean-dump-file", True):
            reason = f"in task-mode {mode} the files are of another task, and stay"
            self._warnings.append(warning("clean-dump-file", "", reason))
        if top.text("timezone") and not any(instance.expression_filters for instance in instances):
            reason = "rows are transferred in UTC, and no expression filter reads a TIMESTAMP"
            self._warnings.append(warning("timezone", "", reason))

    # the global maps

    def _maps(self) -> dict[str, _NamedBlocks]:
        top = self._top
        old, new = top.sections("black-white-list"), top.sections("block-allow-list")
        if old:
            effect = "is not used beside block-allow-list" if new else "is deprecated: use block-allow-list"
            self._warnings.append(f"black-white-list {effect}")
        names = {
            "routes": Code.ConfigRouteRuleNotFound,
            "filters": Code.ConfigFilterRuleNotFound,
            "expression-filter": Code.ConfigExprFilterNotFound,
            "column-mappings": Code.ConfigColumnMappingNotFound,
            "mydumpers": Code.ConfigMydumperCfgNotFound,
            "loaders": Code.ConfigLoaderCfgNotFound,
            "syncers": Code.ConfigSyncerCfgNotFound,
            "validators": Code.ContinuousValidatorCfgNotFound,
        }
        maps = {key: _NamedBlocks(key, not_found, top.sections(key)) for key, not_found in names.items()}
        lists = _NamedBlocks(
            "block-allow-list" if new or not old else "black-white-list", Code.ConfigBAListNotFound, new or old
        )
        return {**maps, "block-allow-list": lists}

    def _check_unused(self, maps: Mapping[str, _NamedBlocks]) -> None:
        """Warns about a block that no instance names: it has no effect, and users lost safe-mode that way."""
        for named in maps.values():
            unused = sorted(set(named.sections) - named.used)
            if unused:
                raise named.sections[unused[0]].error(
                    Code.ConfigGlobalConfigsUnused,
                    "",
                    f"{named.key}: no entry of mysql-instances names {', '.join(map(repr, unused))}",
                    "Name it in an instance, or remove it.",
                )

    # the instances

    def instances(self, mode: TaskMode, target: DBConfig) -> tuple[InstanceConfig, ...]:
        maps = self._maps()
        sections = self._top.items("mysql-instances")
        if not sections:
            raise self._top.error(
                Code.ConfigMySQLInstsAtLeastOne, "mysql-instances", "mysql-instances is empty", "Add a source-id."
            )
        seen: set[str] = set()
        instances = []
        for section in sections:
            source_id = _source_id(section)
            if source_id in seen:
                raise section.error(
                    Code.ConfigMySQLInstSameSourceID,
                    "source-id",
                    f"source-id {source_id!r} is in two entries of mysql-instances",
                    "Give each source one entry.",
                )
            seen.add(source_id)
            instances.append(self._instance(section, source_id, maps, mode, target))
        self._check_unused(maps)
        return tuple(instances)

    def _instance(
        self, section: Section, source_id: str, maps: Mapping[str, _NamedBlocks], mode: TaskMode, target: DBConfig
    ) -> InstanceConfig:
        binlog_filters = self._filters(section, maps["filters"])
        column_mappings = self._column_mappings(section, maps["column-mappings"])
        expression_filters = self._expression_filters(section, maps["expression-filter"])
        lists, mydumper = self._block_allow_list(section, maps["block-allow-list"]), self._mydumper(section, maps)
        unit_blocks.check_tables_list(section, mydumper, lists)
        syncer, syncer_section = self._syncer(section, maps)
        unit_blocks.check_foreign_keys(syncer_section, syncer, target)
        name = section.text("validator-config-name")
        block = maps["validators"].take(name, section, "validator-config-name") if name else None
        return InstanceConfig(
            source_id=source_id,
            meta=self._meta(section, mode),
            routes=self._routes(section, maps["routes"]),
            filters=binlog_filters,
            expression_filters=expression_filters,
            column_mappings=column_mappings,
            block_allow_list=lists,
            mydumper=mydumper,
            loader=self._loader(section, maps),
            syncer=syncer,
            validator=self._read(block, unit_blocks.read_validator, ValidatorConfig()),
        )

    def _meta(self, section: Section, mode: TaskMode) -> Meta | None:
        inner = section.section("meta")
        if inner is None:
            return None
        meta = Meta(inner.text("binlog-name"), inner.whole("binlog-pos", 0, most=2**63 - 1), inner.text("binlog-gtid"))
        if mode not in ("incremental", "load&sync"):
            self._warnings.append(f"meta of {section.text('source-id')} has no effect in task-mode {mode}")
            return None
        if not meta.binlog_name and not meta.binlog_gtid:
            raise inner.error(
                Code.ConfigMetaInvalid,
                "binlog-name",
                "must specify `binlog-name` without GTID enabled for the source, or `binlog-gtid` with GTID enabled",
                "Add one of them to meta.",
            )
        return meta

    def _routes(self, section: Section, named: _NamedBlocks) -> tuple[RouteRule, ...]:
        blocks = [named.take(name, section, "route-rules") for name in _distinct(section, "route-rules")]
        rules = tuple(yaml_blocks.read_route(block, self._case_sensitive) for block in blocks)
        yaml_blocks.check_routes(rules, self._case_sensitive, section, "route-rules")
        return rules

    def _filters(self, section: Section, named: _NamedBlocks) -> tuple[BinlogFilterRule, ...]:
        rules = tuple(
            yaml_blocks.read_filter(named.take(name, section, "filter-rules"))
            for name in _distinct(section, "filter-rules")
        )
        yaml_blocks.check_filters(rules, self._case_sensitive, section, "filter-rules")
        return rules

    def _column_mappings(self, section: Section, named: _NamedBlocks) -> tuple[ColumnMappingRule, ...]:
        key = "column-mapping-rules"
        rules = tuple(
            yaml_blocks.read_column_mapping(named.take(name, section, key), self._warnings)
            for name in _distinct(section, key)
        )
        yaml_blocks.check_column_mappings(rules, self._case_sensitive, section, key)
        return rules

    def _expression_filters(self, section: Section, named: _NamedBlocks) -> tuple[ExpressionFilter, ...]:
        key = "expression-filters"
        return tuple(
            yaml_blocks.read_expression_filter(named.take(name, section, key)) for name in _distinct(section, key)
        )

    def _block_allow_list(self, section: Section, named: _NamedBlocks) -> BlockAllowList:
        key = "block-allow-list" if section.text("block-allow-list") else "black-white-list"
        name = section.text(key)
        if not name:
            return BlockAllowList()
        return yaml_blocks.read_block_allow_list(named.take(name, section, key), self._case_sensitive)

    def _mydumper(self, section: Section, maps: Mapping[str, _NamedBlocks]) -> MydumperConfig:
        block = _unit_block(section, "mydumper", maps["mydumpers"], Code.ConfigMydumperCfgConflict)
        config = self._read(block, unit_blocks.read_mydumper, MydumperConfig())
        threads = section.whole("mydumper-thread", 0)
        return replace(config, threads=threads) if threads else config

    def _loader(self, section: Section, maps: Mapping[str, _NamedBlocks]) -> LoaderConfig:
        block = _unit_block(section, "loader", maps["loaders"], Code.ConfigLoaderCfgConflict)
        config = self._read(block, unit_blocks.read_loader, LoaderConfig())
        threads = section.whole("loader-thread", 0)
        return replace(config, pool_size=threads) if threads else config

    def _syncer(self, section: Section, maps: Mapping[str, _NamedBlocks]) -> tuple[SyncerConfig, Section]:
        block = _unit_block(section, "syncer", maps["syncers"], Code.ConfigSyncerCfgConflict)
        config = self._read(block, unit_blocks.read_syncer, SyncerConfig())
        threads = section.whole("syncer-thread", 0)
        return (replace(config, worker_count=threads) if threads else config), block or section

    def _read(self, block: Section | None, reader: Callable[[Section, list[str]], _T], default: _T) -> _T:
        return default if block is None else reader(block, self._warnings)


def _source_id(section: Section) -> str:
    source_id = section.text("source-id")
    if not source_id:
        raise section.error(Code.ConfigEmptySourceID, "source-id", "source-id is missing", "Name a created source.")
    if len(source_id) > LONGEST_SOURCE_ID:
        raise section.error(
            Code.ConfigTooLongSourceID,
            "source-id",
            f"source-id has {len(source_id)} characters, at most {LONGEST_SOURCE_ID} are allowed",
            "Name a created source.",
        )
    return source_id


def _distinct(section: Section, key: str) -> Sequence[str]:
    names = section.strings(key)
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise section.error(
            Code.ConfigDuplicateCfgItem, key, f"{key} names {doubled[0]!r} more than once", "Name it once."
        )
    return names


def _unit_block(section: Section, unit: str, named: _NamedBlocks, conflict: ErrorKind) -> Section | None:
    """The block for one unit of an instance: its own, or the global one that it names."""
    name_key = f"{unit}-config-name"
    name, own = section.text(name_key), section.section(unit)
    if name and own:
        raise section.error(
            conflict, unit, f"{unit} and {name_key} exclude each other", f"Remove {unit} or {name_key}."
        )
    return named.take(name, section, name_key) if name else own
