/* The dumper's hot loop: a result set's packets, as they come from the socket, to the text of INSERT statements.
 *
 * The same as dm_worker.dumper.insert_statements.PythonStatements, which says what the statements look like. Rows and values
 * are taken up wherever the network cut them, and a row above the statement size leaves piece by piece: memory is
 * bounded by the statement size and one piece, whatever the row.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#include "buffer.h"

#define FULL_PACKET 0xFFFFFFu
/* Larger error packets are none: the server's messages have at most 512 characters. */
#define MAX_ERROR 65536u
/* What a value may add besides its bytes, each at most twice: separators, quotes, `_utf8mb4 x''`, an introducer. */
#define VALUE_EXTRA 48
#define MOST_INTRODUCER 24
/* How a value of kind 'c' begins when it is bytes, and when the server makes no value so long. */
#define ODD 0xFF
#define TOO_LONG 0xFE
#define BLOCK 32

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

/* 0: as it is; otherwise what follows the backslash. */
static unsigned char escapes[256];

static inline void put_byte(Buffer *buffer, unsigned char byte)
{
    buffer->data[buffer->size++] = byte;
}

static int malformed(Statements *self, const char *why)
{
    self->broken = 1;
    PyErr_Format(PyExc_ValueError, "malformed packet behind row %lld: %s", self->rows, why);
    return -1;
}

/* Values to literals. The caller has reserved 2 * size + VALUE_EXTRA bytes. */

static void append_hex(Buffer *out, const unsigned char *p, size_t size)
{
    out->size = (size_t)(put_hex(out->data + out->size, p, size) - out->data);
}

static inline int has_special(const unsigned char *p)
{
    int found = 0; /* no early exit: this is to become vector instructions */
    for (int i = 0; i < BLOCK; i++)
        found |= (p[i] == '\'') | (p[i] == '\\') | (p[i] == 0) | (p[i] == '\n') | (p[i] == '\r') | (p[i] == 0x1a);
    return found;
}

static void put_escaped(Buffer *out, const unsigned char *p, size_t size)
{
    const unsigned char *end = p + size;
    while (p < end) {
        if (end - p >= BLOCK && !has_special(p)) {
            put(out, p, BLOCK);
            p += BLOCK;
            continue;
        }
        const unsigned char *stop = end - p >= BLOCK ? p + BLOCK : end;
        for (; p < stop; p++) {
            if (escapes[*p]) {
                put_byte(out, '\\');
                put_byte(out, escapes[*p]);
            } else
                put_byte(out, *p);
        }
    }
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
    } else if (kind != 'v')
        put_byte(&self->out, '\'');
}

static inline int is_held(const Statements *self, unsigned char kind)
{
    return kind == 't' && !self->backslash;
}

/* Statements. */

static int emit(Statements *self, int starts, size_t size, int ends)
{
    PyObject *text = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size + (ends ? 2 : 0));
    if (text == NULL)
        return -1;
    memcpy(PyBytes_AS_STRING(text), self->out.data, size);
    if (ends)
        memcpy(PyBytes_AS_STRING(text) + size, ";\n", 2);
    PyObject *piece = Py_BuildValue("(ON)", starts ? Py_True : Py_False, text);
    if (piece == NULL)
        return -1;
    int failed = PyList_Append(self->pieces, piece);
    Py_DECREF(piece);
    return failed;
}

static int begin_statement(Statements *self)
{
    self->out.size = 0;
    self->pending = 0;
    return append(&self->out, self->head.data, self->head.size);
}

/* Ends the statement before the row under way, which becomes the first of the next. */
static int cut_before_row(Statements *self)
{
    if (emit(self, 1, self->row_start - 2, 1) < 0)
        return -1;
    size_t size = self->out.size - self->row_start;
    memmove(self->out.data + self->head.size, self->out.data + self->row_start, size);
    self->row_start = self->head.size;
    self->out.size = self->head.size + size;
    self->pending = 0;
    return 0;
}

static int begin_row(Statements *self)
{
    if (buffer_reserve(&self->out, VALUE_EXTRA) < 0)
        return -1;
    if (self->pending)
        put(&self->out, ",\n", 2);
    self->row_start = self->out.size;
    self->in_row = 1;
    self->column = 0;
    return 0;
}

