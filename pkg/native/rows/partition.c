/* From a slice's events to the states of its keys, as in dm_worker/syncer/execution/partition.py. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

#include "../common/binlog_format.h"
#include "blocks.h"
#include "conflicts.h"
#include "errors.h"
#include "module.h"
#include "partition.h"
#include "row_changes.h"

/* -- events ---------------------------------------------------------------------------------------------------- */

/* Whether all ``count`` columns are present. */
static int whole_bitmap(const uint8_t *bits, Py_ssize_t count)
{
    Py_ssize_t full = count / 8;
    for (Py_ssize_t i = 0; i < full; i++)
        if (bits[i] != 0xFF)
            return 0;
    if (count % 8 == 0)
        return 1;
    uint8_t rest = (uint8_t)((1u << (count % 8)) - 1);
    return (bits[full] & rest) == rest;
}

/* The operation, and the offset of the images; 0 when the event is not an ordinary one. */
static size_t ordinary_event(const Readers *readers, const uint8_t *event, size_t size, int *op)
{
    size_t at = HEADER_SIZE + 8, bitmap = (size_t)readers->bitmap;
    Py_ssize_t count = readers->count;
    if (size < at)
        return 0;
    uint8_t kind = event[4];
    if (kind >= WRITE_ROWS_EVENT_V1 && kind <= DELETE_ROWS_EVENT_V1)
        *op = kind - WRITE_ROWS_EVENT_V1;
    else if (kind >= WRITE_ROWS_EVENT && kind <= DELETE_ROWS_EVENT)
        *op = kind - WRITE_ROWS_EVENT;
    else
        return 0;
    if (kind >= WRITE_ROWS_EVENT) {
        if (size < at + 2 || event[at] != 2 || event[at + 1] != 0)
            return 0;
        at += 2;
    }
    size_t head = (count < 251 ? 1 : 3) + bitmap * (*op == UPDATE ? 2 : 1);
    if (size - at < head)
        return 0;
    if (count < 251 ? event[at] != count : event[at] != 252 || (Py_ssize_t)little_endian(event + at + 1, 2) != count)
        return 0;
    const uint8_t *bits = event + at + (count < 251 ? 1 : 3);
    if (!whole_bitmap(bits, count) || (*op == UPDATE && !whole_bitmap(bits + bitmap, count)))
        return 0;
    return at + head;
}

/* -- rows ------------------------------------------------------------------------------------------------------ */

static int partition_update(Partitioner *self, const Plan *plan, const Value *before, const Value *after)
{
    if (same_key(plan->readers, before, after))
        return partition_put(self, plan, UPDATE, after);
    size_t start = self->arena.size;
    Span old, key;
    if (append_key(plan->readers, before, &self->arena) < 0 || new_span(&self->arena, start, &old) < 0)
        return -1;
    size_t middle = self->arena.size;
    if (append_key(plan->readers, after, &self->arena) < 0 || new_span(&self->arena, middle, &key) < 0)
        return -1;
    const unsigned char *arena = self->arena.data;
    int same = old.size == key.size && memcmp(arena + old.at, arena + key.at, key.size) == 0;
    self->arena.size = start;
    if (same)
        return partition_put(self, plan, UPDATE, after);
    self->plans[plan - self->plans].moved = 1;
    return partition_delete(self, plan, before) < 0 ? -1 : partition_put(self, plan, INSERT, after);
}

/* ``first`` and ``second`` are the images of an update; others have one. */
static int partition_row(Partitioner *self, const Plan *plan, int op, const Value *first, const Value *second)
{
    if (plan->placement->conflict_key_count) {
        const Value *after = op == UPDATE ? second : op == INSERT ? first : NULL;
        return partition_conflicting(self, plan, op, op == INSERT ? NULL : first, after);
    }
    if (op == UPDATE)
        return partition_update(self, plan, first, second);
    return op == DELETE ? partition_delete(self, plan, first) : partition_put(self, plan, INSERT, first);
}

static int partition_images(Partitioner *self, const Plan *plan, int op, const uint8_t *p, const uint8_t *end)
{
    Value *values = self->values;
    while (p < end) {
        if (read_image(plan->readers, &p, end, values) < 0)
            return -1;
        Value *second = values + plan->readers->count;
        if (op == UPDATE && read_image(plan->readers, &p, end, second) < 0)
            return -1;
        if (partition_row(self, plan, op, values, second) < 0)
            return -1;
        self->plans[plan - self->plans].changes[op]++;
    }
    return 0;
}

