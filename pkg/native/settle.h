/* Components of tied rows, and blocks whose tied rows move. Twins: components() in dm_worker/syncer/rows/conflict_sets.py, resettle() in
 * block.py.
 */
#ifndef DM_SETTLE_H
#define DM_SETTLE_H

#include "combine.h"
#include "map.h"

/* Rows by number of appearance, with their parents. */
typedef struct {
    Map rows, ties;
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

/* The smaller row hash becomes the root, so that the answer depends on the set of pairs alone. */
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
        uint32_t hash = get32(p), tie = get32(p + 4);
        int64_t row = map_number(&self->rows, hash, self->count);
        if (row < 0)
            return -1;
        if (row == self->count) {
            if (append(&self->hashes, &hash, 4) < 0 || append(&self->parents, &self->count, 4) < 0)
                return -1;
            self->count++;
        }
        int64_t first = map_number(&self->ties, tie, (uint32_t)row);
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

/* Every row whose root is another, and each such root. */
static PyObject *forest_components(const Forest *self)
{
    PyObject *found = PyDict_New();
    const uint32_t *hashes = hashes_of(self);
    for (uint32_t i = 0; found != NULL && i < self->count; i++) {
        uint32_t root = root_of(self, i);
        if (root != i && (add_component(found, hashes[i], hashes[root]) < 0 ||
                          add_component(found, hashes[root], hashes[root]) < 0))
            Py_CLEAR(found);
    }
    return found;
}

static PyObject *rows_components(PyObject *Py_UNUSED(module), PyObject *args)
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
            done = add_packed(&forest, (const uint8_t *)PyBytes_AS_STRING(packed), (size_t)PyBytes_GET_SIZE(packed) / 8);
    }
    if (done == 0)
        found = forest_components(&forest);
    map_free(&forest.rows);
    map_free(&forest.ties);
    buffer_free(&forest.hashes);
    buffer_free(&forest.parents);
    return found;
}

/* -- blocks ---------------------------------------------------------------------------------------------------- */

/* What one bucket gets. ``section`` is the number of the section that was begun last, ``count`` where its count is. */
typedef struct {
    Buffer bytes;
    size_t section, count;
} Heap;

static int add_record(Heap *heap, size_t section, const uint8_t *head, const uint8_t *record, size_t size)
{
    if (heap->bytes.size == 0 && append(&heap->bytes, "\0\0\0\0", 4) < 0)
        return -1;
    if (heap->section != section) {
        if (append(&heap->bytes, head, 5) < 0)
            return -1;
        heap->section = section;
        heap->count = heap->bytes.size;
        if (append(&heap->bytes, "\0\0\0\0", 4) < 0)
            return -1;
    }
    unsigned char *count = heap->bytes.data + heap->count;
    put32(count, get32(count) + 1);
    return append(&heap->bytes, record, size);
}

static int64_t bucket_of(PyObject *moved, uint32_t row, uint32_t home, uint32_t buckets)
{
    PyObject *hash = PyLong_FromUnsignedLong(row), *place = hash ? PyDict_GetItemWithError(moved, hash) : NULL;
    unsigned long value = place ? PyLong_AsUnsignedLong(place) : 0;
    Py_XDECREF(hash);
    if (PyErr_Occurred())
        return -1;
    return place ? (int64_t)(value % buckets) : home;
}

/* The size of the record at ``p`` and its row hash; 0 when it goes beyond the end. */
static size_t record_size(int kind, const uint8_t *p, const uint8_t *end, uint32_t *row)
{
    uint64_t size = kind == 0 ? STATE_SIZE : ROW_SIZE, left = (uint64_t)(end - p);
    if (left < size)
        return 0;
    *row = get32(p + (kind == 0 ? 5 : 13));
    size += kind == 0 ? get32(p + 9) + get32(p + 13) : get32(p + 17);
    return size > left ? 0 : (size_t)size;
}

static int settle_block(Heap *heaps, const uint8_t *p, const uint8_t *end, PyObject *moved, uint32_t home, uint32_t buckets)
{
    for (size_t section = 1; p < end; section++) {
        const uint8_t *head = p;
        if (end - p < SECTION_SIZE || head[4] > 1)
            return torn_block("no head of a section");
        p += SECTION_SIZE;
        for (uint32_t left = get32(head + 5); left; left--) {
            uint32_t row;
            size_t size = record_size(head[4], p, end, &row);
            if (size == 0)
                return torn_block("a record beyond the end");
            int64_t bucket = bucket_of(moved, row, home, buckets);
            if (bucket < 0 || add_record(&heaps[bucket], section, head, p, size) < 0)
                return -1;
            p += size;
        }
    }
    return 0;
}

/* The blocks by ascending bucket; the first one has the count of changes. */
static PyObject *settled_blocks(Heap *heaps, uint32_t buckets, const char *header)
{
    PyObject *blocks = PyList_New(0);
    int first = 1;
    for (uint32_t bucket = 0; blocks != NULL && bucket < buckets; bucket++) {
        Buffer *bytes = &heaps[bucket].bytes;
        if (bytes->size == 0)
            continue;
        if (first)
            memcpy(bytes->data, header, 4);
        first = 0;
        PyObject *entry = Py_BuildValue("(Iy#)", (unsigned)bucket, (const char *)bytes->data, (Py_ssize_t)bytes->size);
        if (entry == NULL || PyList_Append(blocks, entry) < 0)
            Py_CLEAR(blocks);
        Py_XDECREF(entry);
    }
    return blocks;
}

static PyObject *rows_resettle(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *block, *moved, *blocks = NULL;
    unsigned home, buckets;
    if (!PyArg_ParseTuple(args, "SIO!I", &block, &home, &PyDict_Type, &moved, &buckets))
        return NULL;
    if (home >= buckets || PyBytes_GET_SIZE(block) < 4) {
        PyErr_SetString(PyExc_ValueError, "torn block: no header, or no such bucket");
        return NULL;
    }
    Heap *heaps = PyMem_Calloc(buckets, sizeof(Heap));
    if (heaps == NULL)
        return PyErr_NoMemory();
    const uint8_t *start = (const uint8_t *)PyBytes_AS_STRING(block);
    if (settle_block(heaps, start + 4, start + PyBytes_GET_SIZE(block), moved, home, buckets) == 0)
        blocks = settled_blocks(heaps, buckets, (const char *)start);
    for (uint32_t bucket = 0; bucket < buckets; bucket++)
        buffer_free(&heaps[bucket].bytes);
    PyMem_Free(heaps);
    return blocks;
}

#endif
