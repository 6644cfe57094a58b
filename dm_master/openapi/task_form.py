"""Converts tasks between JSON and task files, in both directions without loss. Pure.

The JSON is DM's. Settings without a field in the JSON are in ``further_settings``, with the keys of the file, so that
the JSON gives the same task again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dm_master.openapi.models import ApiTask, ApiTaskTableMigrateRule
from dm_master.openapi.plain_yaml import plain_data
from dm_master.openapi.refusal import Refusal, bad_request
from dm_master.openapi.source_form import security_block, security_of
from pkg.config.model import InstanceConfig, LoaderConfig, MydumperConfig, SyncerConfig, TaskConfig
from pkg.config.task import load_task
from pkg.errors import DMError
from pkg.rules.model import BinlogFilterRule
from pkg.settings.yaml_reader import REDACTED, dump_yaml

#: Keys of a file that fields of the JSON represent completely.
_SAID = frozenset(
    {
        "name", "task-mode", "shard-mode", "strict-optimistic-shard-mode", "ignore-checking-items", "meta-schema",
        "timezone", "online-ddl", "target-database",
    }
)  # fmt: skip
#: Keys that must be given together or not at all.
_RULES = frozenset(
    {
        "mysql-instances", "routes", "filters", "expression-filter", "column-mappings", "block-allow-list",
        "black-white-list", "mydumpers", "loaders", "syncers", "validators",
    }
)  # fmt: skip
#: Fields of the JSON that these keys decide, when they are in ``further_settings``.
_DECIDED = ("table_migrate_rule", "binlog_filter_rule", "source_config", "on_duplicate")
_UNIT = "global"
_FURTHER = "further_settings"
_CONSISTENCY = re.compile(r"--consistency (\S+)")
#: A rule for several tables has several entries in the file: NAME.1, NAME.2 …
_NUMBERED = re.compile(r"(.+)\.[1-9][0-9]*")
_LOADER_KEYS = {
    "import_mode": "import-mode",
    "sorting_dir": "sorting-dir-physical",
    "disk_quota": "disk-quota-physical",
    "checksum": "checksum-physical",
    "analyze": "analyze",
    "range_concurrency": "range-concurrency",
    "compress-kv-pairs": "compress-kv-pairs",
    "pd_addr": "pd-addr",
    "on_duplicate_physical": "on-duplicate-physical",
}


def task_file(task: ApiTask) -> str:
    """The task as a file. Raises a refusal where the JSON contradicts its ``further_settings``."""
    further = task.get("further_settings", {})
    data = _file_data(task)
    if "mysql-instances" not in further:
        data |= _rules_data(task)
    target = {**data["target-database"], **further.get("target-database", {})}
    text = dump_yaml({**data, **further, "target-database": target})
    if "mysql-instances" in further:
        _refuse_contradictions(task, text)
    return text


def _refuse_contradictions(task: ApiTask, text: str) -> None:
    decided = _fields_of(load_task(text), plain_data(text))
    given = {**task, "binlog_filter_rule": task.get("binlog_filter_rule", {})}
    differing = [key for key in _DECIDED if decided.get(key) != given.get(key)]
    if differing:
        raise bad_request(
            f"{', '.join(differing)}: further_settings has the task's rules, and they differ",
            "Change them in further_settings, or remove mysql-instances and all of their blocks there.",
        )


def task_of(text: str, *, secrets: bool = False) -> ApiTask:
    """A task file as JSON; without ``secrets`` they are ``******``. Raises the reader's errors."""
    config, data = load_task(text), plain_data(text)
    task = _fields_of(config, data)
    further = {key: value for key, value in data.items() if key not in _SAID | _RULES}
    target = _further_target(config, data["target-database"])
    further |= {"target-database": target} if target else {}
    candidate = _with(task, further)
    if not _same(candidate, config):
        candidate = _with(task, further | {key: data[key] for key in data if key in _RULES})
        if not _same(candidate, config):
            raise bad_request(
                "the JSON form cannot represent this task file exactly",
                "Write numbers, true and false without quotes, as docs/configuration.md shows them.",
            )
    if not secrets:
        password = candidate["target_config"]["password"]
        candidate["target_config"]["password"] = REDACTED if password else ""
    elif "security" in candidate["target_config"]:
        key = data["target-database"]["security"].get("ssl-key-bytes", "")
        candidate["target_config"]["security"]["ssl_key_content"] = key
    return candidate


def _with(task: ApiTask, further: Mapping[str, Any]) -> ApiTask:
    return {**task, "further_settings": dict(further)} if further else task