/* An event that Python reads first: compressed, of another form, or torn. */
static int partition_prepared(Partitioner *self, const Plan *plan, const uint8_t *event, size_t size)
{
    PyObject *data;
    int op;
    Py_ssize_t start;
    PyObject *prepared = PyObject_CallFunction(plan->prepare, "y#", (const char *)event, (Py_ssize_t)size);
    if (prepared == NULL)
        return -1;
    int done = -1;
    if (!PyTuple_Check(prepared))
        PyErr_SetString(PyExc_TypeError, "a prepared event is a tuple");
    else if (PyArg_ParseTuple(prepared, "Sin", &data, &op, &start)) {
        const uint8_t *bytes = (const uint8_t *)PyBytes_AS_STRING(data);
        if (op < INSERT || op > DELETE || start < 0 || start > PyBytes_GET_SIZE(data))
            PyErr_SetString(PyExc_ValueError, "a prepared event begins beyond its end");
        else
            done = partition_images(self, plan, op, bytes + start, bytes + PyBytes_GET_SIZE(data));
    }
    Py_DECREF(prepared);
    return done;
}

static int partition_event(Partitioner *self, const Plan *plan, const uint8_t *event, size_t size)
{
    int op;
    size_t start = ordinary_event(plan->readers, event, size, &op);
    if (start == 0)
        return partition_prepared(self, plan, event, size);
    return partition_images(self, plan, op, event + start, event + size);
}

/* Replaces the pending exception by EventError(number of the event, exception). */
static void raise_event_error(size_t number)
{
    PyObject *type, *cause, *traceback;
    PyErr_Fetch(&type, &cause, &traceback);
    PyErr_NormalizeException(&type, &cause, &traceback);
    if (PyErr_GivenExceptionMatches(type, PyExc_Exception) && !PyErr_GivenExceptionMatches(type, PyExc_MemoryError)) {
        PyObject *args = Py_BuildValue("(nO)", (Py_ssize_t)number, cause);
        if (args != NULL)
            PyErr_SetObject(event_error, args);
        Py_XDECREF(args);
        Py_XDECREF(type);
        Py_XDECREF(cause);
        Py_XDECREF(traceback);
    } else
        PyErr_Restore(type, cause, traceback);
}

static int partition_slice(Partitioner *self, PyObject *data, PyObject *index)
{
    const uint8_t *event = (const uint8_t *)PyBytes_AS_STRING(data),
                  *record = (const uint8_t *)PyBytes_AS_STRING(index);
    size_t left = (size_t)PyBytes_GET_SIZE(data), count = (size_t)PyBytes_GET_SIZE(index) / RECORD_SIZE;
    if ((size_t)PyBytes_GET_SIZE(index) % RECORD_SIZE) {
        PyErr_SetString(PyExc_ValueError, "torn index of a slice");
        return -1;
    }
    for (size_t n = 0; n < count; n++, record += RECORD_SIZE) {
        size_t size = get32(record + 4);
        if (size > left) {
            PyErr_SetString(PyExc_ValueError, "the index of a slice goes beyond its data");
            return -1;
        }
        int64_t plan = map_find(&self->by_number, get32(record));
        if (plan >= 0 && partition_event(self, &self->plans[plan], event, size) < 0) {
            raise_event_error(n);
            return -1;
        }
        event += size;
        left -= size;
    }
    return 0;
}

/* -- the call -------------------------------------------------------------------------------------------------- */

static int plan_from(Plan *plan, PyObject *number, PyObject *spec)
{
    unsigned long value = PyLong_AsUnsignedLong(number);
    unsigned target, source;
    if (PyErr_Occurred())
        return -1;
    if (value > UINT32_MAX || !PyTuple_Check(spec)) {
        PyErr_SetString(PyExc_ValueError, "a plan is a 32-bit number and a tuple");
        return -1;
    }
    if (!PyArg_ParseTuple(spec, "O!OIIO!", &readers_type, &plan->readers, &plan->prepare, &target, &source,
                          &placement_type, &plan->placement))
        return -1;
    if (plan->placement->widest > plan->readers->count + plan->readers->derived_count) {
        PyErr_SetString(PyExc_ValueError, "a conflict key of columns that are not there");
        return -1;
    }
    plan->number = (uint32_t)value;
    plan->target = target;
    plan->source = source;
    return 0;
}

