/* Rows of two sides that have not met their equal. */
#ifndef DM_UNPAIRED_H
#define DM_UNPAIRED_H

#include <Python.h>

#include <stdint.h>

#include "../common/buffer.h"

enum { UPSTREAM, TARGET, SIDES };

/* A row as the server sent it: values with their lengths before them. Its first `compared` bytes decide whether rows
 * are equal. */
typedef struct Row {
    struct Row *next;           /* in its slot */
    struct Row *before, *after; /* of its source, in the order of arrival */
    uint64_t hash, identity;
    size_t times, size, compared;
    int source; /* -1 for the target */
    int state;
    unsigned char data[];
} Row;

/* What of its identity waits beside a row: not all of its rows do, all do, or there is no other row of it at all. */
enum { PARTLY, WHOLE, ALONE };

/* The waiting rows of a source. */
typedef struct {
    Row *first, *last;
    Py_ssize_t width, count;
} Source;

/* How many rows of each side have an identity with this hash. 0 is no hash. */
typedef struct {
    uint64_t identity;
    uint32_t rows[SIDES];
} Seen;

typedef struct {
    PyObject_HEAD
    Py_ssize_t forms;   /* values at the start of a row that are compared */
    Py_ssize_t *keys;   /* numbers of those that identify a row */
    Py_ssize_t keys_size;
    uint64_t share, shares;
    size_t *starts; /* of the compared values of the current row, and where the last one ends */
    Source *sources; /* by number; the target is the first */
    Py_ssize_t sources_size;
    Row **slots;
    size_t mask, count; /* of the slots; distinct rows */
    Seen *seen;
    size_t seen_mask, seen_count;
    size_t held; /* bytes of memory */
    int discarding;
} Unpaired;

static inline int side_of(int source)
{
    return source < 0 ? TARGET : UPSTREAM;
}

/* Makes room for the rows of a source. */
int unpaired_expect(Unpaired *self, int source, Py_ssize_t width);

/* Takes a row whose values begin at `self->starts`. */
int unpaired_add(Unpaired *self, int source, const unsigned char *p, size_t size);

/* Decides on the state of each waiting row; no more rows are taken. */
void unpaired_settle(Unpaired *self);

void unpaired_remove(Unpaired *self, Row *row);

/* Frees all memory. */
void unpaired_clear(Unpaired *self);

/* The length of the value at `*p`, which is moved behind it; -1 for NULL, -2 where no value begins before `end`. */
int64_t value_length(const unsigned char **p, const unsigned char *end);

#endif
