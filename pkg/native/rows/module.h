/* The functions of the module. */
#ifndef DM_MODULE_H
#define DM_MODULE_H

#include <Python.h>

PyObject *rows_partition(PyObject *module, PyObject *args);
PyObject *rows_records(PyObject *module, PyObject *args);
PyObject *rows_merge(PyObject *module, PyObject *args);
PyObject *rows_components(PyObject *module, PyObject *args);
PyObject *rows_reassign(PyObject *module, PyObject *args);
PyObject *rows_ranks(PyObject *module, PyObject *args);

#endif
