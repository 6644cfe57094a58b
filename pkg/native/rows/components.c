/* Components of conflict sets: rows that conflict, directly or through others. As components() in
 * dm_worker/syncer/rows/conflict_sets.py.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "../common/buffer.h"
#include "../common/map.h"
#include "module.h"

/* Rows by number of appearance, with their parents. */
typedef struct {
    Map rows, conflict_keys;
    Buffer hashes, parents; /* uint32_t each */
    uint32_t count;
} Forest;

static inline uint32_t *parents_of(const Forest *self)
{
    return (uint32_t *)(void *)self->parents.data;
}

static inline uint32_t *hashes_of(const Forest *self)
{
    return (uint32_t *)(void *)self->hashes.data;
}

static uint32_t root_of(const Forest *self, uint32_t row)
{
    uint32_t *parents = parents_of(self);
    while (parents[row] != row) {
        parents[row] = parents[parents[row]];
        row = parents[row];
    }
    return row;
}

/* The smaller row hash becomes the root, so that the result depends only on the set of pairs. */
static void join_rows(const Forest *self, uint32_t one, uint32_t other)
{
    one = root_of(self, one);
    other = root_of(self, other);
    if (hashes_of(self)[one] < hashes_of(self)[other])
        parents_of(self)[other] = one;
    else
        parents_of(self)[one] = other;
}

static int add_packed(Forest *self, const uint8_t *p, size_t count)
{
    for (; count; count--, p += 8) {
        uint32_t hash = get32(p), conflict = get32(p + 4);
        int64_t row = map_number(&self->rows, hash, self->count);
        if (row < 0)
            return -1;
        if (row == self->count) {
            if (append(&self->hashes, &hash, 4) < 0 || append(&self->parents, &self->count, 4) < 0)
                return -1;
            self->count++;
        }
        int64_t first = map_number(&self->conflict_keys, conflict, (uint32_t)row);
        if (first < 0)
            return -1;
        if (first != row)
            join_rows(self, (uint32_t)first, (uint32_t)row);
    }
    return 0;
}

static int add_component(PyObject *found, uint32_t row, uint32_t root)
{
    PyObject *key = PyLong_FromUnsignedLong(row), *value = PyLong_FromUnsignedLong(root);
    int done = key && value ? PyDict_SetItem(found, key, value) : -1;
    Py_XDECREF(key);
    Py_XDECREF(value);
    return done;
}

/* Every row that has another row as root, and each such root. */
static PyObject *forest_components(const Forest *self)
{
    PyObject *found = PyDict_New();
    const uint32_t *hashes = hashes_of(self);
    for (uint32_t i = 0; found != NULL && i < self->count; i++) {
        uint32_t root = root_of(self, i);
        if (root != i &&
            (add_component(found, hashes[i], hashes[root]) < 0 || add_component(found, hashes[root], hashes[root]) < 0))
            Py_CLEAR(found);
    }
    return found;
}

PyObject *rows_components(PyObject *Py_UNUSED(module), PyObject *args)
{
    Forest forest = {0};
    PyObject *found = NULL;
    int done = 0;
    for (Py_ssize_t i = 0; done == 0 && i < PyTuple_GET_SIZE(args); i++) {
        PyObject *packed = PyTuple_GET_ITEM(args, i);
        if (!PyBytes_Check(packed) || PyBytes_GET_SIZE(packed) % 8) {
            PyErr_SetString(PyExc_ValueError, "torn pairs");
            done = -1;
        } else
            done =
                add_packed(&forest, (const uint8_t *)PyBytes_AS_STRING(packed), (size_t)PyBytes_GET_SIZE(packed) / 8);
    }
    if (done == 0)
        found = forest_components(&forest);
    map_free(&forest.rows);
    map_free(&forest.conflict_keys);
    buffer_free(&forest.hashes);
    buffer_free(&forest.parents);
    return found;
}
