/* The inputs of a slice's partition, and the step from the states of its keys to a block for each bucket. */
#ifndef DM_PARTITION_H
#define DM_PARTITION_H

#include <Python.h>

#include <stdint.h>

#include "../common/map.h"
#include "compact.h"
#include "images.h"
#include "placement.h"

/* The data of one table plan; objects are borrowed from the caller's dict. */
typedef struct {
    Readers *readers;
    PyObject *prepare; /* (event) → (data, operation, start): for every event that is not ordinary */
    Placement *placement;
    uint32_t number, target, source;
    int moved;           /* an update changed a key */
    uint64_t changes[3]; /* rows by operation */
} Plan;

/* The data of one call. ``pairs``: a row hash and a conflict hash each. */
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

/* The states of all keys as {bucket: sections}. */
PyObject *partition_blocks(Partitioner *self, uint32_t buckets);

#endif
