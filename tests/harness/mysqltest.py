"""The plain SQL statements of a server's own test files (``.test``, the language of ``mysqltest``)."""

from __future__ import annotations

import re
from collections.abc import Iterator

#: Statements that change rows, structures, or the session that both depend on. Everything else is not in the binlog.
_KEPT = re.compile(
    r"(CREATE|ALTER|DROP|RENAME|TRUNCATE|INSERT|UPDATE|DELETE|REPLACE|SET|BEGIN|START\s+TRANSACTION|COMMIT|ROLLBACK"
    r"|SAVEPOINT|RELEASE|XA|PREPARE|EXECUTE|CALL|LOAD|WITH|OPTIMIZE|ANALYZE|REPAIR)\b",
    re.I,
)
#: Statements that change the server for all sessions, hide statements from the binlog, or need files or other servers.
_REFUSED = re.compile(
    r"\b(GLOBAL|SONAME|SQL_LOG_BIN|BINLOG_FORMAT|BINLOG_ROW_IMAGE|DEBUG\w*|SERVER|USER|ROLE|EVENT|GTID\w*|PSEUDO\w*"
    r"|(DATA|INDEX)\s+DIRECTORY|INFILE|TABLESPACE|SLEEP|GET_LOCK|BENCHMARK|WSREP\w*|STORAGE_ENGINE\b"
    r"|\w*_STORAGE_ENGINE|PASSWORD|MAX_STATEMENT_TIME|LOCK_WAIT_TIMEOUT|SEQUENCE|SKIP_REPLICATION|CONNECTION\s*=)\b"
    r"|@@global|\b(mysql|test|performance_schema|sys|mtr)\.",
    re.I,
)
_ENGINE = re.compile(
    r"\b(?:ENGINE|TYPE)\s*=?\s*[`'\"]?"
    r"(?:MyISAM|Aria|HEAP|MEMORY|CSV|ARCHIVE|BLACKHOLE|MERGE|MRG_MYISAM|BDB|ROCKSDB|FEDERATED|EXAMPLE)\b[`'\"]?",
    re.I,
)
_COMMAND = re.compile(
    r"(let|eval|echo|source|connect|connection|disconnect|if|while|inc|dec|error|disable_\w+|enable_\w+|sleep|real_sleep"
    r"|die|exit|send|send_eval|reap|exec|system|perl|write_file|append_file|remove_file\w*|copy_file|move_file|cat_file"
    r"|list_files|mkdir|rmdir|chmod|diff_files|file_exists|replace_\w+|sorted_result|vertical_results"
    r"|horizontal_results|query|query_vertical|query_horizontal|save_master_pos|sync_\w+|wait_for_\w+|start_timer"
    r"|end_timer|character_set|require|skip|result_format|ping|shutdown_server|change_user|reset_connection"
    r"|lowercase_result|output|dirty_close|ps_\w+|end)\b",
    re.I,
)
_DELIMITER = re.compile(r"(?:--\s*)?delimiter\s+(\S+)", re.I)
_PERL = re.compile(r"(?:--\s*)?(?:perl|write_file|append_file)\b", re.I)


def _quoted_end(text: str, at: int) -> int:
    """The end of the string, quoted name or comment that starts at ``at``, or ``at`` if none does."""
    char = text[at]
    if char in "'\"`":
        at += 1
        while at < len(text) and text[at] != char:
            at += 2 if text[at] == "\\" and char != "`" else 1
        return at + 1
    if text.startswith("/*", at):
        end = text.find("*/", at)
        return len(text) if end < 0 else end + 2
    if char == "#" or text.startswith("-- ", at):
        end = text.find("\n", at)
        return len(text) if end < 0 else end
    return at


def _statement_end(text: str, at: int, delimiter: str) -> int:
    """The position of the delimiter of the statement at ``at``, or the text's end."""
    while at < len(text):
        end = _quoted_end(text, at)
        if end > at:
            at = end
        elif text.startswith(delimiter, at):
            return at
        else:
            at += 1
    return len(text)


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _pieces(text: str) -> Iterator[str]:
    """The text between delimiters, without comments, one-line commands, and inline files."""
    at, delimiter = 0, ";"
    while at < len(text):
        if text[at].isspace() or text[at] in "{}":
            at += 1
            continue
        line = text[at : _line_end(text, at)]
        if _PERL.match(line):
            end = text.find("\nEOF", at)
            at = len(text) if end < 0 else end + 4
        elif found := _DELIMITER.match(line):
            word = found[1]
            delimiter = word[: -len(delimiter)] if word.endswith(delimiter) and word != delimiter else word
            at += len(line)
        elif line.startswith(("#", "--")) or re.match(r"(if|while)\s*\(", line, re.I):
            at += len(line)
        else:
            end = _statement_end(text, at, delimiter)
            yield text[at:end].strip()
            at = end + len(delimiter)


def statements(text: str) -> Iterator[str]:
    """The statements of a test file that change rows or structures, in order, for tables of InnoDB.

    It leaves out statements that depend on the test language's variables, change the whole server, or are not in the
    binlog.
    """
    for piece in _pieces(text):
        if _COMMAND.match(piece) or "$" in piece or not _KEPT.match(piece) or _REFUSED.search(piece):
            continue
        yield _ENGINE.sub("ENGINE=InnoDB", piece)
