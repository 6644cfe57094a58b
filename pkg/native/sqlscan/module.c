/* Statements of SQL files: finds their ends, as the regular expression of dm_worker.loader.sql_file does. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "module.h"
#include "sqltext.h"

static PyObject *statement_end(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer data;
    Py_ssize_t i;
    if (!PyArg_ParseTuple(args, "y*n", &data, &i))
        return NULL;
    const unsigned char *p = data.buf;
    Py_ssize_t size = data.len, found = OPEN;
    if (i < 0 || i > size) {
        PyBuffer_Release(&data);
        PyErr_SetString(PyExc_ValueError, "the start lies outside of the text");
        return NULL;
    }
    while (i != OPEN && i < size) {
        if (!special[p[i]])
            i++;
        else if (p[i] == ';') {
            found = i;
            break;
        } else
            i = skip(p, i, size);
    }
    PyBuffer_Release(&data);
    return PyLong_FromSsize_t(found);
}

static PyMethodDef methods[] = {
    {"bulk_rows", bulk_rows, METH_VARARGS,
     "bulk_rows(text, start, columns): the tuples from start on as (rows, the forms that each column has, values of a\n"
     "bulk execution), None for what is not plainly such tuples."},
    {"map_rows", map_rows, METH_VARARGS,
     "map_rows(text, start, bases, more, head): head and the tuples from start on, where a base in bases (one of these "
     "or\n"
     "None for each column) is added to the whole numbers of that column, and more stands after the last value. None "
     "for\n"
     "what is not plainly such tuples."},
    {"statement_end", statement_end, METH_VARARGS,
     "statement_end(text, start): the index of the semicolon that ends the statement at start, -1 without one."},
    {NULL, NULL, 0, NULL},
};

static int prepare(PyObject *module)
{
    return PyModule_AddStringConstant(module, "SOURCES", DM_SOURCES);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, prepare}, {0, NULL}};

static PyModuleDef module = {
    .m_base = PyModuleDef_HEAD_INIT, .m_name = "_sqlscan", .m_size = 0, .m_methods = methods, .m_slots = slots};

PyMODINIT_FUNC PyInit__sqlscan(void)
{
    return PyModuleDef_Init(&module);
}
