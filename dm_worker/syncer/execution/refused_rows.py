"""Which row of a statement the target refuses, and the error that names it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dm_worker.syncer.rows.computed_samples import as_plain
from dm_worker.syncer.rows.table_plan import TablePlan
from pkg import errors
from pkg.errors import Code, DMError
from pkg.errors.workarounds import Advice
from pkg.mysql import generated
from pkg.mysql.connection import TOO_LARGE_ROW, TOO_MUCH_AT_ONCE, error_number, error_text
from pkg.mysql.names import qualified, quote

#: The operator action for a row that the target refuses, by the server's error number.
REPAIRS = {
    1048: "Allow NULL in the target's column as in the upstream's, then resume the task.",
    1054: "Add the column to the target table, with the values of the upstream's rows, then resume the task.",
    1062: "Another row of the target has this key. Remove that row, or drop the unique key if only the target has it, "
    f"then {Advice.RESUME}. {Advice.BATCH_IN_SAFE_MODE}",
    1114: "Free space on the target, then resume the task.",
    1118: "Give the target table the upstream's row format and column types, then resume the task.",
    1146: (
        "Restore the target table with its rows, or exclude the upstream table with block-allow-list; then resume "
        "the task."
    ),
    1264: "Give the target's column a type that the value fits, then resume the task.",
    1292: "Give the target's column a type that the value fits, then resume the task.",
    1364: (
        "The target has a column that the upstream lacks, which is NOT NULL and has no default. Give it a default "
        "or allow NULL, then resume the task."
    ),
    1366: "Give the target's column a type and charset that the value fits, then resume the task.",
    1406: "Give the target's column a type that the value fits, then resume the task.",
    1451: "Rows of another target table refer to this row. Remove them, or drop the foreign key; then resume the task.",
    1452: "Add the row that the foreign key refers to, or drop the foreign key; then resume the task.",
    1526: "Add a partition for the value to the target table, then resume the task.",
    1690: "Change the target's generated column or constraint so that the value fits, then resume the task.",
    3140: "The target's JSON column can't hold the upstream's text. Give it the upstream's type, then resume the task.",
    3819: "Drop or change the target's CHECK constraint, then resume the task.",
    4025: "Drop or change the target's CHECK constraint, then resume the task.",
    **TOO_MUCH_AT_ONCE,
    **TOO_LARGE_ROW,
}
REPAIR = (
    f"Fix the target as described, then {Advice.RESUME}; it continues from where it stopped. "
    + Advice.BATCH_IN_SAFE_MODE
)
_ENUM_WORKAROUND = (
    "The target's strict session accepts only the members of an ENUM. If the upstream has ENUM's error value (e + "
    "0 = 0), set it to a member there, or let the task accept it: set target-database.session sql_mode: "
    '"ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO", which also truncates other values that do not fit, until the '
    "task is past this position. Otherwise add the member to the target's column."
)
_DUPLICATE, _TRUNCATED = 1062, 1265
#: The target refuses the statement itself, regardless of its rows: no privilege, no table, no column, bad syntax, too
#: long, or too much in its transaction.
_WHOLE = frozenset({1044, 1054, 1064, 1142, 1143, 1146, 1149, 1153, 1227, 1305, 1356, *TOO_MUCH_AT_ONCE})
#: A row's key in a message is cut to this many bytes.
_NAME = 300


def is_of_a_row(exc: BaseException) -> bool:
    """Whether the server refused a statement for one of its rows."""
    return error_number(exc) not in _WHOLE


def is_duplicate(exc: BaseException) -> bool:
    """Whether the server found another row with a key."""
    return error_number(exc) == _DUPLICATE


def first_bad(count: int, refused: Callable[[int, int], bool]) -> int:
    """The first of ``count`` rows that is refused when the rows are written in order.

    ``refused(first, last)`` writes the rows [first, last) after those written already. It returns whether that
    failed; then none of them is written. All rows together are known to fail. Calls it about log2(``count``) times and
    writes at most ``count`` rows twice.
    """
    good, bad = 0, count
    while bad - good > 1:
        middle = (good + bad) // 2
        if refused(good, middle):
            bad = middle
        else:
            good = middle
    return good


def refusal(exc: BaseException, plan: TablePlan, row: bytes, position: int, others: Iterable[TablePlan]) -> DMError:
    """The error of a row that the target refuses. ``row``: its key as literals; ``position``: the offset in the binlog
    after its event, 0 when only the batch is known. ``others``: the plans of the batch."""
    number = error_number(exc)
    where = f" whose event ends at binlog offset {position}" if position else ""
    name = row[:_NAME].decode("utf-8", "backslashreplace") + ("…" if len(row) > _NAME else "")
    columns = ",".join(plan.key_names)
    return errors.new(
        Code.DBExecuteFailed,
        f"the downstream refused the row ({name}) of {qualified(*plan.source)}"
        f"{f' (key: {columns})' if columns else ''}{where}, target table {qualified(*plan.target)}: {error_text(exc)}",
        raw=error_text(exc),
        scope="downstream",
        workaround=_repair(number, plan, others),
    )


def statement_refusal(exc: BaseException, plan: TablePlan) -> DMError:
    """The error of a statement that the target refuses regardless of its rows."""
    return errors.new(
        Code.DBExecuteFailed,
        f"the downstream refused a statement on {qualified(*plan.target)} with rows of {qualified(*plan.source)}: "
        f"{error_text(exc)}",
        raw=error_text(exc),
        scope="downstream",
        workaround=_repair(error_number(exc), plan, ()),
    )


def _repair(number: int, plan: TablePlan, others: Iterable[TablePlan]) -> str:
    if plan.computed and number in generated.REFUSALS:
        return generated.advice(plan.target, plan.computed, _plain_repair(number, plan, others))
    return _plain_repair(number, plan, others)


def _plain_repair(number: int, plan: TablePlan, others: Iterable[TablePlan]) -> str:
    if number == _TRUNCATED and any(column.type_name == "enum" for column in plan.columns):
        return _ENUM_WORKAROUND
    merged = sorted({qualified(*p.source) for p in others if p.target == plan.target and p.source != plan.source})
    if number == _DUPLICATE and merged:
        return (
            f"The target table merges this upstream table with {', '.join(merged)}: give them disjoint keys. "
            + REPAIRS[_DUPLICATE]
        )
    dependent = [column for column in plan.sampled if column.dependent]
    if number == _DUPLICATE and plan.session_keys:
        keys = ", ".join(map(quote, plan.session_keys))
        way_out = as_plain(plan, dependent[0]) if dependent else _without_keys(plan)
        return (
            f"If the key is {keys}: the target computes its values from the session's variables. Where a session of "
            "the upstream had another time_zone, or another variable that the expression depends on, two rows may have "
            f"one value at the target. {way_out} Otherwise: {REPAIRS[_DUPLICATE]}"
        )
    return REPAIRS.get(number, REPAIR)


def _without_keys(plan: TablePlan) -> str:
    """How the operator gets both rows into the target, whose values of a VIRTUAL column then depend on the reader."""
    drops = ", ".join(f"DROP KEY {quote(name)}" for name in plan.session_keys)
    return (
        f"Drop the key at the target alone: `ALTER TABLE {qualified(*plan.target)} {drops};`, then resume the task. "
        "A foreign key that refers to it has to be dropped before."
    )


def too_long(plan: TablePlan, row: bytes, size: int, most: int) -> DMError:
    """The error of a row whose statement of ``size`` bytes exceeds the target's limit ``most``."""
    name = row[:_NAME].decode("utf-8", "backslashreplace") + ("…" if len(row) > _NAME else "")
    return errors.new(
        Code.DBExecuteFailed,
        f"the row ({name}) of {qualified(*plan.source)} needs a statement of {size} bytes for the target table "
        f"{qualified(*plan.target)}, but the server accepts at most {most} bytes (max_allowed_packet)",
        scope="downstream",
        workaround=f"Raise max_allowed_packet of the target server above {size} (SET GLOBAL max_allowed_packet = …; at "
        "most 1 GiB), then resume the task. Binary values take twice their size in a statement.",
    )
