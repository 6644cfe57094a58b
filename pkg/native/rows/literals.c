/* Literals of all column types; dates and times are in temporal.c, DECIMAL in decimal.c. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <math.h>
#include <string.h>

#include "decimal.h"
#include "digits.h"
#include "literals.h"
#include "temporal.h"

/* More than the longest literal of a fixed-size type, including DECIMAL(65). */
#define SHORT_LITERAL 128

/* -- through Python -------------------------------------------------------------------------------------------- */

/* The number of a FLOAT (``single``) or DOUBLE. */
static double floating(const Value *value, int single)
{
    double number;
    if (single) {
        float narrow;
        memcpy(&narrow, value->data, sizeof narrow);
        return narrow;
    }
    memcpy(&number, value->data, sizeof number);
    return number;
}

static PyObject *raw_object(const Column *column, const Value *value)
{
    if (column->raw == 's')
        return PyBytes_FromStringAndSize((const char *)value->data, (Py_ssize_t)value->size);
    if (column->raw == 'i')
        return PyLong_FromLongLong(sign_extended(little_endian(value->data, value->size), value->size));
    if (column->raw == 'u')
        return PyLong_FromUnsignedLongLong(little_endian(value->data, value->size));
    return PyFloat_FromDouble(floating(value, column->raw == 'f'));
}

static int append_filler(const Column *column, PyObject *filler, Buffer *out)
{
    if (!column->number) {
        if (!PyBytes_Check(filler)) {
            PyErr_Format(PyExc_TypeError, "a literal is bytes, not %.100s", Py_TYPE(filler)->tp_name);
            return -1;
        }
        return append_bytes(out, filler);
    }
    PyObject *text = PyObject_Str(filler);
    Py_ssize_t size;
    const char *digits = text ? PyUnicode_AsUTF8AndSize(text, &size) : NULL;
    int done = digits ? append(out, digits, (size_t)size) : -1;
    Py_XDECREF(text);
    return done;
}

static int append_by_python(const Column *column, const Value *value, Buffer *out)
{
    PyObject *raw = raw_object(column, value);
    if (raw == NULL)
        return -1;
    PyObject *filler = column->render == Py_None ? Py_NewRef(raw) : PyObject_CallOneArg(column->render, raw);
    Py_DECREF(raw);
    if (filler == NULL)
        return -1;
    int done = append_bytes(out, column->head);
    if (done == 0)
        done = append_filler(column, filler, out);
    Py_DECREF(filler);
    return done < 0 ? -1 : append_bytes(out, column->tail);
}

/* -- strings --------------------------------------------------------------------------------------------------- */

static inline int needs_escape(const uint8_t *p, size_t size)
{
    uint8_t found = 0;
    for (size_t i = 0; i < size; i++)
        found |= (uint8_t)((p[i] == '\'') | (p[i] == '\\'));
    return found;
}

static int append_text(const Value *value, Buffer *out)
{
    if (buffer_reserve(out, 2 * value->size + 2) < 0)
        return -1;
    unsigned char *p = out->data + out->size;
    *p++ = '\'';
    if (!needs_escape(value->data, value->size)) {
        memcpy(p, value->data, value->size);
        p += value->size;
    } else {
        for (size_t i = 0; i < value->size; i++) {
            uint8_t byte = value->data[i];
            if (byte == '\'' || byte == '\\')
                *p++ = '\\';
            *p++ = byte;
        }
    }
    *p++ = '\'';
    out->size = (size_t)(p - out->data);
    return 0;
}

static int append_hex(PyObject *head, const Value *value, size_t length, Buffer *out)
{
    size_t whole = value->size > length ? value->size : length;
    size_t head_size = (size_t)PyBytes_GET_SIZE(head);
    if (buffer_reserve(out, head_size + 2 * whole + 1) < 0)
        return -1;
    unsigned char *p = out->data + out->size;
    memcpy(p, PyBytes_AS_STRING(head), head_size);
    p += head_size;
    p = put_hex(p, value->data, value->size);
    memset(p, '0', 2 * (whole - value->size));
    p += 2 * (whole - value->size);
    *p++ = '\'';
    out->size = (size_t)(p - out->data);
    return 0;
}

