/* Pairs equal rows of two sides; those that wait for their equal are in a table by the hash of their bytes. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

#include "../common/map.h"
#include "unpaired.h"

#define FIRST_SLOTS 64

static uint64_t hash_of(uint64_t hash, const unsigned char *p, size_t size)
{
    hash = mix(hash ^ size);
    for (; size >= 8; p += 8, size -= 8)
        hash = mix(hash ^ get64(p));
    return mix(hash ^ little_endian(p, size)) | 1;
}

static uint64_t identity_of(const Unpaired *self, const unsigned char *p, uint64_t whole)
{
    uint64_t hash = 0;
    for (Py_ssize_t i = 0; i < self->keys_size; i++) {
        Py_ssize_t key = self->keys[i];
        hash = hash_of(hash, p + self->starts[key], self->starts[key + 1] - self->starts[key]);
    }
    return self->keys_size ? hash : whole;
}

static Seen *seen_at(Seen *seen, size_t mask, uint64_t identity)
{
    size_t at = (identity >> 1) & mask;
    while (seen[at].identity && seen[at].identity != identity)
        at = (at + 1) & mask;
    return &seen[at];
}

static int grow_seen(Unpaired *self)
{
    size_t slots = self->seen ? (self->seen_mask + 1) * 2 : FIRST_SLOTS;
    Seen *seen = PyMem_Calloc(slots, sizeof(Seen));
    if (seen == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; self->seen && i <= self->seen_mask; i++)
        if (self->seen[i].identity)
            *seen_at(seen, slots - 1, self->seen[i].identity) = self->seen[i];
    self->held += (slots - (self->seen ? self->seen_mask + 1 : 0)) * sizeof(Seen);
    PyMem_Free(self->seen);
    self->seen = seen;
    self->seen_mask = slots - 1;
    return 0;
}

static int note_seen(Unpaired *self, uint64_t identity, int side)
{
    if ((self->seen == NULL || self->seen_count * 2 > self->seen_mask) && grow_seen(self) < 0)
        return -1;
    Seen *seen = seen_at(self->seen, self->seen_mask, identity);
    self->seen_count += seen->identity == 0;
    seen->identity = identity;
    if (++seen->rows[side] == 0) {
        PyErr_SetString(PyExc_OverflowError, "too many rows have one identity");
        return -1;
    }
    return 0;
}

static int grow_slots(Unpaired *self)
{
    size_t slots = self->slots ? (self->mask + 1) * 2 : FIRST_SLOTS;
    Row **bigger = PyMem_Calloc(slots, sizeof(Row *));
    if (bigger == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < self->sources_size; i++)
        for (Row *row = self->sources[i].first; row != NULL; row = row->after) {
            Row **slot = &bigger[(row->hash >> 1) & (slots - 1)];
            row->next = *slot;
            *slot = row;
        }
    self->held += (slots - (self->slots ? self->mask + 1 : 0)) * sizeof(Row *);
    PyMem_Free(self->slots);
    self->slots = bigger;
    self->mask = slots - 1;
    return 0;
}

static int wait_for_equal(Unpaired *self, const Row *like, const unsigned char *p)
{
    if ((self->slots == NULL || self->count > self->mask) && grow_slots(self) < 0)
        return -1;
    Row *row = PyMem_Malloc(sizeof(Row) + like->size);
    if (row == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    Row **slot = &self->slots[(like->hash >> 1) & self->mask];
    *row = *like;
    memcpy(row->data, p, like->size);
    row->next = *slot;
    *slot = row;
    Source *source = &self->sources[row->source + 1];
    row->before = source->last;
    row->after = NULL;
    *(source->last ? &source->last->after : &source->first) = row;
    source->last = row;
    source->count++;
    self->count++;
    self->held += sizeof(Row) + row->size;
    return 0;
}

int unpaired_expect(Unpaired *self, int source, Py_ssize_t width)
{
    Py_ssize_t size = (Py_ssize_t)source + 2;
    if (size > self->sources_size) {
        Source *sources = PyMem_Realloc(self->sources, (size_t)size * sizeof(Source));
        if (sources == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        memset(sources + self->sources_size, 0, (size_t)(size - self->sources_size) * sizeof(Source));
        self->sources = sources;
        self->sources_size = size;
    }
    self->sources[size - 1].width = width;
    return 0;
}

int unpaired_add(Unpaired *self, int source, const unsigned char *p, size_t size)
{
    size_t compared = self->starts[self->forms];
    uint64_t hash = hash_of(0, p, compared), identity = identity_of(self, p, hash);
    if (self->discarding || (self->shares > 1 && (identity >> 32) % self->shares != self->share))
        return 0;
    int side = side_of(source);
    if (note_seen(self, identity, side) < 0)
        return -1;
    for (Row *row = self->slots ? self->slots[(hash >> 1) & self->mask] : NULL; row != NULL; row = row->next) {
        if (row->hash != hash || row->compared != compared || memcmp(row->data, p, compared) != 0)
            continue;
        if (side_of(row->source) == side)
            row->times++;
        else if (--row->times == 0)
            unpaired_remove(self, row);
        return 0;
    }
    Row like = {.hash = hash, .identity = identity, .times = 1, .size = size};
    like.compared = compared;
    like.source = source;
    return wait_for_equal(self, &like, p);
}

static Seen *seen_of(const Unpaired *self, const Row *row)
{
    return seen_at(self->seen, self->seen_mask, row->identity);
}

void unpaired_settle(Unpaired *self)
{
    Row *row;
    for (Py_ssize_t i = 0; i < self->sources_size; i++)
        for (row = self->sources[i].first; row != NULL; row = row->after) {
            const Seen *seen = seen_of(self, row);
            row->state = (uint64_t)seen->rows[UPSTREAM] + seen->rows[TARGET] == 1 ? ALONE : PARTLY;
        }
    for (Py_ssize_t i = 0; i < self->sources_size; i++)
        for (row = self->sources[i].first; row != NULL; row = row->after)
            if (row->state != ALONE)
                seen_of(self, row)->rows[side_of(row->source)] -= (uint32_t)row->times;
    for (Py_ssize_t i = 0; i < self->sources_size; i++)
        for (row = self->sources[i].first; row != NULL; row = row->after) {
            const Seen *seen = seen_of(self, row);
            if (row->state != ALONE && seen->rows[UPSTREAM] == 0 && seen->rows[TARGET] == 0)
                row->state = WHOLE;
        }
}

void unpaired_remove(Unpaired *self, Row *row)
{
    Row **slot = &self->slots[(row->hash >> 1) & self->mask];
    while (*slot != row)
        slot = &(*slot)->next;
    *slot = row->next;
    Source *source = &self->sources[row->source + 1];
    *(row->before ? &row->before->after : &source->first) = row->after;
    *(row->after ? &row->after->before : &source->last) = row->before;
    source->count--;
    self->count--;
    self->held -= sizeof(Row) + row->size;
    PyMem_Free(row);
}

void unpaired_clear(Unpaired *self)
{
    for (Py_ssize_t i = 0; i < self->sources_size; i++) {
        Source *source = &self->sources[i];
        for (Row *row = source->first, *after; row != NULL; row = after) {
            after = row->after;
            PyMem_Free(row);
        }
        *source = (Source){.width = source->width};
    }
    PyMem_Free(self->slots);
    PyMem_Free(self->seen);
    self->slots = NULL;
    self->seen = NULL;
    self->mask = self->count = self->seen_mask = self->seen_count = self->held = 0;
}