def _same(task: ApiTask, config: TaskConfig) -> bool:
    """Whether the JSON describes the same task."""
    try:
        found = load_task(task_file(task))
    except (Refusal, DMError):
        # For example, two rules that would have the same name in the file.
        return False
    known = config.target
    if found.target.security is not None and known.security is not None:
        # The JSON shows no key.
        security = replace(found.target.security, ssl_key_bytes=known.security.ssl_key_bytes)
        found = replace(found, target=replace(found.target, security=security))
    return replace(found, text="", warnings=()) == replace(config, text="", warnings=())


# --- from JSON to a file ---


def _file_data(task: ApiTask) -> dict[str, Any]:
    data: dict[str, Any] = {
        "name": task["name"],
        "task-mode": task["task_mode"],
        "shard-mode": task.get("shard_mode", ""),
        "ignore-checking-items": task.get("ignore_checking_items", []),
        "meta-schema": task.get("meta_schema", ""),
        "timezone": task.get("timezone", ""),
        "online-ddl": task["enhance_online_schema_change"],
        "target-database": _target_block(task),
    }
    if task.get("strict_optimistic_shard_mode"):
        data["strict-optimistic-shard-mode"] = True
    return data


def _rules_data(task: ApiTask) -> dict[str, Any]:
    """The instances, their rules and the units' blocks."""
    rules = _Rules(task)
    return {
        "mysql-instances": rules.instances,
        **{key: value for key, value in rules.blocks.items() if value},
        "mydumpers": {_UNIT: _mydumper_block(task)},
        "loaders": {_UNIT: _loader_block(task)},
        "syncers": {_UNIT: _syncer_block(task)},
    }


def _target_block(task: ApiTask) -> dict[str, Any]:
    target = task["target_config"]
    block: dict[str, Any] = {key: target[key] for key in ("host", "port", "user", "password")}  # type: ignore[literal-required]
    if "security" in target:
        block["security"] = security_block(target["security"])
    if target.get("session"):
        block["session"] = dict(target["session"])
    return block


def _mydumper_block(task: ApiTask) -> dict[str, Any]:
    conf = task["source_config"].get("full_migrate_conf", {})
    block: dict[str, Any] = {"threads": conf.get("export_threads", MydumperConfig().threads)}
    if conf.get("consistency"):
        block["extra-args"] = f"--consistency {conf['consistency']}"
    return block


def _loader_block(task: ApiTask) -> dict[str, Any]:
    conf: Mapping[str, Any] = task["source_config"].get("full_migrate_conf", {})
    if "security" in conf:
        raise bad_request("source_config.full_migrate_conf.security is for physical import, which is not supported")
    block = {"pool-size": conf.get("import_threads", LoaderConfig().pool_size)}
    block["dir"] = conf.get("data_dir", LoaderConfig().dir)
    on_duplicate = conf.get("on_duplicate_logical") or (task["on_duplicate"] if task["on_duplicate"] != "error" else "")
    block |= {"on-duplicate-logical": on_duplicate} if on_duplicate else {}
    return block | {_LOADER_KEYS[key]: value for key, value in conf.items() if key in _LOADER_KEYS and value}


def _syncer_block(task: ApiTask) -> dict[str, Any]:
    conf, default = task["source_config"].get("incr_migrate_conf", {}), SyncerConfig()
    return {
        "worker-count": conf.get("repl_threads", default.worker_count),
        "batch": conf.get("repl_batch", default.batch),
        "safe-mode": conf.get("safe_mode", default.safe_mode),
    }


