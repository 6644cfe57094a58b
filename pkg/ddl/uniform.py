"""A uniform text for statements that differ only in blanks, comments, quotes of names, and optional keywords."""

from __future__ import annotations

from pkg.ddl.parser import read_statement
from pkg.ddl.rewrite import edited
from pkg.ddl.token_cursor import TokenCursor
from pkg.ddl.tokens import Dialect, Token, word_set
from pkg.errors import DMError

#: Keywords that can't be names without quotes, so that their case never matters.
_RESERVED = word_set(
    "ADD ALTER AS ASC BIGINT BINARY BLOB BY CASCADE CHANGE CHAR CHARACTER CHECK COLLATE COLUMN CONSTRAINT CREATE "
    "CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP DATABASE DEC DECIMAL DEFAULT DELETE DESC DOUBLE DROP EXISTS FALSE "
    "FLOAT FOREIGN FULLTEXT IF IGNORE INDEX INT INT1 INT2 INT3 INT4 INT8 INTEGER KEY KEYS LOCALTIME LOCALTIMESTAMP "
    "LONG LONGBLOB LONGTEXT MEDIUMBLOB MEDIUMINT MEDIUMTEXT NOT NULL NUMERIC ON ORDER PARTITION PRECISION PRIMARY REAL "
    "REFERENCES RENAME RESTRICT SET SMALLINT SPATIAL TABLE TINYBLOB TINYINT TINYTEXT TO TRUE UNIQUE UNSIGNED UPDATE "
    "USING VALUES VARBINARY VARCHAR VARYING WITH ZEROFILL"
)
#: Names without a schema stay so: this one never gets into a text.
_ANY_SCHEMA = "-"


def uniform(sql: str, dialect: Dialect) -> str:
    """The statement in a uniform spelling, which all statements with the same parts share; its meaning is unchanged.

    Single blanks, no comments; keywords in upper case and names in backticks, where the parser can distinguish them; no
    optional COLUMN and INDEX; ADD (…, …) as single parts. Parts that the parser does not read (expressions, partitions)
    keep their words, except reserved ones. So different texts may still have the same meaning. A text with executable
    comments, including TiDB's, stays unchanged: its meaning depends on the server. Raises 36067 for an open quote.
    """
    if "/*!" in sql or "/*M!" in sql or "/*T!" in sql:
        return sql
    try:
        return _spelt(_read(_without_lists(sql, dialect), dialect))
    except DMError:
        return _spelt(TokenCursor(sql, dialect, _ANY_SCHEMA))


def _read(sql: str, dialect: Dialect) -> TokenCursor:
    cursor = TokenCursor(sql, dialect, _ANY_SCHEMA)
    statement = read_statement(cursor)
    # Settings of the session contain variables and values, which the parser does not read.
    return TokenCursor(sql, dialect, _ANY_SCHEMA) if statement.cuts else cursor


def _without_lists(sql: str, dialect: Dialect) -> str:
    """The text with ``ADD COLUMN a …, ADD COLUMN b …`` for ``ADD (a …, b …)``."""
    specs = read_statement(TokenCursor(sql, dialect, _ANY_SCHEMA)).specs
    lists = [(one, [f"{head} {sql[start:end]}" for head, start, end in one.elements]) for one in specs if one.elements]
    return edited(sql, [(one.start, one.end, ", ".join(parts)) for one, parts in lists])


def _spelt(cursor: TokenCursor) -> str:
    out: list[str] = []
    before, before_spelt = Token("end", "", 0, 0), False
    for token, spelling, left_out in cursor.spelt():
        if token.kind == "end":
            break
        if left_out:
            word = Token("word", left_out, token.start, token.start, left_out)
            out += [_gap(before, before_spelt, word, True), left_out]
            before, before_spelt = word, True
        out += [_gap(before, before_spelt, token, bool(spelling)), spelling or _plain(token, before)]
        before, before_spelt = token, bool(spelling)
    return "".join(out).removesuffix(";")


def _plain(token: Token, before: Token) -> str:
    """A token of which only the kind is known."""
    # After a dot every word is a name.
    if token.word in _RESERVED and before.text != ".":
        return token.word
    if token.kind == "string" and token.text[0] == '"' and not any(sign in token.text[1:-1] for sign in "\"'\\"):
        return f"'{token.text[1:-1]}'"
    return token.text


def _gap(before: Token, before_spelt: bool, token: Token, spelt: bool) -> str:
    """The separator of two tokens. A blank between a function's name and its parenthesis may matter."""
    if before.kind == "end" or _is_op(before, "(") or _is_op(token, ")", ",", ";"):
        return ""
    if _is_op(before, ","):
        return " "
    after_known, known = before_spelt and before.kind != "op", spelt and token.kind != "op"
    joined = (before_spelt and _is_op(before, ".", "=")) or (spelt and _is_op(token, ".", "="))
    if joined or (after_known and _is_op(token, "(")):
        return ""
    # Without a blank, two strings would be one with a quote in it.
    return " " if before.end < token.start or after_known or known or before.kind == token.kind == "string" else ""


def _is_op(token: Token, *ops: str) -> bool:
    return token.kind == "op" and token.text in ops
