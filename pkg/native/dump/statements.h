/* The statements that are under way: what was asked for, what is there of the packet, the row and the value. */
#ifndef DM_STATEMENTS_H
#define DM_STATEMENTS_H

#include <Python.h>

#include <stdint.h>

#include "../common/buffer.h"

/* What a value may add besides its bytes, each at most twice: separators, quotes, `_utf8mb4 x''`, an introducer. */
#define VALUE_EXTRA 48

#define MOST_INTRODUCER 24

typedef struct {
    PyObject_HEAD
    /* What was asked for. */
    unsigned char *kinds;
    PyObject *introducers; /* a tuple of bytes, one for each column */
    Py_ssize_t width;
    Buffer head;
    size_t limit;
    int backslash;
    /* The statement under way: head, `pending` whole rows, and from `row_start` on the row under way. */
    Buffer out;
    size_t row_start, pending;
    int leaving; /* the row under way is above the limit, and its beginning has left already */
    /* The packet under way. */
    unsigned char header[4];
    unsigned header_size;
    size_t packet_left;
    int in_packet, packet_full;
    /* The row under way. */
    int in_row, in_value, exponent;
    unsigned char value_kind; /* of the value under way; 'c' while its first byte is not there */
    Py_ssize_t column;
    uint64_t value_left;
    unsigned char prefix[9];
    unsigned prefix_size;
    Buffer hold; /* a value (or error packet) that must be whole before it is used */
    /* The outcome. */
    long long rows;
    int done, broken, in_error, in_end;
    PyObject *pieces;
} Statements;

static inline void put_byte(Buffer *buffer, unsigned char byte)
{
    buffer->data[buffer->size++] = byte;
}

/* The rows cannot be read on: ValueError with the reason; -1. */
int malformed(Statements *self, const char *why);

/* -- statements.c: rows become statements ----------------------------------------------------------------------- */

/* Hands a piece of a statement to Python. */
int emit(Statements *self, int starts, size_t size, int ends);

/* The next statement, from its head. */
int begin_statement(Statements *self);

int begin_row(Statements *self);

int end_row(Statements *self);

/* Lets what is there of a row above the limit go. */
int relieve(Statements *self);

/* -- values.c: values become literals --------------------------------------------------------------------------- */

/* What stands in front of the next value. */
int begin_value(Statements *self);

/* Takes `size` bytes of the value under way. */
int take_value(Statements *self, const unsigned char *p, size_t size);

/* A value of `length` bytes begins, of which `there` are at `p`; how many were taken, -1 after an error. */
Py_ssize_t start_value(Statements *self, uint64_t length, const unsigned char *p, size_t there);

/* -- packets.c: bytes of the socket become rows ----------------------------------------------------------------- */

/* Takes bytes of the socket, wherever they were cut. */
int take(Statements *self, const unsigned char *p, size_t size);

#endif