static int partitioner_start(Partitioner *self, PyObject *plans, int safe)
{
    PyObject *number, *spec;
    Py_ssize_t at = 0;
    size_t widest = 0;
    memset(self, 0, sizeof *self);
    self->plans = PyMem_Calloc((size_t)PyDict_GET_SIZE(plans) + 1, sizeof(Plan));
    if (self->plans == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    while (PyDict_Next(plans, &at, &number, &spec)) {
        Plan *plan = &self->plans[self->plan_count];
        if (plan_from(plan, number, spec) < 0 ||
            map_number(&self->by_number, plan->number, (uint32_t)self->plan_count) < 0)
            return -1;
        self->plan_count++;
        if ((size_t)plan->readers->count > widest)
            widest = (size_t)plan->readers->count;
    }
    self->values = PyMem_Calloc(2 * widest + 1, sizeof(Value));
    if (self->values == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    if (states_start(&self->states, safe) < 0)
        return -1;
    Buffer *buffers[] = {&self->arena, &self->literal, &self->normalized, &self->pairs};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        if (buffer_reserve(buffers[i], 1) < 0)
            return -1;
    return 0;
}

/* The numbers of the plans without conflict_keys whose updates changed keys. */
static PyObject *moved_plans(const Partitioner *self)
{
    PyObject *found = PyList_New(0);
    for (size_t i = 0; found != NULL && i < self->plan_count; i++) {
        PyObject *number = self->plans[i].moved ? PyLong_FromUnsignedLong(self->plans[i].number) : NULL;
        if (self->plans[i].moved && (number == NULL || PyList_Append(found, number) < 0))
            Py_CLEAR(found);
        Py_XDECREF(number);
    }
    return found;
}

/* {plan: (inserts, updates, deletes)}, of the plans that had any. */
static PyObject *change_counts(const Partitioner *self)
{
    PyObject *found = PyDict_New();
    for (size_t i = 0; found != NULL && i < self->plan_count; i++) {
        const Plan *plan = &self->plans[i];
        if (!plan->changes[INSERT] && !plan->changes[UPDATE] && !plan->changes[DELETE])
            continue;
        PyObject *number = PyLong_FromUnsignedLong(plan->number);
        PyObject *counts = Py_BuildValue("(KKK)", (unsigned long long)plan->changes[INSERT],
                                         (unsigned long long)plan->changes[UPDATE],
                                         (unsigned long long)plan->changes[DELETE]);
        if (number == NULL || counts == NULL || PyDict_SetItem(found, number, counts) < 0)
            Py_CLEAR(found);
        Py_XDECREF(number);
        Py_XDECREF(counts);
    }
    return found;
}

PyObject *rows_partition(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *data, *index, *plans, *result = NULL, *blocks = NULL, *changes = NULL;
    unsigned buckets;
    int safe;
    if (!PyArg_ParseTuple(args, "SSO!Ip", &data, &index, &PyDict_Type, &plans, &buckets, &safe))
        return NULL;
    if (buckets == 0) {
        PyErr_SetString(PyExc_ValueError, "no buckets");
        return NULL;
    }
    Partitioner self;
    if (partitioner_start(&self, plans, safe) == 0 && partition_slice(&self, data, index) == 0)
        blocks = partition_blocks(&self, buckets);
    PyObject *moved = blocks ? moved_plans(&self) : NULL;
    if (moved != NULL)
        changes = change_counts(&self);
    if (changes != NULL)
        result = Py_BuildValue("(OOy#O)", changes, blocks, (const char *)self.pairs.data, (Py_ssize_t)self.pairs.size,
                               moved);
    Py_XDECREF(changes);
    Py_XDECREF(blocks);
    Py_XDECREF(moved);
    map_free(&self.by_number);
    map_free(&self.pair_numbers);
    buffer_free(&self.pairs);
    buffer_free(&self.literal);
    buffer_free(&self.normalized);
    states_free(&self.states);
    PyMem_Free(self.plans);
    PyMem_Free(self.values);
    buffer_free(&self.arena);
    return result;
}
