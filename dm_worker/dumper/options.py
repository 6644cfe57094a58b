"""The options of a dump: the ``mydumpers`` block and its ``extra-args``, read from a subtask. Pure, no I/O."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, field

from pkg.config.dump_arguments import Consistency, DumpArguments, parse_dump_arguments, tables_of
from pkg.config.model import SubTaskConfig
from pkg.mysql.names import SYSTEM_SCHEMAS
from pkg.rules.block_allow_list import BlockAllowListFilter
from pkg.rules.online_tables import OnlineTables, TableKind
from pkg.settings.connections import SecurityConfig

_DEFAULT_STATEMENT_SIZE = 1 << 20


@dataclass(frozen=True, slots=True)
class TableFilter:
    """Which tables are dumped: by the task's block-allow-list, or by extra-args that replace it.

    Tables of online DDL tools are never dumped: their rows are not replicated either.
    """

    rules: BlockAllowListFilter | None
    meta_schema: str
    databases: tuple[str, ...] = ()
    tables: tuple[tuple[str, str], ...] = ()
    patterns: tuple[str, ...] = ()
    online: OnlineTables = field(default_factory=OnlineTables)

    def allows(self, schema: str, table: str) -> bool:
        if schema.lower() in SYSTEM_SCHEMAS or schema == self.meta_schema:
            return False
        if self.online.kind(table) is not TableKind.REAL:
            return False
        if self.tables:
            return (schema, table) in self.tables
        if self.databases and schema not in self.databases:
            return False
        if self.patterns:
            return _last_match(self.patterns, f"{schema}.{table}".lower())
        return self.rules is None or self.rules.allows(schema, table)


@dataclass(frozen=True, slots=True)
class DumpOptions:
    """Sizes in bytes. ``rows`` > 0 requests chunks of about that many rows within a table."""

    threads: int
    chunk_filesize: int
    statement_size: int
    rows: int
    where: str
    consistency: Consistency
    escape_backslash: bool
    filter: TableFilter
    security: SecurityConfig | None


def parse_options(cfg: SubTaskConfig) -> DumpOptions:
    """Raises DMError 32001 for extra-args that are unknown, malformed or not supported."""
    base = cfg.mydumper
    args = parse_dump_arguments(base.extra_args)
    return DumpOptions(
        threads=args.threads or base.threads,
        chunk_filesize=args.filesize or base.chunk_filesize,
        statement_size=args.statement_size or base.statement_size or _DEFAULT_STATEMENT_SIZE,
        rows=args.rows if args.rows is not None else base.rows,
        where=args.where or base.where,
        consistency=args.consistency,
        escape_backslash=args.escape_backslash,
        filter=_filter(cfg, args),
        security=_security(cfg, args),
    )


def _filter(cfg: SubTaskConfig, args: DumpArguments) -> TableFilter:
    if args.tables or args.patterns:  # these replace the block-allow-list, as in DM
        return TableFilter(
            None,
            cfg.meta_schema,
            databases=args.databases,
            tables=tables_of(args, cfg.block_allow_list),
            patterns=args.patterns,
            online=OnlineTables.of(cfg),
        )
    return TableFilter(BlockAllowListFilter.of(cfg), cfg.meta_schema, databases=args.databases)


def _security(cfg: SubTaskConfig, args: DumpArguments) -> SecurityConfig | None:
    if not (args.ca or args.cert or args.key):
        return cfg.from_.security
    return SecurityConfig(ssl_ca=args.ca, ssl_cert=args.cert, ssl_key=args.key)


def _last_match(patterns: tuple[str, ...], name: str) -> bool:
    """Table-filter rules: the last pattern that matches decides, ``!`` excludes."""
    decision = False
    for pattern in patterns:
        excluded = pattern.startswith("!")
        if fnmatch.fnmatchcase(name, pattern.removeprefix("!")):
            decision = not excluded
    return decision
