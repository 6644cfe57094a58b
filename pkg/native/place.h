/* Where rows belong: canonical values of keys, and what ties rows of different keys. See dm_worker/syncer/rows/key_normalization.py and
 * ties.py, whose functions give the same numbers.
 */
#ifndef DM_PLACE_H
#define DM_PLACE_H

#include "crc32.h"
#include "images.h"

/* How a literal becomes canonical: as it is, without its last digits, not at all, as folded text, by Python. */
enum { CANON_EXACT, CANON_BLOCK, CANON_ANY, CANON_TEXT, CANON_CALL, CANON_COUNT };

enum { TAGS_FIRST = 0xE0000, TAGS_END = 0xE1000, NEAR = 0x30000 };

typedef struct {
    PyObject_HEAD
    int kind;
    size_t prefix; /* characters, 0 for all */
    int folds;
    size_t points; /* entries of the table of weights */
    uint32_t *ends;
    unsigned char *weights;
    PyObject *far, *call;
} Canon;

static inline size_t weight_start(const Canon *self, size_t point)
{
    return point ? self->ends[point - 1] : 0;
}

static void canon_free(PyObject *object)
{
    Canon *self = (Canon *)object;
    PyMem_Free(self->ends);
    PyMem_RawFree(self->weights);
    Py_XDECREF(self->far);
    Py_XDECREF(self->call);
    Py_TYPE(object)->tp_free(object);
}

static int canon_weights(Canon *self, PyObject *weights)
{
    self->folds = 1;
    self->points = (size_t)PyTuple_GET_SIZE(weights);
    self->ends = PyMem_Calloc(self->points + 1, sizeof(uint32_t));
    if (self->ends == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    Buffer flat = {0};
    for (size_t i = 0; i < self->points; i++) {
        PyObject *weight = PyTuple_GET_ITEM(weights, (Py_ssize_t)i);
        if (!PyBytes_Check(weight) || PyBytes_GET_SIZE(weight) > 0xFF || append_bytes(&flat, weight) < 0) {
            buffer_free(&flat);
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "a weight is a few bytes");
            return -1;
        }
        self->ends[i] = (uint32_t)flat.size;
    }
    self->weights = flat.data;
    if (self->points <= ' ' || self->points > NEAR + (TAGS_END - TAGS_FIRST)) {
        PyErr_SetString(PyExc_ValueError, "no table of weights");
        return -1;
    }
    return 0;
}