static int is_ascii(const uint8_t *p, size_t size)
{
    uint8_t all = 0;
    for (size_t i = 0; i < size; i++)
        all |= p[i];
    return all < 0x80;
}

/* Text in a charset other than UTF-8; by Python where ``text`` has no character for a byte. */
static int append_translated(const Column *column, const Value *value, Buffer *out)
{
    if (column->a && is_ascii(value->data, value->size))
        return append_text(value, out);
    if (PyBytes_GET_SIZE(column->text) == 0)
        return append_by_python(column, value, out);
    if (buffer_reserve(out, (CHARACTER_ENTRY - 1) * value->size + 2) < 0)
        return -1;
    const uint8_t *characters = (const uint8_t *)PyBytes_AS_STRING(column->text);
    unsigned char *p = out->data + out->size;
    *p++ = '\'';
    for (size_t i = 0; i < value->size; i++) {
        const uint8_t *entry = characters + (size_t)value->data[i] * CHARACTER_ENTRY;
        if (entry[0] == 0)
            return append_by_python(column, value, out);
        for (size_t k = 1; k <= entry[0]; k++)
            *p++ = entry[k];
    }
    *p++ = '\'';
    out->size = (size_t)(p - out->data);
    return 0;
}

/* -- numbers --------------------------------------------------------------------------------------------------- */

static int append_float(const Column *column, const Value *value, Buffer *out)
{
    double number = floating(value, column->op == OP_FLOAT);
    if (!isfinite(number))
        return append_by_python(column, value, out);
    char *text = PyOS_double_to_string(number, 'r', 0, Py_DTSF_ADD_DOT_0, NULL);
    if (text == NULL)
        return -1;
    size_t size = strlen(text);
    int done = append(out, text, size);
    if (done == 0 && memchr(text, 'e', size) == NULL)
        done = append(out, "e0", 2);
    PyMem_Free(text);
    return done;
}

static unsigned char *put_short(unsigned char *out, const Column *column, const Value *value)
{
    uint64_t number;
    int64_t signed_number;
    switch (column->op) {
    case OP_INT:
        signed_number = sign_extended(little_endian(value->data, value->size), value->size);
        if (signed_number >= 0)
            return put_uint(out, (uint64_t)signed_number);
        *out++ = '-';
        return put_uint(out, -(uint64_t)signed_number);
    case OP_UINT:
        return put_uint(out, little_endian(value->data, value->size));
    case OP_UINT_BE:
        return put_uint(out, big_endian(value->data, value->size));
    case OP_WIDE_SET:
        number = little_endian(value->data, 8);
        return number >> 63 ? NULL : put_uint(out, number);
    case OP_YEAR:
        return put_uint(out, value->data[0] ? value->data[0] + 1900u : 0u);
    case OP_DECIMAL:
        return put_decimal(out, column, value);
    default:
        return put_temporal(out, column, value);
    }
}

/* -- all of them ----------------------------------------------------------------------------------------------- */

int append_literal(const Column *column, const Value *value, Buffer *out)
{
    switch (column->op) {
    case OP_CALL:
        return append_by_python(column, value, out);
    case OP_TEXT:
        return append_text(value, out);
    case OP_HEX:
        return append_hex(column->head, value, 0, out);
    case OP_PADDED_HEX:
        if (value->size > column->a)
            return append_by_python(column, value, out);
        return append_hex(column->head, value, column->a, out);
    case OP_FOREIGN:
        if (value->size == 0 || (column->a && is_ascii(value->data, value->size)))
            return append_text(value, out);
        return append_hex(column->text, value, 0, out);
    case OP_TRANSLATED:
        return append_translated(column, value, out);
    case OP_FLOAT:
    case OP_DOUBLE:
        return append_float(column, value, out);
    default:
        if (buffer_reserve(out, SHORT_LITERAL) < 0)
            return -1;
        unsigned char *end = put_short(out->data + out->size, column, value);
        if (end == NULL)
            return append_by_python(column, value, out);
        out->size = (size_t)(end - out->data);
        return 0;
    }
}
