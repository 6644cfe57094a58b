/* Which rows two servers do not have in common; the same as dm_worker.comparison.unpaired_rows.PythonUnpairedRows. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "packets.h"

static PyTypeObject *result_type(PyObject *unpaired);

/* -- a result set -------------------------------------------------------------------------------------------------- */

static PyObject *result_feed(ResultRows *self, PyObject *argument)
{
    Py_buffer data;
    if (PyObject_GetBuffer(argument, &data, PyBUF_SIMPLE) < 0)
        return NULL;
    long long before = self->rows;
    int failed = result_take(self, data.buf, (size_t)data.len);
    PyBuffer_Release(&data);
    return failed < 0 ? NULL : PyLong_FromLongLong(self->rows - before);
}

static PyObject *result_done(ResultRows *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(self->done);
}

static PyObject *result_rows(ResultRows *self, void *Py_UNUSED(closure))
{
    return PyLong_FromLongLong(self->rows);
}

static PyObject *result_error(ResultRows *self, void *Py_UNUSED(closure))
{
    if (self->error.size == 0)
        Py_RETURN_NONE;
    return PyBytes_FromStringAndSize((char *)self->error.data, (Py_ssize_t)self->error.size);
}

static void result_dealloc(ResultRows *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(self->table);
    buffer_free(&self->hold);
    buffer_free(&self->joined);
    buffer_free(&self->error);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyMethodDef result_methods[] = {
    {"feed", (PyCFunction)result_feed, METH_O, "Takes bytes of the socket; returns how many rows they complete."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef result_getters[] = {
    {"done", (getter)result_done, NULL, "Whether the rows have come to their end.", NULL},
    {"rows", (getter)result_rows, NULL, "Whole rows so far.", NULL},
    {"error", (getter)result_error, NULL, "The server's error packet, None without one.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot result_slots[] = {
    {Py_tp_doc, "The rows of one result set, which go into a table of unpaired rows."},
    {Py_tp_dealloc, result_dealloc},
    {Py_tp_methods, result_methods},
    {Py_tp_getset, result_getters},
    {0, NULL},
};

static PyType_Spec result_spec = {"pkg.native._compare.ResultRows", sizeof(ResultRows), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, result_slots};

/* -- the rows of all ----------------------------------------------------------------------------------------------- */

static PyObject *unpaired_rows_of(Unpaired *self, PyObject *args)
{
    int source;
    Py_ssize_t width;
    if (!PyArg_ParseTuple(args, "in", &source, &width))
        return NULL;
    if (self->starts == NULL || width < self->forms || source < -1) {
        PyErr_SetString(PyExc_ValueError, "a row has fewer values than are compared, or no source");
        return NULL;
    }
    if (unpaired_expect(self, source, width) < 0)
        return NULL;
    PyTypeObject *type = result_type((PyObject *)self);
    ResultRows *rows = type == NULL ? NULL : (ResultRows *)type->tp_alloc(type, 0);
    if (rows == NULL)
        return NULL;
    rows->table = (Unpaired *)Py_NewRef(self);
    rows->source = source;
    rows->width = width;
    return (PyObject *)rows;
}

static PyObject *value_at(const unsigned char **p, const unsigned char *end)
{
    int64_t length = value_length(p, end);
    if (length < 0)
        Py_RETURN_NONE;
    return PyBytes_FromStringAndSize((const char *)*p - length, (Py_ssize_t)length);
}

/* Puts the values of a row into the columns. */
static int put_values(PyObject *columns, Py_ssize_t number, const Row *row)
{
    const unsigned char *p = row->data, *end = row->data + row->size;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(columns); i++) {
        PyObject *value = value_at(&p, end);
        if (value == NULL)
            return -1;
        PyList_SET_ITEM(PyTuple_GET_ITEM(columns, i), number, value);
    }
    return 0;
}

/* The lists of a block: how often each row is there, and its values by columns; nothing is in them yet. */
static int make_lists(const Source *source, PyObject **times, PyObject **columns)
{
    *times = PyList_New(source->count);
    *columns = PyTuple_New(source->width);
    for (Py_ssize_t i = 0; *columns != NULL && i < source->width; i++) {
        PyObject *column = PyList_New(source->count);
        if (column == NULL)
            Py_CLEAR(*columns);
        else
            PyTuple_SET_ITEM(*columns, i, column);
    }
    return *times == NULL || *columns == NULL ? -1 : 0;
}

/* The waiting rows of a source, which are removed: (source, states, times, columns). */
static PyObject *block_of(Unpaired *self, int source)
{
    Source *rows = &self->sources[source + 1];
    PyObject *times, *columns, *states = PyBytes_FromStringAndSize(NULL, rows->count);
    int failed = make_lists(rows, &times, &columns) < 0 || states == NULL;
    for (Py_ssize_t i = 0; !failed && rows->first != NULL; i++) {
        Row *row = rows->first;
        PyObject *often = PyLong_FromSize_t(row->times);
        if (often == NULL || put_values(columns, i, row) < 0) {
            Py_XDECREF(often);
            failed = 1;
            break;
        }
        PyList_SET_ITEM(times, i, often);
        PyBytes_AS_STRING(states)[i] = (char)row->state;
        unpaired_remove(self, row);
    }
    PyObject *block = failed ? NULL : Py_BuildValue("(iOOO)", source, states, times, columns);
    Py_XDECREF(states);
    Py_XDECREF(times);
    Py_XDECREF(columns);
    return block;
}

static PyObject *unpaired_take(Unpaired *self, PyObject *Py_UNUSED(ignored))
{
    PyObject *found = PyList_New(0);
    unpaired_settle(self);
    for (Py_ssize_t i = 0; found != NULL && i < self->sources_size; i++) {
        if (self->sources[i].first == NULL)
            continue;
        PyObject *block = block_of(self, (int)i - 1);
        if (block == NULL || PyList_Append(found, block) < 0)
            Py_CLEAR(found);
        Py_XDECREF(block);
    }
    unpaired_clear(self);
    return found;
}

static PyObject *unpaired_discard(Unpaired *self, PyObject *Py_UNUSED(ignored))
{
    self->discarding = 1;
    unpaired_clear(self);
    Py_RETURN_NONE;
}

static PyObject *unpaired_held(Unpaired *self, void *Py_UNUSED(closure))
{
    return PyLong_FromSize_t(self->held);
}

static int read_keys(Unpaired *self, PyObject *keys)
{
    self->keys_size = PyTuple_GET_SIZE(keys);
    self->keys = PyMem_Calloc((size_t)self->keys_size + 1, sizeof(Py_ssize_t));
    self->starts = PyMem_Calloc((size_t)self->forms + 1, sizeof(size_t));
    if (self->keys == NULL || self->starts == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < self->keys_size; i++) {
        self->keys[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(keys, i));
        if (self->keys[i] == -1 && PyErr_Occurred())
            return -1;
        if (self->keys[i] < 0 || self->keys[i] >= self->forms) {
            PyErr_SetString(PyExc_ValueError, "a key is not among the compared values");
            return -1;
        }
    }
    return 0;
}

static int unpaired_init(Unpaired *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"forms", "keys", "share", "shares", NULL};
    PyObject *keys;
    Py_ssize_t forms, share, shares;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "nO!nn", names, &forms, &PyTuple_Type, &keys, &share, &shares))
        return -1;
    if (self->starts != NULL || forms < 1 || share < 0 || share >= shares) {
        PyErr_SetString(PyExc_ValueError, "forms and a share of the rows must be given, once");
        return -1;
    }
    self->forms = forms;
    self->share = (uint64_t)share;
    self->shares = (uint64_t)shares;
    return read_keys(self, keys);
}

