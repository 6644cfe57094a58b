"""Builds a plan from the structures of an upstream table and its target: keys, buckets and writing of rows. Pure."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from dm_worker.syncer.rows.computed_samples import sampled_columns
from dm_worker.syncer.rows.conflict_sets import ConflictKey, Family, lower_case
from dm_worker.syncer.rows.key_normalization import (
    INCOMPARABLE,
    UNKNOWN_CHARSETS,
    KeyNormalizer,
    TargetCharsets,
    normalizer_of,
)
from dm_worker.syncer.rows.key_parts import compared_parts, deciding, period_keys, periods, trusted_row_key
from dm_worker.syncer.rows.row_matching import (
    DigestForm,
    condition,
    digest_form,
    is_listable,
    is_searchable,
    literal_text,
)
from dm_worker.syncer.rows.row_shape import NO_RULES, RowShape, TableRules
from dm_worker.syncer.rows.table_plan import COMPACT, ORDERED, ComputedColumn, RowLink, TablePlan
from pkg import errors
from pkg.errors import Code
from pkg.mysql import session_expressions
from pkg.mysql.bulk_types import can_load
from pkg.mysql.names import qualified, quote
from pkg.mysql.schema import Column, Index, IndexPart, TableInfo
from pkg.mysql.target_values import EXACT_VALUES, TargetValues
from pkg.rules import value_loss
from pkg.rules.value_loss import ColumnLoss, as_logged_value

#: Types with equal normalized bytes for equal values in the child and the parent of a foreign key.
_REFERABLE = frozenset(
    {
        *("tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "char", "varchar", "binary", "varbinary"),
        *("uuid", "inet4", "inet6", "date", "year"),
    }
)
_INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
_BITS = re.compile(r"[^0-9]")


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """``compact`` is the task's setting. ``charsets``: known facts about the target's collations; ``values``: the forms
    in which it takes values. ``lossy``: the target may change values that its columns can't store exactly.
    ``differing``: the session variables that make the upstream compute generated columns differently."""

    compact: bool = True
    charsets: TargetCharsets = UNKNOWN_CHARSETS
    values: TargetValues = EXACT_VALUES
    lossy: bool = False
    differing: Callable[[], Collection[str]] = tuple


def build(
    number: int,
    target_number: int,
    table_map: bytes,
    upstream: TableInfo,
    target: TableInfo,
    options: PlanOptions,
    *,
    incomparable: frozenset[str] = frozenset(),
    family: Family | None = None,
    rules: TableRules = NO_RULES,
) -> TablePlan:
    """The plan of one table under its ``rules``. Raises 36027 when the target lacks a column of the upstream, numbers
    its NULLs, or can't store any value of it, and as :class:`RowShape`.

    ``incomparable``: lower-case names of columns that can't be compared for some upstream table of this target;
    at least :func:`incomparable_columns`. ``family``: the tables that checked foreign keys connect to the target.
    """
    shape = RowShape(upstream, target, rules, options.values)
    columns = _WrittenColumns.of(upstream, target, shape, options)
    key = common_key(upstream, target, shape)
    further = _further_keys(target, key) if key else ()
    extra = any(not c.generated and shape.index_of(c.name) < 0 for c in target.columns)
    alone = _changes_alone(target, rules, extra and (bool(further) or not columns.upserts(options.values)))
    plan = TablePlan(
        number=number,
        target_number=target_number,
        source=(upstream.schema, upstream.name),
        target=(target.schema, target.name),
        table_map=table_map,
        columns=tuple(shape.columns[: len(upstream.columns)]),
        mode=ORDERED if not options.compact or not key or family or alone else COMPACT,
        key=tuple(shape.index_of(name) for name in key.columns) if key else (),
        key_names=key.columns if key else (),
        write=columns.numbers,
        write_names=tuple(column.name for column in columns.there),
        matchers=tuple(condition(here, there, options.values) for here, there in columns.compared),
        texts=tuple(literal_text(here, there) for here, there in columns.compared),
        spread=False,
        rewrite_existing=bool(further),
        extra_columns=extra,
        family=family.name if family is not None else "",
        acts=family is not None and family.acts,
        referenced=_referenced(target, family, shape),
        derived=shape.derived,
        filter=rules.filter,
        checks=_checks(upstream, target, shape, columns.numbers, lossy=options.lossy),
        period_keys=period_keys(shape, target),
        session_keys=_session_keys(target, further if key else target.unique_keys),
        listed=_is_listed(key, columns, options.values),
    )
    bulk = _with_bulk_forms(plan, columns, target, options.values)
    return _placed(bulk, shape, target, key, further, options, incomparable, family)


def _session_keys(target: TableInfo, keys: Iterable[Index]) -> tuple[str, ...]:
    """The names of those ``keys`` whose values depend on the session that writes a row."""
    names = set(session_expressions.keys_of_sessions(target))
    return tuple(index.name for index in keys if index.name in names)


def _is_listed(key: Index | None, columns: _WrittenColumns, values: TargetValues) -> bool:
    """Whether one statement may find rows by a list of their keys."""
    if key is None or len(key.columns) == 1:
        return True
    names = {name.lower() for name in key.columns}
    return all(is_listable(here, there, values) for here, there in columns.compared if there.name.lower() in names)


def _changes_alone(target: TableInfo, rules: TableRules, keeps: bool) -> bool:
    """Whether rows can't be upserted. A missing row must not be created from its change; values that exist only at the
    target must stay (``keeps``); the server takes no upserts for tables with periods in unique keys."""
    return rules.filter.leaves_gaps or keeps or bool(periods(target))


@dataclass(frozen=True, slots=True)
class _WrittenColumns:
    """The target's columns that rows have values for: ``there``, and ``numbers`` of their literals.

    ``pairs`` are the literals' columns and the target's. In ``compared``, the former are without a charset where
    literals may come in several. ``sampled``: generated ones that are compared with the upstream's.
    """

    there: tuple[Column, ...]
    numbers: tuple[int, ...]
    pairs: Sequence[tuple[Column, Column]]
    compared: Sequence[tuple[Column, Column]]
    sampled: tuple[ComputedColumn, ...]

    @classmethod
    def of(cls, upstream: TableInfo, target: TableInfo, shape: RowShape, options: PlanOptions) -> _WrittenColumns:
        """Raises 36027 when the target lacks a column of the upstream, numbers its NULLs or computes others."""
        _ensure_computed_alike(upstream, target, options)
        if not options.values.keeps_null_counters:
            _ensure_nulls_stay(upstream, target)
        there = _written(upstream, target, shape)
        numbers = tuple(shape.index_of(column.name) for column in there)
        pairs = [(shape.columns[i], column) for i, column in zip(numbers, there, strict=True)]
        compared = [(shape.literal_column(i), column) for i, column in zip(numbers, there, strict=True)]
        # A target that may change values decides about those that it computes as well.
        sampled = () if options.lossy else sampled_columns(upstream, target, shape, there, options.values)
        return cls(there, numbers, pairs, compared, sampled)

    def upserts(self, values: TargetValues) -> bool:
        """Whether the target takes their values by VALUES()."""
        return values.upserts_wide_bits or not any(map(_is_wide_bits, self.there))


def _filled_keys(target: TableInfo, key_names: Iterable[str]) -> tuple[str, ...]:
    """The key columns that a server may set to the current time when their row is updated: ON UPDATE, which older
    servers also assume for a TIMESTAMP that is declared without it."""
    columns = map(target.column, key_names)
    return tuple(c.name.lower() for c in columns if c is not None and c.type_name in ("timestamp", "datetime"))


def _checks(
    upstream: TableInfo, target: TableInfo, shape: RowShape, written: Sequence[int], *, lossy: bool
) -> tuple[tuple[int, ColumnLoss], ...]:
    """The literals that the target may store as other values. Raises 36027 for a column where none is safe."""
    found = []
    for loss in value_loss.table_losses(upstream, target, allowed=lossy, logged=True):
        number = shape.index_of(loss.column)
        if number >= len(upstream.columns):
            continue  # The task creates a mapped value, and its rule was compared with the target.
        if loss.every:
            raise errors.new(
                Code.SyncerUnitDMLColumnNotMatch,
                f"{qualified(target.schema, target.name)} does not keep values of "
                f"{qualified(upstream.schema, upstream.name)}: {value_loss.describe(loss)}",
                scope="downstream",
                workaround=value_loss.way_out((target.schema, target.name), loss),
            )
        if number in written:
            found.append((number, loss))
    return tuple(found)


def _with_bulk_forms(plan: TablePlan, columns: _WrittenColumns, target: TableInfo, values: TargetValues) -> TablePlan:
    """The plan with the rules for writing many rows at once, and for the target's own columns."""
    same = not plan.extra_columns
    plan = replace(
        plan,
        loadable=same and can_load(columns.pairs),
        numbered=any(column.auto_increment for column in target.columns),
        computed=tuple(column.name for column in target.columns if column.generated),
        # Without a key a row is not found at once.
        sampled=tuple(column for column in columns.sampled if plan.key or column.zoned),
        # Rows written before a refusal can only be undone there.
        bulk=columns.there if target.engine.lower() == "innodb" else (),
        alike=same and not plan.derived and all(_alike(here, there) for here, there in columns.pairs),
        upserts=columns.upserts(values),
        filled=_filled_keys(target, plan.key_names),
    )
    if plan.key or plan.extra_columns or not plan.bulk or plan.filter.leaves_gaps:
        return plan
    return replace(
        plan,
        digests=_digests(columns.compared, values),
        lookups=_lookups(target, columns.compared),
        integers=tuple(number for number, both in enumerate(columns.compared) if _are_integers(*both)),
    )


