/* Conflict sets: pairs of a row and a value of a conflict key, for tables with further unique or foreign keys. As in
 * dm_worker/syncer/rows/conflict_sets.py.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

#include "../common/crc32.h"
#include "conflicts.h"
#include "normalizer.h"
#include "row_changes.h"

static int add_pair(Partitioner *self, uint32_t row, uint32_t conflict)
{
    uint32_t count = (uint32_t)(self->pairs.size / 8);
    int64_t number = map_number(&self->pair_numbers, (uint64_t)row << 32 | conflict, count);
    if (number < 0 || (number == count && buffer_reserve(&self->pairs, 8) < 0))
        return -1;
    if (number == count) {
        put32(self->pairs.data + self->pairs.size, row);
        put32(self->pairs.data + self->pairs.size + 4, conflict);
        self->pairs.size += 8;
    }
    return 0;
}

/* Whether two images have the same literal in a column: 1 or 0. */
static int same_literal(Partitioner *self, const Readers *readers, uint32_t i, const Value *before, const Value *after)
{
    if (same_origin(readers, i, before, after))
        return 1;
    if (is_null(readers, i, before) || is_null(readers, i, after))
        return 0;
    self->literal.size = 0;
    if (append_value(readers, i, before, &self->literal) < 0)
        return -1;
    size_t middle = self->literal.size;
    if (append_value(readers, i, after, &self->literal) < 0)
        return -1;
    const unsigned char *start = self->literal.data;
    return self->literal.size - middle == middle && memcmp(start, start + middle, middle) == 0;
}

/* The pair of a row and its values in one image; none when one of them is NULL. */
static int collect_image(Partitioner *self, const Readers *readers, const ConflictKey *key, uint32_t row,
                         const Value *values)
{
    Py_ssize_t count = PyTuple_GET_SIZE(key->columns);
    for (Py_ssize_t n = 0; n < count; n++)
        if (is_null(readers, key->numbers[n], values))
            return 0;
    self->normalized.size = 0;
    for (Py_ssize_t n = 0; n < count; n++) {
        self->literal.size = 0;
        if ((n && append(&self->normalized, ",", 1) < 0) ||
            append_value(readers, key->numbers[n], values, &self->literal) < 0 ||
            append_normalized((KeyNormalizer *)PyTuple_GET_ITEM(key->normalizers, n), self->literal.data,
                              self->literal.size, &self->normalized) < 0)
            return -1;
    }
    return add_pair(self, row, crc32_of(key->seed, self->normalized.data, self->normalized.size));
}

/* The pairs of a change; 1 when it changes the values of a conflict key, else 0. A missing image is NULL. */
static int collect_change(Partitioner *self, const Plan *plan, const Value *before, const Value *after,
                          uint32_t old_row, uint32_t new_row)
{
    int changes = 0;
    for (Py_ssize_t i = 0; i < plan->placement->conflict_key_count; i++) {
        const ConflictKey *key = &plan->placement->conflict_keys[i];
        int same = before != NULL && after != NULL;
        for (Py_ssize_t n = 0; same > 0 && n < PyTuple_GET_SIZE(key->deciding); n++)
            same = same_literal(self, plan->readers, key->deciding_numbers[n], before, after);
        if (same < 0)
            return -1;
        if (same && old_row == new_row)
            continue;
        changes = changes || !same;
        if ((before != NULL && collect_image(self, plan->readers, key, old_row, before) < 0) ||
            (after != NULL && collect_image(self, plan->readers, key, new_row, after) < 0))
            return -1;
    }
    return changes;
}

/* The key of an image at the end of the arena, and its row hash. */
static int hashed_key(Partitioner *self, const Plan *plan, const Value *values, Span *key, uint32_t *row)
{
    size_t start = self->arena.size;
    if (append_key(plan->readers, values, &self->arena) < 0 || new_span(&self->arena, start, key) < 0)
        return -1;
    return row_hash(plan->placement, self->arena.data + start, key->size, &self->normalized, row);
}

int partition_conflicting(Partitioner *self, const Plan *plan, int op, const Value *before, const Value *after)
{
    size_t start = self->arena.size;
    Span old = no_values, new = no_values;
    uint32_t old_row = 0, new_row = 0;
    if ((before != NULL && hashed_key(self, plan, before, &old, &old_row) < 0) ||
        (after != NULL && hashed_key(self, plan, after, &new, &new_row) < 0))
        return -1;
    int same = op == UPDATE && old.size == new.size &&
               memcmp(span_of(self->arena.data, old), span_of(self->arena.data, new), old.size) == 0;
    self->arena.size = start;
    int changes = collect_change(self, plan, before, after, old_row, new_row);
    if (changes < 0)
        return -1;
    if (after == NULL)
        return partition_delete(self, plan, before);
    if (op == UPDATE && (changes || !same))
        return partition_delete(self, plan, before) < 0 ? -1 : partition_put(self, plan, INSERT, after);
    return partition_put(self, plan, op, after);
}