static void unpaired_dealloc(Unpaired *self)
{
    PyTypeObject *type = Py_TYPE(self);
    unpaired_clear(self);
    PyMem_Free(self->sources);
    PyMem_Free(self->keys);
    PyMem_Free(self->starts);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyMethodDef unpaired_methods[] = {
    {"rows_of", (PyCFunction)unpaired_rows_of, METH_VARARGS,
     "rows_of(source, width): takes the packets of a result set of rows of so many values; -1 is the target."},
    {"take", (PyCFunction)unpaired_take, METH_NOARGS,
     "All rows that wait for their equal, a block for each source: source, states, how often, columns."},
    {"discard", (PyCFunction)unpaired_discard, METH_NOARGS, "Frees all rows, and keeps none that follow."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef unpaired_getters[] = {
    {"held", (getter)unpaired_held, NULL, "Bytes of memory.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot unpaired_slots[] = {
    {Py_tp_doc, "Rows of two sides that have not met their equal; see PythonUnpairedRows."},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_init, unpaired_init},
    {Py_tp_dealloc, unpaired_dealloc},
    {Py_tp_methods, unpaired_methods},
    {Py_tp_getset, unpaired_getters},
    {0, NULL},
};

static PyType_Spec unpaired_spec = {"pkg.native._compare.UnpairedRows", sizeof(Unpaired), 0, Py_TPFLAGS_DEFAULT,
                                    unpaired_slots};

/* -- the module ---------------------------------------------------------------------------------------------------- */

static PyTypeObject *result_type(PyObject *unpaired)
{
    PyObject **state = PyType_GetModuleState(Py_TYPE(unpaired));
    return state == NULL ? NULL : (PyTypeObject *)*state;
}

static int prepare(PyObject *module)
{
    PyObject **state = PyModule_GetState(module);
    *state = PyType_FromModuleAndSpec(module, &result_spec, NULL);
    PyObject *type = *state == NULL ? NULL : PyType_FromModuleAndSpec(module, &unpaired_spec, NULL);
    if (type == NULL)
        return -1;
    if (PyModule_AddObject(module, "UnpairedRows", type) < 0) {
        Py_DECREF(type);
        return -1;
    }
    return PyModule_AddStringConstant(module, "SOURCES", DM_SOURCES);
}

static void free_module(void *module)
{
    PyObject **state = PyModule_GetState(module);
    if (state != NULL)
        Py_CLEAR(*state);
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, prepare}, {0, NULL}};

static PyModuleDef module = {.m_base = PyModuleDef_HEAD_INIT,
                             .m_name = "_compare",
                             .m_size = sizeof(PyObject *),
                             .m_slots = module_slots,
                             .m_free = free_module};

PyMODINIT_FUNC PyInit__compare(void)
{
    return PyModuleDef_Init(&module);
}
