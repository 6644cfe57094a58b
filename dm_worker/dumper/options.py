"""The options of a dump: the ``mydumpers`` block and its ``extra-args``, parsed strictly. Pure, no I/O."""

from __future__ import annotations

import argparse
import fnmatch
import re
import shlex
from dataclasses import dataclass, field
from typing import Literal, NoReturn, get_args

from pkg import errors
from pkg.config.model import SubTaskConfig
from pkg.errors import Code
from pkg.mysql.names import SYSTEM_SCHEMAS
from pkg.rules.block_allow_list import BlockAllowListFilter
from pkg.rules.online_tables import OnlineTables, TableKind
from pkg.settings.connections import SecurityConfig

Consistency = Literal["auto", "none", "flush", "lock", "snapshot"]
_UNITS = {"": 1 << 20, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
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
    """Sizes in bytes. ``rows`` > 0 asks for chunks of about that many rows within a table."""

    threads: int
    chunk_filesize: int
    statement_size: int
    rows: int
    where: str
    consistency: Consistency
    escape_backslash: bool
    filter: TableFilter
    security: SecurityConfig | None


class _ExtraArgsParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _invalid(message)


def parse_options(cfg: SubTaskConfig) -> DumpOptions:
    """Raises DMError 32001 for extra-args that are unknown, malformed or not supported."""
    base = cfg.mydumper
    try:
        words = shlex.split(base.extra_args)
    except ValueError as exc:
        raise _invalid(f"{base.extra_args!r}: {exc}") from exc
    args = _parser().parse_args(words)
    if args.snapshot or args.consistency == "snapshot":
        raise _invalid(
            "--snapshot and --consistency snapshot need a TiDB upstream; MySQL and MariaDB do not support such reads"
        )
    if not args.no_views:
        raise _invalid("--no-views=false: views are not migrated")
    if args.no_locks and args.consistency not in (None, "none"):
        raise _invalid(f"--no-locks contradicts --consistency {args.consistency}")
    consistency: Consistency = "none" if args.no_locks else args.consistency or "auto"
    return DumpOptions(
        threads=args.threads or base.threads,
        chunk_filesize=args.filesize or base.chunk_filesize,
        statement_size=args.statement_size or base.statement_size or _DEFAULT_STATEMENT_SIZE,
        rows=args.rows if args.rows is not None else base.rows,
        where=args.where or base.where,
        consistency=consistency,
        escape_backslash=args.escape_backslash,
        filter=_filter(cfg, args),
        security=_security(cfg, args),
    )


def _parser() -> _ExtraArgsParser:
    parser = _ExtraArgsParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-B", "--database", type=_names, default=())
    parser.add_argument("-T", "--tables-list", type=_tables, default=())
    parser.add_argument("-t", "--threads", type=_positive)
    parser.add_argument("-F", "--filesize", type=_size)
    parser.add_argument("-s", "--statement-size", type=_positive)
    parser.add_argument("--consistency", choices=get_args(Consistency))
    parser.add_argument("--snapshot", default="")
    parser.add_argument("-W", "--no-views", type=_boolean, nargs="?", const=True, default=True)
    parser.add_argument("-r", "--rows", type=_natural)
    parser.add_argument("--where", default="")
    parser.add_argument("--escape-backslash", type=_boolean, nargs="?", const=True, default=True)
    parser.add_argument("-f", "--filter", type=_patterns, action="extend", default=[])
    parser.add_argument("--ca", default="")
    parser.add_argument("--cert", default="")
    parser.add_argument("--key", default="")
    parser.add_argument("--no-locks", type=_boolean, nargs="?", const=True, default=False)
    return parser


def _filter(cfg: SubTaskConfig, args: argparse.Namespace) -> TableFilter:
    if args.tables_list or args.filter:  # these take the place of the block-allow-list, as in DM
        return TableFilter(
            None,
            cfg.meta_schema,
            databases=tuple(args.database),
            tables=tuple(args.tables_list),
            patterns=tuple(args.filter),
            online=OnlineTables.of(cfg),
        )
    rules = BlockAllowListFilter.of(cfg)
    return TableFilter(rules, cfg.meta_schema, databases=tuple(args.database))


def _security(cfg: SubTaskConfig, args: argparse.Namespace) -> SecurityConfig | None:
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


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _tables(text: str) -> tuple[tuple[str, str], ...]:
    pairs = []
    for name in _names(text):
        schema, dot, table = name.partition(".")
        if not dot or not schema or not table:
            raise argparse.ArgumentTypeError(f"{name!r} is not of the form database.table")
        pairs.append((schema, table))
    return tuple(pairs)


def _patterns(text: str) -> list[str]:
    for pattern in _names(text):
        if not re.fullmatch(r"!?[^./\\@`]+\.[^./\\`]+", pattern):
            raise argparse.ArgumentTypeError(f"filter {pattern!r} is not of the form database.table (with * and ?)")
    return [pattern.lower() for pattern in _names(text)]


def _size(text: str) -> int:
    """``64`` (MiB), ``64M``, ``64MiB``, ``1G``; in bytes."""
    match = re.fullmatch(r"(\d+)\s*([KMGT]?)(?:I?B)?", text.strip().upper())
    if not match or int(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a file size such as 64 (MiB) or 256MiB")
    return int(match[1]) * _UNITS[match[2]]


def _natural(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return int(text)


def _positive(text: str) -> int:
    value = _natural(text)
    if value == 0:
        raise argparse.ArgumentTypeError("must be greater than 0")
    return value


def _boolean(text: str) -> bool:
    value = text.removeprefix("=").lower()
    if value not in ("true", "false", "1", "0"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return value in ("true", "1")


def _invalid(why: str) -> errors.DMError:
    return errors.new(
        Code.DumpUnitRuntime,
        f"extra-args of mydumpers cannot be used: {why}",
        workaround="Supported options: -B -T -t -F -s -r -f -W --consistency --where --escape-backslash --no-locks "
        "--ca --cert --key (and their long names).",
    )
