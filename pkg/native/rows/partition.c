/* From a slice's events to the states of its keys, as in dm_worker/syncer/execution/partition.py. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

#include "conflicts.h"
#include "events.h"
#include "module.h"
#include "partition.h"
#include "row_changes.h"

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

static int partition_numbered(void *context, uint32_t number, size_t order, uint64_t position, const uint8_t *event,
                              size_t size)
{
    Partitioner *self = context;
    (void)order;
    (void)position;
    int64_t plan = map_find(&self->by_number, number);
    return plan < 0 ? 0 : partition_event(self, &self->plans[plan], event, size);
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
    if (partitioner_start(&self, plans, safe) == 0 && each_event(data, index, partition_numbered, &self) == 0)
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
