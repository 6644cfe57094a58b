/* From a column's bytes in a row image to its SQL literal, as in pkg/binlog/rows/literals.py.
 *
 * A value that the server does not write (a fraction beyond its digits, a year beyond 9999) is left to the Python code.
 */
#ifndef DM_LITERALS_H
#define DM_LITERALS_H

#include <Python.h>

#include <stdint.h>

#include "../common/buffer.h"

/* How a value becomes text; pkg/binlog/rows/column_programs.py has the same numbers
 * (tests/unit/pkg/native/test_shared_numbers.py).
 */
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
    OP_TRANSLATED,
    OP_COUNT
};

/* Bytes of an entry in the table of a single-byte charset's characters: a length, and the character in UTF-8. */
#define CHARACTER_ENTRY 4

typedef struct {
    uint8_t op;
    uint8_t prefix; /* bytes of the length before the value, 0 when it has a fixed size */
    uint8_t raw;    /* the argument of Python's render: 's' bytes, 'i' and 'u' integers, 'f' and 'd' floats */
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

static inline int append_bytes(Buffer *out, PyObject *bytes)
{
    return append(out, PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes));
}

/* Reads one of the programs of pkg/binlog/rows/column_programs.py. */
int column_from(Column *column, PyObject *program);

/* Releases its objects. */
void column_clear(Column *column);

/* The whole literal of a column that is not NULL. */
int append_literal(const Column *column, const Value *value, Buffer *out);

#endif
