/* Walks over row images, and creates the text of keys and rows. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

#include "digits.h"
#include "images.h"

/* Result of add_base(): the literal has another form. */
enum { NOT_A_NUMBER = 1 };

int torn_image(void)
{
    PyErr_SetString(PyExc_ValueError, "a row image ends beyond its event");
    return -1;
}

int no_columns(void)
{
    PyErr_SetString(PyExc_ValueError, "a row image without columns");
    return -1;
}

int read_image(const Readers *self, const uint8_t **at, const uint8_t *end, Value *values)
{
    const uint8_t *nulls = *at, *p = *at;
    if (end - p < self->bitmap)
        return torn_image();
    p += self->bitmap;
    for (Py_ssize_t i = 0; i < self->count; i++) {
        const Column *column = &self->columns[i];
        if (column->nullable && nulls[i >> 3] >> (i & 7) & 1) {
            values[i].data = NULL;
            values[i].size = 0;
            continue;
        }
        size_t size = column->size;
        if (column->prefix) {
            if (end - p < column->prefix)
                return torn_image();
            size = little_endian(p, column->prefix);
            p += column->prefix;
        }
        if ((size_t)(end - p) < size)
            return torn_image();
        values[i].data = p;
        values[i].size = size;
        p += size;
    }
    if (p == nulls)
        return no_columns();
    *at = p;
    return 0;
}

/* A literal after ``from`` that is a plain number below the limit becomes base | number; 0 or NOT_A_NUMBER. */
static int add_base(const Derived *derived, Buffer *out, size_t from)
{
    size_t size = out->size - from;
    uint64_t value = 0;
    /* More digits than 18 may not fit. */
    if (size == 0 || size > 18)
        return NOT_A_NUMBER;
    for (const uint8_t *p = out->data + from; p < out->data + out->size; p++) {
        if (*p < '0' || *p > '9')
            return NOT_A_NUMBER;
        value = value * 10 + (uint64_t)(*p - '0');
    }
    if (value >= derived->limit)
        return NOT_A_NUMBER;
    if (buffer_reserve(out, 20) < 0)
        return -1;
    out->size = (size_t)(put_uint(out->data + from, derived->base | value) - out->data);
    return 0;
}

/* Python converts the literal after ``from``. */
static int change_literal(const Derived *derived, Buffer *out, size_t from)
{
    PyObject *changed =
        PyObject_CallFunction(derived->change, "y#", (const char *)out->data + from, (Py_ssize_t)(out->size - from));
    if (changed != NULL && !PyBytes_Check(changed)) {
        PyErr_Format(PyExc_TypeError, "a literal is bytes, not %.100s", Py_TYPE(changed)->tp_name);
        Py_CLEAR(changed);
    }
    if (changed == NULL)
        return -1;
    out->size = from;
    int done = append_bytes(out, changed);
    Py_DECREF(changed);
    return done;
}

static int append_derived(const Readers *self, const Derived *derived, const Value *values, Buffer *out)
{
    if (derived->source < 0)
        return append_bytes(out, derived->text);
    if (values[derived->source].data == NULL)
        return append(out, "NULL", 4);
    size_t from = out->size;
    if (append_literal(&self->columns[derived->source], &values[derived->source], out) < 0)
        return -1;
    int done = add_base(derived, out, from);
    return done == NOT_A_NUMBER ? change_literal(derived, out, from) : done;
}

int append_value(const Readers *self, uint32_t i, const Value *values, Buffer *out)
{
    if ((Py_ssize_t)i >= self->count)
        return append_derived(self, &self->derived[i - self->count], values, out);
    if (values[i].data == NULL)
        return append(out, "NULL", 4);
    return append_literal(&self->columns[i], &values[i], out);
}

int append_key(const Readers *self, const Value *values, Buffer *out)
{
    for (Py_ssize_t n = 0; n < self->key_count; n++)
        if ((n && append(out, ",", 1) < 0) || append_value(self, self->key[n], values, out) < 0)
            return -1;
    return 0;
}

int append_tuple(const Readers *self, const Value *values, Buffer *out)
{
    if (append(out, "(", 1) < 0)
        return -1;
    for (Py_ssize_t n = 0; n < self->write_count; n++)
        if ((n && append(out, ",", 1) < 0) || append_value(self, self->write[n], values, out) < 0)
            return -1;
    return append(out, ")", 1);
}

static int same_value(const Value *one, const Value *other)
{
    if (one->data == NULL || other->data == NULL)
        return one->data == other->data;
    return one->size == other->size && memcmp(one->data, other->data, one->size) == 0;
}

/* The source column of literal ``i``; -1 for a constant. */
static inline Py_ssize_t column_of(const Readers *self, uint32_t i)
{
    return (Py_ssize_t)i < self->count ? (Py_ssize_t)i : self->derived[i - self->count].source;
}

int is_null(const Readers *self, uint32_t i, const Value *values)
{
    Py_ssize_t column = column_of(self, i);
    return column >= 0 && values[column].data == NULL;
}

int same_origin(const Readers *self, uint32_t i, const Value *one, const Value *other)
{
    Py_ssize_t column = column_of(self, i);
    return column < 0 || same_value(&one[column], &other[column]);
}

int same_key(const Readers *self, const Value *one, const Value *other)
{
    for (Py_ssize_t n = 0; n < self->key_count; n++)
        if (!same_origin(self, self->key[n], one, other))
            return 0;
    return 1;
}
