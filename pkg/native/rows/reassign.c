/* Blocks whose conflicting rows move to other buckets, as in dm_worker/syncer/execution/row_block.py. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

#include "../common/buffer.h"
#include "blocks.h"
#include "compact.h"
#include "errors.h"
#include "module.h"

/* The content of one bucket. ``section`` is the number of the current section, ``count`` the position of its count.
 */
typedef struct {
    Buffer bytes;
    size_t section, count;
} BucketBuffer;

/* ``marks`` are added to a state. */
static int add_record(BucketBuffer *buffer, size_t section, const uint8_t *head, const uint8_t *record, size_t size,
                      uint8_t marks)
{
    if (buffer->bytes.size == 0 && append(&buffer->bytes, "\0\0\0\0", 4) < 0)
        return -1;
    if (buffer->section != section) {
        if (append(&buffer->bytes, head, 5) < 0)
            return -1;
        buffer->section = section;
        buffer->count = buffer->bytes.size;
        if (append(&buffer->bytes, "\0\0\0\0", 4) < 0)
            return -1;
    }
    unsigned char *count = buffer->bytes.data + buffer->count;
    put32(count, get32(count) + 1);
    size_t start = buffer->bytes.size;
    if (append(&buffer->bytes, record, size) < 0)
        return -1;
    buffer->bytes.data[start + STATE_AT] |= marks;
    return 0;
}

/* The bucket of a row; ``joined``: ``moved`` has it. */
static int64_t bucket_of(PyObject *moved, uint32_t row, uint32_t home, uint32_t buckets, int *joined)
{
    PyObject *hash = PyLong_FromUnsignedLong(row), *slot = hash ? PyDict_GetItemWithError(moved, hash) : NULL;
    unsigned long value = slot ? PyLong_AsUnsignedLong(slot) : 0;
    Py_XDECREF(hash);
    if (PyErr_Occurred())
        return -1;
    *joined = slot != NULL;
    return slot ? (int64_t)(value % buckets) : home;
}

/* The size of the record at ``p`` and its row hash; 0 when it goes beyond the end. */
static size_t record_size(int kind, const uint8_t *p, const uint8_t *end, uint32_t *row)
{
    uint64_t size = kind == SECTION_STATES ? STATE_SIZE : ROW_SIZE, left = (uint64_t)(end - p);
    if (left < size)
        return 0;
    *row = get32(p + (kind == SECTION_STATES ? 5 : 13));
    size += kind == SECTION_STATES ? (uint64_t)get32(p + 9) + get32(p + 13) : get32(p + 17);
    return size > left ? 0 : (size_t)size;
}

static int reassign_block(BucketBuffer *bucket_buffers, const uint8_t *p, const uint8_t *end, PyObject *moved,
                          uint32_t home, uint32_t buckets)
{
    for (size_t section = 1; p < end; section++) {
        const uint8_t *head = p;
        if (end - p < SECTION_SIZE || head[4] > SECTION_ROWS)
            return torn_block("no head of a section");
        p += SECTION_SIZE;
        for (uint32_t left = get32(head + 5); left; left--) {
            uint32_t row;
            size_t size = record_size(head[4], p, end, &row);
            if (size == 0)
                return torn_block("a record beyond the end");
            int joined = 0;
            int64_t bucket = bucket_of(moved, row, home, buckets, &joined);
            uint8_t marks = joined && head[4] == SECTION_STATES ? JOINED : 0;
            if (bucket < 0 || add_record(&bucket_buffers[bucket], section, head, p, size, marks) < 0)
                return -1;
            p += size;
        }
    }
    return 0;
}

/* The blocks by ascending bucket; the first one has the count of changes. */
static PyObject *reassigned_blocks(BucketBuffer *bucket_buffers, uint32_t buckets, const char *header)
{
    PyObject *blocks = PyList_New(0);
    int first = 1;
    for (uint32_t bucket = 0; blocks != NULL && bucket < buckets; bucket++) {
        Buffer *bytes = &bucket_buffers[bucket].bytes;
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

PyObject *rows_reassign(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *block, *moved, *blocks = NULL;
    unsigned home, buckets;
    if (!PyArg_ParseTuple(args, "SIO!I", &block, &home, &PyDict_Type, &moved, &buckets))
        return NULL;
    if (home >= buckets || PyBytes_GET_SIZE(block) < BLOCK_HEADER) {
        PyErr_SetString(PyExc_ValueError, "torn block: no header, or no such bucket");
        return NULL;
    }
    BucketBuffer *bucket_buffers = PyMem_Calloc(buckets, sizeof(BucketBuffer));
    if (bucket_buffers == NULL)
        return PyErr_NoMemory();
    const uint8_t *start = (const uint8_t *)PyBytes_AS_STRING(block);
    if (reassign_block(bucket_buffers, start + BLOCK_HEADER, start + PyBytes_GET_SIZE(block), moved, home, buckets) ==
        0)
        blocks = reassigned_blocks(bucket_buffers, buckets, (const char *)start);
    for (uint32_t bucket = 0; bucket < buckets; bucket++)
        buffer_free(&bucket_buffers[bucket].bytes);
    PyMem_Free(bucket_buffers);
    return blocks;
}
