"""Dates and times: parses them, extracts parts, adds intervals. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo

from pkg.rules.expression_filter.syntax import EvaluationError, ExpressionError, ExpressionNode
from pkg.rules.expression_filter.types import INT, TypedExpression, ValueKind, ValueType, as_exact, made, temporal_text

DateTimeParts = tuple[int, ...]
_MOMENT = re.compile(r"(\d{4})-(\d\d?)-(\d\d?)(?:[ T](\d\d?):(\d\d?):(\d\d?)(?:\.(\d{0,6}))?)?", re.ASCII)
_TIME = re.compile(r"(-?)(\d{1,3}):(\d\d):(\d\d)(?:\.(\d{0,6}))?", re.ASCII)
_MOST_HOURS = 838
_CLOCK = (0, 0, 0, 0)
_MICROS = {"MICROSECOND": 1, "SECOND": 10**6, "MINUTE": 60 * 10**6, "HOUR": 3600 * 10**6}
_DAYS = {"DAY": 1, "WEEK": 7}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_MAX_TIMESTAMP = (1 << 31) - 1


def read_moment(text: str) -> tuple[DateTimeParts, int] | None:
    """A date, or a date and time, and its number of fraction digits; None for other text. The date may be invalid."""
    match = _MOMENT.fullmatch(text)
    if match is None:
        return None
    day = tuple(int(part) for part in match.groups()[:3])
    if match[4] is None:
        return day, 0
    fraction = match[7] or ""
    return (*day, *(int(part) for part in match.groups()[3:6]), int(fraction.ljust(6, "0"))), len(fraction)


def read_time(text: str) -> tuple[int, int] | None:
    """Signed microseconds and the number of fraction digits; None for text that is not a time."""
    match = _TIME.fullmatch(text)
    if match is None or int(match[2]) > _MOST_HOURS or int(match[3]) > 59 or int(match[4]) > 59:
        return None
    fraction = match[5] or ""
    seconds = int(match[2]) * 3600 + int(match[3]) * 60 + int(match[4])
    micros = seconds * 10**6 + int(fraction.ljust(6, "0"))
    return (-micros if match[1] else micros), len(fraction)


def local_reader(zone: tzinfo) -> Callable[[str], DateTimeParts]:
    """Converts a TIMESTAMP in UTC to the session's time."""

    def read(text: str) -> DateTimeParts:
        moment = _moment(text)
        return to_zone(moment, zone) if moment[0] else moment

    return read


def to_zone(moment: DateTimeParts, zone: tzinfo) -> DateTimeParts:
    local = datetime(*moment, tzinfo=UTC).astimezone(zone)  # type: ignore[misc,arg-type]
    return (*local.timetuple()[:6], local.microsecond)


def _moment(text: str) -> DateTimeParts:
    found = read_moment(text)
    if found is None:
        raise EvaluationError(f"{text!r} is not a date")
    return found[0]


#: For a column's text.
read_date = read_datetime = _moment


def read_duration(text: str) -> int:
    found = read_time(text)
    if found is None:
        raise EvaluationError(f"{text!r} is not a time")
    return found[0]


def _real_date(moment: DateTimeParts) -> bool:
    try:
        date(*moment[:3])
    except ValueError:
        return False
    return len(moment) == 3 or (moment[3] < 24 and moment[4] < 60 and moment[5] < 60)


def constant(arg: TypedExpression, kind: str) -> TypedExpression:
    """A text literal as a date, datetime or time. Raises :class:`ExpressionError` for other or ambiguous text."""
    text = arg.get(())
    if text is None:
        return arg
    if kind == "time":
        time = read_time(text)
        if time is not None:
            return TypedExpression(ValueType("time", scale=time[1]), lambda _: time[0], arg.at, constant=True)
        raise arg.refuse(f"{text!r} is not a time like '12:30:00'")
    found = read_moment(text)
    if found is None or not _real_date(found[0]):
        raise arg.refuse(f"{text!r} is not a date like '2024-05-31' or '2024-05-31 12:30:00'")
    moment, scale = found
    type_ = ValueType("date") if len(moment) == 3 else ValueType("datetime", scale=scale)
    return TypedExpression(type_, lambda _: moment, arg.at, constant=True)


def common(args: list[TypedExpression], at: int) -> list[TypedExpression]:
    """Converts dates, times and literals to one form for a comparison."""
    kinds = {arg.kind for arg in args} - {"null", "text"}
    if "time" in kinds and len(kinds) > 1:
        raise ExpressionError(at, "a time next to a date is not supported")
    kind = "time" if "time" in kinds else "datetime"
    typed = [_operand(arg, kind) for arg in args]
    if {arg.kind for arg in typed} - {"null"} == {"date"}:
        return typed
    return [as_datetime(arg) if arg.kind == "date" else arg for arg in typed]


