/* The tuples of an INSERT with partition ids: as dm_worker.loader.tuples does for whole numbers and NULL. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

#include "module.h"
#include "sqltext.h"

/* pkg.column_mapping: a value takes the low 44 bits. */
#define VALUE_BITS 44

#define MOST_VALUE_DIGITS 18
#define NUMBER_ROOM 24

typedef struct {
    const unsigned char *p;
    Py_ssize_t at, size, copied; /* the text up to `copied` is in `out` */
    PyObject *out;               /* bytes, with free memory after `used` */
    Py_ssize_t used;
    const unsigned char *more;
    Py_ssize_t more_size;
} Mapped;

/* Reserves `extra` more bytes and an eighth on top, because a statement is large. */
static int make_room(Mapped *m, Py_ssize_t extra)
{
    if (extra <= PyBytes_GET_SIZE(m->out) - m->used)
        return 0;
    if (extra > PY_SSIZE_T_MAX / 2 - m->used) {
        PyErr_NoMemory();
        return -1;
    }
    Py_ssize_t wanted = m->used + extra;
    return _PyBytes_Resize(&m->out, wanted + wanted / 8) < 0 ? -1 : 0;
}

static int put_bytes(Mapped *m, const unsigned char *data, Py_ssize_t size)
{
    if (make_room(m, size) < 0)
        return -1;
    memcpy(PyBytes_AS_STRING(m->out) + m->used, data, (size_t)size);
    m->used += size;
    return 0;
}

/* Copies the text up to `stop` unchanged. */
static int copy_to(Mapped *m, Py_ssize_t stop)
{
    if (put_bytes(m, m->p + m->copied, stop - m->copied) < 0)
        return -1;
    m->copied = stop;
    return 0;
}

/* Writes the number before `end`; returns its start. */
static unsigned char *put_digits(unsigned char *end, unsigned long long value)
{
    do
        *--end = (unsigned char)('0' + value % 10);
    while (value /= 10);
    return end;
}

/* The number at `at`, plain or as a string, with the base; 0 or UNUSUAL_TEXT. */
static int map_value(Mapped *m, unsigned long long base)
{
    if (m->size - m->at > 4 && memcmp(m->p + m->at, "NULL", 4) == 0) {
        m->at += 4;
        return 0;
    }
    int quoted = m->p[m->at] == '\'' || m->p[m->at] == '"';
    unsigned char quote = m->p[m->at];
    Py_ssize_t i = m->at + quoted, first = i;
    unsigned long long value = 0;
    for (; i < m->size && is_digit(m->p[i]) && i - first <= MOST_VALUE_DIGITS; i++)
        value = value * 10 + (unsigned)(m->p[i] - '0');
    if (i == first || i - first > MOST_VALUE_DIGITS || value >> VALUE_BITS)
        return UNUSUAL_TEXT;
    if (quoted && (i >= m->size || m->p[i++] != quote))
        return UNUSUAL_TEXT;
    unsigned char text[NUMBER_ROOM], *end = text + NUMBER_ROOM, *begin = put_digits(end - 1, base | value);
    if (quoted) {
        end[-1] = '\'';
        *--begin = '\'';
    } else
        end--;
    if (copy_to(m, m->at) < 0 || put_bytes(m, begin, end - begin) < 0)
        return -1;
    m->at = m->copied = i;
    return 0;
}

/* Past a value of any form, to the comma or parenthesis behind it; 0 or UNUSUAL_TEXT. */
static int pass_value(Mapped *m)
{
    Py_ssize_t i = m->at, depth = 0;
    while (i < m->size) {
        unsigned char byte = m->p[i];
        if (special[byte]) {
            if (byte == ';' || (i = skip(m->p, i, m->size)) == OPEN || i > m->size)
                return UNUSUAL_TEXT;
            continue;
        }
        if (depth == 0 && (byte == ',' || byte == ')'))
            break;
        depth += (byte == '(') - (byte == ')');
        i++;
    }
    if (i == m->at)
        return UNUSUAL_TEXT;
    m->at = i;
    return 0;
}

/* One tuple; `bases` has -1 for a column that is not mapped. */
static int map_row(Mapped *m, const long long *bases, Py_ssize_t columns)
{
    if (m->at >= m->size || m->p[m->at++] != '(')
        return UNUSUAL_TEXT;
    for (Py_ssize_t i = 0; i < columns; i++) {
        m->at = skip_blanks_at(m->p, m->at, m->size);
        if (m->at >= m->size)
            return UNUSUAL_TEXT;
        int result = bases[i] < 0 ? pass_value(m) : map_value(m, (unsigned long long)bases[i]);
        if (result != 0)
            return result;
        m->at = skip_blanks_at(m->p, m->at, m->size);
        if (m->at >= m->size || m->p[m->at] != (i + 1 < columns ? ',' : ')'))
            return UNUSUAL_TEXT;
        if (i + 1 == columns && (copy_to(m, m->at) < 0 || put_bytes(m, m->more, m->more_size) < 0))
            return -1;
        m->at++;
    }
    m->at = skip_blanks_at(m->p, m->at, m->size);
    return 0;
}

static int map_all(Mapped *m, const long long *bases, Py_ssize_t columns)
{
    for (;;) {
        m->at = skip_blanks_at(m->p, m->at, m->size);
        int result = map_row(m, bases, columns);
        if (result != 0)
            return result;
        if (m->at == m->size)
            return copy_to(m, m->size);
        if (m->p[m->at++] != ',')
            return UNUSUAL_TEXT;
    }
}

/* The bases of all columns, in memory of their own; NULL with an exception. */
static long long *read_bases(PyObject *list, Py_ssize_t columns)
{
    long long *bases = PyMem_Malloc((size_t)columns * sizeof *bases);
    if (bases == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < columns; i++) {
        PyObject *base = PyTuple_GET_ITEM(list, i);
        bases[i] = base == Py_None ? -1 : PyLong_AsLongLong(base);
        if (PyErr_Occurred() || (base != Py_None && bases[i] < 0)) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "a base is negative");
            PyMem_Free(bases);
            return NULL;
        }
    }
    return bases;
}

PyObject *map_rows(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer data, more, head;
    Py_ssize_t start;
    PyObject *list;
    if (!PyArg_ParseTuple(args, "y*nO!y*y*", &data, &start, &PyTuple_Type, &list, &more, &head))
        return NULL;
    Py_ssize_t columns = PyTuple_GET_SIZE(list);
    long long *bases = NULL;
    Mapped m = {data.buf, start, data.len, start, NULL, 0, more.buf, more.len};
    int result = -1;
    if (start < 0 || start > data.len || columns < 1 || data.len > PY_SSIZE_T_MAX / 4)
        PyErr_SetString(PyExc_ValueError, "the start lies outside of the text, or there are no columns");
    else if ((bases = read_bases(list, columns)) != NULL &&
             (m.out = PyBytes_FromStringAndSize(NULL, head.len + data.len - start + (data.len - start) / 8)) != NULL &&
             (result = put_bytes(&m, head.buf, head.len)) == 0)
        result = map_all(&m, bases, columns);
    if (result == 0 && _PyBytes_Resize(&m.out, m.used) < 0)
        result = -1;
    if (result != 0)
        Py_CLEAR(m.out);
    PyMem_Free(bases);
    PyBuffer_Release(&data);
    PyBuffer_Release(&more);
    PyBuffer_Release(&head);
    if (result == UNUSUAL_TEXT)
        Py_RETURN_NONE;
    return m.out;
}
