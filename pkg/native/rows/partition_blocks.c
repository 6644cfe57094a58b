/* The states of a slice as one byte string for each bucket. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdlib.h>
#include <string.h>

#include "blocks.h"
#include "partition.h"

static int hash_entry(Partitioner *self, Entry *entry)
{
    const Plan *plan = &self->plans[map_find(&self->by_number, entry->plan)];
    const unsigned char *key = self->arena.data + entry->key.at;
    return row_hash(plan->placement, key, entry->key.size, &self->normalized, &entry->more);
}

static unsigned char *put_state(unsigned char *out, const unsigned char *arena, const Entry *entry)
{
    put32(out, entry->plan);
    out[4] = entry->state;
    put32(out + 5, entry->more);
    put32(out + 9, entry->key.size);
    put32(out + 13, entry->values.size);
    out += STATE_SIZE;
    memcpy(out, arena + entry->key.at, entry->key.size);
    out += entry->key.size;
    memcpy(out, arena + entry->values.at, entry->values.size);
    return out + entry->values.size;
}

typedef struct {
    size_t size, count;
    unsigned char *out;
} Section;

static int ascending(const void *one, const void *other)
{
    uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
    return (a > b) - (a < b);
}

/* The targets in ascending order; ``ranks`` gets the slot of each. */
static uint32_t *sorted_targets(const Partitioner *self, Map *ranks, size_t *count)
{
    uint32_t *targets = PyMem_Calloc(self->plan_count + 1, sizeof(uint32_t));
    if (targets == NULL)
        return (uint32_t *)PyErr_NoMemory();
    for (size_t i = 0; i < self->plan_count; i++)
        targets[i] = self->plans[i].target;
    qsort(targets, self->plan_count, sizeof *targets, ascending);
    *count = 0;
    for (size_t i = 0; i < self->plan_count; i++) {
        if (*count && targets[*count - 1] == targets[i])
            continue;
        targets[*count] = targets[i];
        if (map_number(ranks, targets[i], (uint32_t)*count) < 0) {
            PyMem_Free(targets);
            return NULL;
        }
        ++*count;
    }
    return targets;
}

/* One bytes object for the sections of a bucket; sets the sections' write positions. None when there are none. */
static PyObject *bucket_bytes(Section *sections, const uint32_t *targets, size_t count)
{
    size_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += sections[i].count ? sections[i].size + SECTION_SIZE : 0;
    if (total == 0)
        Py_RETURN_NONE;
    if (total > PY_SSIZE_T_MAX / 2)
        return PyErr_NoMemory();
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)total);
    if (bytes == NULL)
        return NULL;
    unsigned char *out = (unsigned char *)PyBytes_AS_STRING(bytes);
    for (size_t i = 0; i < count; i++) {
        if (sections[i].count == 0)
            continue;
        put32(out, targets[i]);
        out[4] = SECTION_STATES;
        put32(out + 5, (uint32_t)sections[i].count);
        sections[i].out = out + SECTION_SIZE;
        out += SECTION_SIZE + sections[i].size;
    }
    return bytes;
}

static int fill_blocks(Partitioner *self, uint32_t buckets, const uint32_t *targets, size_t count, const Map *ranks,
                       Section *sections, PyObject *blocks)
{
    States *states = &self->states;
    for (size_t i = 0; i < states->count; i++) {
        Entry *entry = &states->entries[i];
        if (hash_entry(self, entry) < 0)
            return -1;
        Section *section = &sections[entry->more % buckets * count + (size_t)map_find(ranks, entry->target)];
        section->size += STATE_SIZE + (size_t)entry->key.size + entry->values.size;
        section->count++;
    }
    for (uint32_t bucket = 0; bucket < buckets; bucket++) {
        PyObject *bytes = bucket_bytes(sections + bucket * count, targets, count);
        PyObject *number = bytes && bytes != Py_None ? PyLong_FromUnsignedLong(bucket) : NULL;
        int done = number ? PyDict_SetItem(blocks, number, bytes) : bytes == Py_None ? 0 : -1;
        Py_XDECREF(number);
        Py_XDECREF(bytes);
        if (done < 0)
            return -1;
    }
    for (size_t i = 0; i < states->count; i++) {
        const Entry *entry = &states->entries[i];
        Section *section = &sections[entry->more % buckets * count + (size_t)map_find(ranks, entry->target)];
        section->out = put_state(section->out, self->arena.data, entry);
    }
    return 0;
}

PyObject *partition_blocks(Partitioner *self, uint32_t buckets)
{
    size_t count = 0;
    Map ranks = {0};
    uint32_t *targets = sorted_targets(self, &ranks, &count);
    Section *sections = targets ? PyMem_Calloc((size_t)buckets * count + 1, sizeof(Section)) : NULL;
    PyObject *blocks = sections ? PyDict_New() : NULL;
    if (targets != NULL && sections == NULL)
        PyErr_NoMemory();
    if (blocks != NULL && fill_blocks(self, buckets, targets, count, &ranks, sections, blocks) < 0)
        Py_CLEAR(blocks);
    map_free(&ranks);
    PyMem_Free(targets);
    PyMem_Free(sections);
    return blocks;
}
