/* The type KeyNormalizer: from a literal to its normalized bytes. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

#include "literals.h"
#include "normalizer.h"

/* Positions in the table of weights: code points below NEAR, then those of the tags. */
enum { TAGS_FIRST = 0xE0000, TAGS_END = 0xE1000, NEAR = 0x30000 };

static inline size_t weight_start(const KeyNormalizer *self, size_t point)
{
    return point ? self->ends[point - 1] : 0;
}

static void normalizer_free(PyObject *object)
{
    KeyNormalizer *self = (KeyNormalizer *)object;
    PyMem_Free(self->ends);
    PyMem_RawFree(self->weights);
    Py_XDECREF(self->far);
    Py_XDECREF(self->call);
    Py_TYPE(object)->tp_free(object);
}

/* The weights by code point: their lengths; then all first bytes, all second bytes, … */
static int read_weights(KeyNormalizer *self, PyObject *lengths, PyObject *columns)
{
    const uint8_t *length = (const uint8_t *)PyBytes_AS_STRING(lengths);
    size_t counts[0x100] = {0}, next[0x100], total = 0, column = 0;
    self->folds = 1;
    self->points = (size_t)PyBytes_GET_SIZE(lengths);
    for (size_t i = 0; i < self->points; i++) {
        counts[length[i]]++;
        total += length[i];
    }
    if (self->points <= ' ' || self->points > NEAR + (TAGS_END - TAGS_FIRST) || total > UINT32_MAX ||
        total != (size_t)PyBytes_GET_SIZE(columns)) {
        PyErr_SetString(PyExc_ValueError, "no table of weights");
        return -1;
    }
    for (size_t i = 0, longer = self->points; i < 0x100; i++) {
        longer -= counts[i];
        next[i] = column;
        column += longer;
    }
    Buffer flat = {0};
    self->ends = PyMem_Calloc(self->points, sizeof(uint32_t));
    if (self->ends == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    if (buffer_reserve(&flat, total + 1) < 0)
        return -1;
    const uint8_t *bytes = (const uint8_t *)PyBytes_AS_STRING(columns);
    for (size_t i = 0; i < self->points; i++) {
        for (size_t n = 0; n < length[i]; n++)
            flat.data[flat.size++] = bytes[next[n]++];
        self->ends[i] = (uint32_t)flat.size;
    }
    self->weights = flat.data;
    return 0;
}

static PyObject *normalizer_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(keywords))
{
    int kind;
    Py_ssize_t prefix;
    PyObject *weights, *far, *call, *lengths = NULL, *columns = NULL;
    if (!PyArg_ParseTuple(args, "inOSO", &kind, &prefix, &weights, &far, &call))
        return NULL;
    if (kind < 0 || kind >= NORMALIZE_COUNT || prefix < 0 || (weights != Py_None && !PyTuple_Check(weights))) {
        PyErr_SetString(PyExc_ValueError, "no such key normalizer");
        return NULL;
    }
    if (weights != Py_None && !PyArg_ParseTuple(weights, "SS", &lengths, &columns))
        return NULL;
    KeyNormalizer *self = (KeyNormalizer *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->kind = kind;
    self->prefix = (size_t)prefix;
    self->far = Py_NewRef(far);
    self->call = Py_NewRef(call);
    if (lengths != NULL && read_weights(self, lengths, columns) < 0)
        Py_CLEAR(self);
    return (PyObject *)self;
}

PyTypeObject normalizer_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "pkg.native._rows.KeyNormalizer",
    .tp_basicsize = sizeof(KeyNormalizer),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc =
        "KeyNormalizer(kind, prefix, (lengths, bytes by column) of the weights or None, far, call): from a literal to its "
        "normalized bytes.",
    .tp_new = normalizer_new,
    .tp_dealloc = normalizer_free,
};

/* Beyond all code points. */
enum { NOT_UTF8 = 0x110000 };

/* The code point at ``*at``, which moves past it; NOT_UTF8 for other bytes. */
static int32_t next_point(const uint8_t *text, size_t size, size_t *at)
{
    uint8_t first = text[*at];
    if (first < 0x80) {
        *at += 1;
        return first;
    }
    size_t more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
    if (first < 0xC2 || first > 0xF4 || size - *at <= more)
        return NOT_UTF8;
    int32_t point = first & (0x3F >> more);
    for (size_t i = 1; i <= more; i++) {
        uint8_t byte = text[*at + i];
        if ((byte & 0xC0) != 0x80)
            return NOT_UTF8;
        point = point << 6 | (byte & 0x3F);
    }
    if ((more == 2 && (point < 0x800 || (point >= 0xD800 && point < 0xE000))) ||
        (more == 3 && (point < 0x10000 || point > 0x10FFFF)))
        return NOT_UTF8;
    *at += more + 1;
    return point;
}

