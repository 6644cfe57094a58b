"""Random filter expressions over a table of many types, with the rows that they are asked about."""

from __future__ import annotations

from hypothesis import strategies as st

COLUMNS = {
    "i": "INT",
    "u": "BIGINT UNSIGNED",
    "b": "BIGINT",
    "t": "TINYINT",
    "d": "DECIMAL(12,3)",
    "w": "DECIMAL(30,10)",
    "f": "DOUBLE",
    "g": "FLOAT",
    "s": "VARCHAR(30) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
    "c": "CHAR(10) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
    "l": "VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_swedish_ci",
    "r": "VARBINARY(20)",
    "da": "DATE",
    "dt": "DATETIME",
    "ts": "TIMESTAMP(3) NULL",
    "ti": "TIME",
    "e": "ENUM('new','Paid','ß') CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
    "m": "SET('x','y','z') CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
    "bi": "BIT(9)",
    "y": "YEAR",
}
VALUES = {
    "i": ["0", "1", "-1", "5", "2147483647", "-2147483648", "20240229"],
    "u": ["0", "1", "18446744073709551615", "9223372036854775808", "9007199254740993"],
    "b": ["0", "-1", "7", "9223372036854775807", "-9223372036854775808", "9007199254740993"],
    "t": ["0", "1", "-128", "127", "3"],
    "d": ["0", "1.500", "-1.500", "2.5", "999999999.999", "-0.001", "0.333"],
    "w": ["0", "0.0000000001", "-99999999999999999999.9999999999", "1.5", "3"],
    "f": ["0", "1.5", "-2.5e0", "1e308", "0.1", "9007199254740993"],
    "g": ["0", "1.5", "0.1", "-3e10"],
    "s": [
        "''",
        "'a'",
        "'A '",
        "'é'",
        "'Straße'",
        "'12abc'",
        "' 7'",
        "'1e2'",
        "'a%b_c'",
        "'😀x'",
        "'O''Brien\\\\'",
        "'0.5'",
        "'a\\tb'",
    ],
    "c": ["''", "'a'", "'A'", "'é'", "'10'", "'😀'", "'x,y'", "'\\t'"],
    "l": ["''", "'a'", "'Äb'", "'é€'", "'ÿ'", "'7'", "'ß'"],
    "r": ["''", "'a'", "'A '", "x'00ff'", "x'e4'", "'12'"],
    "da": ["'2024-02-29'", "'0000-00-00'", "'2023-00-15'", "'9999-12-31'", "'1999-12-31'"],
    "dt": ["'2024-02-29 23:59:59'", "'0000-00-00 00:00:00'", "'2020-01-31 00:00:00'", "'9999-12-31 23:59:59'"],
    "ts": ["'2024-02-29 23:59:59.5'", "'2020-01-31 06:00:00.125'", "'1999-12-31 20:00:00'"],
    "ti": ["'00:00:00'", "'-838:59:59'", "'12:34:56'", "'-00:00:01'", "'100:00:00'"],
    "e": ["'new'", "'Paid'", "'ß'"],
    "m": ["''", "'x'", "'x,z'", "'y,z'"],
    "bi": ["0", "1", "511"],
    "y": ["0", "1999", "2024", "1901"],
}

_INTS = ("i", "u", "b", "t", "bi", "y", "e", "m")
_NUMBERS = (*_INTS, "d", "w", "f", "g")
_TEXTS = ("s", "c", "l", "e", "m", "r")
_MOMENTS = ("da", "dt", "ts")
_NUMBER_LITERALS = [
    "0",
    "1",
    "-1",
    "2",
    "5",
    "127",
    "1.5",
    "-0.001",
    "2.50",
    "0.333",
    "1e0",
    "0.1",
    "1e2",
    "9223372036854775807",
    "18446744073709551615",
    "9007199254740993",
    "x'07'",
    "0x01",
    "b'1'",
    "NULL",
    "TRUE",
    "FALSE",
    "2024",
]
_TEXT_LITERALS = (
    "'a'",
    "'A'",
    "'a '",
    "''",
    "'E'",
    "'é'",
    "'ss'",
    "'new'",
    "'x,z'",
    "'12'",
    "'x'",
    "'%'",
    "'a%'",
    "'_b%'",
    "'\\\\'",
    "NULL",
    "'Ä'",
    "'b'",
    "'10'",
    "'strasse'",
    "'paid '",
    "',' ",
)
_MOMENT_LITERALS = (
    "'2024-02-29'",
    "'2020-01-31 05:30:00'",
    "'2020-01-31'",
    "DATE'2024-02-29'",
    "NULL",
    "TIMESTAMP'2024-03-01 05:29:59.500'",
)
_TIME_LITERALS = ("'12:34:56'", "'00:00:00'", "TIME'-00:00:01'", "'100:00:00'")
_COMPARE = st.sampled_from(("=", "<>", "<", "<=", ">", ">=", "<=>"))


def _any(*items: str) -> st.SearchStrategy[str]:
    return st.sampled_from(items)


