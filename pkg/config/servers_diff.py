"""The file of a comparison without a task (``diff start --config``): strict YAML in, :class:`ServersDiffConfig` out."""

from __future__ import annotations

from pkg.config.effects.diff_keys import DIFF_EFFECTS, DIFF_KEYS
from pkg.config.effects.effect import warnings_about
from pkg.config.fields import read_block
from pkg.config.keys import DIFF
from pkg.config.model import InstanceConfig, ServersDiffConfig, SubTaskConfig
from pkg.config.source_session import check_source_session
from pkg.config.task import read_instances
from pkg.errors import Code
from pkg.settings.connections import DBConfig
from pkg.settings.database import read_database
from pkg.settings.yaml_reader import Section, read_document


def load_servers_diff(text: str, path: str = "diff.yaml") -> ServersDiffConfig:
    """Every error is a DMError with its location; codes as of task files."""
    top = read_document(text, path, DIFF)
    warnings: list[str] = []
    target = _server(top, "target-database", "target-database", warnings)
    sections = top.items("mysql-instances")
    instances = read_instances(top, target, warnings)
    servers = [_server(section, "from", "mysql-instances[].from", warnings) for section in sections]
    config = read_block(top, DIFF_KEYS, ServersDiffConfig, upstreams=(), warnings=())
    if config.settle_time <= 0:
        raise top.error(Code.ConfigYamlTransform, "settle-time", "settle-time is 0 or less", "Set a time such as 30s.")
    case_sensitive = top.flag("case-sensitive", False)
    upstreams = tuple(
        _upstream(config.name, instance, server, target, case_sensitive=case_sensitive)
        for instance, server in zip(instances, servers, strict=True)
    )
    return ServersDiffConfig(
        config.name,
        upstreams,
        config.tables,
        config.chunk_rows,
        config.settle_time,
        config.output_dir,
        tuple(dict.fromkeys(warnings)),
    )


def _server(section: Section, key: str, location: str, warnings: list[str]) -> DBConfig:
    database = section.section(key)
    if database is None:
        raise section.error(
            Code.ConfigYamlTransform, key, f"{key} is missing", "Add host, port, user and password of the server."
        )
    warnings += warnings_about(database, key, (one for one in DIFF_EFFECTS if one.key == f"{location}.{one.name}"))
    server = read_database(database, Code.ConfigYamlTransform, warnings)
    check_source_session(database, dict(server.session))
    return server


def _upstream(
    name: str, instance: InstanceConfig, server: DBConfig, target: DBConfig, *, case_sensitive: bool
) -> SubTaskConfig:
    """In the form in which tables are found and rules are applied. No schema is left out as that of a task's state, and
    no table as that of an online change: without a task nothing is known to be one."""
    return SubTaskConfig(
        name=name,
        source_id=instance.source_id,
        task_mode="all",
        from_=server,
        to=target,
        meta_schema="",
        case_sensitive=case_sensitive,
        online_ddl=False,
        routes=instance.routes,
        filters=instance.filters,
        expression_filters=instance.expression_filters,
        column_mappings=instance.column_mappings,
        block_allow_list=instance.block_allow_list,
    )
