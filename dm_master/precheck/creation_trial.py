"""Whether the target accepts the tables that a full copy creates: the SQL to try, what its answers mean. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from dm_master.precheck.result import CheckFinding, fail, warn
from pkg.ddl.target_collations import TargetCollations, choice, nearest, unknown_in
from pkg.mysql.names import TableId, qualified, quote
from pkg.mysql.schema import Column, TableInfo

#: The most tables in a message, and the most characters of an error.
_SHOWN, _LENGTH = 20, 400
_HEAD = re.compile(r"^CREATE TABLE (?:IF NOT EXISTS )?(?:`(?:[^`]|``)*`\.)?`(?:[^`]|``)*`")
_FOREIGN_KEY = re.compile(r"^\s*CONSTRAINT `(?:[^`]|``)*` FOREIGN KEY .*\n", re.MULTILINE)
_FULLTEXT = re.compile(r"^\s*FULLTEXT (?:KEY|INDEX) (`(?:[^`]|``)*`).*\n", re.MULTILINE)
_LAST_COMMA = re.compile(r",(?=\n\))")
_COUNTER = re.compile(r"(?<=[ )])AUTO_INCREMENT=\d+ ?")
_STRING = re.compile(r"'(?:[^'\\]|\\.|'')*'")
_CHARSET = re.compile(r"\b(?:CHARACTER SET|CHARSET)[ =]+(\w+)")
_COLLATION = re.compile(r"\bCOLLATE[ =]+(\w+)")
#: How :func:`pkg.mysql.introspect.show_create` writes bytes that are not text.
_BYTES_AS_DEFAULT = re.compile(r" DEFAULT x'")
_LINE = re.compile(r"\bline (\d+)\b")
_UNKNOWN_NAME = re.compile(r"'(\w+)'")
#: Temporary tables have no partitions; a server reports that only if it has no other objection.
NO_PARTITIONS = 1562
#: Unknown collation, unknown charset.
_UNKNOWN = frozenset({1273, 1115})
#: Warnings about keywords without effect: a width, an outdated keyword, how many numbers are left.
_HARMLESS = frozenset({1287, 1681})
_NUMBERS_LEFT = "Available implicit allocation times"
BY_HAND = (
    "Create the table at the target by hand in a form that it takes: a full copy leaves a table that is there as it "
    "is. Or leave it out by ignore-tables in the block-allow-list."
)
_REPAIRS: Mapping[int, str] = {
    1069: "Leave out some of the indexes.",
    1071: "Index a prefix of the columns, or raise max-index-length of TiDB.",
    1074: "Make the column a TEXT.",
    1101: "Leave the default out: rows bring their values.",
    1117: "Raise table-column-count-limit of TiDB.",
    1170: "Index a prefix of the column.",
    3770: "Leave the default out: rows bring their values.",
    8264: "Partition it by columns that are in all unique keys, or leave the partitions out.",
}
#: Bytes of the longest values, by type.
_LARGEST: Mapping[str, int] = {
    "text": 1 << 16, "blob": 1 << 16, "mediumtext": 1 << 24, "mediumblob": 1 << 24, "longtext": 1 << 32,
    "longblob": 1 << 32, "json": 1 << 30,
}  # fmt: skip
_BYTES_OF_A_CHARACTER = 4
#: No similar collation is known.
NO_LIKES: Mapping[str, str] = MappingProxyType({})
_WHOLE = frozenset(f"{size}{kind}" for size in ("tiny", "", "medium", "long") for kind in ("text", "blob"))


@dataclass(frozen=True, slots=True)
class TrialAnswer:
    """The target's answer: the error's number (0: it accepted the table) and text, and its warnings."""

    number: int = 0
    text: str = ""
    warnings: tuple[tuple[int, str], ...] = ()

    @property
    def taken(self) -> bool:
        return self.number in (0, NO_PARTITIONS)


def trial_text(create: str, name: str, *, temporary: bool) -> str:
    """The SHOW CREATE TABLE or CREATE TABLE statement with the table name ``name``. Equal tables give equal texts.

    Foreign keys are left out of a temporary table, which can't have any.
    """
    text = _HEAD.sub(lambda _: f"CREATE {'TEMPORARY ' * temporary}TABLE {name}", create, count=1)
    if temporary:
        text = _LAST_COMMA.sub("", _FOREIGN_KEY.sub("", text))
    return _COUNTER.sub("", text)


def without_fulltext(text: str) -> tuple[str, list[str]]:
    """The text without its FULLTEXT indexes, and their names."""
    return _LAST_COMMA.sub("", _FULLTEXT.sub("", text)), _FULLTEXT.findall(text)


def unknown_collation(text: str, known: Iterable[str]) -> TrialAnswer:
    """The answer to a definition that names a collation or charset that is not ``known``, as a target would answer."""
    collations = {_older(name) for name in known}
    charsets = {name.partition("_")[0] for name in collations}
    for number, pattern, names, kind in (
        (1115, _CHARSET, charsets, "character set"),
        (1273, _COLLATION, collations, "collation"),
    ):
        for name in pattern.findall(_STRING.sub("''", text)):
            if names and _older(name) not in names:
                return TrialAnswer(number, f"Unknown {kind}: '{name}'")
    return TrialAnswer()


def whole_value_key(info: TableInfo | None) -> TrialAnswer:
    """MySQL's answer to unique keys over whole TEXT or BLOB columns, which MariaDB hashes: preparing a statement does
    not show it."""
    for index in info.unique_keys if info is not None else ():
        for part in index.parts:
            column = info.column(part.column) if info is not None else None
            if column is not None and not part.length and column.type_name in _WHOLE:
                text = f"BLOB/TEXT column '{column.name}' used in key specification without a key length"
                return TrialAnswer(1170, f"{text} (unique key {index.name})")
    return TrialAnswer()


def refused_schema(
    source_id: str, schema: str, answer: TrialAnswer, known: Iterable[str], likes: Mapping[str, str] = NO_LIKES
) -> CheckFinding:
    """The failure for a schema that the target refuses. ``likes`` as :func:`refusal`."""
    names = f"{_instead(answer.text, known)}{_choice(answer.text, known, likes)}"
    return fail(
        f"the target does not take the schema {quote(schema)}: Error {answer.number}: {answer.text}",
        f"Create the schema at the target by hand. {names}".strip(),
        subject=source_id,
    )


def refusal(
    subject: str,
    target: TableId,
    text: str,
    answer: TrialAnswer,
    collations: Iterable[str],
    likes: Mapping[str, str] = NO_LIKES,
) -> CheckFinding:
    """The failure for a table that the target refuses. ``collations``: those that it has; ``likes``: the one that
    compares most like the upstream's, where that is known."""
    names = _instead(answer.text, collations), _choice(answer.text, collations, likes)
    known = "".join(names) if answer.number in _UNKNOWN else ""
    return fail(
        f"the target does not take the table {qualified(*target)}: Error {answer.number}: "
        f"{' '.join(answer.text.split())[:_LENGTH]}{_blamed(text, answer)}",
        " ".join(filter(None, (BY_HAND, _REPAIRS.get(answer.number, ""), known))),
        subject=subject,
    )


