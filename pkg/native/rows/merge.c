/* From the blocks of one bucket to groups of SQL rows, as in dm_worker/syncer/execution/merge.py. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

#include "../common/bytes.h"
#include "blocks.h"
#include "errors.h"
#include "merge.h"
#include "module.h"

int torn_block(const char *what)
{
    PyErr_Format(PyExc_ValueError, "torn block: %s", what);
    return -1;
}

/* Whether two plans have the same upstream table; -1 for an error. */
static int same_source(const Merger *self, uint32_t plan, uint32_t other)
{
    Rule one, two;
    if (plan == other)
        return 1;
    if (rule_from(self->rules, plan, &one) < 0 || rule_from(self->rules, other, &two) < 0)
        return -1;
    return one.source == two.source;
}

static int merge_state(Merger *self, uint32_t target, uint32_t plan, uint8_t state, Span key, Span values)
{
    States *states = &self->states;
    /* Spans are addresses here: the blocks stay where they are. */
    uint32_t hash = hash_of((const unsigned char *)key.at, key.size, target);
    size_t slot = states_slot(states, NULL, hash, target, key);
    if (states->slots[slot] == 0) {
        Entry *entry = states_add(states, slot, hash, target, key);
        if (entry == NULL)
            return -1;
        entry->state = state;
        entry->plan = plan;
        entry->values = values;
        return 0;
    }
    Entry *entry = &states->entries[states->slots[slot] - 1];
    int same = same_source(self, plan, entry->plan), other = state & MIXED ? SOME_SOURCE : OTHER_SOURCE;
    if (same < 0)
        return -1;
    const int8_t *ops = fold_replay[state & ~MARKS];
    if (entry_step(states, entry, NULL, ops[0], plan, same ? SAME_SOURCE : other, values) < 0)
        return -1;
    return ops[1] < 0 ? 0 : entry_step(states, entry, NULL, ops[1], plan, SAME_SOURCE, values);
}

static int merge_states(Merger *self, uint32_t target, uint32_t count, const uint8_t **at, const uint8_t *end)
{
    const uint8_t *p = *at;
    for (uint32_t i = 0; i < count; i++) {
        if (end - p < STATE_SIZE)
            return torn_block("half a state");
        uint32_t plan = get32(p), key = get32(p + 9);
        uint32_t values = get32(p + 13);
        uint8_t state = p[4];
        p += STATE_SIZE;
        if ((state & ~MARKS) >= STATE_COUNT || (uint64_t)(end - p) < (uint64_t)key + values)
            return torn_block("an unknown state, or one beyond the end");
        if (merge_state(self, target, plan, state, (Span){(size_t)p, key}, (Span){(size_t)(p + key), values}) < 0)
            return -1;
        p += (size_t)key + values;
    }
    *at = p;
    return 0;
}

static int skip_rows(uint32_t count, const uint8_t **at, const uint8_t *end)
{
    const uint8_t *p = *at;
    for (uint32_t i = 0; i < count; i++) {
        if (end - p < ROW_SIZE)
            return torn_block("half a row");
        size_t size = get32(p + 17);
        p += ROW_SIZE;
        if ((size_t)(end - p) < size)
            return torn_block("a row beyond the end");
        p += size;
    }
    *at = p;
    return 0;
}

static int merge_block(Merger *self, Py_ssize_t number, PyObject *block)
{
    if (!PyBytes_Check(block)) {
        PyErr_SetString(PyExc_TypeError, "a block is bytes");
        return -1;
    }
    const uint8_t *start = (const uint8_t *)PyBytes_AS_STRING(block), *p = start, *end = p + PyBytes_GET_SIZE(block);
    if (end - p < BLOCK_HEADER)
        return torn_block("no header");
    self->changes += get32(p);
    p += BLOCK_HEADER;
    while (p < end) {
        if (end - p < SECTION_SIZE)
            return torn_block("half a section's head");
        uint32_t target = get32(p), count = get32(p + 5);
        uint8_t kind = p[4];
        p += SECTION_SIZE;
        if (kind == SECTION_STATES) {
            if (merge_states(self, target, count, &p, end) < 0)
                return -1;
            continue;
        }
        if (kind != SECTION_ROWS)
            return torn_block("no such kind of section");
        PyObject *slot = Py_BuildValue("(nIIn)", number, (unsigned)target, (unsigned)count, (Py_ssize_t)(p - start));
        int done = slot ? PyList_Append(self->rows, slot) : -1;
        Py_XDECREF(slot);
        if (done < 0 || skip_rows(count, &p, end) < 0)
            return -1;
    }
    return 0;
}

int rule_from(PyObject *rules, uint32_t plan, Rule *rule)
{
    PyObject *number = PyLong_FromUnsignedLong(plan), *found = number ? PyDict_GetItemWithError(rules, number) : NULL;
    if (found == NULL && !PyErr_Occurred())
        PyErr_SetObject(PyExc_KeyError, number);
    Py_XDECREF(number);
    if (found == NULL)
        return -1;
    PyObject *kinds;
    if (!PyTuple_Check(found)) {
        PyErr_SetString(PyExc_TypeError, "a rule is a tuple");
        return -1;
    }
    if (!PyArg_ParseTuple(found, "Sp(LLL)(LLL)I", &kinds, &rule->wrap, &rule->most_bytes[0], &rule->most_bytes[1],
                          &rule->most_bytes[2], &rule->most_rows[0], &rule->most_rows[1], &rule->most_rows[2],
                          &rule->source))
        return -1;
    if (PyBytes_GET_SIZE(kinds) != sizeof rule->kinds) {
        PyErr_SetString(PyExc_ValueError, "a rule has two bytes a state");
        return -1;
    }
    memcpy(rule->kinds, PyBytes_AS_STRING(kinds), sizeof rule->kinds);
    return 0;
}

PyObject *rows_merge(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *blocks, *rules, *result = NULL;
    int safe;
    if (!PyArg_ParseTuple(args, "O!O!p", &PyTuple_Type, &blocks, &PyDict_Type, &rules, &safe))
        return NULL;
    Merger self = {.rows = PyList_New(0), .groups = PyList_New(0), .rules = rules};
    int done = self.rows && self.groups ? states_start(&self.states, safe) : -1;
    for (Py_ssize_t i = 0; done == 0 && i < PyTuple_GET_SIZE(blocks); i++)
        done = merge_block(&self, i, PyTuple_GET_ITEM(blocks, i));
    if (done == 0 && sort_entries(&self, rules) == 0 && make_groups(&self) == 0)
        result = Py_BuildValue("(KOO)", (unsigned long long)self.changes, self.groups, self.rows);
    states_free(&self.states);
    map_free(&self.part_numbers);
    PyMem_Free(self.parts);
    PyMem_Free(self.order);
    Py_XDECREF(self.rows);
    Py_XDECREF(self.groups);
    return result;
}
