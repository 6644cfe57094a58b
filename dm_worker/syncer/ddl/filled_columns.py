"""What a new column holds in the rows that a table has: whether the target's rows got the upstream's value. Pure.

The upstream fills a new column in all rows when the statement runs. The target may have the column before: another
table that merges ran the statement first, or somebody prepared the target. Then the target filled the column in each
row when it was written, with its own default of that time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from pkg import ddl
from pkg.ddl.columns import bytes_of
from pkg.ddl.statement import AddColumn, ChangeColumn, ColumnDef, DropColumn, RenameColumn
from pkg.ddl.tokens import Dialect, Token, string_value, tokenize, word_set
from pkg.mysql.names import quote

_NUMBERS = word_set(
    """BIT BOOL BOOLEAN TINYINT SMALLINT MEDIUMINT MIDDLEINT INT INTEGER BIGINT INT1 INT2 INT3 INT4 INT8 DECIMAL DEC
    NUMERIC FIXED NUMBER FLOAT FLOAT4 FLOAT8 DOUBLE REAL YEAR"""
)
_TIMES = word_set("DATE TIME DATETIME TIMESTAMP")
_CLOCK = word_set(
    """NOW CURRENT_TIMESTAMP LOCALTIME LOCALTIMESTAMP CURRENT_DATE CURDATE CURRENT_TIME CURTIME SYSDATE UTC_DATE
    UTC_TIME UTC_TIMESTAMP UNIX_TIMESTAMP"""
)
_TRUTH = {"TRUE": "1", "FALSE": "0"}
_NULL, _IMPLICIT, _TIME = "NULL", "no default", "the current time"


@dataclass(frozen=True, slots=True)
class FilledOtherwise:
    """A column with another value in rows of the target: what the upstream's rows got, what the target's, and the SQL
    condition for rows that may have it.

    ``definition``: the column as the upstream filled it, '' without a default that is a literal. The target shows a
    default in its own form; only it can tell whether two are the same, by :meth:`is_shown_in` a table with this column.
    """

    column: str
    upstream: str
    target: str
    rows: str
    definition: str
    _there: ColumnDef
    _shown_in: Dialect

    def is_shown_in(self, shown: str, flavor: str) -> bool:
        """Whether a table with this column alone, as SHOW CREATE shows it, has the default of the target's. Raises
        36067 for a table that can't be parsed."""
        tried = ddl.parse(shown, default_schema="d", flavor=flavor)
        if tried.body is None:
            return False
        (column,) = tried.body.columns
        one, other = _fill(column, tried.dialect), _fill(self._there, self._shown_in)
        return bool(one.kind) and _same(one, column, other, self._there)


@dataclass(frozen=True, slots=True)
class _Fill:
    """``kind``: NULL, the type's own value (no default), the time, a text, or '' for an expression."""

    kind: str
    text: str = ""


def adds_guarded(statement: ddl.DDLStatement) -> bool:
    """Whether it adds columns IF NOT EXISTS: it may have added none."""
    return any(isinstance(action, AddColumn) and action.if_not_exists for action in statement.actions)


def filled_otherwise(
    statement: ddl.DDLStatement, shown: str, flavor: str, had: Collection[str] | None
) -> Iterator[FilledOtherwise]:
    """The columns of ``statement`` that the target's table has already, with another value for rows.

    ``shown``: SHOW CREATE of that table, on a server of ``flavor``. ``had``: the columns of the upstream's table before
    the statement, in lower case; None: unknown. Expressions are not compared, nor columns IF NOT EXISTS of an unknown
    table. Raises 36067 for a table that can't be parsed.
    """
    names = [quote(action.column.name).lower() for action in statement.actions if isinstance(action, AddColumn)]
    if not any(name in shown.lower() for name in names):
        return
    there = ddl.parse(shown, default_schema="d", flavor=flavor)
    present = {column.name.lower(): column for column in there.body.columns} if there.body is not None else {}
    gone = {
        name.lower()
        for action in statement.actions
        for name in ([action.name] if isinstance(action, DropColumn) else [])
        + ([action.old_name] if isinstance(action, ChangeColumn | RenameColumn) else [])
    }
    for action in statement.actions:
        if not isinstance(action, AddColumn):
            continue
        name = action.column.name.lower()
        if name not in present or name in gone or (action.if_not_exists and (had is None or name in had)):
            continue
        found = _difference(action.column, statement.dialect, present[name], there.dialect)
        if found is not None:
            yield found