def _blamed(text: str, answer: TrialAnswer) -> str:
    """The definitions in the text that the error is about."""
    lines = text.split("\n")
    if answer.number in _UNKNOWN and (name := _UNKNOWN_NAME.search(answer.text)):
        found = [line for line in lines if re.search(rf"(?<![\w`]){re.escape(name[1])}(?![\w`])", line)]
    else:
        number = _LINE.search(answer.text)
        found = lines[int(number[1]) - 1 : int(number[1])] if number else []
    shown = [line.strip().rstrip(",")[:_LENGTH] for line in found]
    return f" ({_some(shown, '; ')})" if shown else ""


def _instead(text: str, collations: Iterable[str]) -> str:
    """The target's substitute for the collation or charset that the text names in quotes."""
    name = _UNKNOWN_NAME.search(text)
    charset = _older(name[1]).partition("_")[0] if name else ""
    alike = sorted(collation for collation in collations if _older(collation).partition("_")[0] == charset)
    if alike:
        return f"Of {charset} the target has {', '.join(alike)}."
    charsets = sorted({collation.partition("_")[0] for collation in collations})
    return f"The target has the charsets {', '.join(charsets)}." if charsets else ""


def _choice(text: str, collations: Iterable[str], likes: Mapping[str, str]) -> str:
    """What to write into the task file for the collation that the text names in quotes; '' if nothing helps."""
    name = unknown_in(text)
    like = likes.get(_older(name)) or (nearest(name, collations) if name else "")
    if not like:
        return ""
    return (
        f" Or write {choice(name, like)} into the task file, for all tables: texts then "
        f"compare and sort by {like}, the most similar one."
    )


def lost_defaults(
    defaults: Mapping[str, Sequence[str]], collations: TargetCollations, likes: Mapping[str, str]
) -> list[CheckFinding]:
    """Warnings about default collations of the upstream that the target lacks.

    ``defaults``: each collation and the objects that have it as their default.
    """
    known = {_older(name) for name in collations.known}
    lacking = {name: where for name, where in sorted(defaults.items()) if _older(collations.name_of(name)) not in known}
    found = []
    for name, where in lacking.items():
        like = likes.get(_older(name)) or nearest(name, known)
        write = f"Write {choice(name, like)} into the task file, or c" if like else "C"
        found.append(
            warn(
                f"the target lacks {name}, the default collation of {_some(where)}: a CREATE TABLE or CREATE DATABASE "
                "of there may fail, or get another collation, by which texts compare differently",
                f"{write}reate new tables at the target by hand before.",
            )
        )
    return found


def _older(name: str) -> str:
    """The older name of utf8mb3 or of one of its collations; other names unchanged."""
    return re.sub(r"^utf8mb3(?=_|$)", "utf8", name.lower())


def is_about_tiflash(answer: TrialAnswer) -> bool:
    """Whether a table is refused because it would need TiFlash, which temporary tables can't have."""
    return not answer.taken and "tiflash" in answer.text.lower()