def _is_wide_bits(column: Column) -> bool:
    """Whether a BIT column has eight bytes."""
    return column.type_name == "bit" and int(_BITS.sub("", column.column_type) or 1) > 56


def _alike(here: Column, there: Column) -> bool:
    if here.type_name != there.type_name or here.charset != there.charset or (here.nullable and not there.nullable):
        return False
    if here.type_name in _INTEGERS:
        # Some versions show a display width.
        return here.unsigned == there.unsigned
    return here.column_type.lower() == there.column_type.lower()


def unspread(plan: TablePlan) -> TablePlan:
    """The plan with all rows of its target, or of its family, in one bucket."""
    return replace(plan, spread=False, normalizers=(), conflict_keys=())


def incomparable_columns(
    upstream: TableInfo,
    target: TableInfo,
    options: PlanOptions,
    family: Family | None = None,
    rules: TableRules = NO_RULES,
) -> frozenset[str]:
    """The columns of the target's unique and foreign keys (lower-case names) whose values can't be compared. Raises as
    :class:`RowShape`."""
    shape = RowShape(upstream, target, rules, options.values)
    # In a key with a period, rows also collide without equal periods.
    incomparable = set(periods(target))
    for part in [part for index in target.unique_keys for part in index.parts] + [
        IndexPart(name) for _, names, _ in _references(target, family) for name in names
    ]:
        if _normalizer(shape, target, part, options.charsets).kind == INCOMPARABLE:
            incomparable.add(part.column.lower())
    return frozenset(incomparable)