static int end_row(Statements *self)
{
    if (self->in_value || self->prefix_size || self->column != self->width)
        return malformed(self, "the row ends within a value, or has other columns than the result set");
    if (buffer_reserve(&self->out, VALUE_EXTRA) < 0)
        return -1;
    put_byte(&self->out, ')');
    self->in_row = 0;
    self->rows++;
    if (self->leaving) {
        self->leaving = 0;
        return emit(self, 0, self->out.size, 1) < 0 ? -1 : begin_statement(self);
    }
    if (self->pending && self->out.size + 2 > self->limit && cut_before_row(self) < 0)
        return -1;
    self->pending++;
    return 0;
}

/* Lets what is there of a row above the limit go. */
static int relieve(Statements *self)
{
    if (self->pending && self->out.size + 2 > self->limit && cut_before_row(self) < 0)
        return -1;
    if (self->pending || self->out.size == 0 || (!self->leaving && self->out.size <= self->limit))
        return 0;
    if (emit(self, !self->leaving, self->out.size, 0) < 0)
        return -1;
    self->leaving = 1;
    self->out.size = 0;
    return 0;
}

/* Rows from payload. */

static int begin_value(Statements *self)
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

/* What a value of kind 'c' is by its first byte: text ('t'), or bytes behind that byte ('h'); 0 after an error. */
static unsigned char kind_by_first(Statements *self, unsigned char first)
{
    if (first == TOO_LONG) {
        self->broken = 1;
        PyErr_SetString(PyExc_ValueError,
                        "a text with codes that Unicode lacks is longer than the upstream's max_allowed_packet");
        return 0;
    }
    return first == ODD ? 'h' : 't';
}

