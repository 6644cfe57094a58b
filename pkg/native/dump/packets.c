/* Packets to rows. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "statements.h"

#define FULL_PACKET 0xFFFFFFu

/* There are no larger error packets: the server's messages have at most 512 characters. */
#define MAX_ERROR 65536u

static unsigned prefix_width(unsigned char first)
{
    return first < 251 ? 1 : first == 0xFC ? 3 : first == 0xFD ? 4 : 9;
}

/* Takes `size` bytes of the row's payload; `after` bytes of its packet follow them. */
static int take_payload(Statements *self, const unsigned char *p, size_t size, size_t after)
{
    const unsigned char *end = p + size;
    while (p < end) {
        if (self->in_value) {
            size_t there = (size_t)(end - p);
            size_t part = self->value_left < there ? (size_t)self->value_left : there;
            if (take_value(self, p, part) < 0)
                return -1;
            p += part;
            continue;
        }
        uint64_t length;
        if (!self->prefix_size && *p < 251)
            length = *p++;
        else if (!self->prefix_size && *p == 251) {
            if (buffer_reserve(&self->out, VALUE_EXTRA) < 0 || begin_value(self) < 0)
                return -1;
            put(&self->out, "NULL", 4);
            self->column++;
            p++;
            continue;
        } else {
            if (!self->prefix_size && *p == 0xFF)
                return malformed(self, "a length begins with 0xFF");
            self->prefix[self->prefix_size++] = *p++;
            unsigned width = prefix_width(self->prefix[0]);
            if (self->prefix_size < width)
                continue;
            length = 0;
            for (unsigned i = width - 1; i > 0; i--)
                length = length << 8 | self->prefix[i];
            self->prefix_size = 0;
        }
        size_t there = (size_t)(end - p);
        if (!self->packet_full && length > there + after)
            return malformed(self, "a value is longer than its packet");
        Py_ssize_t taken = start_value(self, length, p, there);
        if (taken < 0)
            return -1;
        p += taken;
    }
    return 0;
}

/* The kind of the packet that begins with `first`; its size is in `packet_left`. */
static int begin_packet(Statements *self, unsigned char first)
{
    if (first == 0xFF) {
        if (self->packet_left > MAX_ERROR || self->packet_left < 4)
            return malformed(self, "an error packet has an impossible size");
        self->in_error = 1;
        self->hold.size = 0;
        return 0;
    }
    /* A value above 16 MB also begins with 0xFE, but only in a full packet. */
    if (first == 0xFE && !self->packet_full) {
        if (self->packet_left > 8)
            return malformed(self, "an end packet has an impossible size");
        self->in_end = 1;
        return 0;
    }
    return begin_row(self);
}

static int end_packet(Statements *self)
{
    self->in_packet = 0;
    if (self->in_error || self->in_end) {
        self->done = 1;
        return 0;
    }
    return self->packet_full ? 0 : end_row(self);
}

/* Takes the 4 bytes before a packet's payload, which may be cut anywhere. */
static int take_header(Statements *self, const unsigned char **p, const unsigned char *end)
{
    while (self->header_size < 4 && *p < end)
        self->header[self->header_size++] = *(*p)++;
    if (self->header_size < 4)
        return 0;
    self->header_size = 0;
    self->packet_left = self->header[0] | (size_t)self->header[1] << 8 | (size_t)self->header[2] << 16;
    self->packet_full = self->packet_left == FULL_PACKET;
    if (self->packet_left == 0) {
        if (!self->in_row)
            return malformed(self, "a packet is empty");
        return end_row(self); /* ends a row whose payload is a multiple of the packet's size */
    }
    self->in_packet = 1;
    return 0;
}

int take(Statements *self, const unsigned char *p, size_t size)
{
    const unsigned char *end = p + size;
    while (p < end) {
        if (self->done)
            return malformed(self, "there is data after the end of the rows");
        if (!self->in_packet) {
            if (take_header(self, &p, end) < 0)
                return -1;
            continue;
        }
        if (!self->in_row && !self->in_error && !self->in_end && begin_packet(self, *p) < 0)
            return -1;
        size_t there = (size_t)(end - p);
        size_t part = self->packet_left < there ? self->packet_left : there;
        if (self->in_row) {
            if (take_payload(self, p, part, self->packet_left - part) < 0)
                return -1;
        } else if (self->in_error && append(&self->hold, p, part) < 0)
            return -1;
        p += part;
        self->packet_left -= part;
        if (self->packet_left == 0 && end_packet(self) < 0)
            return -1;
    }
    return self->in_row ? relieve(self) : 0;
}
