/* Compaction: the last image of every key, as dm_worker/syncer/execution/compaction.py folds it. */
#ifndef DM_FOLD_H
#define DM_FOLD_H

#include <Python.h>
#include <stdint.h>
#include <string.h>

#include "map.h"

enum { INSERT, UPDATE, DELETE };
enum { INSERTED, UPDATED, DELETED, REPLACED, GONE, STATE_COUNT };
/* Added to a state when the key's changes came from several upstream tables. */
enum { MIXED = 8 };
/* Whose row a change is about, seen from the change before: the same upstream table's, another's, or not known. */
enum { SAME_SOURCE, OTHER_SOURCE, SOME_SOURCE };

/* [state * 3 + operation]; -1 for a change that no upstream can have made. */
static const int8_t fold_strict[] = {-1, INSERTED, GONE, -1, UPDATED, DELETED, REPLACED, -1, -1, -1, REPLACED, DELETED,
                                     INSERTED, -1, -1};
static const int8_t fold_safe[] = {UPDATED, UPDATED, DELETED, UPDATED, UPDATED, DELETED, UPDATED, UPDATED,
                                   DELETED, UPDATED, UPDATED, DELETED, UPDATED, UPDATED, DELETED};
/* A later state as the changes that lead to it; -1 ends them. */
static const int8_t fold_replay[STATE_COUNT][2] = {{INSERT, -1}, {UPDATE, -1}, {DELETE, -1}, {DELETE, INSERT}, {INSERT, DELETE}};

/* Where bytes are: in memory that stays, or, with ``base``, from the start of an arena that may move. */
typedef struct {
    size_t at;
    uint32_t size;
} Span;

static inline const unsigned char *span_of(const unsigned char *base, Span span)
{
    return (const unsigned char *)((uintptr_t)base + span.at);
}

typedef struct {
    uint32_t hash, target, plan, more; /* more: what the caller keeps of an entry */
    Span key, values;
    uint8_t state;
} Entry;

typedef struct {
    Entry *entries;
    size_t count, room;
    uint32_t *places; /* entry number + 1, 0 for a free place */
    size_t mask;
    const int8_t *table;
} States;

static int states_start(States *states, int safe)
{
    memset(states, 0, sizeof *states);
    states->table = safe ? fold_safe : fold_strict;
    states->mask = 1023;
    states->places = PyMem_Calloc(states->mask + 1, sizeof(uint32_t));
    states->room = 512;
    states->entries = PyMem_Malloc(states->room * sizeof(Entry));
    if (states->places == NULL || states->entries == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

static void states_free(States *states)
{
    PyMem_Free(states->entries);
    PyMem_Free(states->places);
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
    uint32_t *places = entries ? PyMem_Calloc(mask + 1, sizeof(uint32_t)) : NULL;
    if (places == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; i < states->count; i++) {
        size_t at = entries[i].hash & mask;
        while (places[at])
            at = (at + 1) & mask;
        places[at] = (uint32_t)i + 1;
    }
    PyMem_Free(states->places);
    states->places = places;
    states->room = room;
    states->mask = mask;
    return 0;
}

/* A hash for the table only; it decides no placement. */
static inline uint32_t hash_of(const unsigned char *key, size_t size, uint32_t target)
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

/* The place of a key: that of its entry, or the free one where it belongs. */
static inline size_t states_place(const States *states, const unsigned char *base, uint32_t hash, uint32_t target,
                                  Span key)
{
    size_t at = hash & states->mask;
    for (; states->places[at]; at = (at + 1) & states->mask) {
        const Entry *entry = &states->entries[states->places[at] - 1];
        if (entry->hash == hash && entry->target == target && entry->key.size == key.size &&
            memcmp(span_of(base, entry->key), span_of(base, key), key.size) == 0)
            break;
    }
    return at;
}

/* A new entry at a free place; NULL without memory. */
static Entry *states_add(States *states, size_t place, uint32_t hash, uint32_t target, Span key)
{
    if (states->count == states->room) {
        if (states_grow(states) < 0)
            return NULL;
        place = hash & states->mask;
        while (states->places[place])
            place = (place + 1) & states->mask;
    }
    Entry *entry = &states->entries[states->count++];
    states->places[place] = (uint32_t)states->count;
    *entry = (Entry){.hash = hash, .target = target, .key = key};
    return entry;
}

static PyObject *impossible_error;

/* One more change to a key that has a state. */
static int entry_step(const States *states, Entry *entry, const unsigned char *base, int op, uint32_t plan, int source,
                      Span values)
{
    int before = entry->state & ~MIXED, mixed = entry->state & MIXED, state = states->table[before * 3 + op];
    if (source != SAME_SOURCE && states->table == fold_strict) {
        if (source == OTHER_SOURCE && op != INSERT && before != DELETED && before != GONE)
            state = -1;
        mixed = MIXED;
    }
    if (state < 0) {
        PyObject *args = Py_BuildValue("(y#iiII)", (const char *)span_of(base, entry->key), (Py_ssize_t)entry->key.size,
                                       before, op, (unsigned)plan, (unsigned)entry->plan);
        if (args != NULL)
            PyErr_SetObject(impossible_error, args);
        Py_XDECREF(args);
        return -1;
    }
    entry->state = (uint8_t)(state | mixed);
    entry->plan = plan;
    entry->values = values;
    return 0;
}

#endif
