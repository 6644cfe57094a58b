/* From a slice's events to the states of its keys, and from these to a block for each bucket. */
#ifndef DM_PARTITION_H
#define DM_PARTITION_H

#include <Python.h>

#include <stdint.h>

#include "../common/map.h"
#include "compact.h"
#include "images.h"
#include "placement.h"

/* What is known of one table plan; objects are borrowed from the caller's dict. */
typedef struct {
    Readers *readers;
    PyObject *prepare; /* (event) → (data, operation, start): for all that is not an ordinary event */
    Placement *placement;
    uint32_t number, target, source;
    int moved;           /* an update changed a key */
    uint64_t changes[3]; /* rows by operation */
} Plan;

/* What one call works with. ``pairs``: a row hash and a conflict hash each. */
typedef struct {
    Plan *plans;
    size_t plan_count;
    Map by_number;
    States states;
    Buffer arena, literal, normalized;
    Value *values;
    Map pair_numbers;
    Buffer pairs;
} Partitioner;

/* The end of the arena, from ``from`` on. */
int new_span(const Buffer *arena, size_t from, Span *span);

static const Span no_values = {0, 0};

/* The row with these values is gone. */
int partition_delete(Partitioner *self, const Plan *plan, const Value *values);

/* The row has these values now, by INSERT or UPDATE. */
int partition_put(Partitioner *self, const Plan *plan, int op, const Value *values);

/* A change to a table with conflict keys. An update that changes a value of one is a delete and an insert, so that the
 * value is free before another row takes it. */
int partition_conflicting(Partitioner *self, const Plan *plan, int op, const Value *before, const Value *after);

/* The states of all keys as {bucket: sections}. */
PyObject *partition_blocks(Partitioner *self, uint32_t buckets);

#endif