def _placed(
    plan: TablePlan,
    shape: RowShape,
    target: TableInfo,
    key: Index | None,
    further: Sequence[Index],
    options: PlanOptions,
    incomparable: frozenset[str],
    family: Family | None,
) -> TablePlan:
    """The plan with its distribution: by the key and the conflict keys, or the whole table in one bucket."""
    if key is None:
        return plan
    if family is not None and family.acts:
        return replace(plan, links=_links(shape, target, [key, *further], options, incomparable, family))

    def conflict_key(parts: Sequence[IndexPart], *name: str) -> ConflictKey | None:
        comparable = [part for part in parts if part.column.lower() not in incomparable]
        normalizers = [_normalizer(shape, target, part, options.charsets) for part in comparable]
        if not comparable or any(normalizer.kind == INCOMPARABLE for normalizer in normalizers):
            return None
        seed = zlib.crc32("\0".join(name).encode())
        columns = tuple(shape.index_of(part.column) for part in comparable)
        watched = () if len(comparable) == len(parts) else deciding(shape, target, plan.write, parts)
        return ConflictKey(seed, columns, tuple(normalizers), watched)

    def reference(names: Sequence[str], seed: Sequence[str]) -> ConflictKey | None:
        same = all(_is_referable(target, name) for name in names)
        # Child and parent must leave out the same columns: none.
        if not same or incomparable.intersection(names):
            return None
        return conflict_key([IndexPart(name) for name in names], *seed)

    normalizers = tuple(
        KeyNormalizer(INCOMPARABLE)
        if part.column.lower() in incomparable
        else _normalizer(shape, target, part, options.charsets)
        for part in key.parts
    )
    # Columns that can't be compared are left out: that gives more conflicts, never fewer.
    conflict_keys = [conflict_key(index.parts, *plan.target, index.name) for index in further]
    conflict_keys += [reference(names, seed) for seed, names, _ in _references(target, family)]
    found = tuple(one for one in conflict_keys if one is not None)
    if all(normalizer.kind == INCOMPARABLE for normalizer in normalizers) or len(found) < len(conflict_keys):
        return plan
    placed = replace(plan, spread=True, normalizers=normalizers, conflict_keys=found)
    return replace(placed, in_place=_updates_in_place(placed, target, key, options.values))


