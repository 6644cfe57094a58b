/* The current statement: the request, and the received part of the packet, the row and the value. */
#ifndef DM_STATEMENTS_H
#define DM_STATEMENTS_H

#include <Python.h>

#include <stdint.h>

#include "../common/buffer.h"

/* The maximum that a value adds to its bytes, each at most twice: separators, quotes, `_utf8mb4 x''`, an introducer.
 */
#define VALUE_EXTRA 48

#define MOST_INTRODUCER 24

typedef struct {
    PyObject_HEAD
    /* The request. */
    unsigned char *kinds;
    PyObject *introducers; /* a tuple of bytes, one for each column */
    Py_ssize_t width;
    Buffer head;
    size_t limit;
    int backslash;
    /* The current statement: head, `pending` complete rows, and from `row_start` on the current row. */
    Buffer out;
    size_t row_start, pending;
    int leaving; /* the current row is above the limit, and its beginning was already passed on */
    /* The current packet. */
    unsigned char header[4];
    unsigned header_size;
    size_t packet_left;
    int in_packet, packet_full;
    /* The current row. */
    int in_row, in_value, exponent;
    unsigned char value_kind; /* of the current value; 'c' until its first byte arrives */
    Py_ssize_t column;
    uint64_t value_left;
    unsigned char prefix[9];
    unsigned prefix_size;
    Buffer hold; /* a value (or error packet) that must be complete before it is used */
    /* The result. */
    long long rows;
    int done, broken, in_error, in_end;
    PyObject *pieces;
} Statements;

static inline void put_byte(Buffer *buffer, unsigned char byte)
{
    buffer->data[buffer->size++] = byte;
}

/* The rows cannot be parsed: ValueError with the reason; -1. */
int malformed(Statements *self, const char *why);

/* -- statements.c: rows become statements ----------------------------------------------------------------------- */

/* Passes a piece of a statement to Python. */
int emit(Statements *self, int starts, size_t size, int ends);

/* The next statement, from its head. */
int begin_statement(Statements *self);

int begin_row(Statements *self);

int end_row(Statements *self);

/* Passes on the received part of a row above the limit. */
int relieve(Statements *self);

/* -- values.c: values become literals --------------------------------------------------------------------------- */

/* The text before the next value. */
int begin_value(Statements *self);

/* Takes `size` bytes of the current value. */
int take_value(Statements *self, const unsigned char *p, size_t size);

/* Begins a value of `length` bytes, of which `there` are at `p`; returns how many were taken, -1 after an error. */
Py_ssize_t start_value(Statements *self, uint64_t length, const unsigned char *p, size_t there);

/* -- packets.c: bytes of the socket become rows ----------------------------------------------------------------- */

/* Takes bytes of the socket, which may be cut anywhere. */
int take(Statements *self, const unsigned char *p, size_t size);

#endif
