/* The table of keys with their states. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

#include "../common/map.h"
#include "compact.h"
#include "errors.h"

/* [state * 3 + operation]; -1 for a change that no upstream can have made. */
static const int8_t fold_strict[] = {-1, INSERTED, GONE,     -1,      UPDATED,  DELETED, REPLACED, -1,
                                     -1, -1,       REPLACED, DELETED, INSERTED, -1,      -1};

static const int8_t fold_safe[] = {UPDATED, UPDATED, DELETED, UPDATED, UPDATED, DELETED, UPDATED, UPDATED,
                                   DELETED, UPDATED, UPDATED, DELETED, UPDATED, UPDATED, DELETED};

const int8_t fold_replay[STATE_COUNT][2] = {
    {INSERT, -1}, {UPDATE, -1}, {DELETE, -1}, {DELETE, INSERT}, {INSERT, DELETE}};

int states_start(States *states, int safe)
{
    memset(states, 0, sizeof *states);
    states->table = safe ? fold_safe : fold_strict;
    states->mask = 1023;
    states->slots = PyMem_Calloc(states->mask + 1, sizeof(uint32_t));
    states->room = 512;
    states->entries = PyMem_Malloc(states->room * sizeof(Entry));
    if (states->slots == NULL || states->entries == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

void states_free(States *states)
{
    PyMem_Free(states->entries);
    PyMem_Free(states->slots);
}

static int states_grow(States *states)
{
    size_t room = states->room * 2, mask = (states->mask << 1) | 1;
    if (room >= UINT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "too many keys in one slice");
        return -1;
    }
    Entry *entries = PyMem_Realloc(states->entries, room * sizeof(Entry));
    if (entries != NULL)
        states->entries = entries;
    uint32_t *slots = entries ? PyMem_Calloc(mask + 1, sizeof(uint32_t)) : NULL;
    if (slots == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; i < states->count; i++) {
        size_t at = entries[i].hash & mask;
        while (slots[at])
            at = (at + 1) & mask;
        slots[at] = (uint32_t)i + 1;
    }
    PyMem_Free(states->slots);
    states->slots = slots;
    states->room = room;
    states->mask = mask;
    return 0;
}

uint32_t hash_of(const unsigned char *key, size_t size, uint32_t target)
{
    uint64_t hash = size ^ ((uint64_t)target << 32);
    while (size >= 8) {
        uint64_t part;
        memcpy(&part, key, 8);
        hash = mix(hash ^ part);
        key += 8;
        size -= 8;
    }
    uint64_t rest = 0;
    for (size_t i = 0; i < size; i++)
        rest |= (uint64_t)key[i] << (8 * i);
    hash = mix(hash ^ rest);
    return (uint32_t)(mix(hash) >> 16);
}

size_t states_slot(const States *states, const unsigned char *base, uint32_t hash, uint32_t target, Span key)
{
    size_t at = hash & states->mask;
    for (; states->slots[at]; at = (at + 1) & states->mask) {
        const Entry *entry = &states->entries[states->slots[at] - 1];
        if (entry->hash == hash && entry->target == target && entry->key.size == key.size &&
            memcmp(span_of(base, entry->key), span_of(base, key), key.size) == 0)
            break;
    }
    return at;
}

Entry *states_add(States *states, size_t slot, uint32_t hash, uint32_t target, Span key)
{
    if (states->count == states->room) {
        if (states_grow(states) < 0)
            return NULL;
        slot = hash & states->mask;
        while (states->slots[slot])
            slot = (slot + 1) & states->mask;
    }
    Entry *entry = &states->entries[states->count++];
    states->slots[slot] = (uint32_t)states->count;
    *entry = (Entry){.hash = hash, .target = target, .key = key};
    return entry;
}

int entry_step(const States *states, Entry *entry, const unsigned char *base, int op, uint32_t plan, int source,
               Span values)
{
    int before = entry->state & ~MARKS, marks = entry->state & MARKS, state = states->table[before * 3 + op];
    if (source != SAME_SOURCE && states->table == fold_strict) {
        if (source == OTHER_SOURCE && op != INSERT && before != DELETED && before != GONE)
            state = -1;
        marks |= MIXED;
    }
    if (state < 0) {
        PyObject *args = Py_BuildValue("(y#iiII)", (const char *)span_of(base, entry->key), (Py_ssize_t)entry->key.size,
                                       before, op, (unsigned)plan, (unsigned)entry->plan);
        if (args != NULL)
            PyErr_SetObject(impossible_error, args);
        Py_XDECREF(args);
        return -1;
    }
    entry->state = (uint8_t)(state | marks);
    entry->plan = plan;
    entry->values = values;
    return 0;
}