static int append_weight(const KeyNormalizer *self, uint32_t point, Buffer *out)
{
    size_t near = self->points < NEAR ? self->points : NEAR, at = point;
    if (point >= near) {
        if (point >= TAGS_FIRST && point < TAGS_END && self->points > NEAR &&
            NEAR + (point - TAGS_FIRST) < self->points)
            at = NEAR + (point - TAGS_FIRST);
        else if (PyBytes_GET_SIZE(self->far))
            return append_bytes(out, self->far);
        else {
            const unsigned char own[] = {0, (unsigned char)(point >> 16), (unsigned char)(point >> 8),
                                         (unsigned char)point};
            return append(out, own, 4);
        }
    }
    size_t start = weight_start(self, at);
    return append(out, self->weights + start, self->ends[at] - start);
}

static void strip_spaces(const KeyNormalizer *self, Buffer *out, size_t from)
{
    const unsigned char *space = (const unsigned char *)" ";
    size_t size = 1;
    if (self->folds) {
        space = self->weights + weight_start(self, ' ');
        size = self->ends[' '] - weight_start(self, ' ');
    }
    while (size && out->size - from >= size && memcmp(out->data + out->size - size, space, size) == 0)
        out->size -= size;
}

/* Text without escapes; 0, or NOT_UTF8 when nothing was appended. */
static int append_folded(const KeyNormalizer *self, const uint8_t *text, size_t size, Buffer *out)
{
    size_t from = out->size, at = 0;
    for (size_t n = 0; at < size && (self->prefix == 0 || n < self->prefix); n++) {
        size_t start = at;
        int32_t point = next_point(text, size, &at);
        if (point == NOT_UTF8) {
            out->size = from;
            return NOT_UTF8;
        }
        if ((self->folds ? append_weight(self, (uint32_t)point, out) : append(out, text + start, at - start)) < 0)
            return -1;
    }
    strip_spaces(self, out, from);
    return 0;
}

static int append_normalized_by_python(const KeyNormalizer *self, const uint8_t *literal, size_t size, Buffer *out)
{
    PyObject *made = PyObject_CallFunction(self->call, "y#", (const char *)literal, (Py_ssize_t)size);
    int done = -1;
    if (made != NULL && !PyBytes_Check(made))
        PyErr_SetString(PyExc_TypeError, "a normalized form is bytes");
    else if (made != NULL)
        done = append_bytes(out, made);
    Py_XDECREF(made);
    return done;
}

static int append_normalized_text(const KeyNormalizer *self, const uint8_t *literal, size_t size, Buffer *out)
{
    if (size < 2 || literal[0] != '\'')
        return append_normalized_by_python(self, literal, size, out);
    const uint8_t *body = literal + 1;
    size_t length = size - 2;
    Buffer plain = {0};
    if (memchr(body, '\\', length) != NULL) {
        if (buffer_reserve(&plain, length) < 0)
            return -1;
        for (size_t i = 0; i < length; i++) {
            i += body[i] == '\\' && i + 1 < length;
            plain.data[plain.size++] = body[i];
        }
        body = plain.data;
        length = plain.size;
    }
    int done = append_folded(self, body, length, out);
    buffer_free(&plain);
    return done == NOT_UTF8 ? append_normalized_by_python(self, literal, size, out) : done;
}

size_t block_end(const uint8_t *literal, size_t size)
{
    size_t end = size;
    while (end && size - end < 3 && literal[end - 1] >= '0' && literal[end - 1] <= '9')
        end--;
    return end;
}

int append_normalized(const KeyNormalizer *self, const uint8_t *literal, size_t size, Buffer *out)
{
    switch (self->kind) {
    case NORMALIZE_EXACT:
        return append(out, literal, size);
    case NORMALIZE_BLOCK:
        return append(out, literal, block_end(literal, size));
    case NORMALIZE_ANY:
        return 0;
    case NORMALIZE_TEXT:
        return append_normalized_text(self, literal, size, out);
    default:
        return append_normalized_by_python(self, literal, size, out);
    }
}
