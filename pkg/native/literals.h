/* From a column's bytes in a row image to its SQL literal, as pkg/binlog/literals.py makes it.
 *
 * Every function appends to a buffer; -1 means that a Python exception is set. A value that the server does not write
 * (a fraction beyond its digits, a year beyond 9999) goes to the Python code, which decides what becomes of it.
 */
#ifndef DM_LITERALS_H
#define DM_LITERALS_H

#include <Python.h>
#include <stdint.h>
#include <string.h>

#include "buffer.h"

/* How a value becomes text; pkg/binlog/programs.py has the same numbers. */
enum {
    OP_CALL,
    OP_INT,
    OP_UINT,
    OP_UINT_BE,
    OP_WIDE_SET,
    OP_YEAR,
    OP_FLOAT,
    OP_DOUBLE,
    OP_DECIMAL,
    OP_DATE,
    OP_OLD_TIME,
    OP_OLD_DATETIME,
    OP_OLD_TIMESTAMP,
    OP_TIME,
    OP_DATETIME,
    OP_TIMESTAMP,
    OP_TEXT,
    OP_HEX,
    OP_PADDED_HEX,
    OP_FOREIGN,
    OP_COUNT
};

typedef struct {
    uint8_t op;
    uint8_t prefix; /* bytes of the length before the value, 0 when it has a fixed size */
    uint8_t raw;    /* what Python's render takes: 's' bytes, 'i' and 'u' integers, 'f' and 'd' floats */
    uint8_t number; /* the form has %d */
    uint8_t nullable;
    uint32_t size; /* of a fixed value */
    uint32_t a, b; /* parameters of the op */
    PyObject *render, *head, *tail, *text;
} Column;

typedef struct {
    const uint8_t *data; /* NULL for SQL's NULL */
    size_t size;
} Value;

/* More than any literal of a fixed size takes, DECIMAL(65) included. */
#define SHORT_LITERAL 128

static const char digit_pairs[] = "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
                                  "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
                                  "8081828384858687888990919293949596979899";

static inline unsigned char *put_uint(unsigned char *out, uint64_t value)
{
    unsigned char digits[20], *p = digits + sizeof digits;
    while (value >= 100) {
        p -= 2;
        memcpy(p, digit_pairs + value % 100 * 2, 2);
        value /= 100;
    }
    if (value >= 10) {
        p -= 2;
        memcpy(p, digit_pairs + value * 2, 2);
    } else
        *--p = (unsigned char)('0' + value);
    size_t size = (size_t)(digits + sizeof digits - p);
    memcpy(out, p, size);
    return out + size;
}

/* ``width`` digits, zeros in front; the value must fit. */
static inline unsigned char *put_padded(unsigned char *out, uint64_t value, int width)
{
    for (int i = width; i-- > 0; value /= 10)
        out[i] = (unsigned char)('0' + value % 10);
    return out + width;
}

/* At least two digits. */
static inline unsigned char *put_two(unsigned char *out, uint64_t value)
{
    if (value >= 100)
        return put_uint(out, value);
    memcpy(out, digit_pairs + value * 2, 2);
    return out + 2;
}

static inline int64_t sign_extended(uint64_t value, size_t size)
{
    unsigned shift = 64 - 8 * (unsigned)size;
    return (int64_t)(value << shift) >> shift;
}

static const uint64_t powers_of_ten[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000};

static int append_bytes(Buffer *out, PyObject *bytes)
{
    return append(out, PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes));
}

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

/* The next group of decimal digits; more than the width allows when the bytes are none of the server's. */
static inline uint64_t decimal_group(const uint8_t *bytes, size_t *at, int width)
{
    static const uint8_t sizes[] = {0, 1, 1, 2, 2, 3, 3, 4, 4, 4};
    uint64_t value = big_endian(bytes + *at, sizes[width]);
    *at += sizes[width];
    return value;
}

static unsigned char *put_decimal(unsigned char *out, const Column *column, const Value *value)
{
    int whole = (int)(column->a - column->b), scale = (int)column->b;
    uint8_t bytes[40] = {0};
    if (value->size == 0 || value->size > sizeof bytes)
        return NULL;
    int negative = !(value->data[0] & 0x80);
    for (size_t i = 0; i < value->size; i++)
        bytes[i] = negative ? (uint8_t)~value->data[i] : value->data[i];
    bytes[0] ^= 0x80;
    if (negative)
        *out++ = '-';
    size_t at = 0;
    int started = 0;
    for (int left = whole; left > 0;) {
        int width = left % 9 ? left % 9 : 9;
        uint64_t group = decimal_group(bytes, &at, width);
        if (group >= powers_of_ten[width])
            return NULL;
        if (started)
            out = put_padded(out, group, 9);
        else if (group) {
            out = put_uint(out, group);
            started = 1;
        }
        left -= width;
    }
    if (!started)
        *out++ = '0';
    if (scale)
        *out++ = '.';
    for (int left = scale; left > 0;) {
        int width = left < 9 ? left : 9;
        uint64_t group = decimal_group(bytes, &at, width);
        if (group >= powers_of_ten[width])
            return NULL;
        out = put_padded(out, group, width);
        left -= width;
    }
    return out;
}

/* -- dates and times ------------------------------------------------------------------------------------------- */

