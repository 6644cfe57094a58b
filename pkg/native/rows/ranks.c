/* The waves of rows whose order matters: each row is in a later wave than those that it depends on. As in
 * dm_worker/syncer/execution/family_order.py.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "../common/crc32.h"
#include "../common/map.h"
#include "module.h"
#include "normalizer.h"
#include "placement.h"

/* Flags of a link. SHARED: rows that only refer to a value do not depend on each other. ALWAYS: the values count if the
 * change keeps them, too. */
enum { SHARED = 1, ALWAYS = 2 };
/* Added to a rank: the change gives other values to a link. */
enum { MOVES = 1 };

/* The last wave that writes a value, and that refers to it. */
typedef struct {
    uint32_t written, read;
} Last;

/* A value of the current row. */
typedef struct {
    uint32_t number;
    int shared;
} Use;

typedef struct {
    Map values;
    Buffer last, uses, normalized, ranks; /* of Last, Use, bytes, uint32_t */
    uint32_t count;
} Waves;

typedef struct {
    const Placement *placement;
    const uint8_t *flags;
} Links;

static inline Last *last_of(const Waves *self, uint32_t number)
{
    return (Last *)(void *)self->last.data + number;
}

/* The links of a plan: (Placement, flags). */
static int links_from(PyObject *plans, PyObject *number, Links *links)
{
    PyObject *spec = PyDict_GetItemWithError(plans, number);
    if (spec == NULL) {
        if (!PyErr_Occurred())
            PyErr_SetObject(PyExc_KeyError, number);
        return -1;
    }
    PyObject *placement, *flags;
    if (!PyTuple_Check(spec)) {
        PyErr_SetString(PyExc_TypeError, "links are a tuple");
        return -1;
    }
    if (!PyArg_ParseTuple(spec, "O!S", &placement_type, &placement, &flags))
        return -1;
    links->placement = (const Placement *)placement;
    links->flags = (const uint8_t *)PyBytes_AS_STRING(flags);
    if (PyBytes_GET_SIZE(flags) == links->placement->conflict_key_count)
        return 0;
    PyErr_SetString(PyExc_ValueError, "each link has flags");
    return -1;
}

/* An image: a list with all columns, or None (NULL then). */
static int image_from(PyObject *object, const Links *links, PyObject **image)
{
    *image = object == Py_None ? NULL : object;
    if (*image == NULL || (PyList_Check(object) && PyList_GET_SIZE(object) >= links->placement->widest))
        return 0;
    PyErr_SetString(PyExc_ValueError, "an image is a list of all columns");
    return -1;
}

/* The literal of a column, borrowed. The list may have changed: a normalized form may come from Python. */
static PyObject *literal_at(PyObject *image, uint32_t column)
{
    PyObject *found = PyList_GetItem(image, (Py_ssize_t)column);
    if (found == NULL || PyBytes_Check(found))
        return found;
    PyErr_SetString(PyExc_TypeError, "a literal is bytes");
    return NULL;
}

/* Whether both images have the same literals in the columns of a link: 1 or 0. */
static int same_values(const ConflictKey *link, PyObject *before, PyObject *after)
{
    for (Py_ssize_t n = 0; n < PyTuple_GET_SIZE(link->columns); n++) {
        PyObject *one = literal_at(before, link->numbers[n]), *other = one ? literal_at(after, link->numbers[n]) : NULL;
        if (other == NULL)
            return -1;
        if (PyBytes_GET_SIZE(one) != PyBytes_GET_SIZE(other) ||
            memcmp(PyBytes_AS_STRING(one), PyBytes_AS_STRING(other), (size_t)PyBytes_GET_SIZE(one)) != 0)
            return 0;
    }
    return 1;
}

static int is_null_literal(PyObject *literal)
{
    return PyBytes_GET_SIZE(literal) == 4 && memcmp(PyBytes_AS_STRING(literal), "NULL", 4) == 0;
}

