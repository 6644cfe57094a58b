/* The type Readers: the columns of one table shape, and which of them are key columns and written columns. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "images.h"

static int derived_from(Derived *derived, PyObject *program, Py_ssize_t columns)
{
    unsigned long long base, limit;
    Py_ssize_t source;
    PyObject *text, *change;
    if (!PyTuple_Check(program)) {
        PyErr_SetString(PyExc_TypeError, "a derived literal is a tuple");
        return -1;
    }
    if (!PyArg_ParseTuple(program, "nKKSO", &source, &base, &limit, &text, &change))
        return -1;
    if (source < -1 || source >= columns) {
        PyErr_SetString(PyExc_ValueError, "a literal derived from no column");
        return -1;
    }
    derived->source = source;
    derived->base = base;
    derived->limit = limit;
    derived->text = Py_NewRef(text);
    derived->change = Py_NewRef(change);
    return 0;
}

uint32_t *indexes_from(PyObject *tuple, Py_ssize_t columns)
{
    Py_ssize_t count = PyTuple_GET_SIZE(tuple);
    uint32_t *found = PyMem_Calloc((size_t)count + 1, sizeof(uint32_t));
    if (found == NULL)
        return (uint32_t *)PyErr_NoMemory();
    for (Py_ssize_t n = 0; n < count; n++) {
        Py_ssize_t i = PyLong_AsSsize_t(PyTuple_GET_ITEM(tuple, n));
        if (i < 0 || i >= columns) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "no such column");
            PyMem_Free(found);
            return NULL;
        }
        found[n] = (uint32_t)i;
    }
    return found;
}

static void readers_free(PyObject *object)
{
    Readers *self = (Readers *)object;
    for (Py_ssize_t i = 0; self->columns != NULL && i < self->count; i++)
        column_clear(&self->columns[i]);
    for (Py_ssize_t i = 0; self->derived != NULL && i < self->derived_count; i++) {
        Py_XDECREF(self->derived[i].text);
        Py_XDECREF(self->derived[i].change);
    }
    PyMem_Free(self->columns);
    PyMem_Free(self->derived);
    PyMem_Free(self->key);
    PyMem_Free(self->write);
    Py_TYPE(object)->tp_free(object);
}

static PyObject *readers_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(keywords))
{
    PyObject *programs, *key, *write, *derived = NULL;
    if (!PyArg_ParseTuple(args, "O!O!O!|O!", &PyTuple_Type, &programs, &PyTuple_Type, &key, &PyTuple_Type, &write,
                          &PyTuple_Type, &derived))
        return NULL;
    Readers *self = (Readers *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->count = PyTuple_GET_SIZE(programs);
    self->bitmap = (self->count + 7) / 8;
    self->key_count = PyTuple_GET_SIZE(key);
    self->write_count = PyTuple_GET_SIZE(write);
    self->derived_count = derived ? PyTuple_GET_SIZE(derived) : 0;
    Py_ssize_t literals = self->count + self->derived_count;
    self->columns = PyMem_Calloc((size_t)self->count + 1, sizeof(Column));
    self->derived = PyMem_Calloc((size_t)self->derived_count + 1, sizeof(Derived));
    self->key = self->columns && self->derived ? indexes_from(key, literals) : (uint32_t *)PyErr_NoMemory();
    self->write = self->key ? indexes_from(write, literals) : NULL;
    int done = self->write ? 0 : -1;
    for (Py_ssize_t i = 0; done == 0 && i < self->derived_count; i++)
        done = derived_from(&self->derived[i], PyTuple_GET_ITEM(derived, i), self->count);
    for (Py_ssize_t i = 0; done == 0 && i < self->count; i++)
        done = column_from(&self->columns[i], PyTuple_GET_ITEM(programs, i));
    if (done < 0)
        Py_CLEAR(self);
    return (PyObject *)self;
}

PyTypeObject readers_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "pkg.native._rows.Readers",
    .tp_basicsize = sizeof(Readers),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc =
        "The readers of one table shape: Readers(programs, key, write, derived=()), see pkg.binlog.rows.column_programs.",
    .tp_new = readers_new,
    .tp_dealloc = readers_free,
    .tp_methods = readers_methods,
};
