/* Rows that keep their order, packed as row_record() in dm_worker/syncer/execution/row_block.py packs them: a head, and
 * ``marshal`` of (position, before, after), in its version 2.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <marshal.h>

#include "../common/binlog_format.h"
#include "../common/map.h"
#include "blocks.h"
#include "compact.h"
#include "events.h"
#include "images.h"
#include "module.h"

/* As in row_block.py. */
enum { MARSHAL_VERSION = 2 };

/* What all rows of an event have in common. */
typedef struct {
    uint64_t sequence; /* of the next row */
    uint32_t plan, hash;
    uint8_t kind;
    const char *position; /* marshal of the position */
    Py_ssize_t position_size;
} Head;

/* A plan whose rows go to one place; objects are borrowed from the caller's dict. */
typedef struct {
    Readers *readers;
    PyObject *prepare; /* (event) → (data, operation, start): for every event that is not ordinary */
    uint32_t number, slot, hash;
    uint8_t unchecked; /* added to the operation if the session did not check foreign keys */
    uint64_t changes[3];
} Packer;

/* The rows of one place. */
typedef struct {
    Buffer records;
    uint64_t count;
} Slot;

typedef struct {
    Packer *plans;
    Slot *slots;
    size_t plan_count, slot_count;
    Map by_number;
    Value *values;
} Packing;

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

static int pack_images(Packing *self, Packer *plan, Head *head, int op, const uint8_t *start, const uint8_t *end)
{
    Slot *slot = &self->slots[plan->slot];
    if (buffer_reserve(&slot->records, (size_t)(end - start) + 1) < 0)
        return -1;
    Py_ssize_t count = append_records(plan->readers, head, op, start, end, self->values, &slot->records);
    if (count < 0)
        return -1;
    slot->count += (uint64_t)count;
    plan->changes[op] += (uint64_t)count;
    return 0;
}

/* An event that Python reads first: compressed, of another form, or torn. */
static int pack_prepared(Packing *self, Packer *plan, Head *head, const uint8_t *event, size_t size)
{
    PyObject *data;
    int op, done = -1;
    Py_ssize_t start;
    PyObject *prepared = PyObject_CallFunction(plan->prepare, "y#", (const char *)event, (Py_ssize_t)size);
    if (prepared == NULL)
        return -1;
    if (!PyTuple_Check(prepared))
        PyErr_SetString(PyExc_TypeError, "a prepared event is a tuple");
    else if (PyArg_ParseTuple(prepared, "Sin", &data, &op, &start)) {
        const uint8_t *bytes = (const uint8_t *)PyBytes_AS_STRING(data);
        if (op < INSERT || op > DELETE || start < 0 || start > PyBytes_GET_SIZE(data))
            PyErr_SetString(PyExc_ValueError, "a prepared event begins beyond its end");
        else {
            head->kind |= (uint8_t)op;
            done = pack_images(self, plan, head, op, bytes + start, bytes + PyBytes_GET_SIZE(data));
        }
    }
    Py_DECREF(prepared);
    return done;
}

static int pack_event(void *context, uint32_t number, size_t order, uint64_t position, const uint8_t *event,
                      size_t size)
{
    Packing *self = context;
    int64_t at = map_find(&self->by_number, number);
    if (at < 0)
        return 0;
    Packer *plan = &self->plans[at];
    PyObject *value = PyLong_FromUnsignedLongLong(position);
    PyObject *text = value ? PyMarshal_WriteObjectToString(value, MARSHAL_VERSION) : NULL;
    Py_XDECREF(value);
    if (text == NULL)
        return -1;
    int unchecked = size > ROWS_FLAGS && event[ROWS_FLAGS] & FLAG_NO_FOREIGN_KEY_CHECKS;
    Head head = {(uint64_t)order << 32,
                 plan->number,
                 plan->hash,
                 unchecked ? plan->unchecked : 0,
                 PyBytes_AS_STRING(text),
                 PyBytes_GET_SIZE(text)};
    int op, done;
    size_t start = ordinary_event(plan->readers, event, size, &op);
    if (start == 0)
        done = pack_prepared(self, plan, &head, event, size);
    else {
        head.kind |= (uint8_t)op;
        done = pack_images(self, plan, &head, op, event + start, event + size);
    }
    Py_DECREF(text);
    return done;
}