static PyObject *canon_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(keywords))
{
    int kind;
    Py_ssize_t prefix;
    PyObject *weights, *far, *call;
    if (!PyArg_ParseTuple(args, "inOSO", &kind, &prefix, &weights, &far, &call))
        return NULL;
    if (kind < 0 || kind >= CANON_COUNT || prefix < 0 || (weights != Py_None && !PyTuple_Check(weights))) {
        PyErr_SetString(PyExc_ValueError, "no canonical form");
        return NULL;
    }
    Canon *self = (Canon *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->kind = kind;
    self->prefix = (size_t)prefix;
    self->far = Py_NewRef(far);
    self->call = Py_NewRef(call);
    if (weights != Py_None && canon_weights(self, weights) < 0)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static PyTypeObject canon_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "pkg.native._rows.Canon",
    .tp_basicsize = sizeof(Canon),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Canon(kind, prefix, weights or None, far, call): from a literal to its canonical bytes.",
    .tp_new = canon_new,
    .tp_dealloc = canon_free,
};

/* The code point at ``*at``, which moves behind it; -1 for bytes that are no UTF-8. */
static int32_t next_point(const uint8_t *text, size_t size, size_t *at)
{
    uint8_t first = text[*at];
    if (first < 0x80) {
        *at += 1;
        return first;
    }
    size_t more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
    if (first < 0xC2 || first > 0xF4 || size - *at <= more)
        return -1;
    int32_t point = first & (0x3F >> more);
    for (size_t i = 1; i <= more; i++) {
        uint8_t byte = text[*at + i];
        if ((byte & 0xC0) != 0x80)
            return -1;
        point = point << 6 | (byte & 0x3F);
    }
    if ((more == 2 && (point < 0x800 || (point >= 0xD800 && point < 0xE000))) ||
        (more == 3 && (point < 0x10000 || point > 0x10FFFF)))
        return -1;
    *at += more + 1;
    return point;
}

static int append_weight(const Canon *self, uint32_t point, Buffer *out)
{
    size_t near = self->points < NEAR ? self->points : NEAR, at = point;
    if (point >= near) {
        if (point >= TAGS_FIRST && point < TAGS_END && self->points > NEAR &&
            NEAR + (point - TAGS_FIRST) < self->points)
            at = NEAR + (point - TAGS_FIRST);
        else if (PyBytes_GET_SIZE(self->far))
            return append_bytes(out, self->far);
        else {
            const unsigned char own[] = {0, (unsigned char)(point >> 16), (unsigned char)(point >> 8), (unsigned char)point};
            return append(out, own, 4);
        }
    }
    size_t start = weight_start(self, at);
    return append(out, self->weights + start, self->ends[at] - start);
}

static void strip_spaces(const Canon *self, Buffer *out, size_t from)
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

/* Text without escapes. 1 when its bytes are no UTF-8 and nothing was appended. */
static int append_folded(const Canon *self, const uint8_t *text, size_t size, Buffer *out)
{
    size_t from = out->size, at = 0;
    for (size_t n = 0; at < size && (self->prefix == 0 || n < self->prefix); n++) {
        size_t start = at;
        int32_t point = next_point(text, size, &at);
        if (point < 0) {
            out->size = from;
            return 1;
        }
        if ((self->folds ? append_weight(self, (uint32_t)point, out) : append(out, text + start, at - start)) < 0)
            return -1;
    }
    strip_spaces(self, out, from);
    return 0;
}

static int append_canon_by_python(const Canon *self, const uint8_t *literal, size_t size, Buffer *out)
{
    PyObject *made = PyObject_CallFunction(self->call, "y#", (const char *)literal, (Py_ssize_t)size);
    int done = -1;
    if (made != NULL && !PyBytes_Check(made))
        PyErr_SetString(PyExc_TypeError, "a canonical form is bytes");
    else if (made != NULL)
        done = append_bytes(out, made);
    Py_XDECREF(made);
    return done;
}

static int append_canon_text(const Canon *self, const uint8_t *literal, size_t size, Buffer *out)
{
    if (size < 2 || literal[0] != '\'')
        return append_canon_by_python(self, literal, size, out);
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
    return done > 0 ? append_canon_by_python(self, literal, size, out) : done;
}

/* Where a whole number, or literals that end with one, ends without its last three digits. */
static size_t block_end(const uint8_t *literal, size_t size)
{
    size_t end = size;
    while (end && size - end < 3 && literal[end - 1] >= '0' && literal[end - 1] <= '9')
        end--;
    return end;
}

/* ``literal`` must not be in ``out``. */
static int append_canon(const Canon *self, const uint8_t *literal, size_t size, Buffer *out)
{
    switch (self->kind) {
    case CANON_EXACT:
        return append(out, literal, size);
    case CANON_BLOCK:
        return append(out, literal, block_end(literal, size));
    case CANON_ANY:
        return 0;
    case CANON_TEXT:
        return append_canon_text(self, literal, size, out);
    default:
        return append_canon_by_python(self, literal, size, out);
    }
}

/* -- placements ------------------------------------------------------------------------------------------------ */

typedef struct {
    uint32_t seed;
    PyObject *columns, *canons; /* tuples of one length */
    uint32_t *numbers;
} Tie;

typedef struct {
    PyObject_HEAD
    uint32_t seed;
    int spread, exact, any, block; /* block: exact but for the last one, a whole number without its last digits */
    PyObject *canons;
    Py_ssize_t tie_count, widest; /* widest: one more than the highest column number */
    Tie *ties;
} Placement;

static void placement_free(PyObject *object)
{
    Placement *self = (Placement *)object;
    for (Py_ssize_t i = 0; self->ties != NULL && i < self->tie_count; i++) {
        Py_XDECREF(self->ties[i].columns);
        Py_XDECREF(self->ties[i].canons);
        PyMem_Free(self->ties[i].numbers);
    }
    PyMem_Free(self->ties);
    Py_XDECREF(self->canons);
    Py_TYPE(object)->tp_free(object);
}

static int all_canons(PyObject *canons)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(canons); i++)
        if (!PyObject_TypeCheck(PyTuple_GET_ITEM(canons, i), &canon_type)) {
            PyErr_SetString(PyExc_TypeError, "canonical forms are needed");
            return 0;
        }
    return 1;
}