static unsigned char *put_date(unsigned char *out, uint64_t year, uint64_t month, uint64_t day)
{
    if (year > 9999 || month > 99 || day > 99)
        return NULL;
    out = put_padded(out, year, 4);
    *out++ = '-';
    out = put_two(out, month);
    *out++ = '-';
    return put_two(out, day);
}

static unsigned char *put_clock(unsigned char *out, uint64_t hour, uint64_t minute, uint64_t second)
{
    out = put_two(out, hour);
    *out++ = ':';
    out = put_two(out, minute);
    *out++ = ':';
    return put_two(out, second);
}

/* A point and ``digits`` digits of a fraction stored with an even number of them; NULL when it has more. */
static unsigned char *put_fraction(unsigned char *out, uint64_t stored, uint32_t digits)
{
    if (digits == 0)
        return out;
    uint64_t fraction = digits & 1 ? stored / 10 : stored;
    if (fraction >= powers_of_ten[digits])
        return NULL;
    *out++ = '.';
    return put_padded(out, fraction, (int)digits);
}

/* Seconds since 1970 in UTC, 0 for the zero date. */
static unsigned char *put_seconds(unsigned char *out, uint32_t value)
{
    if (value == 0) {
        memcpy(out, "0000-00-00 00:00:00", 19);
        return out + 19;
    }
    /* Years begin in March, so that the leap day is the last of its year. */
    uint32_t days = value / 86400 + 719468, rest = value % 86400;
    uint32_t era = days / 146097, of_era = days % 146097;
    uint32_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    uint32_t of_year = of_era - (365 * year + year / 4 - year / 100);
    uint32_t month = (5 * of_year + 2) / 153;
    uint32_t day = of_year - (153 * month + 2) / 5 + 1;
    year += era * 400 + (month >= 10);
    out = put_date(out, year, month < 10 ? month + 3 : month - 9, day);
    *out++ = ' ';
    return put_clock(out, rest / 3600, rest / 60 % 60, rest % 60);
}

static unsigned char *put_datetime(unsigned char *out, const Value *value)
{
    uint64_t packed = big_endian(value->data, 5);
    if (packed < 0x8000000000u)
        return NULL;
    packed -= 0x8000000000u;
    uint64_t months = packed >> 22;
    out = put_date(out, months / 13, months % 13, packed >> 17 & 31);
    if (out == NULL)
        return NULL;
    *out++ = ' ';
    return put_clock(out, packed >> 12 & 31, packed >> 6 & 63, packed & 63);
}

static unsigned char *put_old_datetime(unsigned char *out, const Value *value)
{
    uint64_t packed = little_endian(value->data, 8), day = packed / 1000000, clock = packed % 1000000;
    out = put_date(out, day / 10000, day / 100 % 100, day % 100);
    if (out == NULL)
        return NULL;
    *out++ = ' ';
    return put_clock(out, clock / 10000, clock / 100 % 100, clock % 100);
}

static unsigned char *put_time(unsigned char *out, const Value *value, uint32_t digits)
{
    unsigned bits = 8 * ((unsigned)value->size - 3);
    int64_t packed = (int64_t)big_endian(value->data, value->size) - ((int64_t)0x800000 << bits);
    if (packed < 0) {
        *out++ = '-';
        packed = -packed;
    }
    uint64_t clock = (uint64_t)packed >> bits;
    out = put_clock(out, clock >> 12 & 0x3FF, clock >> 6 & 63, clock & 63);
    return put_fraction(out, (uint64_t)packed & (((uint64_t)1 << bits) - 1), digits);
}

static unsigned char *put_old_time(unsigned char *out, const Value *value)
{
    int64_t number = sign_extended(little_endian(value->data, 3), 3);
    if (number < 0) {
        *out++ = '-';
        number = -number;
    }
    return put_clock(out, (uint64_t)number / 10000, (uint64_t)number / 100 % 100, (uint64_t)number % 100);
}

static unsigned char *put_temporal(unsigned char *out, const Column *column, const Value *value)
{
    *out++ = '\'';
    uint64_t number;
    switch (column->op) {
    case OP_DATE:
        number = little_endian(value->data, 3);
        out = put_date(out, number >> 9, number >> 5 & 15, number & 31);
        break;
    case OP_OLD_TIME:
        out = put_old_time(out, value);
        break;
    case OP_OLD_DATETIME:
        out = put_old_datetime(out, value);
        break;
    case OP_OLD_TIMESTAMP:
        out = put_seconds(out, (uint32_t)little_endian(value->data, 4));
        break;
    case OP_TIME:
        out = put_time(out, value, column->a);
        break;
    case OP_DATETIME:
        out = put_datetime(out, value);
        if (out != NULL)
            out = put_fraction(out, big_endian(value->data + 5, value->size - 5), column->a);
        break;
    default:
        out = put_seconds(out, (uint32_t)big_endian(value->data, 4));
        out = put_fraction(out, big_endian(value->data + 4, value->size - 4), column->a);
    }
    if (out != NULL)
        *out++ = '\'';
    return out;
}

/* -- all of them ----------------------------------------------------------------------------------------------- */

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

/* The whole literal of a column that is not NULL. */
static int append_literal(const Column *column, const Value *value, Buffer *out)
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

#endif