def needs_tiflash(subject: str, names: Sequence[str]) -> CheckFinding:
    return fail(
        f"FULLTEXT {', '.join(names)}: the target has such indexes in TiFlash alone, and has no TiFlash",
        f"{BY_HAND} Leave the index out, or add TiFlash to the cluster.",
        subject=subject,
    )


def lost_collations(tables: Iterable[tuple[str, TableInfo]], collations: TargetCollations) -> list[CheckFinding]:
    """Warnings about collations that the SQL omits and the target lacks. ``tables``: subject and structure."""
    known = {_older(name) for name in collations.known}
    found: dict[str, list[str]] = {}
    for subject, info in tables:
        for collation in sorted({column.collation for column in info.columns if column.collation}):
            if _older(collations.name_of(collation)) not in known:
                columns = ", ".join(column.name for column in info.columns if column.collation == collation)
                found.setdefault(collation, []).append(f"{subject} ({columns})")
    return [
        warn(
            f"the target has no collation {collation}; these columns get the default of their charset, by which texts "
            f"compare differently: {_some(where)}",
            f"If that matters, create the tables at the target by hand. {_instead(repr(collation), known)}",
        )
        for collation, where in sorted(found.items())
    ]


def changed(found: Iterable[tuple[TableId, TrialAnswer]]) -> list[CheckFinding]:
    """Warnings about what the target leaves out or creates differently, each with its tables."""
    tables: dict[str, list[str]] = {}
    for target, answer in found:
        for number, text in answer.warnings:
            if number not in _HARMLESS and number != NO_PARTITIONS and _NUMBERS_LEFT not in text:
                tables.setdefault(f"{number}: {text[:_LENGTH]}", []).append(qualified(*target))
    return [
        warn(
            f"the target takes a definition with a change (Warning {text}): {_some(list(dict.fromkeys(where)))}",
            "Nothing needs to be done if the rows alone matter. Otherwise create the tables at the target by hand.",
        )
        for text, where in tables.items()
    ]


def null_counters(subject: str, target: TableId, info: TableInfo | None) -> list[CheckFinding]:
    """Failures for columns whose NULLs TiDB silently replaces by numbers."""
    columns = () if info is None else info.columns
    return [
        fail(
            f"TiDB gives numbers to NULLs in AUTO_INCREMENT columns, and the column {column.name} for "
            f"{qualified(*target)} may be NULL",
            f"{BY_HAND} Leave out AUTO_INCREMENT there.",
            subject=subject,
        )
        for column in columns
        if column.auto_increment and column.nullable
    ]


def bytes_as_defaults(tables: Iterable[tuple[str, str]]) -> list[CheckFinding]:
    """A warning about defaults that TiDB does not keep. ``tables``: subject and definition."""
    found = [subject for subject, create in tables if _BYTES_AS_DEFAULT.search(create)]
    if not found:
        return []
    return [
        warn(
            "TiDB stores other bytes for defaults that are not text (DEFAULT x'…'); these tables have some: "
            f"{_some(found)}",
            "Rows that are migrated bring their values. Applications that insert into these tables should not leave "
            "these columns to their default.",
        )
    ]


def hidden_members(tables: Iterable[tuple[str, TableInfo]]) -> list[CheckFinding]:
    """A warning about members of ENUM and SET columns that may differ from what the upstream shows. ``tables``: subject
    and structure."""
    found = [
        f"{subject} ({column.name})"
        for subject, info in tables
        for column in info.columns
        if any("?" in member for member in column.elements)
    ]
    if not found:
        return []
    return [
        warn(
            "the upstream shows a character beyond U+FFFF of an ENUM or SET member as ?, and the target would get the "
            f"?; these columns have a member with ?: {_some(found)}",
            "If a member has such a character in truth, create the table at the target by hand.",
        )
    ]


def long_rows(tables: Iterable[tuple[TableId, TableInfo]], limit: int) -> list[CheckFinding]:
    """A warning about tables whose rows may exceed the ``limit`` of the target in bytes; 0: no limit."""
    found = [qualified(*target) for target, info in tables if limit and sum(map(_largest, info.columns)) > limit]
    if not found:
        return []
    return [
        warn(
            f"the target takes rows of at most {limit} bytes, and rows of these tables may be longer: {_some(found)}",
            "If there are such rows: raise performance.txn-entry-size-limit of TiDB (or from 7.6 on SET GLOBAL "
            "tidb_txn_entry_size_limit) and raftstore.raft-entry-max-size of TiKV before. Otherwise such a row "
            "stops the task and is named.",
        )
    ]


def _largest(column: Column) -> int:
    """Bytes of the column's longest value, roughly."""
    length = re.match(r"(?:var)?(?:char|binary)\((\d+)\)", column.column_type.lower())
    if length:
        return int(length[1]) * (_BYTES_OF_A_CHARACTER if column.charset else 1)
    return _LARGEST.get(column.type_name, 0)


def _some(names: Sequence[str], separator: str = ", ") -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return separator.join(names[:_SHOWN]) + more
