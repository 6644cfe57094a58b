/* One inserted or deleted row in the states of a slice's keys. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "row_changes.h"

int new_span(const Buffer *arena, size_t from, Span *span)
{
    size_t size = arena->size - from;
    if (size > UINT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "a row is more than 4 GiB of SQL");
        return -1;
    }
    span->at = from;
    span->size = (uint32_t)size;
    return 0;
}

/* One change to the key at the end of the arena; frees the parts that are not needed. */
static int fold_change(Partitioner *self, const Plan *plan, int op, Span key, Span values, size_t keep)
{
    States *states = &self->states;
    uint32_t hash = hash_of(self->arena.data + key.at, key.size, plan->target);
    size_t slot = states_slot(states, self->arena.data, hash, plan->target, key);
    if (states->slots[slot]) {
        self->arena.size = keep;
        Entry *known = &states->entries[states->slots[slot] - 1];
        int other =
            known->plan != plan->number && self->plans[map_find(&self->by_number, known->plan)].source != plan->source;
        return entry_step(states, known, self->arena.data, op, plan->number, other ? OTHER_SOURCE : SAME_SOURCE,
                          values);
    }
    Entry *entry = states_add(states, slot, hash, plan->target, key);
    if (entry == NULL)
        return -1;
    entry->state = (uint8_t)op;
    entry->plan = plan->number;
    entry->values = values;
    return 0;
}

int partition_delete(Partitioner *self, const Plan *plan, const Value *values)
{
    size_t start = self->arena.size;
    Span key;
    if (append_key(plan->readers, values, &self->arena) < 0 || new_span(&self->arena, start, &key) < 0)
        return -1;
    return fold_change(self, plan, DELETE, key, no_values, start);
}

int partition_put(Partitioner *self, const Plan *plan, int op, const Value *values)
{
    Span text, key;
    size_t start = self->arena.size;
    if (append_tuple(plan->readers, values, &self->arena) < 0 || new_span(&self->arena, start, &text) < 0)
        return -1;
    size_t middle = self->arena.size;
    if (append_key(plan->readers, values, &self->arena) < 0 || new_span(&self->arena, middle, &key) < 0)
        return -1;
    return fold_change(self, plan, op, key, text, middle);
}