static int packer_from(Packer *plan, PyObject *number, PyObject *spec, size_t slots)
{
    unsigned long value = PyLong_AsUnsignedLong(number);
    if (PyErr_Occurred())
        return -1;
    if (value > UINT32_MAX || !PyTuple_Check(spec)) {
        PyErr_SetString(PyExc_ValueError, "a plan is a 32-bit number and a tuple");
        return -1;
    }
    plan->number = (uint32_t)value;
    if (!PyArg_ParseTuple(spec, "O!OIIb", &readers_type, &plan->readers, &plan->prepare, &plan->slot, &plan->hash,
                          &plan->unchecked))
        return -1;
    if (plan->slot < slots)
        return 0;
    PyErr_SetString(PyExc_ValueError, "a slot beyond the last one");
    return -1;
}

static int packing_start(Packing *self, PyObject *plans)
{
    PyObject *number, *spec;
    Py_ssize_t at = 0, widest = 0;
    self->slot_count = (size_t)PyDict_GET_SIZE(plans);
    self->plans = PyMem_Calloc(self->slot_count + 1, sizeof(Packer));
    self->slots = PyMem_Calloc(self->slot_count + 1, sizeof(Slot));
    if (self->plans == NULL || self->slots == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    while (PyDict_Next(plans, &at, &number, &spec)) {
        Packer *plan = &self->plans[self->plan_count];
        if (packer_from(plan, number, spec, self->slot_count) < 0 ||
            map_number(&self->by_number, plan->number, (uint32_t)self->plan_count) < 0)
            return -1;
        self->plan_count++;
        if (plan->readers->count > widest)
            widest = plan->readers->count;
    }
    self->values = PyMem_Calloc(2 * (size_t)widest + 1, sizeof(Value));
    if (self->values == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

/* [(records, count)] by slot, [(plan, inserts, updates, deletes)]. */
static PyObject *packing_result(const Packing *self)
{
    PyObject *slots = PyList_New(0), *changes = PyList_New(0);
    int done = slots != NULL && changes != NULL ? 0 : -1;
    for (size_t i = 0; done == 0 && i < self->slot_count; i++) {
        const Slot *slot = &self->slots[i];
        PyObject *found = Py_BuildValue("(y#K)", slot->records.data ? (const char *)slot->records.data : "",
                                        (Py_ssize_t)slot->records.size, (unsigned long long)slot->count);
        done = found ? PyList_Append(slots, found) : -1;
        Py_XDECREF(found);
    }
    for (size_t i = 0; done == 0 && i < self->plan_count; i++) {
        const Packer *plan = &self->plans[i];
        PyObject *found = Py_BuildValue("(IKKK)", plan->number, (unsigned long long)plan->changes[INSERT],
                                        (unsigned long long)plan->changes[UPDATE],
                                        (unsigned long long)plan->changes[DELETE]);
        done = found ? PyList_Append(changes, found) : -1;
        Py_XDECREF(found);
    }
    PyObject *result = done == 0 ? PyTuple_Pack(2, slots, changes) : NULL;
    Py_XDECREF(slots);
    Py_XDECREF(changes);
    return result;
}

PyObject *rows_records(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *data, *index, *plans, *result = NULL;
    if (!PyArg_ParseTuple(args, "SSO!", &data, &index, &PyDict_Type, &plans))
        return NULL;
    Packing self = {0};
    if (packing_start(&self, plans) == 0 && each_event(data, index, pack_event, &self) == 0)
        result = packing_result(&self);
    for (size_t i = 0; self.slots != NULL && i < self.slot_count; i++)
        buffer_free(&self.slots[i].records);
    map_free(&self.by_number);
    PyMem_Free(self.slots);
    PyMem_Free(self.plans);
    PyMem_Free(self.values);
    return result;
}