def _updates_in_place(plan: TablePlan, target: TableInfo, key: Index, values: TargetValues) -> bool:
    """Whether upserts of rows that exist can't update other rows, whatever values of unique keys these have.

    InnoDB inserts into the primary key before it looks at other keys. Only the server's own hashes come earlier (for
    long values, in MariaDB). Rows whose keys can't be compared as a whole are never found to be in conflict.
    """
    return (
        plan.rewrite_existing
        and plan.upserts
        and not plan.extra_columns
        and values.upserts_by_primary_key
        and target.engine.lower() == "innodb"
        and key.primary
        and not any(index.hashed for index in target.unique_keys)
        and all(normalizer.kind != INCOMPARABLE for normalizer in plan.normalizers)
    )


def _digests(columns: Sequence[tuple[Column, Column]], values: TargetValues) -> tuple[DigestForm, ...]:
    """The digest forms of all columns; empty when one has none."""
    forms = [digest_form(here, there, values) for here, there in columns]
    found = tuple(form for form in forms if form is not None)
    return found if len(found) == len(forms) else ()


def _lookups(target: TableInfo, columns: Sequence[tuple[Column, Column]]) -> tuple[int, ...]:
    """The numbers of columns by which an index of the target finds rows."""
    leading = {index.columns[0].lower() for index in target.indexes if index.columns}
    return tuple(
        number
        for number, (here, there) in enumerate(columns)
        if there.name.lower() in leading and is_searchable(here, there)
    )


def _are_integers(here: Column, there: Column) -> bool:
    return here.type_name in _INTEGERS and there.type_name in _INTEGERS


def _further_keys(target: TableInfo, key: Index) -> tuple[Index, ...]:
    """The unique keys other than ``key`` by which two rows with different keys can collide."""
    whole = {part.column.lower() for part in key.parts}
    return tuple(
        index
        for index in target.unique_keys
        if index is not key and not whole <= {part.column.lower() for part in compared_parts(index) if not part.length}
    )


def _links(
    shape: RowShape,
    target: TableInfo,
    keys: Sequence[Index],
    options: PlanOptions,
    incomparable: frozenset[str],
    family: Family,
) -> tuple[RowLink, ...]:
    """What the order of rows depends on: the row key, which comes first, further unique keys, and foreign keys. Empty
    if a value of one of them can't be compared."""
    references = _references(target, family)
    named: list[tuple[tuple[str, ...], tuple[IndexPart, ...], bool]]
    named = [((target.schema, target.name, index.name), compared_parts(index), False) for index in keys]
    named += [(seed, tuple(map(IndexPart, names)), refers) for seed, names, refers in references]
    if any(not _is_referable(target, name) for _, names, _ in references for name in names):
        return ()
    found = []
    for number, (seed, parts, refers) in enumerate(named):
        normalizers = tuple(_normalizer(shape, target, part, options.charsets) for part in parts)
        if any(one.kind == INCOMPARABLE for one in normalizers) or incomparable & {p.column.lower() for p in parts}:
            return ()
        columns = tuple(shape.index_of(part.column) for part in parts)
        found.append(RowLink(zlib.crc32("\0".join(seed).encode()), columns, normalizers, refers, number == 0))
    return tuple(found)


def _is_referable(target: TableInfo, name: str) -> bool:
    column = target.column(name)
    return column is not None and column.type_name in _REFERABLE


def _references(target: TableInfo, family: Family | None) -> list[tuple[tuple[str, ...], tuple[str, ...], bool]]:
    """The conflict keys of foreign keys: names for the seed, which child and parent share, this table's columns, and
    whether they refer to the parent's."""
    found: dict[tuple[tuple[str, ...], tuple[str, ...]], bool] = {}
    own = lower_case((target.schema, target.name))
    for key in family.keys if family is not None else ():
        order = sorted(range(len(key.columns)), key=lambda i: key.parent_columns[i].lower())
        columns = tuple(key.parent_columns[i].lower() for i in order)
        seed = (*lower_case(key.parent), "foreign", *columns)
        if lower_case(key.parent) == own:
            found[seed, columns] = False
        if lower_case(key.child) == own:
            found.setdefault((seed, tuple(key.columns[i].lower() for i in order)), True)
    return [(seed, names, refers) for (seed, names), refers in found.items()]


