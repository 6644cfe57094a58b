/* Completes row images that hold a part of the columns, as PartialImages in pkg/binlog/rows/partial_updates.py. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "images.h"

/* A column that no image holds: an empty text, or a zero. Fixed sizes fit: column_from() checks them. */
static const uint8_t zeros[0xFFFF];

static inline int is_there(const uint8_t *bits, Py_ssize_t i)
{
    return bits[i >> 3] >> (i & 7) & 1;
}

static void set_absent(const Readers *self, Value *values)
{
    for (Py_ssize_t i = 0; i < self->count; i++) {
        const Column *column = &self->columns[i];
        values[i].data = column->nullable ? NULL : zeros;
        values[i].size = column->prefix ? column->prefix : column->size;
    }
}

static Py_ssize_t count_of(const Readers *self, const uint8_t *present)
{
    Py_ssize_t found = 0;
    for (Py_ssize_t i = 0; i < self->count; i++)
        found += is_there(present, i);
    return found;
}

/* Takes the values of the ``present`` columns, with their lengths; ``*at`` moves past the image. */
static int read_present(const Readers *self, const uint8_t *present, const uint8_t **at, const uint8_t *end,
                        Value *values)
{
    const uint8_t *nulls = *at, *p = *at;
    Py_ssize_t index = 0, bitmap = (count_of(self, present) + 7) / 8;
    if (end - p < bitmap)
        return torn_image();
    p += bitmap;
    for (Py_ssize_t i = 0; i < self->count; i++) {
        if (!is_there(present, i))
            continue;
        const Column *column = &self->columns[i];
        int null = column->nullable && is_there(nulls, index);
        index++;
        if (null) {
            values[i].data = NULL;
            continue;
        }
        if (end - p < column->prefix)
            return torn_image();
        size_t size = column->prefix ? column->prefix + little_endian(p, column->prefix) : column->size;
        if ((size_t)(end - p) < size)
            return torn_image();
        values[i].data = p;
        values[i].size = size;
        p += size;
    }
    *at = p;
    return 0;
}

static int append_image(const Readers *self, const Value *values, Buffer *out)
{
    size_t size = (size_t)self->bitmap;
    for (Py_ssize_t i = 0; i < self->count; i++)
        size += values[i].data == NULL ? 0 : values[i].size;
    if (buffer_reserve(out, size) < 0)
        return -1;
    uint8_t *nulls = out->data + out->size;
    memset(nulls, 0, (size_t)self->bitmap);
    out->size += (size_t)self->bitmap;
    for (Py_ssize_t i = 0; i < self->count; i++)
        if (values[i].data == NULL)
            nulls[i >> 3] |= (uint8_t)(1 << (i & 7));
        else
            put(out, values[i].data, values[i].size);
    return 0;
}

/* The bitmap of an image that holds all columns. */
static int append_whole_bitmap(const Readers *self, Buffer *out)
{
    if (buffer_reserve(out, (size_t)self->bitmap) < 0)
        return -1;
    for (Py_ssize_t left = self->count; left > 0; left -= 8)
        out->data[out->size++] = left < 8 ? (uint8_t)((1 << left) - 1) : 0xFF;
    return 0;
}

/* ``after`` is NULL where a row has one image. */
static int complete(const Readers *self, const uint8_t *before, const uint8_t *after, const uint8_t *p,
                    const uint8_t *end, Value *values, Buffer *out)
{
    while (p < end) {
        const uint8_t *start = p;
        set_absent(self, values);
        if (read_present(self, before, &p, end, values) < 0 || append_image(self, values, out) < 0)
            return -1;
        if (after != NULL &&
            (read_present(self, after, &p, end, values) < 0 || append_image(self, values, out) < 0))
            return -1;
        if (p == start)
            return no_columns();
    }
    return 0;
}

PyObject *readers_completed(PyObject *object, PyObject *args)
{
    const Readers *self = (Readers *)object;
    const char *before, *after, *data;
    Py_ssize_t before_size, after_size, size, start;
    if (!PyArg_ParseTuple(args, "y#z#y#n", &before, &before_size, &after, &after_size, &data, &size, &start))
        return NULL;
    Py_ssize_t head = start - self->bitmap * (after ? 2 : 1);
    if (before_size != self->bitmap || (after && after_size != self->bitmap) || head < 0 || start > size) {
        PyErr_SetString(PyExc_ValueError, "no bitmap of each column in front of the images");
        return NULL;
    }
    Buffer out = {0};
    PyObject *found = NULL;
    const uint8_t *bytes = (const uint8_t *)data;
    Value *values = PyMem_Calloc((size_t)self->count + 1, sizeof(Value));
    if (values == NULL)
        PyErr_NoMemory();
    else if (buffer_reserve(&out, (size_t)size + 1) == 0 && append(&out, bytes, (size_t)head) == 0 &&
             append_whole_bitmap(self, &out) == 0 && (after == NULL || append_whole_bitmap(self, &out) == 0) &&
             complete(self, (const uint8_t *)before, (const uint8_t *)after, bytes + start, bytes + size, values,
                      &out) == 0)
        found = PyBytes_FromStringAndSize((const char *)out.data, (Py_ssize_t)out.size);
    PyMem_Free(values);
    buffer_free(&out);
    return found;
}
