/* A column's description from Python, checked: the literals read its bytes without further checks. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "decimal.h"

/* Bytes of a value that an op reads without checking the size; 0 where it depends on more. */
static const uint8_t op_sizes[OP_COUNT] = {
    [OP_YEAR] = 1,     [OP_FLOAT] = 4,        [OP_DOUBLE] = 8,        [OP_DATE] = 3,
    [OP_OLD_TIME] = 3, [OP_OLD_DATETIME] = 8, [OP_OLD_TIMESTAMP] = 4, [OP_WIDE_SET] = 8,
};

/* Whether a table is empty, or has an entry for each byte: how many of the following three bytes the character has.
 */
static int is_character_table(PyObject *text)
{
    const uint8_t *entries = (const uint8_t *)PyBytes_AS_STRING(text);
    if (PyBytes_GET_SIZE(text) == 0)
        return 1;
    if (PyBytes_GET_SIZE(text) != 256 * CHARACTER_ENTRY)
        return 0;
    for (size_t i = 0; i < 256; i++)
        if (entries[i * CHARACTER_ENTRY] >= CHARACTER_ENTRY)
            return 0;
    return 1;
}

/* Whether the op can read values of this size with these parameters. */
static int fits_op(const Column *column)
{
    uint32_t size = column->size, a = column->a, b = column->b, fraction = (a + 1) / 2;
    if (op_sizes[column->op])
        return size == op_sizes[column->op];
    switch (column->op) {
    case OP_INT:
    case OP_UINT:
    case OP_UINT_BE:
        return size >= 1 && size <= 8;
    case OP_TIME:
        return a <= 6 && size == 3 + fraction;
    case OP_DATETIME:
        return a <= 6 && size == 5 + fraction;
    case OP_TIMESTAMP:
        return a <= 6 && size == 4 + fraction;
    case OP_DECIMAL:
        return a >= 1 && a <= 65 && b <= a && size == decimal_size(a - b) + decimal_size(b);
    case OP_TRANSLATED:
        return column->prefix >= 1 && is_character_table(column->text);
    default:
        return column->op < OP_TEXT || (column->prefix >= 1 && a <= 0xFFFF);
    }
}

/* Whether Python's render gets arguments that it accepts; any op may call it. */
static int fits_render(const Column *column)
{
    uint32_t size = column->size;
    if (column->raw == 's')
        return 1;
    if (column->prefix)
        return 0;
    return (column->raw == 'f' && size == 4) || (column->raw == 'd' && size == 8) ||
           ((column->raw == 'i' || column->raw == 'u') && size >= 1 && size <= 8);
}

int column_from(Column *column, PyObject *program)
{
    unsigned op, prefix, size, a, b;
    int raw, number, nullable;
    PyObject *render, *head, *tail, *text;
    if (!PyTuple_Check(program)) {
        PyErr_SetString(PyExc_TypeError, "a column program is a tuple");
        return -1;
    }
    if (!PyArg_ParseTuple(program, "IICppIIIOSSS", &op, &prefix, &raw, &number, &nullable, &size, &a, &b, &render,
                          &head, &tail, &text))
        return -1;
    column->render = Py_NewRef(render);
    column->head = Py_NewRef(head);
    column->tail = Py_NewRef(tail);
    column->text = Py_NewRef(text);
    column->op = (uint8_t)op;
    column->prefix = (uint8_t)prefix;
    column->raw = (uint8_t)raw;
    column->number = (uint8_t)number;
    column->nullable = (uint8_t)nullable;
    column->size = size;
    column->a = a;
    column->b = b;
    if (op < OP_COUNT && prefix <= 4 && (prefix == 0 || size == 0) && size <= 0xFFFF && raw < 0x80 && fits_op(column) &&
        fits_render(column))
        return 0;
    PyErr_Format(PyExc_ValueError, "no column program: op %u, prefix %u, size %u", op, prefix, size);
    return -1;
}

void column_clear(Column *column)
{
    Py_XDECREF(column->render);
    Py_XDECREF(column->head);
    Py_XDECREF(column->tail);
    Py_XDECREF(column->text);
}
