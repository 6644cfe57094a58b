/* Groups of SQL rows: the states of each plan in the order of their keys, split by its limits. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdlib.h>
#include <string.h>

#include "../common/bytes.h"
#include "merge.h"

static int part_of(Merger *self, Entry *entry, PyObject *rules)
{
    uint64_t key = (uint64_t)entry->target << 32 | entry->plan;
    int64_t number = map_number(&self->part_numbers, key, (uint32_t)self->part_count);
    if (number < 0)
        return -1;
    if ((size_t)number == self->part_count) {
        if (self->part_count == self->part_room) {
            size_t room = self->part_room ? 2 * self->part_room : 16;
            Part *parts = PyMem_Realloc(self->parts, room * sizeof(Part));
            if (parts == NULL) {
                PyErr_NoMemory();
                return -1;
            }
            self->parts = parts;
            self->part_room = room;
        }
        Part *part = &self->parts[self->part_count];
        *part = (Part){.target = entry->target, .plan = entry->plan, .number = (uint32_t)number};
        if (rule_from(rules, entry->plan, &part->rule) < 0)
            return -1;
        self->part_count++;
    }
    self->parts[number].count++;
    entry->more = (uint32_t)number;
    return 0;
}

static int by_target_and_plan(const void *one, const void *other)
{
    const Part *a = one, *b = other;
    if (a->target != b->target)
        return a->target < b->target ? -1 : 1;
    return (a->plan > b->plan) - (a->plan < b->plan);
}

/* An entry by its key. */
typedef struct {
    const unsigned char *key;
    uint32_t size, number;
} Keyed;

/* Numbers by size, then by digits, before everything else: approximately the server's order of rows. */
static int by_key(const void *one, const void *other)
{
    const Keyed *a = one, *b = other;
    int number = a->size > 0 && a->key[0] >= '0' && a->key[0] <= '9';
    if (number != (b->size > 0 && b->key[0] >= '0' && b->key[0] <= '9'))
        return number ? -1 : 1;
    if (number && a->size != b->size)
        return a->size < b->size ? -1 : 1;
    int found = memcmp(a->key, b->key, a->size < b->size ? a->size : b->size);
    return found ? found : (a->size > b->size) - (a->size < b->size);
}

/* Sorts the entries of a part by their keys. */
static int sort_part(Merger *self, const Part *part)
{
    Keyed *keyed = PyMem_Malloc((part->count + 1) * sizeof(Keyed));
    if (keyed == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    int sorted = 1;
    for (size_t i = 0; i < part->count; i++) {
        uint32_t number = self->order[part->start + i];
        Span key = self->states.entries[number].key;
        keyed[i] = (Keyed){(const unsigned char *)key.at, (uint32_t)key.size, number};
        sorted = sorted && (i == 0 || by_key(&keyed[i - 1], &keyed[i]) <= 0);
    }
    if (!sorted) {
        qsort(keyed, part->count, sizeof(Keyed), by_key);
        for (size_t i = 0; i < part->count; i++)
            self->order[part->start + i] = keyed[i].number;
    }
    PyMem_Free(keyed);
    return 0;
}

int sort_entries(Merger *self, PyObject *rules)
{
    States *states = &self->states;
    for (size_t i = 0; i < states->count; i++)
        if (part_of(self, &states->entries[i], rules) < 0)
            return -1;
    self->order = PyMem_Calloc(states->count + 1, sizeof(uint32_t));
    size_t *next = PyMem_Calloc(self->part_count + 1, sizeof(size_t));
    if (self->order == NULL || next == NULL) {
        PyMem_Free(next);
        PyErr_NoMemory();
        return -1;
    }
    if (self->part_count)
        qsort(self->parts, self->part_count, sizeof(Part), by_target_and_plan);
    size_t start = 0;
    for (size_t i = 0; i < self->part_count; i++) {
        Part *part = &self->parts[i];
        part->start = next[part->number] = start;
        start += part->count;
    }
    for (size_t i = 0; i < states->count; i++)
        self->order[next[states->entries[i].more]++] = (uint32_t)i;
    PyMem_Free(next);
    for (size_t i = 0; i < self->part_count; i++)
        if (sort_part(self, &self->parts[i]) < 0)
            return -1;
    return 0;
}

/* Turns a run of entries into one group; ``size`` is that of the body. */
static int add_group(Merger *self, const Part *part, int kind, size_t from, size_t to, uint64_t size, size_t count)
{
    if (size > UINT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "a group is more than 4 GiB of SQL");
        return -1;
    }
    PyObject *body = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    PyObject *cuts = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(4 * count));
    if (body == NULL || cuts == NULL) {
        Py_XDECREF(body);
        Py_XDECREF(cuts);
        return -1;
    }
    unsigned char *start = (unsigned char *)PyBytes_AS_STRING(body), *out = start;
    unsigned char *first = (unsigned char *)PyBytes_AS_STRING(cuts), *cut = first;
    int wrap = kind == GROUP_DELETE && part->rule.wrap;
    for (size_t i = from; i < to; i++) {
        const Entry *entry = &self->states.entries[self->order[i]];
        if (!is_of_kind(&part->rule, entry->state, kind))
            continue;
        Span row = kind == GROUP_DELETE ? entry->key : entry->values;
        if (cut > first)
            *out++ = ',';
        if (wrap)
            *out++ = '(';
        memcpy(out, span_of(NULL, row), row.size);
        out += row.size;
        if (wrap)
            *out++ = ')';
        put32(cut, (uint32_t)(out - start));
        cut += 4;
    }
    PyObject *group = Py_BuildValue("(IiNNn)", (unsigned)part->plan, kind, body, cuts, (Py_ssize_t)count);
    int done = group ? PyList_Append(self->groups, group) : -1;
    Py_XDECREF(group);
    return done;
}

/* Splits the entries of one part and kind into groups by the rule's limits. */
static int cut_groups(Merger *self, const Part *part, int kind)
{
    const Rule *rule = &part->rule;
    size_t from = part->start, end = part->start + part->count, count = 0;
    uint32_t around = kind == GROUP_DELETE && rule->wrap ? 2 : 0;
    int64_t size = 0;
    for (size_t i = from; i < end; i++) {
        const Entry *entry = &self->states.entries[self->order[i]];
        if (!is_of_kind(rule, entry->state, kind))
            continue;
        int64_t more = (int64_t)(kind == GROUP_DELETE ? entry->key.size : entry->values.size) + around;
        if (count && (size + more > rule->most_bytes[kind] || (long long)count >= rule->most_rows[kind])) {
            if (add_group(self, part, kind, from, i, (uint64_t)(size - 1), count) < 0)
                return -1;
            from = i;
            size = 0;
            count = 0;
        }
        size += more + 1;
        count++;
    }
    return count ? add_group(self, part, kind, from, end, (uint64_t)(size - 1), count) : 0;
}

int make_groups(Merger *self)
{
    for (size_t first = 0, next; first < self->part_count; first = next) {
        next = first + 1;
        while (next < self->part_count && self->parts[next].target == self->parts[first].target)
            next++;
        for (int kind = 0; kind < KINDS; kind++)
            for (size_t i = first; i < next; i++)
                if (cut_groups(self, &self->parts[i], kind) < 0)
                    return -1;
    }
    return 0;
}
