/* Values of a result set to literals. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

#include "statements.h"

/* The start of a value of kind 'c' if it is binary, and if the server can't create such a long value. */
#define ODD 0xFF

#define TOO_LONG 0xFE
#define BLOCK 32

/* 0: unchanged; otherwise the character after the backslash. */
static const unsigned char escapes[256] = {
    ['\''] = '\'', ['\\'] = '\\', [0] = '0', ['\n'] = 'n', ['\r'] = 'r', [0x1a] = 'Z',
};

/* The functions for literals write to memory that the caller reserved: 2 * size + VALUE_EXTRA bytes. */

static void append_hex(Buffer *out, const unsigned char *p, size_t size)
{
    out->size = (size_t)(put_hex(out->data + out->size, p, size) - out->data);
}

/* Whether a byte of the block may have a backslash: those of `escapes`, or another control character. */
static inline int has_special(const unsigned char *p)
{
    unsigned char found = 0; /* a byte, and no early exit, so that the compiler compares whole vectors of bytes */
    for (int i = 0; i < BLOCK; i++)
        found |= (p[i] < ' ') | (p[i] == '\'') | (p[i] == '\\');
    return found;
}

static void put_each_escaped(Buffer *out, const unsigned char *p, const unsigned char *end)
{
    for (; p < end; p++) {
        if (escapes[*p]) {
            put_byte(out, '\\');
            put_byte(out, escapes[*p]);
        } else
            put_byte(out, *p);
    }
}

static void put_escaped(Buffer *out, const unsigned char *p, size_t size)
{
    const unsigned char *end = p + size;
    for (; end - p >= BLOCK; p += BLOCK) {
        if (has_special(p))
            put_each_escaped(out, p, p + BLOCK);
        else
            put(out, p, BLOCK);
    }
    /* The rest is shorter than a block, but the text's last block contains it. */
    if (size >= BLOCK && !has_special(end - BLOCK))
        put(out, p, (size_t)(end - p));
    else
        put_each_escaped(out, p, end);
}

/* Without backslashes: quotes doubled, or hex when a character would need a backslash. */
static void put_plain_text(Buffer *out, const unsigned char *p, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (escapes[p[i]] && p[i] != '\'') {
            put(out, "_utf8mb4 x'", 11);
            append_hex(out, p, size);
            put_byte(out, '\'');
            return;
        }
    put_byte(out, '\'');
    for (size_t i = 0; i < size; i++) {
        if (p[i] == '\'')
            put_byte(out, '\'');
        put_byte(out, p[i]);
    }
    put_byte(out, '\'');
}

static inline void begin_literal(Statements *self, unsigned char kind)
{
    Buffer *out = &self->out;
    if (kind == 'h') {
        PyObject *introducer = PyTuple_GET_ITEM(self->introducers, self->column);
        put(out, PyBytes_AS_STRING(introducer), (size_t)PyBytes_GET_SIZE(introducer));
    }
    if (kind == 'x')
        put_byte(out, 'x');
    if (kind == 'x' || kind == 'q' || (kind == 't' && self->backslash))
        put_byte(out, '\'');
    self->exponent = 0;
}

static inline void put_literal(Statements *self, unsigned char kind, const unsigned char *p, size_t size)
{
    if (kind == 't')
        put_escaped(&self->out, p, size);
    else if (kind == 'x' || kind == 'h')
        append_hex(&self->out, p, size);
    else if (kind == 'n')
        put_byte(&self->out, '0');
    else {
        if (kind == 'f' && size > 0 && memchr(p, 'e', size) != NULL)
            self->exponent = 1;
        put(&self->out, p, size);
    }
}

static inline void end_literal(Statements *self, unsigned char kind)
{
    if (kind == 'f') {
        if (!self->exponent)
            put(&self->out, "e0", 2);
    } else if (kind != 'v' && kind != 'n')
        put_byte(&self->out, '\'');
}

static inline int is_held(const Statements *self, unsigned char kind)
{
    return kind == 't' && !self->backslash;
}

int begin_value(Statements *self)
{
    if (self->column == self->width)
        return malformed(self, "a row has more columns than the result set");
    put_byte(&self->out, self->column ? ',' : '(');
    return 0;
}

static int end_held(Statements *self)
{
    if (buffer_reserve(&self->out, 2 * self->hold.size + VALUE_EXTRA) < 0)
        return -1;
    put_plain_text(&self->out, self->hold.data, self->hold.size);
    self->hold.size = 0;
    if (self->hold.room > self->limit)
        buffer_free(&self->hold);
    return 0;
}

/* The form of a value of kind 'c' by its first byte: text ('t'), bytes after that byte ('h'), or number 0 of an ENUM
 * ('n'); -1 after an error. */
static int kind_by_first(Statements *self, unsigned char first, uint64_t length)
{
    if (first == TOO_LONG) {
        self->broken = 1;
        PyErr_SetString(PyExc_ValueError,
                        "a text with characters that Unicode lacks, or a JSON document, exceeds the upstream's "
                        "max_allowed_packet");
        return -1;
    }
    return first != ODD ? 't' : length == 1 ? 'n' : 'h';
}

int take_value(Statements *self, const unsigned char *p, size_t size)
{
    unsigned char kind = self->value_kind;
    self->value_left -= size;
    if (kind == 'c') {
        if (size == 0)
            return 0;
        int found = kind_by_first(self, *p, self->value_left + size);
        if (found < 0 || buffer_reserve(&self->out, VALUE_EXTRA) < 0)
            return -1;
        kind = self->value_kind = (unsigned char)found;
        if (!is_held(self, kind))
            begin_literal(self, kind);
        p += kind == 'h';
        size -= kind == 'h';
    }
    if (is_held(self, kind)) {
        if (append(&self->hold, p, size) < 0)
            return -1;
        if (self->value_left == 0 && end_held(self) < 0)
            return -1;
    } else {
        if (buffer_reserve(&self->out, 2 * size + VALUE_EXTRA) < 0)
            return -1;
        put_literal(self, kind, p, size);
        if (self->value_left == 0)
            end_literal(self, kind);
    }
    if (self->value_left == 0) {
        self->in_value = 0;
        self->column++;
    }
    return 0;
}

Py_ssize_t start_value(Statements *self, uint64_t length, const unsigned char *p, size_t there)
{
    size_t size = length < there ? (size_t)length : there;
    if (buffer_reserve(&self->out, 2 * size + VALUE_EXTRA) < 0 || begin_value(self) < 0)
        return -1;
    unsigned char kind = self->kinds[self->column];
    if (kind == 'c' && length == 0)
        kind = 't';
    if (kind == 'c' && size == length) {
        int found = kind_by_first(self, *p, length);
        if (found < 0)
            return -1;
        kind = (unsigned char)found;
    }
    if (size == length) {
        size_t odd = kind == 'h';
        if (is_held(self, kind))
            put_plain_text(&self->out, p, size);
        else {
            begin_literal(self, kind);
            put_literal(self, kind, p + odd, size - odd);
            end_literal(self, kind);
        }
        self->column++;
        return (Py_ssize_t)size;
    }
    self->value_kind = kind;
    if (kind != 'c' && !is_held(self, kind))
        begin_literal(self, kind);
    self->in_value = 1;
    self->value_left = length;
    return take_value(self, p, size) < 0 ? -1 : (Py_ssize_t)size;
}
