"""A position in the tokens, and the basic steps of every part of the parser."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Literal

from pkg.ddl.failure import parse_error
from pkg.ddl.statement import Mark, TableRef, Wording
from pkg.ddl.tokens import Dialect, Token, name_value, string_value, tokenize
from pkg.errors import DMError
from pkg.mysql.names import quote


class TokenCursor:
    """Reads tokens left to right; every ``expect…`` raises a 36067 error with the location."""

    def __init__(self, sql: str, dialect: Dialect, default_schema: str) -> None:
        self.sql = sql
        self.dialect = dialect
        self.default_schema = default_schema
        self.refs: list[TableRef] = []
        #: Spans that are not for the target.
        self.cuts: list[tuple[int, int]] = []
        self.marks: list[Mark] = []
        self._tokens = tokenize(sql, dialect)
        self._at = 0
        self._spellings: dict[int, str] = {}
        self._left_out: dict[int, str] = {}

    # -- looking ------------------------------------------------------------------------------------------------

    @property
    def token(self) -> Token:
        return self._tokens[self._at]

    def ahead(self, distance: int) -> Token:
        return self._tokens[min(self._at + distance, len(self._tokens) - 1)]

    @property
    def last_end(self) -> int:
        """The end of the last token that was read."""
        return self._tokens[self._at - 1].end if self._at else 0

    def read_since(self, offset: int) -> Iterator[Token]:
        """The tokens that were read from ``offset`` on, the last first."""
        return takewhile(lambda token: token.start >= offset, reversed(self._tokens[: self._at]))

    def behind(self) -> Sequence[Token]:
        """The next tokens."""
        return self._tokens[self._at :]

    def at_words(self, *keywords: str) -> bool:
        """Whether the next tokens are these keywords."""
        return all(self.ahead(i).word == word for i, word in enumerate(keywords))

    def at_any(self, *keywords: str) -> bool:
        """Whether the next token is one of these keywords."""
        return self._tokens[self._at].word in keywords

    def at_op(self, op: str) -> bool:
        return self.token.kind == "op" and self.token.text == op

    @property
    def at_end(self) -> bool:
        return self.token.kind == "end"

    # -- reading ------------------------------------------------------------------------------------------------

    def advance(self) -> Token:
        """Reads the next token."""
        token = self.token
        if token.kind != "end":
            self._at += 1
        return token

    def accept(self, *keywords: str) -> bool:
        """Reads these keywords if they are next."""
        # Nearly every call ends here: the parser tries dozens of keywords at each position.
        if self._tokens[self._at].word != keywords[0] or not self.at_words(*keywords):
            return False
        for word in keywords:
            self._spell(word)
        return True

    def accept_any(self, *keywords: str) -> str:
        """Reads one of these keywords if it is next; '' otherwise."""
        word = self._tokens[self._at].word
        return self._spell(word).word if word in keywords else ""

    def accept_op(self, op: str) -> bool:
        if not self.at_op(op):
            return False
        self._spell(op)
        return True

    def optional(self, word: str, *others: str) -> None:
        """Reads an optional keyword, or a synonym."""
        if self._tokens[self._at].word in (word, *others):
            self._spell(word)
        else:
            self._left_out[self._at] = word

    def expect(self, *keywords: str) -> None:
        if not self.accept(*keywords):
            raise self.error(f"expected {' '.join(keywords)}")

    def expect_op(self, op: str) -> None:
        if not self.accept_op(op):
            raise self.error(f"expected {op!r}")

    def name(self) -> str:
        if self.token.kind not in ("word", "name"):
            raise self.error("expected a name")
        name = name_value(self.token)
        self._spell(quote(name))
        return name

    def column(self) -> str:
        """A column's name, perhaps after its table's: that adds nothing, and the target's table has another name."""
        start, name = self.token.start, self.name()
        at = start
        while self.accept_op("."):
            at, name = self.token.start, self.name()
        if at > start:
            self.cuts.append((start, at))
        return name

    def setting(self) -> str:
        """A word that names no schema object, with or without quotes: BTREE, COPY, utf8mb4."""
        if self.token.kind not in ("word", "name"):
            raise self.error("expected a name")
        return name_value(self.advance())

    def name_or_string(self) -> str:
        """MySQL's forms for the name of a charset, collation or engine."""
        return self.string() if self.token.kind == "string" else self.setting()

    def string(self) -> str:
        if self.token.kind != "string":
            raise self.error("expected a string")
        return string_value(self.advance(), self.dialect)

    def integer(self) -> int:
        if self.token.kind != "number" or not self.token.text.isdigit():
            raise self.error("expected a number")
        return int(self.advance().text)

    def parenthesised(self) -> tuple[int, int]:
        """Reads a whole ``( … )`` and returns its offsets."""
        start = self.token.start
        self.expect_op("(")
        depth = 1
        while depth:
            token = self.advance()
            if token.kind == "end":
                raise parse_error(self.sql, start, "a parenthesis that is not closed")
            if token.kind == "op":
                depth += {"(": 1, ")": -1}.get(token.text, 0)
        return start, self.last_end

    def expression(self) -> None:
        """Reads ``( … )`` with columns of the statement's own table."""
        start, _ = self.parenthesised()
        read = [*reversed([*self.read_since(start)])]
        for token, dot, name in zip(read, read[1:], read[2:], strict=False):
            if (
                token.kind in ("word", "name")
                and dot.kind == "op"
                and dot.text == "."
                and name.kind in ("word", "name")
            ):
                self.cuts.append((token.start, name.start))

    def rest(self) -> None:
        """Reads the rest of the statement; its parentheses must match."""
        while not self.at_end and not self.at_op(";"):
            if self.at_op("("):
                self.parenthesised()
            elif self.at_op(")"):
                raise self.error("a parenthesis that was not opened")
            else:
                self.advance()

    def finish(self) -> None:
        """Requires the end of the statement."""
        self.accept_op(";")
        if not self.at_end:
            raise self.error("unexpected text")

    # -- one spelling ---------------------------------------------------------------------------------------------

    def spelt(self) -> Iterator[tuple[Token, str, str]]:
        """Every token with its uniform spelling, and the optional keyword before it.

        The spelling is '' if it is unknown whether the token is a keyword or a name.
        """
        for at, token in enumerate(self._tokens):
            yield token, self._spellings.get(at, ""), self._left_out.get(at, "")

    def _spell(self, spelling: str) -> Token:
        self._spellings[self._at] = spelling
        return self.advance()

    def mark(self, what: Wording, start: int) -> None:
        """Records the keywords from ``start`` to the last token read as not known to every family."""
        first = [*self.read_since(start)][-1]
        self.marks.append(Mark(what, first.word or first.text.upper(), start, self.last_end))

    def accept_marked(self, what: Wording, *keywords: str) -> bool:
        """As :meth:`accept`, and records the keywords."""
        start = self.token.start
        if not self.accept(*keywords):
            return False
        self.mark(what, start)
        return True

    # -- names of schemas and tables ------------------------------------------------------------------------------

    def table(
        self, role: Literal["subject", "target", "reference"] = "subject", default_schema: str | None = None
    ) -> TableRef:
        """Reads ``[schema.]table`` and records its offsets."""
        start = self.token.start
        first = self.name()
        schema, table = (first, self.name()) if self.accept_op(".") else (None, first)
        if schema is None:
            schema = self.default_schema if default_schema is None else default_schema
        if not schema:
            raise parse_error(self.sql, start, f"the table {table!r} has no schema, and no schema was selected")
        return self.record_name(TableRef(schema, table, start, self.last_end, role))

    def record_name(self, ref: TableRef) -> TableRef:
        """Records a name in the server's spelling."""
        if self.dialect.folds_names:
            ref = replace(ref, schema=ref.schema.lower(), table=ref.table.lower())
        self.refs.append(ref)
        return ref

    # -- phrases of many statements -----------------------------------------------------------------------

    def if_exists(self, *, rare: bool = False) -> bool:
        """``rare``: at a position where TiDB does not accept it. MySQL accepts it in no part of a statement."""
        return self.accept_marked("if exists" if rare else "part guard", "IF", "EXISTS")

    def if_not_exists(self, *, rare: bool = False) -> bool:
        return self.accept_marked("if exists" if rare else "part guard", "IF", "NOT", "EXISTS")

    def wait_option(self) -> None:
        """MariaDB's WAIT n and NOWAIT."""
        start = self.token.start
        if self.accept("WAIT"):
            self.integer()
            self.mark("wait", start)
        else:
            self.accept_marked("wait", "NOWAIT")

    def enforcement(self) -> None:
        """MySQL's options after a check."""
        closed, start = self.last_end - 1, self.token.start
        if self.accept("NOT", "ENFORCED"):
            self.mark("not enforced", closed)
        elif self.accept("ENFORCED"):
            self.mark("enforced", start)

    def error(self, what: str) -> DMError:
        return parse_error(self.sql, self.token.start, what)
