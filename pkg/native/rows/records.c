/* Rows that keep their order, packed as row_record() in dm_worker/syncer/execution/row_block.py packs them: a head, and
 * ``marshal`` of (position, before, after), in its version 2.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "blocks.h"
#include "compact.h"
#include "images.h"
#include "module.h"

/* What all rows of an event have in common. */
typedef struct {
    uint64_t sequence; /* of the next row */
    uint32_t plan, hash;
    uint8_t kind;
    const char *position; /* marshal of the position */
    Py_ssize_t position_size;
} Head;

static int append_marshal_head(Buffer *out, char type, size_t size)
{
    uint8_t head[5] = {(uint8_t)type};
    if (size > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "a value is too long for a block");
        return -1;
    }
    put32(head + 1, (uint32_t)size);
    return append(out, head, sizeof head);
}

/* The list of all literals of an image; None where there is no image. */
static int append_image_list(const Readers *self, const Value *values, Buffer *out)
{
    if (values == NULL)
        return append(out, "N", 1);
    Py_ssize_t count = self->count + self->derived_count;
    if (append_marshal_head(out, '[', (size_t)count) < 0)
        return -1;
    for (Py_ssize_t i = 0; i < count; i++) {
        size_t head = out->size;
        if (append_marshal_head(out, 's', 0) < 0 || append_value(self, (uint32_t)i, values, out) < 0)
            return -1;
        size_t size = out->size - head - 5;
        if (size > INT32_MAX) {
            PyErr_SetString(PyExc_ValueError, "a value is too long for a block");
            return -1;
        }
        put32(out->data + head + 1, (uint32_t)size);
    }
    return 0;
}

static int append_record(const Readers *self, const Head *head, const Value *before, const Value *after, Buffer *out)
{
    size_t start = out->size;
    if (buffer_reserve(out, ROW_SIZE) < 0)
        return -1;
    uint8_t *p = out->data + start;
    put32(p, (uint32_t)head->sequence);
    put32(p + 4, (uint32_t)(head->sequence >> 32));
    put32(p + 8, head->plan);
    p[12] = head->kind;
    put32(p + 13, head->hash);
    out->size += ROW_SIZE;
    if (append_marshal_head(out, '(', 3) < 0 || append(out, head->position, (size_t)head->position_size) < 0 ||
        append_image_list(self, before, out) < 0 || append_image_list(self, after, out) < 0)
        return -1;
    size_t size = out->size - start - ROW_SIZE;
    if (size > UINT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "a row is too long for a block");
        return -1;
    }
    put32(out->data + start + 17, (uint32_t)size);
    return 0;
}

/* Returns the number of rows; -1 for an error. */
static Py_ssize_t append_records(const Readers *self, Head *head, int op, const uint8_t *p, const uint8_t *end,
                                 Value *values, Buffer *out)
{
    Value *second = values + self->count;
    Py_ssize_t count = 0;
    for (; p < end; count++, head->sequence++) {
        if (read_image(self, &p, end, values) < 0 || (op == UPDATE && read_image(self, &p, end, second) < 0))
            return -1;
        const Value *after = op == UPDATE ? second : op == INSERT ? values : NULL;
        if (append_record(self, head, op == INSERT ? NULL : values, after, out) < 0)
            return -1;
    }
    return count;
}

PyObject *rows_records(PyObject *Py_UNUSED(module), PyObject *args)
{
    const Readers *self;
    const char *data;
    Py_ssize_t size, start;
    int op, kind;
    unsigned plan, hash;
    unsigned long long sequence;
    Head head;
    if (!PyArg_ParseTuple(args, "O!y#niiIIKy#", &readers_type, &self, &data, &size, &start, &op, &kind, &plan, &hash, &sequence,
                          &head.position, &head.position_size))
        return NULL;
    if (start < 0 || start > size || op < INSERT || op > DELETE || kind < 0 || kind > UINT8_MAX) {
        PyErr_SetString(PyExc_ValueError, "images begin beyond the data, or are of no kind");
        return NULL;
    }
    head.sequence = sequence;
    head.plan = plan;
    head.hash = hash;
    head.kind = (uint8_t)kind;
    Buffer out = {0};
    Value *values = PyMem_Calloc((size_t)self->count * 2 + 1, sizeof(Value));
    PyObject *found = NULL;
    if (values == NULL)
        PyErr_NoMemory();
    else if (buffer_reserve(&out, (size_t)(size - start) + 1) == 0) {
        const uint8_t *bytes = (const uint8_t *)data;
        Py_ssize_t count = append_records(self, &head, op, bytes + start, bytes + size, values, &out);
        if (count >= 0)
            found = Py_BuildValue("(y#n)", (const char *)out.data, (Py_ssize_t)out.size, count);
    }
    PyMem_Free(values);
    buffer_free(&out);
    return found;
}