/* Takes `size` bytes of the value under way. */
static int take_value(Statements *self, const unsigned char *p, size_t size)
{
    unsigned char kind = self->value_kind;
    self->value_left -= size;
    if (kind == 'c') {
        if (size == 0)
            return 0;
        kind = self->value_kind = kind_by_first(self, *p);
        if (!kind || buffer_reserve(&self->out, VALUE_EXTRA) < 0)
            return -1;
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

/* A value of `length` bytes begins, of which `there` are at `p`; how many were taken, -1 after an error. */
static inline Py_ssize_t start_value(Statements *self, uint64_t length, const unsigned char *p, size_t there)
{
    size_t size = length < there ? (size_t)length : there;
    if (buffer_reserve(&self->out, 2 * size + VALUE_EXTRA) < 0 || begin_value(self) < 0)
        return -1;
    unsigned char kind = self->kinds[self->column];
    if (kind == 'c' && length == 0)
        kind = 't';
    if (kind == 'c' && size == length) {
        kind = kind_by_first(self, *p);
        if (!kind)
            return -1;
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

/* What kind of packet begins with `first`; the packet's size is in `packet_left`. */
static int begin_packet(Statements *self, unsigned char first)
{
    if (first == 0xFF) {
        if (self->packet_left > MAX_ERROR || self->packet_left < 4)
            return malformed(self, "an error packet has an impossible size");
        self->in_error = 1;
        self->hold.size = 0;
        return 0;
    }
    /* A value above 16 MB begins with 0xFE too, but never in a packet that is not full. */
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

/* Takes the 4 bytes before a packet's payload, wherever they were cut. */
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

static int take(Statements *self, const unsigned char *p, size_t size)
{
    const unsigned char *end = p + size;
    while (p < end) {
        if (self->done)
            return malformed(self, "something follows the end of the rows");
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

/* Python's side. */

static PyObject *hand_over(Statements *self, int failed)
{
    PyObject *pieces = self->pieces;
    self->pieces = NULL;
    if (failed) {
        self->broken = 1;
        Py_XDECREF(pieces);
        return NULL;
    }
    return pieces;
}

static PyObject *statements_feed(Statements *self, PyObject *argument)
{
    if (self->broken) {
        PyErr_SetString(PyExc_ValueError, "the rows cannot be read on after an error");
        return NULL;
    }
    Py_buffer data;
    if (PyObject_GetBuffer(argument, &data, PyBUF_SIMPLE) < 0)
        return NULL;
    self->pieces = PyList_New(0);
    int failed = self->pieces == NULL || take(self, data.buf, (size_t)data.len) < 0;
    PyBuffer_Release(&data);
    return hand_over(self, failed);
}

static PyObject *statements_finish(Statements *self, PyObject *Py_UNUSED(ignored))
{
    if (self->broken || !self->done || self->in_error) {
        PyErr_SetString(PyExc_ValueError, "the rows have not come to their end");
        return NULL;
    }
    self->pieces = PyList_New(0);
    int failed = self->pieces == NULL;
    if (!failed && self->pending)
        failed = emit(self, 1, self->out.size, 1) < 0 || begin_statement(self) < 0;
    return hand_over(self, failed);
}

static PyObject *statements_error(Statements *self, void *Py_UNUSED(closure))
{
    if (!self->done || !self->in_error)
        Py_RETURN_NONE;
    return PyBytes_FromStringAndSize((char *)self->hold.data, (Py_ssize_t)self->hold.size);
}

static PyObject *statements_done(Statements *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(self->done);
}

static PyObject *statements_rows(Statements *self, void *Py_UNUSED(closure))
{
    return PyLong_FromLongLong(self->rows);
}

static int statements_init(Statements *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"kinds", "introducers", "head", "statement_size", "backslash", NULL};
    const char *kinds, *head;
    PyObject *introducers;
    Py_ssize_t width, head_size, limit;
    int backslash;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "y#O!y#np", names, &kinds, &width, &PyTuple_Type, &introducers,
                                     &head, &head_size, &limit, &backslash))
        return -1;
    if (self->kinds != NULL || width < 1 || limit < 1) {
        PyErr_SetString(PyExc_ValueError, "kinds and statement_size must be given, once");
        return -1;
    }
    for (Py_ssize_t i = 0; i < width; i++)
        if (kinds[i] == 0 || strchr("vfqtxc", kinds[i]) == NULL) {
            PyErr_Format(PyExc_ValueError, "column %zd has an unknown kind", i);
            return -1;
        }
    if (PyTuple_GET_SIZE(introducers) != width) {
        PyErr_SetString(PyExc_ValueError, "there must be an introducer for each column");
        return -1;
    }
    for (Py_ssize_t i = 0; i < width; i++) {
        PyObject *introducer = PyTuple_GET_ITEM(introducers, i);
        if (!PyBytes_Check(introducer) || PyBytes_GET_SIZE(introducer) > MOST_INTRODUCER) {
            PyErr_Format(PyExc_ValueError, "column %zd has an impossible introducer", i);
            return -1;
        }
    }
    self->kinds = PyMem_Malloc((size_t)width);
    if (self->kinds == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    memcpy(self->kinds, kinds, (size_t)width);
    self->introducers = Py_NewRef(introducers);
    self->width = width;
    self->limit = (size_t)limit;
    self->backslash = backslash;
    return append(&self->head, head, (size_t)head_size) < 0 || begin_statement(self) < 0 ? -1 : 0;
}

static void statements_dealloc(Statements *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyMem_Free(self->kinds);
    Py_XDECREF(self->introducers);
    buffer_free(&self->head);
    buffer_free(&self->out);
    buffer_free(&self->hold);
    Py_XDECREF(self->pieces);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"feed", (PyCFunction)statements_feed, METH_O, "The pieces of statements that these bytes complete."},
    {"finish", (PyCFunction)statements_finish, METH_NOARGS, "The last statement's piece, when there is one."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"error", (getter)statements_error, NULL, "The server's error packet, None without one.", NULL},
    {"done", (getter)statements_done, NULL, "Whether the rows have come to their end.", NULL},
    {"rows", (getter)statements_rows, NULL, "Whole rows so far.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "INSERT statements from the packets of a result set; see PythonStatements."},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_init, statements_init},
    {Py_tp_dealloc, statements_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {0, NULL},
};

static PyType_Spec spec = {"pkg.native._dump.Statements", sizeof(Statements), 0, Py_TPFLAGS_DEFAULT, slots};

static int prepare(PyObject *module)
{
    static const char special[] = "'\\\0\n\r\x1a", letters[] = "'\\0nrZ";
    for (size_t i = 0; i < sizeof special - 1; i++)
        escapes[(unsigned char)special[i]] = (unsigned char)letters[i];
    PyObject *type = PyType_FromSpec(&spec);
    if (type == NULL)
        return -1;
    if (PyModule_AddObject(module, "Statements", type) < 0) {
        Py_DECREF(type);
        return -1;
    }
    return PyModule_AddStringConstant(module, "SOURCES", DM_SOURCES);
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, prepare}, {0, NULL}};

static PyModuleDef module = {
    .m_base = PyModuleDef_HEAD_INIT, .m_name = "_dump", .m_size = 0, .m_slots = module_slots};

PyMODINIT_FUNC PyInit__dump(void)
{
    return PyModuleDef_Init(&module);
}
