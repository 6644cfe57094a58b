/* Exceptions of the module, created when it is loaded. */
#ifndef DM_ERRORS_H
#define DM_ERRORS_H

#include <Python.h>

/* EventError(number of the event, cause) */
extern PyObject *event_error;

/* Impossible(key, state before, operation, plan, plan of the change before) */
extern PyObject *impossible_error;

/* ValueError for a damaged block; -1. */
int torn_block(const char *what);

#endif