/* Notes that the current row has a link's values in an image, unless one of them is NULL. */
static int use_values(Waves *self, const ConflictKey *link, int shared, PyObject *image)
{
    Py_ssize_t count = PyTuple_GET_SIZE(link->columns);
    for (Py_ssize_t n = 0; n < count; n++) {
        PyObject *literal = literal_at(image, link->numbers[n]);
        if (literal == NULL)
            return -1;
        if (is_null_literal(literal))
            return 0;
    }
    self->normalized.size = 0;
    for (Py_ssize_t n = 0; n < count; n++) {
        PyObject *literal = literal_at(image, link->numbers[n]);
        if (literal == NULL || (n && append(&self->normalized, ",", 1) < 0))
            return -1;
        Py_INCREF(literal);
        int done = append_normalized((KeyNormalizer *)PyTuple_GET_ITEM(link->normalizers, n),
                                     (const uint8_t *)PyBytes_AS_STRING(literal), (size_t)PyBytes_GET_SIZE(literal),
                                     &self->normalized);
        Py_DECREF(literal);
        if (done < 0)
            return -1;
    }
    uint32_t hash = crc32_of(link->seed, self->normalized.data, self->normalized.size);
    int64_t number = map_number(&self->values, hash, self->count);
    if (number < 0)
        return -1;
    if (number == self->count) {
        Last none = {0, 0};
        if (append(&self->last, &none, sizeof none) < 0)
            return -1;
        self->count++;
    }
    Use use = {(uint32_t)number, shared};
    return append(&self->uses, &use, sizeof use);
}

/* Notes the values of a row; 1 if its change gives other values to a link, else 0. */
static int use_row(Waves *self, const Links *links, PyObject *before, PyObject *after)
{
    int moves = 0;
    self->uses.size = 0;
    for (Py_ssize_t i = 0; i < links->placement->conflict_key_count; i++) {
        const ConflictKey *link = &links->placement->conflict_keys[i];
        int same = before != NULL && after != NULL ? same_values(link, before, after) : 0;
        if (same < 0)
            return -1;
        moves = moves || !same;
        int shared = links->flags[i] & SHARED;
        if (same && !shared && !(links->flags[i] & ALWAYS))
            continue;
        if ((before != NULL && !same && use_values(self, link, shared, before) < 0) ||
            (after != NULL && use_values(self, link, shared, after) < 0))
            return -1;
    }
    return moves;
}

/* The wave of the row whose values are noted. */
static uint32_t next_wave(Waves *self)
{
    const Use *uses = (const Use *)(const void *)self->uses.data;
    size_t count = self->uses.size / sizeof(Use);
    uint32_t wave = 0;
    for (size_t i = 0; i < count; i++) {
        const Last *last = last_of(self, uses[i].number);
        if (last->written > wave)
            wave = last->written;
        if (!uses[i].shared && last->read > wave)
            wave = last->read;
    }
    wave++;
    for (size_t i = 0; i < count; i++) {
        Last *last = last_of(self, uses[i].number);
        uint32_t *kept = uses[i].shared ? &last->read : &last->written;
        if (wave > *kept)
            *kept = wave;
    }
    return wave;
}

static int rank_row(Waves *self, PyObject *row, PyObject *plans)
{
    Links links;
    PyObject *before, *after;
    if (!PyTuple_Check(row) || PyTuple_GET_SIZE(row) != 6) {
        PyErr_SetString(PyExc_TypeError, "a row is a tuple of six");
        return -1;
    }
    if (links_from(plans, PyTuple_GET_ITEM(row, 2), &links) < 0 ||
        image_from(PyTuple_GET_ITEM(row, 4), &links, &before) < 0 ||
        image_from(PyTuple_GET_ITEM(row, 5), &links, &after) < 0)
        return -1;
    int moves = use_row(self, &links, before, after);
    if (moves < 0)
        return -1;
    uint32_t rank = next_wave(self) << 1 | (moves ? MOVES : 0);
    return append(&self->ranks, &rank, sizeof rank);
}

PyObject *rows_ranks(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *rows, *plans, *found = NULL;
    if (!PyArg_ParseTuple(args, "OO!", &rows, &PyDict_Type, &plans))
        return NULL;
    PyObject *fixed = PySequence_Tuple(rows);
    if (fixed == NULL)
        return NULL;
    Waves waves = {0};
    int done = 0;
    for (Py_ssize_t i = 0; done == 0 && i < PyTuple_GET_SIZE(fixed); i++)
        done = rank_row(&waves, PyTuple_GET_ITEM(fixed, i), plans);
    if (done == 0)
        found = PyBytes_FromStringAndSize((const char *)waves.ranks.data, (Py_ssize_t)waves.ranks.size);
    Py_DECREF(fixed);
    map_free(&waves.values);
    buffer_free(&waves.last);
    buffer_free(&waves.uses);
    buffer_free(&waves.normalized);
    buffer_free(&waves.ranks);
    return found;
}
