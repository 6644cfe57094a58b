/* Normalized key values, as in dm_worker/syncer/rows/key_normalization.py: equal for values that a unique key treats
 * as equal. */
#ifndef DM_NORMALIZER_H
#define DM_NORMALIZER_H

#include <Python.h>

#include "../common/buffer.h"

/* How a literal is normalized: unchanged, without its last digits, to nothing, as folded text, by Python.
 * kernel_layout.py next to that module has the same numbers. */
enum { NORMALIZE_EXACT, NORMALIZE_BLOCK, NORMALIZE_ANY, NORMALIZE_TEXT, NORMALIZE_CALL, NORMALIZE_COUNT };

typedef struct {
    PyObject_HEAD
    int kind;
    size_t prefix; /* characters, 0 for all */
    int folds;
    size_t points; /* entries of the table of weights */
    uint32_t *ends;
    unsigned char *weights;
    PyObject *far, *call;
} KeyNormalizer;

extern PyTypeObject normalizer_type;

/* The end of a whole number, or of literals that end with one, without its last three digits. */
size_t block_end(const uint8_t *literal, size_t size);

/* ``literal`` must not be in ``out``. */
int append_normalized(const KeyNormalizer *self, const uint8_t *literal, size_t size, Buffer *out);

#endif
