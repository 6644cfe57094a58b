/* The bucket of a row: the hash of its normalized key, and the keys by which rows conflict. */
#ifndef DM_PLACEMENT_H
#define DM_PLACEMENT_H

#include <Python.h>

#include "../common/buffer.h"

/* A further unique key or a foreign key: rows with equal values in its columns conflict. */
typedef struct {
    uint32_t seed;
    PyObject *columns, *normalizers; /* tuples of one length */
    PyObject *deciding;              /* a tuple: the columns that are equal when a change keeps the key's values */
    uint32_t *numbers, *deciding_numbers;
} ConflictKey;

/* How the rows of a table are distributed over the buckets. */
typedef struct {
    PyObject_HEAD
    uint32_t seed;
    int spread, exact, any, block; /* block: exact but for the last one, a whole number without its last digits */
    PyObject *normalizers;
    Py_ssize_t conflict_key_count, widest; /* widest: one more than the highest column number */
    ConflictKey *conflict_keys;
} Placement;

extern PyTypeObject placement_type;

/* The row hash of a key: its literals, joined by commas. ``scratch`` is overwritten. */
int row_hash(const Placement *self, const uint8_t *key, size_t size, Buffer *scratch, uint32_t *hash);

#endif
