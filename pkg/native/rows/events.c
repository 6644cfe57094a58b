/* The rows events of a slice. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "../common/binlog_format.h"
#include "blocks.h"
#include "compact.h"
#include "errors.h"
#include "events.h"

/* Whether all ``count`` columns are present. */
static int whole_bitmap(const uint8_t *bits, Py_ssize_t count)
{
    Py_ssize_t full = count / 8;
    for (Py_ssize_t i = 0; i < full; i++)
        if (bits[i] != 0xFF)
            return 0;
    if (count % 8 == 0)
        return 1;
    uint8_t rest = (uint8_t)((1u << (count % 8)) - 1);
    return (bits[full] & rest) == rest;
}

size_t ordinary_event(const Readers *readers, const uint8_t *event, size_t size, int *op)
{
    size_t at = HEADER_SIZE + 8, bitmap = (size_t)readers->bitmap;
    Py_ssize_t count = readers->count;
    if (size < at)
        return 0;
    uint8_t kind = event[4];
    if (kind >= WRITE_ROWS_EVENT_V1 && kind <= DELETE_ROWS_EVENT_V1)
        *op = kind - WRITE_ROWS_EVENT_V1;
    else if (kind >= WRITE_ROWS_EVENT && kind <= DELETE_ROWS_EVENT)
        *op = kind - WRITE_ROWS_EVENT;
    else
        return 0;
    if (kind >= WRITE_ROWS_EVENT) {
        if (size < at + 2 || event[at] != 2 || event[at + 1] != 0)
            return 0;
        at += 2;
    }
    size_t head = (count < 251 ? 1 : 3) + bitmap * (*op == UPDATE ? 2 : 1);
    if (size - at < head)
        return 0;
    if (count < 251 ? event[at] != count : event[at] != 252 || (Py_ssize_t)little_endian(event + at + 1, 2) != count)
        return 0;
    const uint8_t *bits = event + at + (count < 251 ? 1 : 3);
    if (!whole_bitmap(bits, count) || (*op == UPDATE && !whole_bitmap(bits + bitmap, count)))
        return 0;
    return at + head;
}

/* Replaces the pending exception by EventError(number of the event, exception). */
static void raise_event_error(size_t number)
{
    PyObject *type, *cause, *traceback;
    PyErr_Fetch(&type, &cause, &traceback);
    PyErr_NormalizeException(&type, &cause, &traceback);
    if (PyErr_GivenExceptionMatches(type, PyExc_Exception) && !PyErr_GivenExceptionMatches(type, PyExc_MemoryError)) {
        PyObject *args = Py_BuildValue("(nO)", (Py_ssize_t)number, cause);
        if (args != NULL)
            PyErr_SetObject(event_error, args);
        Py_XDECREF(args);
        Py_XDECREF(type);
        Py_XDECREF(cause);
        Py_XDECREF(traceback);
    } else
        PyErr_Restore(type, cause, traceback);
}

int each_event(PyObject *data, PyObject *index, EventStep step, void *context)
{
    const uint8_t *event = (const uint8_t *)PyBytes_AS_STRING(data),
                  *record = (const uint8_t *)PyBytes_AS_STRING(index);
    size_t left = (size_t)PyBytes_GET_SIZE(data), count = (size_t)PyBytes_GET_SIZE(index) / RECORD_SIZE;
    if ((size_t)PyBytes_GET_SIZE(index) % RECORD_SIZE) {
        PyErr_SetString(PyExc_ValueError, "torn index of a slice");
        return -1;
    }
    for (size_t n = 0; n < count; n++, record += RECORD_SIZE) {
        size_t size = get32(record + 4);
        if (size > left) {
            PyErr_SetString(PyExc_ValueError, "the index of a slice goes beyond its data");
            return -1;
        }
        uint64_t position = get32(record + 8) | (uint64_t)get32(record + 12) << 32;
        if (step(context, get32(record), n, position, event, size) < 0) {
            raise_event_error(n);
            return -1;
        }
        event += size;
        left -= size;
    }
    return 0;
}
