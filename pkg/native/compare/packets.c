/* Packets of a result set to rows. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "packets.h"

#define FULL_PACKET 0xFFFFFFu
#define HEADER 4

/* An end packet is shorter than a value that begins with the same byte; error messages have at most 512 characters. */
#define MAX_END 8
#define MAX_ERROR 65536u

enum { COMPLETE, INCOMPLETE };

static int malformed(ResultRows *self, const char *why)
{
    self->broken = 1;
    PyErr_Format(PyExc_ValueError, "malformed packet after row %lld: %s", self->rows, why);
    return -1;
}

int64_t value_length(const unsigned char **p, const unsigned char *end)
{
    if (*p >= end || **p == 0xFF)
        return -2;
    unsigned first = *(*p)++;
    if (first == 0xFB)
        return -1;
    uint64_t length = first;
    if (first > 0xFB) {
        size_t width = first == 0xFC ? 2 : first == 0xFD ? 3 : 8;
        if ((size_t)(end - *p) < width)
            return -2;
        length = little_endian(*p, width);
        *p += width;
    }
    if (length > (uint64_t)(end - *p))
        return -2;
    *p += length;
    return (int64_t)length;
}

static int take_row(ResultRows *self, const unsigned char *row, size_t size)
{
    const unsigned char *p = row, *end = row + size;
    for (Py_ssize_t i = 0; i < self->width; i++) {
        if (i <= self->table->forms)
            self->table->starts[i] = (size_t)(p - row);
        if (value_length(&p, end) == -2)
            return malformed(self, "a value is longer than its packet");
    }
    if (p != end)
        return malformed(self, "the row's columns differ from the result set's");
    if (self->width == self->table->forms)
        self->table->starts[self->width] = size;
    self->rows++;
    return unpaired_add(self->table, self->source, row, size);
}

/* Finds the end of the row at `p`; its payload is in `joined` where it takes several packets. */
static int find_end(ResultRows *self, const unsigned char *p, size_t there, size_t *taken)
{
    size_t size = FULL_PACKET, at = 0;
    while (size == FULL_PACKET) {
        if (there - at < HEADER)
            return INCOMPLETE;
        size = (size_t)little_endian(p + at, 3);
        if (there - at - HEADER < size)
            return INCOMPLETE;
        at += HEADER + size;
    }
    *taken = at;
    self->joined.size = 0;
    for (size_t from = 0; at > HEADER + FULL_PACKET && from < at; from += HEADER + size) {
        size = (size_t)little_endian(p + from, 3);
        if (append(&self->joined, p + from + HEADER, size) < 0)
            return -1;
    }
    return COMPLETE;
}

/* Refuses what begins no packet of a row, of the end or of an error, before all of it is there. */
static int check_begin(ResultRows *self, const unsigned char *p, size_t there)
{
    size_t size = there < HEADER ? FULL_PACKET : (size_t)little_endian(p, 3);
    if (size == 0)
        return malformed(self, "a packet is empty");
    if (there <= HEADER)
        return 0;
    if (p[HEADER] == 0xFF && (size < 4 || size > MAX_ERROR))
        return malformed(self, "an error packet has an impossible size");
    if (p[HEADER] == 0xFE && size > MAX_END && size < FULL_PACKET)
        return malformed(self, "an end packet has an impossible size");
    return 0;
}

/* The end of the rows: an end packet or an error. */
static int take_end(ResultRows *self, const unsigned char *p, size_t size, size_t more)
{
    if (more)
        return malformed(self, "there is data after the end of the rows");
    if (*p == 0xFF && append(&self->error, p, size) < 0)
        return -1;
    self->done = 1;
    return 0;
}

static int take_packets(ResultRows *self, const unsigned char *p, size_t size, size_t *used)
{
    while (*used < size) {
        size_t taken = 0;
        if (check_begin(self, p + *used, size - *used) < 0)
            return -1;
        int found = find_end(self, p + *used, size - *used, &taken);
        if (found != COMPLETE)
            return found == INCOMPLETE ? 0 : -1;
        const unsigned char *row = p + *used + HEADER;
        size_t length = taken - HEADER;
        *used += taken;
        if (length < FULL_PACKET && *row >= 0xFE)
            return take_end(self, row, length, size - *used);
        if (length >= FULL_PACKET)
            row = self->joined.data, length = self->joined.size;
        if (take_row(self, row, length) < 0)
            return -1;
    }
    return 0;
}

int result_take(ResultRows *self, const unsigned char *p, size_t size)
{
    if (self->broken || (self->done && size))
        return malformed(self, "there is data after the end of the rows");
    if (append(&self->hold, p, size) < 0)
        return -1;
    size_t used = 0;
    if (take_packets(self, self->hold.data, self->hold.size, &used) < 0) {
        self->broken = 1;
        return -1;
    }
    if (used)
        memmove(self->hold.data, self->hold.data + used, self->hold.size - used);
    self->hold.size -= used;
    return 0;
}