def _number(depth: int) -> st.SearchStrategy[str]:
    leaf = _any(*_NUMBERS) | _any(*_NUMBER_LITERALS)
    if not depth:
        return leaf
    inner, text, moment, condition = _number(depth - 1), _text(depth - 1), _moment(depth - 1), _condition(depth - 1)
    return st.one_of(
        leaf,
        st.builds("({} {} {})".format, inner, _any("+", "-", "*", "/", "DIV", "%", "+", "-"), inner),
        st.builds("({} {} {})".format, inner, _any("&", "|", "^", "<<", ">>"), inner),
        st.builds("{}({})".format, _any("ABS", "FLOOR", "CEIL", "ROUND", "SIGN", "-", "~"), inner),
        st.builds("ROUND({}, {})".format, inner, _any("0", "1", "2")),
        st.builds("{}({})".format, _any("LENGTH", "CHAR_LENGTH", "CRC32"), text),
        st.builds("{}({}, {})".format, _any("INSTR", "LOCATE", "FIND_IN_SET"), text, text),
        st.builds("{}({})".format, _any("YEAR", "MONTH", "DAY"), moment),
        st.builds("{}({})".format, _any("HOUR", "MINUTE", "SECOND"), _any("dt", "ts", "ti")),
        st.builds("DATEDIFF({}, {})".format, moment, moment),
        st.builds("{}({}, {})".format, _any("IFNULL", "NULLIF", "COALESCE", "GREATEST", "LEAST"), inner, inner),
        st.builds("IF({}, {}, {})".format, condition, inner, inner),
        st.builds("CAST({} AS {})".format, inner, _any("SIGNED", "UNSIGNED", "DECIMAL(10,2)", "DECIMAL(20,5)")),
        st.builds("({})".format, condition),
    )


def _text(depth: int) -> st.SearchStrategy[str]:
    leaf = _any(*_TEXTS) | _any(*_TEXT_LITERALS)
    if not depth:
        return leaf
    inner, number, moment = _text(depth - 1), _number(depth - 1), _moment(depth - 1)
    return st.one_of(
        leaf,
        st.builds(
            "{}({})".format, _any("LOWER", "UPPER", "TRIM", "LTRIM", "RTRIM", "REVERSE", "MD5", "BINARY "), inner
        ),
        st.builds("CONCAT({}, {})".format, inner, inner | _any("i", "d", "da", "ts")),
        st.builds("CONCAT_WS('-', {}, {})".format, inner, inner),
        st.builds(
            "SUBSTRING({}, {}, {})".format, inner, _any("1", "2", "0", "-1", "-2", "t"), _any("1", "2", "0", "t")
        ),
        st.builds("SUBSTRING({}, {})".format, inner, _any("1", "2", "0", "-1", "t")),
        st.builds("{}({}, {})".format, _any("LEFT", "RIGHT"), inner, _any("1", "2", "0", "t")),
        st.builds("REPLACE({}, {}, {})".format, inner, inner, inner),
        st.builds("TRIM({} {} FROM {})".format, _any("BOTH", "LEADING", "TRAILING"), _any("'a'", "'x'"), inner),
        st.builds("COALESCE({}, {})".format, inner, inner),
        st.builds("DATE_FORMAT({}, '%Y-%m-%d')".format, moment),
        st.builds("CAST({} AS CHAR)".format, inner | number),
        st.builds("{} COLLATE utf8mb4_bin".format, _any("s", "c")),
    )


def _moment(depth: int) -> st.SearchStrategy[str]:
    leaf = _any(*_MOMENTS) | _any(*_MOMENT_LITERALS)
    if not depth:
        return leaf
    inner = _moment(depth - 1)
    return st.one_of(
        leaf,
        st.builds("DATE({})".format, inner),
        st.builds("CAST({} AS {})".format, inner, _any("DATE", "DATETIME(6)")),
        st.builds(
            "({} {} INTERVAL {} {})".format,
            _any(*_MOMENTS),
            _any("+", "-"),
            _any("1", "t", "40"),
            _any("DAY", "MONTH", "YEAR", "HOUR", "SECOND", "WEEK", "QUARTER"),
        ),
    )


def _condition(depth: int) -> st.SearchStrategy[str]:
    inner = max(0, depth - 1)
    number, text, moment, time = _number(inner), _text(inner), _moment(inner), _any("ti", *_TIME_LITERALS)
    simple = st.one_of(
        st.builds("{} {} {}".format, number, _COMPARE, number),
        st.builds("{} {} {}".format, text, _COMPARE, text),
        st.builds("{} {} {}".format, number, _COMPARE, text),
        st.builds("{} {} {}".format, moment, _COMPARE, moment),
        st.builds("ti {} {}".format, _COMPARE, time),
        *(st.builds("{} {}BETWEEN {} AND {}".format, x, _any("", "NOT "), x, x) for x in (number, text, moment)),
        *(st.builds("{} {}IN ({}, {})".format, x, _any("", "NOT "), x, x) for x in (number, text, moment)),
        st.builds("{} {}LIKE {}".format, text, _any("", "NOT "), text | _any("'%a%'", "'_'", "'%\\\\%%'", "'a|%b%'")),
        st.builds("{} LIKE 'a|%b%' ESCAPE '|'".format, text),
        st.builds("{} REGEXP {}".format, text, _any("'^a'", "'[0-9]+$'", "'a|b.'", "'^.$'", "'(a|e)b?'", "'^[^a]'")),
        st.builds("{} IS {}NULL".format, number | text | moment, _any("", "NOT ")),
        number,
        text,
    )
    if not depth:
        return simple
    deeper = _condition(depth - 1)
    return st.one_of(
        simple,
        st.builds("({}) {} ({})".format, deeper, _any("AND", "OR", "XOR"), deeper),
        st.builds("NOT ({})".format, deeper),
        st.builds("({}) IS {}{}".format, deeper, _any("", "NOT "), _any("TRUE", "FALSE", "UNKNOWN")),
        st.builds("CASE WHEN {} THEN {} ELSE {} END".format, deeper, deeper, deeper),
    )


#: A condition of a few levels.
CONDITIONS = _condition(1) | _condition(2)
