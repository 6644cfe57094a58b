"""From text to a tree: MySQL's operators in their precedence, literals, CASE, CAST and calls of known functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal

from pkg.ddl.tokens import DEFAULT_DIALECT, Token, name_value, string_value, tokenize, word_set
from pkg.errors import DMError
from pkg.rules.expression_filter.syntax import ExpressionError, ExpressionNode

#: Function → minimum and maximum number of arguments.
FUNCTIONS: dict[str, tuple[int, int]] = {
    **dict.fromkeys(("LENGTH", "OCTET_LENGTH", "CHAR_LENGTH", "CHARACTER_LENGTH", "LOWER", "UPPER", "LCASE"), (1, 1)),
    **dict.fromkeys(("UCASE", "LTRIM", "RTRIM", "TRIM", "CRC32", "MD5", "ABS", "FLOOR", "CEIL", "CEILING"), (1, 1)),
    **dict.fromkeys(("SIGN", "DATE", "YEAR", "MONTH", "DAY", "DAYOFMONTH", "HOUR", "MINUTE", "SECOND"), (1, 1)),
    **dict.fromkeys(("ISNULL", "FROM_UNIXTIME", "REVERSE"), (1, 1)),
    **dict.fromkeys(("IFNULL", "NULLIF", "LEFT", "RIGHT", "INSTR", "MOD", "DATEDIFF", "DATE_FORMAT"), (2, 2)),
    **dict.fromkeys(("FIND_IN_SET",), (2, 2)),
    **dict.fromkeys(("REPLACE", "IF"), (3, 3)),
    **dict.fromkeys(("SUBSTR", "SUBSTRING", "MID", "LOCATE"), (2, 3)),
    **dict.fromkeys(("CONCAT", "COALESCE"), (1, 255)),
    **dict.fromkeys(("CONCAT_WS", "GREATEST", "LEAST"), (2, 255)),
    "ROUND": (1, 2),
}
#: Functions of the current time, which need no parentheses unless they end in ``()`` here → the meaning.
MOMENTS = {
    **dict.fromkeys(("NOW()", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP"), "NOW"),
    **dict.fromkeys(("CURDATE()", "CURRENT_DATE"), "CURDATE"),
    **dict.fromkeys(("CURTIME()", "CURRENT_TIME"), "CURTIME"),
    "UTC_TIMESTAMP": "UTC_TIMESTAMP",
    "UTC_DATE": "UTC_DATE",
    "UTC_TIME": "UTC_TIME",
    "UNIX_TIMESTAMP()": "UNIX_TIMESTAMP",
}
_SAME = {
    "OCTET_LENGTH": "LENGTH", "CHARACTER_LENGTH": "CHAR_LENGTH", "LCASE": "LOWER", "UCASE": "UPPER",
    "CEILING": "CEIL", "DAYOFMONTH": "DAY", "SUBSTR": "SUBSTRING", "MID": "SUBSTRING", "MOD": "%",
}  # fmt: skip
OPERATORS = (
    "OR || XOR AND && NOT ! = <=> <> != < <= > >= BETWEEN IN LIKE REGEXP RLIKE IS CASE IF | & << >> + - * / DIV % MOD"
    " ^ ~"
    " COLLATE BINARY CAST CONVERT"
)
UNITS = word_set("MICROSECOND SECOND MINUTE HOUR DAY WEEK MONTH QUARTER YEAR")
_CASTS = word_set("CHAR BINARY SIGNED UNSIGNED DECIMAL DATE DATETIME TIME")
_COMPARISONS = ("=", "<=>", "<>", "!=", "<", "<=", ">", ">=")
_OPERATORS = ("<=>", "<=", ">=", "<>", "!=", "<<", ">>", "||", "&&", "->", ":=")
_RESERVED = word_set(
    "AND OR XOR NOT BETWEEN IN LIKE REGEXP RLIKE IS CASE WHEN THEN ELSE DIV MOD COLLATE BINARY CAST CONVERT INTERVAL"
    " EXISTS SELECT FROM WHERE MATCH BY ESCAPE"
)
_MOST_DEEP = 40
_MAX_UINT64 = (1 << 64) - 1


def parse_tree(text: str, *, any_function: bool = False) -> ExpressionNode:
    """The tree of an expression. Raises :class:`ExpressionError` for an invalid or unsupported one. ``any_function``:
    the tree is not for computing, so that functions need not be known."""
    try:
        tokens = tokenize(text, DEFAULT_DIALECT)
    except DMError as exc:
        raise ExpressionError(0, exc.message) from exc
    parser = _ExpressionParser(_joined(tokens), any_function=any_function)
    tree = parser.expression()
    if parser.token.kind != "end":
        raise parser.unexpected("an operator or the end")
    _check_depth(tree)
    return tree


def reads_time(tree: ExpressionNode) -> bool:
    """Whether it depends on the time of the row's change."""
    return tree.op in MOMENTS.values() or any(map(reads_time, tree.args))


