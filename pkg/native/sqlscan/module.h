/* The functions of the module. */
#ifndef DM_MODULE_H
#define DM_MODULE_H

#include <Python.h>

PyObject *bulk_rows(PyObject *module, PyObject *args);
PyObject *map_rows(PyObject *module, PyObject *args);

/* The text has an unusual form; the server's parser, or Python, reads it. */
enum { UNUSUAL_TEXT = 1 };

#endif