def _difference(added: ColumnDef, dialect: Dialect, there: ColumnDef, shown_in: Dialect) -> FilledOtherwise | None:
    if added.generated or there.generated:
        return None
    one, other = _fill(added, dialect), _fill(there, shown_in)
    clock = other.kind == _TIME or there.on_update
    if not clock and (not one.kind or not other.kind or _same(one, added, other, there)):
        return None
    name = quote(there.name)
    # MySQL has no DEFAULT() for a default in parentheses.
    computed = clock or other.kind == _IMPLICIT or (there.default or "").startswith("(")
    return FilledOtherwise(
        there.name,
        _shown(one, added),
        "the time of their own change" if clock else _shown(other, there),
        "TRUE" if computed else f"{name} <=> DEFAULT({name})",
        "" if clock or one.kind != "text" or other.kind != "text" else _definition(added),
        there,
        shown_in,
    )


def _definition(column: ColumnDef) -> str:
    null = "NOT NULL" if column.nullable is False else "NULL"
    return f"{quote(column.name)} {ddl.type_text(column.type)} {null} DEFAULT {column.default}"


def _shown(fill: _Fill, column: ColumnDef) -> str:
    return f"DEFAULT {column.default}" if column.default is not None else fill.kind


def _fill(column: ColumnDef, dialect: Dialect) -> _Fill:
    tokens = [token for token in tokenize(column.default or "NULL", dialect) if token.kind != "end"]
    while len(tokens) > 2 and tokens[0].text == "(" and tokens[-1].text == ")":
        tokens = tokens[1:-1]
    if [token.word for token in tokens] == ["NULL"]:
        return _Fill(_IMPLICIT if column.nullable is False or column.primary else _NULL)
    if tokens[0].word in _CLOCK:
        return _Fill(_TIME)
    text = _literal(tokens, column, dialect)
    return _Fill("") if text is None else _Fill("text", text)


def _literal(tokens: list[Token], column: ColumnDef, dialect: Dialect) -> str | None:
    """The value of a literal; None for any other expression."""
    if len(tokens) == 2 and tokens[0].word.startswith("_") and tokens[1].kind in ("string", "bits"):
        tokens = tokens[1:]
    sign = "-" if tokens[0].text == "-" else ""
    if len(tokens) == 2 and tokens[0].text in ("-", "+"):
        tokens = tokens[1:]
    if len(tokens) != 1:
        return None
    token = tokens[0]
    if token.kind == "string":
        return sign + string_value(token, dialect)
    if token.kind == "number":
        return sign + token.text
    if token.kind == "bits":
        value = bytes_of(token.text)
        return str(int.from_bytes(value, "big")) if column.type.name in _NUMBERS else value.decode("utf-8", "replace")
    return _TRUTH.get(token.word)


def _same(one: _Fill, added: ColumnDef, other: _Fill, there: ColumnDef) -> bool:
    one, other = (_explicit(fill, column) for fill, column in ((one, added), (other, there)))
    if one == other or one.kind != other.kind:
        return one == other
    types = {added.type.name, there.type.name}
    if types & _NUMBERS:
        return _number(one.text) is not None and _number(one.text) == _number(other.text)
    return bool(types & _TIMES) and _moment(one.text) == _moment(other.text)


def _explicit(fill: _Fill, column: ColumnDef) -> _Fill:
    """The value of a type without a default as a text, where it is a literal of the type."""
    if fill.kind != _IMPLICIT:
        return fill
    if column.type.name == "ENUM":
        return _Fill("text", column.type.args[0])
    if column.type.name in _NUMBERS:
        return _Fill("text", "0")
    return fill if column.type.name in _TIMES else _Fill("text")


def _number(text: str) -> Decimal | None:
    try:
        return Decimal(text.strip())
    except InvalidOperation:
        return None


def _moment(text: str) -> str:
    """A date or time without what is zero anyway."""
    text = text.strip()
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.removesuffix(" 00:00:00")