class _Rules:
    """The instances of a file, and the blocks of rules that they name."""

    def __init__(self, task: ApiTask) -> None:
        self.blocks: dict[str, dict[str, Any]] = {"routes": {}, "filters": {}, "block-allow-list": {}}
        self._filters = task.get("binlog_filter_rule", {})
        uses = [name for rule in task["table_migrate_rule"] for name in rule.get("binlog_filter_rule", ())]
        self._uses = {name: uses.count(name) for name in uses}
        self._used: dict[str, int] = {}
        sources = task["source_config"]["source_conf"]
        self._refuse_unknown(task, [one["source_name"] for one in sources])
        self.instances = [
            self._instance(one, [rule for rule in task["table_migrate_rule"] if _source(rule) == one["source_name"]])
            for one in sources
        ]

    def _refuse_unknown(self, task: ApiTask, sources: Sequence[str]) -> None:
        unknown = sorted({_source(rule) for rule in task["table_migrate_rule"]} - set(sources))
        if unknown:
            raise bad_request(f"table_migrate_rule: {', '.join(unknown)} must be in source_config.source_conf")
        missing = sorted(set(self._uses) - set(self._filters))
        if missing:
            raise bad_request(f"table_migrate_rule: {', '.join(missing)} must be in binlog_filter_rule")
        unused = sorted(set(self._filters) - set(self._uses))
        if unused:
            raise bad_request(f"binlog_filter_rule: no rule of table_migrate_rule uses {', '.join(unused)}")

    def _instance(self, source: Any, rules: Sequence[ApiTaskTableMigrateRule]) -> dict[str, Any]:
        name = source["source_name"]
        instance: dict[str, Any] = {"source-id": name}
        meta = {
            key.replace("_", "-"): source[key]
            for key in ("binlog_name", "binlog_pos", "binlog_gtid")
            if source.get(key)
        }
        instance |= {"meta": meta} if meta else {}
        whole = all(not rule["source"]["table"] for rule in rules)
        routes: list[str] = []
        filters: list[str] = []
        for rule in rules:
            schema, table = rule["source"]["schema"], rule["source"]["table"] or ("" if whole else "*")
            patterns = {"schema-pattern": schema, **({"table-pattern": table} if table else {})}
            routes += self._route(rule, schema, patterns)
            filters += self._binlog_filters(rule, patterns)
        instance |= {"route-rules": routes} if routes else {}
        instance |= {"filter-rules": filters} if filters else {}
        if rules:
            self.blocks["block-allow-list"][name] = _allow_list(rules, whole)
            instance["block-allow-list"] = name
        return instance | {f"{unit}-config-name": _UNIT for unit in ("mydumper", "loader", "syncer")}

    def _route(self, rule: ApiTaskTableMigrateRule, schema: str, patterns: Mapping[str, str]) -> list[str]:
        target = rule.get("target", {})
        if not target.get("schema") and not target.get("table"):
            return []
        name = f"route-{len(self.blocks['routes']) + 1:02d}"
        block = {**patterns, "target-schema": target.get("schema") or schema}
        self.blocks["routes"][name] = block | ({"target-table": target["table"]} if target.get("table") else {})
        return [name]

    def _binlog_filters(self, rule: ApiTaskTableMigrateRule, patterns: Mapping[str, str]) -> Iterator[str]:
        for name in rule.get("binlog_filter_rule", ()):
            self._used[name] = self._used.get(name, 0) + 1
            own = f"{name}.{self._used[name]}" if self._uses[name] > 1 else name
            given = self._filters[name]
            block: dict[str, Any] = {**patterns}
            block |= {"events": given["ignore_event"]} if given.get("ignore_event") else {}
            block |= {"sql-pattern": given["ignore_sql"]} if given.get("ignore_sql") else {}
            if own in self.blocks["filters"]:
                raise bad_request(f"binlog_filter_rule: two rules would both be named {own} in the file")
            self.blocks["filters"][own] = {**block, "action": "Ignore"}
            yield own


def _allow_list(rules: Sequence[ApiTaskTableMigrateRule], whole: bool) -> dict[str, Any]:
    if whole:
        return {"do-dbs": list(dict.fromkeys(rule["source"]["schema"] for rule in rules))}
    tables = dict.fromkeys((rule["source"]["schema"], rule["source"]["table"] or "*") for rule in rules)
    return {"do-tables": [{"db-name": schema, "tbl-name": table} for schema, table in tables]}


def _source(rule: ApiTaskTableMigrateRule) -> str:
    return rule["source"]["source_name"]


# --- from a file to JSON ---


def _fields_of(config: TaskConfig, data: Mapping[str, Any]) -> ApiTask:
    """The JSON without ``further_settings``: all settings that have a field."""
    filters = _NamedFilters(config, data)
    rules = [rule for one in config.instances for rule in _migrate_rules(one, filters)]
    used = {name for rule in rules for name in rule.get("binlog_filter_rule", ())}
    first = config.instances[0]
    task: ApiTask = {
        "name": config.name,
        "task_mode": config.task_mode,
        "strict_optimistic_shard_mode": config.strict_optimistic_shard_mode,
        "meta_schema": config.meta_schema,
        "timezone": config.timezone,
        "enhance_online_schema_change": config.online_ddl,
        "on_duplicate": first.loader.on_duplicate_logical or "error",  # type: ignore[typeddict-item]
        "target_config": _target_config(config, data["target-database"]),
        "binlog_filter_rule": {name: one for name, one in filters.shown.items() if name in used},
        "table_migrate_rule": rules,
        "source_config": {
            "full_migrate_conf": _full_conf(first),
            "incr_migrate_conf": {
                "repl_threads": first.syncer.worker_count,
                "repl_batch": first.syncer.batch,
                "safe_mode": first.syncer.safe_mode,
            },
            "source_conf": [_source_conf(one) for one in config.instances],
        },
        "ignore_checking_items": list(config.ignore_checking_items),
    }
    if config.shard_mode:
        task["shard_mode"] = config.shard_mode
    return task


