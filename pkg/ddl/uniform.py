"""One spelling for statements that differ in blanks, comments and the case of keywords only."""

from __future__ import annotations

from pkg.ddl.tokens import Dialect, tokenize, word_set

#: Words that can't be names without quotes, so that their case means nothing.
_RESERVED = word_set(
    "ADD ALTER AS ASC BIGINT BINARY BLOB BY CASCADE CHANGE CHAR CHARACTER CHECK COLLATE COLUMN CONSTRAINT CREATE "
    "CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP DATABASE DEC DECIMAL DEFAULT DELETE DESC DOUBLE DROP EXISTS FALSE "
    "FLOAT FOREIGN FULLTEXT IF IGNORE INDEX INT INT1 INT2 INT3 INT4 INT8 INTEGER KEY KEYS LOCALTIME LOCALTIMESTAMP "
    "LONG LONGBLOB LONGTEXT MEDIUMBLOB MEDIUMINT MEDIUMTEXT NOT NULL NUMERIC ON ORDER PARTITION PRECISION PRIMARY REAL "
    "REFERENCES RENAME RESTRICT SET SMALLINT SPATIAL TABLE TINYBLOB TINYINT TINYTEXT TO TRUE UNIQUE UNSIGNED UPDATE "
    "USING VALUES VARBINARY VARCHAR VARYING WITH ZEROFILL"
)


def uniform(sql: str, dialect: Dialect) -> str:
    """The same statement with single blanks, without comments, and with reserved words in upper case.

    One with executable comments stays as it is: what of it counts depends on the server. Raises 36067 for an open
    quote.
    """
    if "/*!" in sql or "/*M!" in sql:
        return sql
    out: list[str] = []
    at = 0
    after_dot = False
    for token in tokenize(sql, dialect):
        if token.kind == "end":
            break
        if out and token.start > at:
            out.append(" ")
        # Behind a dot every word is a name.
        out.append(token.word if token.word in _RESERVED and not after_dot else token.text)
        at, after_dot = token.end, token.text == "."
    return "".join(out).removesuffix(";").rstrip()