def _check_depth(tree: ExpressionNode) -> None:
    level = [tree]
    for _ in range(_MOST_DEEP):
        level = [arg for node in level for arg in node.args]
        if not level:
            return
    raise ExpressionError(level[0].at, f"more than {_MOST_DEEP} levels of operators")


def _joined(tokens: list[Token]) -> list[Token]:
    """Operators of several characters as one token."""
    out: list[Token] = []
    for token in tokens:
        last = out[-1] if out else None
        if token.kind == "op" and last is not None and last.kind == "op" and last.end == token.start:
            text = last.text + token.text
            if text in _OPERATORS:
                out[-1] = Token("op", text, last.start, token.end)
                continue
        out.append(token)
    return out


class _ExpressionParser:
    def __init__(self, tokens: list[Token], *, any_function: bool) -> None:
        self._tokens = tokens
        self._any_function = any_function
        self._next = 0
        self._depth = 0

    @property
    def token(self) -> Token:
        return self._tokens[self._next]

    def unexpected(self, wanted: str) -> ExpressionError:
        token = self.token
        found = "the end of the expression" if token.kind == "end" else repr(token.text)
        return ExpressionError(token.start, f"expected {wanted}, found {found}")

    def _advance(self) -> Token:
        token = self.token
        self._next += token.kind != "end"
        return token

    def _peek_op(self, *operators: str) -> bool:
        token = self.token
        return (
            token.text in operators
            if token.kind == "op"
            else token.word in operators
            if token.kind == "word"
            else False
        )

    def _take(self, *operators: str) -> str:
        """Reads one of ``operators``; returns it, or '' when none is next."""
        if not self._peek_op(*operators):
            return ""
        token = self._advance()
        return token.word or token.text

    def _want(self, text: str) -> None:
        if not self._take(text):
            raise self.unexpected(text)

    def expression(self) -> ExpressionNode:
        self._depth += 1
        if self._depth > _MOST_DEEP:
            raise ExpressionError(self.token.start, f"more than {_MOST_DEEP} levels of parentheses and calls")
        node = self._chain(self._xor, "OR", "OR", "||")
        self._depth -= 1
        return node

    def _binary(self, operand: Callable[[], ExpressionNode], operators: dict[str, str]) -> ExpressionNode:
        node = operand()
        while self._peek_op(*operators):
            token = self._advance()
            node = ExpressionNode(operators[token.word or token.text], token.start, (node, operand()))
        return node

    def _chain(self, operand: Callable[[], ExpressionNode], op: str, *forms: str) -> ExpressionNode:
        """Operands of AND or OR as a shallow tree, for any number of operands."""
        nodes = [operand()]
        offsets = []
        while self._peek_op(*forms):
            offsets.append(self._advance().start)
            nodes.append(operand())
        while len(nodes) > 1:
            pairs = [ExpressionNode(op, offsets[i], (nodes[i], nodes[i + 1])) for i in range(0, len(nodes) - 1, 2)]
            nodes = pairs + nodes[len(pairs) * 2 :]
            offsets = offsets[1::2]
        return nodes[0]

    def _xor(self) -> ExpressionNode:
        return self._binary(self._and, {"XOR": "XOR"})

    def _and(self) -> ExpressionNode:
        return self._chain(self._not, "AND", "AND", "&&")

    def _not(self) -> ExpressionNode:
        token = self.token
        if not self._take("NOT"):
            return self._comparison()
        return ExpressionNode("NOT", token.start, (self._deeper(self._not),))

    def _deeper(self, operand: Callable[[], ExpressionNode]) -> ExpressionNode:
        self._depth += 1
        if self._depth > _MOST_DEEP:
            raise ExpressionError(self.token.start, f"more than {_MOST_DEEP} levels of operators")
        node = operand()
        self._depth -= 1
        return node

    def _comparison(self) -> ExpressionNode:
        node = self._predicate()
        while True:
            token = self.token
            if self._take("IS"):
                node = self._is(node, token.start)
            elif self._peek_op(*_COMPARISONS):
                self._advance()
                op = "<>" if token.text == "!=" else token.text
                node = ExpressionNode(op, token.start, (node, self._predicate()))
            else:
                return node

    def _is(self, node: ExpressionNode, at: int) -> ExpressionNode:
        negated = bool(self._take("NOT"))
        what = self._take("NULL", "UNKNOWN", "TRUE", "FALSE")
        if not what:
            raise self.unexpected("NULL, TRUE, FALSE or UNKNOWN")
        test = ExpressionNode("IS " + what.replace("UNKNOWN", "NULL"), at, (node,))
        return ExpressionNode("NOT", at, (test,)) if negated else test

    def _predicate(self) -> ExpressionNode:
        node = self._bit_or()
        at = self.token.start
        negated = bool(self._take("NOT"))
        op = self._take("BETWEEN", "IN", "LIKE", "REGEXP", "RLIKE")
        if not op:
            if negated:
                raise self.unexpected("BETWEEN, IN, LIKE or REGEXP after NOT")
            return node
        if op == "BETWEEN":
            low = self._bit_or()
            self._want("AND")
            args: tuple[ExpressionNode, ...] = (node, low, self._deeper(self._predicate))
        elif op == "IN":
            self._want("(")
            args = (node, *self._list())
        elif op == "LIKE":
            args = (node, self._simple(), *((self._simple(),) if self._take("ESCAPE") else ()))
        else:
            op, args = "REGEXP", (node, self._bit_or())
        test = ExpressionNode(op, at, args)
        return ExpressionNode("NOT", at, (test,)) if negated else test

    def _list(self) -> tuple[ExpressionNode, ...]:
        """Expressions up to the closing parenthesis; at least one."""
        items = [self.expression()]
        while self._take(","):
            items.append(self.expression())
        self._want(")")
        return tuple(items)

    def _bit_or(self) -> ExpressionNode:
        return self._binary(self._bit_and, {"|": "|"})

    def _bit_and(self) -> ExpressionNode:
        return self._binary(self._shift, {"&": "&"})

    def _shift(self) -> ExpressionNode:
        return self._binary(self._sum, {"<<": "<<", ">>": ">>"})

    def _sum(self) -> ExpressionNode:
        node = self._product()
        while self._peek_op("+", "-"):
            token = self._advance()
            if self._take("INTERVAL"):
                node = self._interval(node, token)
            else:
                node = ExpressionNode(token.text, token.start, (node, self._product()))
        return node

    def _interval(self, node: ExpressionNode, token: Token) -> ExpressionNode:
        """The rest of ``node ± INTERVAL amount unit``."""
        amount = self.expression()
        unit = self._take(*UNITS)
        if not unit:
            raise self.unexpected("one of " + ", ".join(sorted(UNITS)))
        op = "DATE_ADD" if token.text in ("+", "DATE_ADD", "ADDDATE") else "DATE_SUB"
        return ExpressionNode(op, token.start, (node, amount), text=unit)

    def _product(self) -> ExpressionNode:
        return self._binary(self._power, {"*": "*", "/": "/", "DIV": "DIV", "%": "%", "MOD": "%"})

    def _power(self) -> ExpressionNode:
        return self._binary(self._unary, {"^": "^"})

    def _unary(self) -> ExpressionNode:
        token = self.token
        op = self._take("-", "+", "~", "!", "BINARY")
        if not op:
            return self._collate()
        inner = self._deeper(self._unary)
        if op == "+":
            return inner
        if op == "BINARY":
            return ExpressionNode("CAST", token.start, (inner,), text="BINARY")
        return ExpressionNode({"-": "NEG", "!": "NOT"}.get(op, op), token.start, (inner,))

    def _collate(self) -> ExpressionNode:
        node = self._simple()
        while True:
            token = self.token
            if not self._take("COLLATE"):
                return node
            node = ExpressionNode("COLLATE", token.start, (node,), text=self._name().lower())

    def _name(self) -> str:
        token = self._advance()
        if token.kind == "string":
            return string_value(token, DEFAULT_DIALECT)
        if token.kind not in ("word", "name"):
            self._next -= token.kind != "end"
            raise self.unexpected("a name")
        return name_value(token)

    def _simple(self) -> ExpressionNode:
        token = self.token
        if token.kind == "op" and token.text in "-+~!":
            return self._unary()
        if token.kind == "number":
            return self._number(self._advance())
        if token.kind == "string":
            return ExpressionNode("LITERAL", token.start, value=self._strings())
        if token.kind == "bits":
            # x'…' is a number only in MySQL.
            form = "" if token.text[:2] in ("x'", "X'") else "BITS"
            return ExpressionNode("LITERAL", self._advance().start, value=_bits(token), text=form)
        if self._take("("):
            node = self.expression()
            self._want(")")
            return node
        if token.kind == "word":
            return self._word(token)
        if token.kind == "name":
            return self._column()
        raise self.unexpected("a value, a column or a function")

    def _strings(self) -> str:
        """A string literal; adjacent ones are one."""
        parts = []
        while self.token.kind == "string":
            parts.append(string_value(self._advance(), DEFAULT_DIALECT))
        return "".join(parts)

    def _number(self, token: Token) -> ExpressionNode:
        text = token.text
        if "e" in text.lower():
            value = float(text)
            if math.isinf(value):
                raise ExpressionError(token.start, f"number {text} is too large")
            return ExpressionNode("LITERAL", token.start, value=value)
        if "." not in text and int(text) <= _MAX_UINT64:
            return ExpressionNode("LITERAL", token.start, value=int(text))
        number = Decimal(text)
        if len(number.as_tuple().digits) > 65 or -int(number.as_tuple().exponent) > 30:
            raise ExpressionError(token.start, f"number {text} has more than 65 digits, or 30 after the point")
        return ExpressionNode("LITERAL", token.start, value=number)

    def _word(self, token: Token) -> ExpressionNode:
        word = token.word
        after = self._tokens[self._next + 1]
        if word in ("NULL", "TRUE", "FALSE"):
            self._advance()
            return ExpressionNode("LITERAL", token.start, value={"NULL": None, "TRUE": 1, "FALSE": 0}[word])
        if word in ("DATE", "TIME", "TIMESTAMP") and after.kind == "string":
            self._advance()
            return ExpressionNode(
                "LITERAL", token.start, value=self._strings(), text=word.replace("TIMESTAMP", "DATETIME")
            )
        if word == "CASE":
            return self._case()
        if word in MOMENTS or (f"{word}()" in MOMENTS and after.text == "(" and after.kind == "op"):
            return self._moment(token)
        if after.text == "(" and after.kind == "op":
            return self._call(token)
        if word in _RESERVED:
            raise self.unexpected("a value, a column or a function")
        return self._column()

    def _column(self) -> ExpressionNode:
        at = self.token.start
        name = self._name()
        if self._peek_op("."):
            raise ExpressionError(self.token.start, "name columns without schema and table")
        if self._peek_op("->"):
            raise ExpressionError(self.token.start, "values inside JSON are not supported in expression filters")
        return ExpressionNode("COLUMN", at, text=name)

    def _moment(self, token: Token) -> ExpressionNode:
        word = self._advance().word
        if self._take("(") and not self._take(")"):
            if word == "UNIX_TIMESTAMP" or self.token.text != "0":
                raise ExpressionError(self.token.start, f"{word} takes no argument: the binlog has whole seconds only")
            self._advance()
            self._want(")")
        return ExpressionNode(MOMENTS.get(word) or MOMENTS[f"{word}()"], token.start)

    def _case(self) -> ExpressionNode:
        """The arguments: pairs of condition and value, then the ELSE value."""
        at = self._advance().start
        subject = None if self._peek_op("WHEN") else self.expression()
        args: list[ExpressionNode] = []
        while self._take("WHEN"):
            test = self.expression()
            args.append(test if subject is None else ExpressionNode("=", test.at, (subject, test)))
            self._want("THEN")
            args.append(self.expression())
        if not args:
            raise self.unexpected("WHEN")
        args.append(self.expression() if self._take("ELSE") else ExpressionNode("LITERAL", at))
        self._want("END")
        return ExpressionNode("CASE", at, tuple(args))

    def _call(self, token: Token) -> ExpressionNode:
        name = token.word
        self._advance()
        self._want("(")
        if name in ("CAST", "CONVERT"):
            return self._cast(token)
        if name in ("DATE_ADD", "DATE_SUB", "ADDDATE", "SUBDATE"):
            node = self.expression()
            self._want(",")
            self._want("INTERVAL")
            node = self._interval(node, token)
            self._want(")")
            return node
        if name == "TRIM":
            return self._trim(token.start)
        if name not in FUNCTIONS and self._any_function:
            return ExpressionNode(f"{name}()", token.start, () if self._take(")") else self._list())
        if name not in FUNCTIONS:
            known = ", ".join(sorted({*FUNCTIONS, *MOMENTS, "CAST", "CONVERT", "DATE_ADD", "DATE_SUB"}))
            raise ExpressionError(token.start, f"{name} is not supported. Operators: {OPERATORS}; functions: {known}")
        args = () if self._take(")") else self._arguments(name)
        least, most = FUNCTIONS[name]
        if not least <= len(args) <= most:
            raise ExpressionError(token.start, f"{name} takes {least} to {most} arguments, not {len(args)}")
        if name == "ISNULL":
            return ExpressionNode("IS NULL", token.start, args)
        if name == "LOCATE":
            name, args = "INSTR", (args[1], args[0], *args[2:])
        return ExpressionNode(_SAME.get(name, name), token.start, args)

    def _arguments(self, name: str) -> tuple[ExpressionNode, ...]:
        if name not in ("SUBSTR", "SUBSTRING", "MID"):
            return self._list()
        args = [self.expression()]
        while self._take(",", "FROM", "FOR"):
            args.append(self.expression())
        self._want(")")
        return tuple(args)

    def _trim(self, at: int) -> ExpressionNode:
        side = self._take("BOTH", "LEADING", "TRAILING")
        what = None if side and self._take("FROM") else self.expression()
        if what is not None and (side or self._peek_op("FROM")):
            self._want("FROM")
            args: tuple[ExpressionNode, ...] = (self.expression(), what)
        else:
            args = (self.expression() if what is None else what,)
        self._want(")")
        return ExpressionNode("TRIM", at, args, text=side or "BOTH")

    def _cast(self, token: Token) -> ExpressionNode:
        node = self.expression()
        if token.word == "CAST":
            self._want("AS")
        else:
            self._want(",")
        kind = self._take(*_CASTS)
        if not kind:
            raise self.unexpected("one of " + ", ".join(sorted(_CASTS)))
        if kind in ("SIGNED", "UNSIGNED"):
            self._take("INTEGER", "INT")
        numbers: list[int] = []
        if self._take("("):
            while self.token.kind == "number" and self.token.text.isdigit():
                numbers.append(int(self._advance().text))
                if not self._take(","):
                    break
            self._want(")")
        self._want(")")
        return ExpressionNode("CAST", token.start, (node,), text=kind, numbers=tuple(numbers))


def _bits(token: Token) -> bytes:
    """The bytes of a hex or bit literal in any of its forms."""
    text = token.text
    digits = text[2:-1] if text[1] == "'" else text[2:]
    if text[0] in "xX" or text[:2] == "0x":
        if len(digits) % 2 and text[1] == "'":
            raise ExpressionError(token.start, f"{text} has an odd number of digits")
        return bytes.fromhex("0" * (len(digits) % 2) + digits)
    if set(digits) - {"0", "1"}:
        raise ExpressionError(token.start, f"{text} has digits other than 0 and 1")
    return int(digits or "0", 2).to_bytes((len(digits) + 7) // 8, "big")
