/* Row changes as Python objects: (data, start, end, append) → the offset where it stopped. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "images.h"

static Value *values_for(const Readers *self, size_t images)
{
    Value *values = PyMem_Calloc((size_t)self->count * images + 1, sizeof(Value));
    if (values == NULL)
        PyErr_NoMemory();
    return values;
}

typedef PyObject *(*MakeChange)(const Readers *, const Value *, Buffer *);

static PyObject *taken(Buffer *buffer, size_t from)
{
    return PyBytes_FromStringAndSize((const char *)buffer->data + from, (Py_ssize_t)(buffer->size - from));
}

static PyObject *key_object(const Readers *self, const Value *values, Buffer *buffer)
{
    buffer->size = 0;
    return append_key(self, values, buffer) < 0 ? NULL : taken(buffer, 0);
}

/* Steals key and old; creates (op, key, values, old). */
static PyObject *change_object(const Readers *self, long op, PyObject *key, PyObject *old, const Value *values,
                               Buffer *buffer)
{
    PyObject *text = NULL, *change = NULL;
    buffer->size = 0;
    if (key != NULL && old != NULL) {
        if (op == 2)
            text = PyBytes_FromStringAndSize(NULL, 0);
        else if (append_tuple(self, values, buffer) == 0)
            text = taken(buffer, 0);
    }
    if (text != NULL)
        change = Py_BuildValue("(lOOO)", op, key, text, old);
    Py_XDECREF(key);
    Py_XDECREF(old);
    Py_XDECREF(text);
    return change;
}

static PyObject *make_insert(const Readers *self, const Value *values, Buffer *buffer)
{
    return change_object(self, 0, key_object(self, values, buffer), PyBytes_FromStringAndSize(NULL, 0), values, buffer);
}

static PyObject *make_delete(const Readers *self, const Value *values, Buffer *buffer)
{
    return change_object(self, 2, key_object(self, values, buffer), PyBytes_FromStringAndSize(NULL, 0), values, buffer);
}

static PyObject *make_update(const Readers *self, const Value *values, Buffer *buffer)
{
    const Value *after = values + self->count;
    /* The old key comes first: of two values that can't be mapped, the error names the older one. */
    int same = same_key(self, values, after);
    PyObject *old = same ? NULL : key_object(self, values, buffer);
    if (old == NULL && !same)
        return NULL;
    PyObject *key = key_object(self, after, buffer);
    if (same)
        old = Py_XNewRef(key);
    return change_object(self, 1, key, old, after, buffer);
}

static PyObject *make_image(const Readers *self, const Value *values, Buffer *buffer)
{
    PyObject *image = PyList_New(self->count + self->derived_count);
    for (Py_ssize_t i = 0; image != NULL && i < self->count + self->derived_count; i++) {
        buffer->size = 0;
        PyObject *text = append_value(self, (uint32_t)i, values, buffer) < 0 ? NULL : taken(buffer, 0);
        if (text == NULL)
            Py_CLEAR(image);
        else
            PyList_SET_ITEM(image, i, text);
    }
    return image;
}

static PyObject *make_image_pair(const Readers *self, const Value *values, Buffer *buffer)
{
    PyObject *before = make_image(self, values, buffer);
    PyObject *after = before ? make_image(self, values + self->count, buffer) : NULL;
    PyObject *pair = after ? PyTuple_Pack(2, before, after) : NULL;
    Py_XDECREF(before);
    Py_XDECREF(after);
    return pair;
}

static int read_rows(const Readers *self, const uint8_t **p, const uint8_t *end, PyObject *call, size_t images,
                     MakeChange make)
{
    Value *values = values_for(self, images);
    Buffer buffer = {0};
    int done = values == NULL || buffer_reserve(&buffer, 1) < 0 ? -1 : 0;
    while (done == 0 && *p < end) {
        done = read_image(self, p, end, values);
        if (done == 0 && images == 2)
            done = read_image(self, p, end, values + self->count);
        PyObject *made = done == 0 ? make(self, values, &buffer) : NULL;
        PyObject *result = made ? PyObject_CallOneArg(call, made) : NULL;
        if (result == NULL)
            done = -1;
        Py_XDECREF(made);
        Py_XDECREF(result);
    }
    PyMem_Free(values);
    buffer_free(&buffer);
    return done;
}

static PyObject *read_event(PyObject *self, PyObject *const *args, Py_ssize_t count, size_t images, MakeChange make)
{
    if (count != 4 || !PyBytes_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "data as bytes, start, end and append are needed");
        return NULL;
    }
    Py_ssize_t start = PyLong_AsSsize_t(args[1]), end = PyLong_AsSsize_t(args[2]);
    if (PyErr_Occurred())
        return NULL;
    if (start < 0 || end < 0 || end > PyBytes_GET_SIZE(args[0])) {
        PyErr_SetString(PyExc_ValueError, "start and end are beyond the data");
        return NULL;
    }
    if (start >= end)
        return PyLong_FromSsize_t(start);
    const uint8_t *data = (const uint8_t *)PyBytes_AS_STRING(args[0]), *p = data + start;
    if (read_rows((Readers *)self, &p, data + end, args[3], images, make) < 0)
        return NULL;
    return PyLong_FromSsize_t(p - data);
}

#define READER(name, images)                                                                                           \
    static PyObject *readers_##name(PyObject *self, PyObject *const *args, Py_ssize_t count)                           \
    {                                                                                                                  \
        return read_event(self, args, count, images, make_##name);                                                     \
    }
READER(insert, 1)
READER(update, 2)
READER(delete, 1)
READER(image, 1)
READER(image_pair, 2)

PyMethodDef readers_methods[] = {
    {"insert", (PyCFunction)(void (*)(void))readers_insert, METH_FASTCALL, NULL},
    {"update", (PyCFunction)(void (*)(void))readers_update, METH_FASTCALL, NULL},
    {"delete", (PyCFunction)(void (*)(void))readers_delete, METH_FASTCALL, NULL},
    {"image", (PyCFunction)(void (*)(void))readers_image, METH_FASTCALL, NULL},
    {"image_pair", (PyCFunction)(void (*)(void))readers_image_pair, METH_FASTCALL, NULL},
    {"completed", readers_completed, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