def _target_config(config: TaskConfig, block: Mapping[str, Any]) -> Any:
    target = config.target
    shown: dict[str, Any] = {
        "host": target.host,
        "port": target.port,
        "user": target.user,
        # As in the file: an encrypted password stays encrypted.
        "password": str(block.get("password") or ""),
    }
    if target.security is not None:
        blobs = {f"ssl-{part}-bytes": getattr(target.security, f"ssl_{part}_bytes") for part in ("ca", "cert", "key")}
        security = security_of({**blobs, "cert-allowed-cn": target.security.cert_allowed_cn})
        shown |= {"security": security} if security is not None else {}
    session = {key: value for key, value in target.session if key == "foreign_key_checks" and value in ("0", "1")}
    return shown | ({"session": session} if session else {})


def _further_target(config: TaskConfig, block: Mapping[str, Any]) -> dict[str, Any]:
    """The target's settings without a field in the JSON: other variables, TLS by path, the size of packets."""
    said = _target_config(config, block)
    further: dict[str, Any] = {}
    if dict(config.target.session) != said.get("session", {}):
        further["session"] = dict(config.target.session)
    if block.get("security") and "security" not in said:
        further["security"] = block["security"]
    if block.get("max-allowed-packet"):
        further["max-allowed-packet"] = block["max-allowed-packet"]
    return further


def _full_conf(first: InstanceConfig) -> Any:
    consistency = _CONSISTENCY.fullmatch(first.mydumper.extra_args)
    conf: dict[str, Any] = {
        "export_threads": first.mydumper.threads,
        "import_threads": first.loader.pool_size,
        "data_dir": first.loader.dir,
        "import_mode": first.loader.import_mode,
    }
    conf |= {"consistency": consistency[1]} if consistency else {}
    given = first.loader.on_duplicate_logical
    return conf | ({"on_duplicate_logical": given} if given else {})


def _source_conf(one: InstanceConfig) -> Any:
    meta = one.meta
    places = {} if meta is None else {key: getattr(meta, key) for key in ("binlog_name", "binlog_pos", "binlog_gtid")}
    return {"source_name": one.source_id, **{key: value for key, value in places.items() if value}}


class _NamedFilters:
    """The filters of the instances by the names that the JSON gives them."""

    def __init__(self, config: TaskConfig, data: Mapping[str, Any]) -> None:
        self._named: dict[str, list[tuple[str, BinlogFilterRule]]] = {}
        self.shown: dict[str, Any] = {}
        named: list[tuple[str, str, BinlogFilterRule]] = []
        for one, given in zip(config.instances, data["mysql-instances"], strict=True):
            named += [
                (one.source_id, name, rule)
                for name, rule in zip(given.get("filter-rules") or (), one.filters, strict=True)
            ]
        contents = [(name, _content(rule)) for _, name, rule in named]
        for source, name, rule in named:
            short = _short_name(name, contents)
            self._named.setdefault(source, []).append((short, rule))
            events, statements = _content(rule)
            shown = {"ignore_event": list(events)} if events else {}
            self.shown[short] = shown | ({"ignore_sql": list(statements)} if statements else {})

    def of(self, instance: InstanceConfig, schema: str, table: str) -> list[str]:
        return [
            name
            for name, rule in self._named.get(instance.source_id, ())
            if (rule.schema_pattern, rule.table_pattern) == (schema, table)
        ]


def _short_name(name: str, contents: Iterable[tuple[str, object]]) -> str:
    """``f`` for ``f.1`` and ``f.2`` when they filter the same, in different tables."""
    numbered = _NUMBERED.fullmatch(name)
    if numbered is None:
        return name
    short = numbered[1]
    family = [(other, content) for other, content in contents if other == short or _of_family(other, short)]
    alike = len({repr(content) for _, content in family}) == 1
    return short if alike and len(family) > 1 and all(other != short for other, _ in family) else name


def _of_family(name: str, short: str) -> bool:
    numbered = _NUMBERED.fullmatch(name)
    return numbered is not None and numbered[1] == short


def _content(rule: BinlogFilterRule) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return rule.events, rule.sql_pattern


def _migrate_rules(one: InstanceConfig, filters: _NamedFilters) -> Iterator[ApiTaskTableMigrateRule]:
    lists = one.block_allow_list
    tables = [(table.db_name, table.tbl_name) for table in lists.do_tables]
    for schema, table in tables or [(schema, "") for schema in lists.do_dbs]:
        rule: ApiTaskTableMigrateRule = {"source": {"source_name": one.source_id, "schema": schema, "table": table}}
        route = next(
            (found for found in one.routes if (found.schema_pattern, found.table_pattern) == (schema, table)), None
        )
        if route is not None:
            rule["target"] = {"schema": route.target_schema}
            if route.target_table:
                rule["target"]["table"] = route.target_table
        named = filters.of(one, schema, table)
        if named:
            rule["binlog_filter_rule"] = named
        yield rule
