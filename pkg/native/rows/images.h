/* Row images of one table shape: their values, and the text made from them. */
#ifndef DM_IMAGES_H
#define DM_IMAGES_H

#include <Python.h>

#include <string.h>

#include "literals.h"

/* A literal beyond the columns: the constant ``text``, or one derived from the literal of column ``source``. */
typedef struct {
    Py_ssize_t source; /* -1 for a constant */
    uint64_t base, limit;
    PyObject *text, *change;
} Derived;

/* The type Readers: the columns of one table shape, and the numbers of the key columns and written columns. */
typedef struct {
    PyObject_HEAD
    Py_ssize_t count, bitmap;
    Column *columns;
    Py_ssize_t derived_count;
    Derived *derived;
    Py_ssize_t key_count, write_count;
    uint32_t *key, *write;
} Readers;

extern PyTypeObject readers_type;

/* Finds the values of one image. ``values`` has an entry for every column; ``*at`` moves past the image. */
int read_image(const Readers *self, const uint8_t **at, const uint8_t *end, Value *values);

/* Raises ValueError for an image that is too long for its event, or that would not end; returns -1. */
int torn_image(void);
int no_columns(void);

/* The literal ``i``: of a column or, after the columns, a derived one. */
int append_value(const Readers *self, uint32_t i, const Value *values, Buffer *out);

/* The literals of the key columns, joined by commas. */
int append_key(const Readers *self, const Value *values, Buffer *out);

/* ``(literal,…)`` of the columns to write. */
int append_tuple(const Readers *self, const Value *values, Buffer *out);

/* Whether literal ``i`` is NULL. */
int is_null(const Readers *self, uint32_t i, const Value *values);

/* Whether literal ``i`` comes from the same bytes in two images; different bytes may still give equal literals. */
int same_origin(const Readers *self, uint32_t i, const Value *one, const Value *other);

/* Whether two images have the same key bytes; others may still have equal literals. */
int same_key(const Readers *self, const Value *one, const Value *other);

/* completed(before, after, data, start) → the event with complete images. The bitmaps show the columns that the images
 * in ``data`` from ``start`` on hold: ``before`` and ``after`` an update (None: a row has one image).
 */
PyObject *readers_completed(PyObject *object, PyObject *args);

/* The methods of ``Readers`` that return objects to Python. */
extern PyMethodDef readers_methods[];

/* Column numbers from a tuple, in new memory; NULL with an exception. */
uint32_t *indexes_from(PyObject *tuple, Py_ssize_t columns);

#endif