static int tie_from(Placement *self, Tie *tie, PyObject *spec)
{
    unsigned seed;
    PyObject *columns, *canons;
    if (!PyTuple_Check(spec)) {
        PyErr_SetString(PyExc_TypeError, "a tie is a tuple");
        return -1;
    }
    if (!PyArg_ParseTuple(spec, "IO!O!", &seed, &PyTuple_Type, &columns, &PyTuple_Type, &canons) || !all_canons(canons))
        return -1;
    tie->seed = seed;
    tie->columns = Py_NewRef(columns);
    tie->canons = Py_NewRef(canons);
    if (PyTuple_GET_SIZE(columns) != PyTuple_GET_SIZE(canons)) {
        PyErr_SetString(PyExc_ValueError, "a tie has one canonical form a column");
        return -1;
    }
    tie->numbers = indexes_from(columns, 0xFFFF);
    for (Py_ssize_t i = 0; tie->numbers && i < PyTuple_GET_SIZE(columns); i++)
        if ((Py_ssize_t)tie->numbers[i] >= self->widest)
            self->widest = (Py_ssize_t)tie->numbers[i] + 1;
    return tie->numbers ? 0 : -1;
}

static PyObject *placement_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(keywords))
{
    unsigned seed;
    int spread;
    PyObject *canons, *ties;
    if (!PyArg_ParseTuple(args, "IpO!O!", &seed, &spread, &PyTuple_Type, &canons, &PyTuple_Type, &ties) ||
        !all_canons(canons))
        return NULL;
    Placement *self = (Placement *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->seed = seed;
    self->spread = spread;
    self->canons = Py_NewRef(canons);
    self->exact = self->any = 1;
    Py_ssize_t last = PyTuple_GET_SIZE(canons) - 1;
    self->block = last >= 0 && ((Canon *)PyTuple_GET_ITEM(canons, last))->kind == CANON_BLOCK;
    for (Py_ssize_t i = 0; i <= last; i++) {
        int kind = ((Canon *)PyTuple_GET_ITEM(canons, i))->kind;
        self->exact = self->exact && (kind == CANON_EXACT || (kind == CANON_BLOCK && i == last));
        self->any = self->any && kind == CANON_ANY;
    }
    self->ties = PyMem_Calloc((size_t)PyTuple_GET_SIZE(ties) + 1, sizeof(Tie));
    if (self->ties == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    self->tie_count = PyTuple_GET_SIZE(ties);
    for (Py_ssize_t i = 0; i < self->tie_count; i++)
        if (tie_from(self, &self->ties[i], PyTuple_GET_ITEM(ties, i)) < 0) {
            Py_DECREF(self);
            return NULL;
        }
    return (PyObject *)self;
}

static PyTypeObject placement_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "pkg.native._rows.Placement",
    .tp_basicsize = sizeof(Placement),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Placement(seed, spread, canons of the key, ((seed, columns, canons) of each tie, …)).",
    .tp_new = placement_new,
    .tp_dealloc = placement_free,
};

/* Where the literal that begins at ``at`` ends: at a comma outside of quotes, or at the end. */
static size_t literal_end(const uint8_t *key, size_t size, size_t at)
{
    int quoted = 0;
    for (; at < size && (quoted || key[at] != ','); at++) {
        if (quoted && key[at] == '\\' && at + 1 < size)
            at++;
        else if (key[at] == '\'')
            quoted = !quoted;
    }
    return at;
}

/* The row hash of a key: its literals, joined by commas. ``scratch`` is overwritten. */
static int row_hash(const Placement *self, const uint8_t *key, size_t size, Buffer *scratch, uint32_t *hash)
{
    *hash = self->seed;
    if (!self->spread || self->any)
        return 0;
    if (self->exact) {
        *hash = crc32_of(self->seed, key, self->block ? block_end(key, size) : size);
        return 0;
    }
    Py_ssize_t count = PyTuple_GET_SIZE(self->canons);
    size_t at = 0;
    scratch->size = 0;
    for (Py_ssize_t i = 0; i < count; i++, at++) {
        size_t end = count == 1 ? size : literal_end(key, size, at);
        if (at > size || (i + 1 < count ? end == size : end != size)) {
            PyErr_SetString(PyExc_ValueError, "a key with another number of columns");
            return -1;
        }
        if ((i && append(scratch, ",", 1) < 0) ||
            append_canon((Canon *)PyTuple_GET_ITEM(self->canons, i), key + at, end - at, scratch) < 0)
            return -1;
        at = end;
    }
    *hash = crc32_of(self->seed, scratch->data, scratch->size);
    return 0;
}

#endif