def _referenced(target: TableInfo, family: Family | None, shape: RowShape) -> tuple[int, ...]:
    """The columns that foreign keys which act refer to; all, where one of them is computed from others."""
    own = lower_case((target.schema, target.name))
    keys = [key for key in (family.keys if family is not None else ()) if key.acts and lower_case(key.parent) == own]
    names = sorted({name.lower() for key in keys for name in key.parent_columns})
    columns = [target.column(name) for name in names]
    if any(column is None or column.generated or shape.index_of(column.name) < 0 for column in columns):
        return tuple(range(len(shape.columns)))
    return tuple(shape.index_of(name) for name in names)


def _normalizer(shape: RowShape, target: TableInfo, part: IndexPart, charsets: TargetCharsets) -> KeyNormalizer:
    """The normalizer of an index part's values; ``INCOMPARABLE`` for a column that one side lacks."""
    at, there = shape.index_of(part.column), target.column(part.column)
    if at < 0 or there is None:
        return KeyNormalizer(INCOMPARABLE)
    return normalizer_of(shape.columns[at], there, part.length, charsets)


def _written(upstream: TableInfo, target: TableInfo, shape: RowShape) -> tuple[Column, ...]:
    """The target's columns that rows have values for: the upstream's in their order, then extracted ones."""
    written = []
    for column in upstream.columns:
        there = target.column(column.name)
        if there is None and not column.generated:
            raise errors.new(
                Code.SyncerUnitDMLColumnNotMatch,
                f"the target table {qualified(target.schema, target.name)} has no column {quote(column.name)}, which "
                f"the upstream table {qualified(upstream.schema, upstream.name)} has",
                # The server's answer to the statement that is not sent: scripts search for this text.
                raw=f"Error 1054 (42S22): Unknown column '{column.name}' in 'field list'",
                scope="downstream",
                workaround="Add the column to the target table, then resume the task.",
            )
        if there is not None and not there.generated and not as_logged_value(column, there).generated:
            written.append(there)
    found = (target.column(name) for name in shape.extracted)
    return (*written, *(column for column in found if column is not None))


def _ensure_computed_alike(upstream: TableInfo, target: TableInfo, options: PlanOptions) -> None:
    """Raises 36027 for generated columns for which the target would store other values than the upstream has."""
    name = (target.schema, target.name)
    columns = session_expressions.kept_otherwise(target, options.differing)
    if columns:
        raise errors.new(
            Code.SyncerUnitDMLColumnNotMatch,
            f"{session_expressions.problem(name, columns)} in {qualified(upstream.schema, upstream.name)}",
            scope="downstream",
            workaround=session_expressions.remedy(name, columns),
        )


def _ensure_nulls_stay(upstream: TableInfo, target: TableInfo) -> None:
    """Raises 36027 for a column whose NULLs the target would silently replace by numbers."""
    for column in upstream.columns:
        there = target.column(column.name)
        if column.nullable and there is not None and there.auto_increment:
            raise errors.new(
                Code.SyncerUnitDMLColumnNotMatch,
                f"the column {quote(column.name)} of {qualified(upstream.schema, upstream.name)} may be NULL, and the "
                f"target gives numbers to NULLs in its AUTO_INCREMENT column of "
                f"{qualified(target.schema, target.name)}",
                scope="downstream",
                workaround="Take AUTO_INCREMENT from the target's column, then resume the task. In TiDB: `SET SESSION "
                f"tidb_allow_remove_auto_inc = ON; ALTER TABLE {qualified(target.schema, target.name)} MODIFY "
                f"{quote(column.name)} {column.column_type} NULL;`.",
            )


def common_key(upstream: TableInfo, target: TableInfo, shape: RowShape) -> Index | None:
    """The target's row key if it also identifies the upstream's rows; None when rows have no common identity.

    Constants of the upstream table may be part of it: they distinguish its rows from those of other tables.
    """
    key = trusted_row_key(target)
    if key is None or any(not name or shape.index_of(name) < 0 for name in key.columns):
        return None
    wanted = {origin for name in key.columns if (origin := shape.origin_of(name))}
    for index in upstream.unique_keys:
        columns = [upstream.column(name) for name in index.columns]
        whole = all(c is not None and not c.nullable for c in columns)
        if whole and {name.lower() for name in index.columns} == wanted:
            return key
    return None