def _operand(arg: TypedExpression, kind: str) -> TypedExpression:
    if arg.kind != "text":
        return arg
    if not arg.constant:
        raise arg.refuse("text next to a date or time is not supported unless it is a literal")
    return constant(arg, kind)


def as_datetime(arg: TypedExpression) -> TypedExpression:
    return made(ValueType("datetime"), lambda day: (*day, *_CLOCK), arg, at=arg.at) if arg.kind == "date" else arg


def temporal(arg: TypedExpression, *kinds: str) -> TypedExpression:
    """An argument that must be a date or datetime (or a literal of one), or of other ``kinds``."""
    if arg.kind == "text" and arg.constant:
        return constant(arg, "datetime" if "date" in kinds else "time")
    if arg.kind not in (*kinds, "null"):
        raise arg.refuse(f"{' or '.join(kinds)} needed here, not {arg.kind}")
    return arg


_PARTS = {"YEAR": 0, "MONTH": 1, "DAY": 2}
_CLOCK_PARTS = {"HOUR": 3, "MINUTE": 4, "SECOND": 5}


def part(node: ExpressionNode, arg: TypedExpression) -> TypedExpression:
    """YEAR, MONTH, DAY, HOUR, MINUTE, SECOND."""
    if node.op in _PARTS:
        index = _PARTS[node.op]
        return made(INT, lambda moment: moment[index], temporal(arg, "date", "datetime"), at=node.at)
    index = _CLOCK_PARTS[node.op]
    arg = temporal(arg, "datetime", "time")
    if arg.kind != "time":
        return made(INT, lambda moment: moment[index], arg, at=node.at)
    divisor, modulus = {3: (3600, 1 << 30), 4: (60, 60), 5: (1, 60)}[index]
    return made(INT, lambda micros: abs(micros) // 10**6 // divisor % modulus, arg, at=node.at)


def to_date(node: ExpressionNode, arg: TypedExpression) -> TypedExpression:
    """DATE(…) and CAST AS DATE."""
    return made(ValueType("date"), lambda moment: moment[:3], temporal(arg, "date", "datetime"), at=node.at)


def cast(node: ExpressionNode, arg: TypedExpression) -> TypedExpression:
    """CAST AS DATE, DATETIME and TIME."""
    if node.text == "DATE":
        return to_date(node, arg)
    scale = node.numbers[0] if node.numbers else 0
    wanted = ("date", "datetime") if node.text == "DATETIME" else ("time",)
    arg = temporal(arg, *wanted)
    if arg.type.scale > scale:
        raise ExpressionError(node.at, f"a cast that drops fractions of seconds is not supported; use {node.text}(6)")
    if arg.kind == "date":
        return as_datetime(arg)
    return made(ValueType(arg.kind, scale=scale), lambda value: value, arg, at=node.at)


def date_difference(node: ExpressionNode, one: TypedExpression, other: TypedExpression) -> TypedExpression:
    """DATEDIFF; NULL for an invalid date."""

    def days(a: DateTimeParts, b: DateTimeParts) -> int | None:
        if not (_real_date(a) and _real_date(b)):
            return None
        return date(*a[:3]).toordinal() - date(*b[:3]).toordinal()

    args = [temporal(arg, "date", "datetime") for arg in (one, other)]
    return made(INT, days, *args, at=node.at)


def add(node: ExpressionNode, arg: TypedExpression, amount: TypedExpression) -> TypedExpression:
    """DATE_ADD and DATE_SUB; NULL for an invalid date, and beyond the years 1 to 9999."""
    arg = temporal(arg, "date", "datetime")
    amount = as_exact(amount)
    if amount.kind == "decimal":
        raise amount.refuse("the amount of an interval must be a whole number")
    unit = node.text
    clock = unit in _MICROS
    if clock:
        arg = as_datetime(arg)
    sign = -1 if node.op == "DATE_SUB" else 1
    type_ = (
        ValueType("date")
        if arg.kind == "date"
        else ValueType("datetime", scale=6 if unit == "MICROSECOND" else arg.type.scale)
    )
    return made(type_, lambda moment, count: _moved(moment, unit, sign * count), arg, amount, at=node.at)


def _moved(moment: DateTimeParts, unit: str, count: int) -> DateTimeParts | None:
    if not _real_date(moment):
        return None
    if unit in _MONTHS:
        months = moment[0] * 12 + moment[1] - 1 + count * _MONTHS[unit]
        year, month = divmod(months, 12)
        if not 1 <= year <= 9999:
            return None
        day = min(moment[2], _last_day(year, month + 1))
        return (year, month + 1, day, *moment[3:])
    try:
        if unit in _DAYS:
            moved = date(*moment[:3]) + timedelta(days=count * _DAYS[unit])
            return (moved.year, moved.month, moved.day, *moment[3:])
        later = datetime(*moment) + timedelta(microseconds=count * _MICROS[unit])  # type: ignore[arg-type]
    except OverflowError:
        return None
    return (*later.timetuple()[:6], later.microsecond)


def _last_day(year: int, month: int) -> int:
    following = date(year + month // 12, month % 12 + 1, 1) if (year, month) != (9999, 12) else date.max
    return 31 if following == date.max else (following - timedelta(days=1)).day


def from_unixtime(node: ExpressionNode, arg: TypedExpression, zone: tzinfo) -> TypedExpression:
    """A time in the session's zone. Servers differ for seconds beyond 2038."""
    arg = as_exact(arg)
    if arg.kind == "decimal":
        raise arg.refuse("FROM_UNIXTIME needs a whole number")

    def convert(seconds: int) -> DateTimeParts | None:
        if seconds < 0:
            return None
        if seconds > _MAX_TIMESTAMP:
            raise EvaluationError(f"FROM_UNIXTIME({seconds}) depends on the server's version")
        return to_zone((*(datetime.fromtimestamp(seconds, UTC).timetuple()[:6]), 0), zone)

    return made(ValueType("datetime"), convert, arg, at=node.at)


def now(node: ExpressionNode, zone: tzinfo) -> TypedExpression:
    """NOW and the like: the time of the row's change, whenever it is applied. It is the last value of a row."""
    kinds: dict[str, ValueKind] = {"CURDATE": "date", "UTC_DATE": "date", "CURTIME": "time", "UTC_TIME": "time"}
    kind = kinds.get(node.op, "datetime")
    where = UTC if node.op.startswith("UTC") else zone

    def moment(row: Sequence[bytes]) -> DateTimeParts | int:
        local = datetime.fromtimestamp(int(row[-1]), where)
        if kind == "time":
            return (local.hour * 3600 + local.minute * 60 + local.second) * 10**6
        return local.timetuple()[:3] if kind == "date" else (*local.timetuple()[:6], 0)

    if node.op == "UNIX_TIMESTAMP":
        return TypedExpression(ValueType("int", unsigned=True, digits=10), lambda row: int(row[-1]), node.at)
    return TypedExpression(ValueType(kind), moment, node.at)


_FORMATS: dict[str, Callable[[DateTimeParts], str]] = {
    "Y": lambda m: f"{m[0]:04d}",
    "y": lambda m: f"{m[0] % 100:02d}",
    "m": lambda m: f"{m[1]:02d}",
    "c": lambda m: f"{m[1]}",
    "d": lambda m: f"{m[2]:02d}",
    "e": lambda m: f"{m[2]}",
    "H": lambda m: f"{m[3]:02d}",
    "i": lambda m: f"{m[4]:02d}",
    "s": lambda m: f"{m[5]:02d}",
    "S": lambda m: f"{m[5]:02d}",
    "f": lambda m: f"{m[6]:06d}",
    "T": lambda m: temporal_text(m, 0)[11:],
    "%": lambda _: "%",
}


def date_format(node: ExpressionNode, arg: TypedExpression, form: TypedExpression) -> TypedExpression:
    """DATE_FORMAT with the numeric specifiers."""
    if form.kind != "text" or not form.constant:
        raise form.refuse("DATE_FORMAT needs its format as a literal")
    pieces: list[str | Callable[[DateTimeParts], str]] = []
    for specifier, plain in re.findall(r"%(.?)|([^%]+)", form.get(()), re.DOTALL):
        if not plain and specifier not in _FORMATS:
            raise form.refuse(f"%{specifier} is not supported in DATE_FORMAT; known are %{' %'.join(_FORMATS)}")
        pieces.append(plain or _FORMATS[specifier])
    arg = as_datetime(temporal(arg, "date", "datetime"))

    def render(moment: DateTimeParts) -> str:
        return "".join(piece if isinstance(piece, str) else piece(moment) for piece in pieces)

    return made(ValueType("text"), render, arg, at=node.at)
