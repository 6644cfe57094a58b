/* The dumper's hot loop: from the packets of a result set, as read from the socket, to the text of INSERT statements.
 *
 * The same as dm_worker.dumper.insert_statements.PythonStatements, which describes the statements. Rows and values may
 * be cut anywhere by the network, and a row above the statement size is passed on piece by piece: memory is limited by
 * the statement size and one piece, for rows of any size.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

#include "statements.h"

static PyObject *hand_over(Statements *self, int failed)
{
    PyObject *pieces = self->pieces;
    self->pieces = NULL;
    if (failed) {
        self->broken = 1;
        Py_XDECREF(pieces);
        return NULL;
    }
    return pieces;
}

static PyObject *statements_feed(Statements *self, PyObject *argument)
{
    if (self->broken) {
        PyErr_SetString(PyExc_ValueError, "the rows cannot be read on after an error");
        return NULL;
    }
    Py_buffer data;
    if (PyObject_GetBuffer(argument, &data, PyBUF_SIMPLE) < 0)
        return NULL;
    self->pieces = PyList_New(0);
    int failed = self->pieces == NULL || take(self, data.buf, (size_t)data.len) < 0;
    PyBuffer_Release(&data);
    return hand_over(self, failed);
}

static PyObject *statements_finish(Statements *self, PyObject *Py_UNUSED(ignored))
{
    if (self->broken || !self->done || self->in_error) {
        PyErr_SetString(PyExc_ValueError, "the rows are incomplete");
        return NULL;
    }
    self->pieces = PyList_New(0);
    int failed = self->pieces == NULL;
    if (!failed && self->pending)
        failed = emit(self, 1, self->out.size, 1) < 0 || begin_statement(self) < 0;
    return hand_over(self, failed);
}

static PyObject *statements_error(Statements *self, void *Py_UNUSED(closure))
{
    if (!self->done || !self->in_error)
        Py_RETURN_NONE;
    return PyBytes_FromStringAndSize((char *)self->hold.data, (Py_ssize_t)self->hold.size);
}

static PyObject *statements_done(Statements *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(self->done);
}

static PyObject *statements_rows(Statements *self, void *Py_UNUSED(closure))
{
    return PyLong_FromLongLong(self->rows);
}

static int statements_init(Statements *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"kinds", "introducers", "head", "statement_size", "backslash", NULL};
    const char *kinds, *head;
    PyObject *introducers;
    Py_ssize_t width, head_size, limit;
    int backslash;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "y#O!y#np", names, &kinds, &width, &PyTuple_Type, &introducers,
                                     &head, &head_size, &limit, &backslash))
        return -1;
    if (self->kinds != NULL || width < 1 || limit < 1) {
        PyErr_SetString(PyExc_ValueError, "kinds and statement_size must be given, once");
        return -1;
    }
    for (Py_ssize_t i = 0; i < width; i++)
        if (kinds[i] == 0 || strchr("vfqtxc", kinds[i]) == NULL) {
            PyErr_Format(PyExc_ValueError, "column %zd has an unknown kind", i);
            return -1;
        }
    if (PyTuple_GET_SIZE(introducers) != width) {
        PyErr_SetString(PyExc_ValueError, "there must be an introducer for each column");
        return -1;
    }
    for (Py_ssize_t i = 0; i < width; i++) {
        PyObject *introducer = PyTuple_GET_ITEM(introducers, i);
        if (!PyBytes_Check(introducer) || PyBytes_GET_SIZE(introducer) > MOST_INTRODUCER) {
            PyErr_Format(PyExc_ValueError, "column %zd has an impossible introducer", i);
            return -1;
        }
    }
    self->kinds = PyMem_Malloc((size_t)width);
    if (self->kinds == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    memcpy(self->kinds, kinds, (size_t)width);
    self->introducers = Py_NewRef(introducers);
    self->width = width;
    self->limit = (size_t)limit;
    self->backslash = backslash;
    return append(&self->head, head, (size_t)head_size) < 0 || begin_statement(self) < 0 ? -1 : 0;
}

static void statements_dealloc(Statements *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyMem_Free(self->kinds);
    Py_XDECREF(self->introducers);
    buffer_free(&self->head);
    buffer_free(&self->out);
    buffer_free(&self->hold);
    Py_XDECREF(self->pieces);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"feed", (PyCFunction)statements_feed, METH_O, "The pieces of statements that these bytes complete."},
    {"finish", (PyCFunction)statements_finish, METH_NOARGS, "The last statement's piece, when there is one."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"error", (getter)statements_error, NULL, "The server's error packet, None without one.", NULL},
    {"done", (getter)statements_done, NULL, "Whether the rows have come to their end.", NULL},
    {"rows", (getter)statements_rows, NULL, "Whole rows so far.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "INSERT statements from the packets of a result set; see PythonStatements."},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_init, statements_init},
    {Py_tp_dealloc, statements_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {0, NULL},
};

static PyType_Spec spec = {"pkg.native._dump.Statements", sizeof(Statements), 0, Py_TPFLAGS_DEFAULT, slots};

static int prepare(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&spec);
    if (type == NULL)
        return -1;
    if (PyModule_AddObject(module, "Statements", type) < 0) {
        Py_DECREF(type);
        return -1;
    }
    return PyModule_AddStringConstant(module, "SOURCES", DM_SOURCES);
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, prepare}, {0, NULL}};

static PyModuleDef module = {.m_base = PyModuleDef_HEAD_INIT, .m_name = "_dump", .m_size = 0, .m_slots = module_slots};

PyMODINIT_FUNC PyInit__dump(void)
{
    return PyModuleDef_Init(&module);
}
