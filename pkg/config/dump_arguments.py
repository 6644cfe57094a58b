"""The options of dumpling in a mydumper's ``extra-args``, parsed strictly. Pure, no I/O."""

from __future__ import annotations

import argparse
import re
import shlex
from dataclasses import dataclass
from typing import Literal, NoReturn, get_args

from pkg import errors
from pkg.errors import Code
from pkg.rules.model import BlockAllowList

Consistency = Literal["auto", "none", "flush", "lock", "snapshot"]
_UNITS = {"": 1 << 20, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclass(frozen=True, slots=True)
class DumpArguments:
    """The parsed extra-args. Sizes in bytes; None, 0 and '' where not given, also for a table's database."""

    consistency: Consistency
    escape_backslash: bool
    threads: int
    filesize: int
    statement_size: int
    rows: int | None
    where: str
    databases: tuple[str, ...]
    tables: tuple[tuple[str, str], ...]
    patterns: tuple[str, ...]
    ca: str
    cert: str
    key: str


def tables_of(arguments: DumpArguments, lists: BlockAllowList) -> tuple[tuple[str, str], ...]:
    """The tables of ``-T``. A name without a database is in the only one of ``-B``, or of the block-allow-list.

    Raises DMError 32001 where several databases are possible.
    """
    return tuple((schema or _only_database(arguments, lists, table), table) for schema, table in arguments.tables)


def _only_database(arguments: DumpArguments, lists: BlockAllowList, table: str) -> str:
    names = set(arguments.databases or lists.do_dbs or (each.db_name for each in lists.do_tables))
    if len(names) != 1 or any(re.search(r"[*?\[]|^~", name) for name in names):
        raise _invalid(
            f"-T names {table!r} without a database, and neither -B nor the block-allow-list names just one; write "
            "database.table"
        )
    return names.pop()


class _ExtraArgsParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _invalid(message)


def parse_dump_arguments(extra_args: str) -> DumpArguments:
    """Raises DMError 32001 for options that are unknown, malformed or not supported."""
    try:
        arguments = shlex.split(extra_args)
    except ValueError as exc:
        raise _invalid(f"{extra_args!r}: {exc}") from exc
    args = _parser().parse_args(arguments)
    if args.snapshot or args.consistency == "snapshot":
        raise _invalid(
            "--snapshot and --consistency snapshot need a TiDB upstream; MySQL and MariaDB do not support such reads"
        )
    if not args.no_views:
        raise _invalid("--no-views=false: views are not migrated")
    if args.no_locks and args.consistency not in (None, "none"):
        raise _invalid(f"--no-locks contradicts --consistency {args.consistency}")
    return DumpArguments(
        consistency="none" if args.no_locks else args.consistency or "auto",
        escape_backslash=args.escape_backslash,
        threads=args.threads or 0,
        filesize=args.filesize or 0,
        statement_size=args.statement_size or 0,
        rows=args.rows,
        where=args.where,
        databases=tuple(args.database),
        tables=tuple(args.tables_list),
        patterns=tuple(args.filter),
        ca=args.ca,
        cert=args.cert,
        key=args.key,
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


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _tables(text: str) -> tuple[tuple[str, str], ...]:
    pairs = []
    for name in _names(text):
        schema, dot, table = name.partition(".")
        if dot and not (schema and table):
            raise argparse.ArgumentTypeError(f"{name!r} is not of the form database.table")
        pairs.append((schema, table) if dot else ("", schema))
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
