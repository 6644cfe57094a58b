/* From the blocks of one bucket to groups of SQL rows, as dm_worker/syncer/execution/merge.py makes them. */
#ifndef DM_COMBINE_H
#define DM_COMBINE_H

#include "fold.h"
#include "scatter.h"

enum { KINDS = 3, ROW_SIZE = 21 };

/* How the states of one plan become groups; see Rule in combine.py. */
typedef struct {
    uint8_t kinds[STATE_COUNT];
    int wrap;
    long long most_bytes[KINDS], most_rows[KINDS];
    unsigned source; /* number of the upstream table */
} Rule;

/* The entries of one plan in one target table. */
typedef struct {
    uint32_t target, plan, number;
    size_t count, start;
    Rule rule;
} Part;

typedef struct {
    States states;
    Part *parts;
    size_t part_count, part_room;
    Map part_numbers;
    uint32_t *order; /* entry numbers, those of one part together */
    uint64_t changes;
    PyObject *rows, *groups, *rules;
} Combine;

static int torn_block(const char *what)
{
    PyErr_Format(PyExc_ValueError, "torn block: %s", what);
    return -1;
}

static int rule_from(PyObject *rules, uint32_t plan, Rule *rule);

/* Whether two plans are of one upstream table; -1 for an error. */
static int same_source(const Combine *self, uint32_t plan, uint32_t other)
{
    Rule one, two;
    if (plan == other)
        return 1;
    if (rule_from(self->rules, plan, &one) < 0 || rule_from(self->rules, other, &two) < 0)
        return -1;
    return one.source == two.source;
}

static int merge_state(Combine *self, uint32_t target, uint32_t plan, uint8_t state, Span key, Span values)
{
    States *states = &self->states;
    /* Spans are addresses here: the blocks stay where they are. */
    uint32_t hash = hash_of((const unsigned char *)key.at, key.size, target);
    size_t place = states_place(states, NULL, hash, target, key);
    if (states->places[place] == 0) {
        Entry *entry = states_add(states, place, hash, target, key);
        if (entry == NULL)
            return -1;
        entry->state = state;
        entry->plan = plan;
        entry->values = values;
        return 0;
    }
    Entry *entry = &states->entries[states->places[place] - 1];
    int same = same_source(self, plan, entry->plan), other = state & MIXED ? SOME_SOURCE : OTHER_SOURCE;
    if (same < 0)
        return -1;
    const int8_t *ops = fold_replay[state & ~MIXED];
    if (entry_step(states, entry, NULL, ops[0], plan, same ? SAME_SOURCE : other, values) < 0)
        return -1;
    return ops[1] < 0 ? 0 : entry_step(states, entry, NULL, ops[1], plan, SAME_SOURCE, values);
}

static int merge_states(Combine *self, uint32_t target, uint32_t count, const uint8_t **at, const uint8_t *end)
{
    const uint8_t *p = *at;
    for (uint32_t i = 0; i < count; i++) {
        if (end - p < STATE_SIZE)
            return torn_block("half a state");
        uint32_t plan = get32(p), key = get32(p + 9);
        uint32_t values = get32(p + 13);
        uint8_t state = p[4];
        p += STATE_SIZE;
        if ((state & ~MIXED) >= STATE_COUNT || (uint64_t)(end - p) < (uint64_t)key + values)
            return torn_block("a state that is none, or beyond the end");
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

static int merge_block(Combine *self, Py_ssize_t number, PyObject *block)
{
    if (!PyBytes_Check(block)) {
        PyErr_SetString(PyExc_TypeError, "a block is bytes");
        return -1;
    }
    const uint8_t *start = (const uint8_t *)PyBytes_AS_STRING(block), *p = start, *end = p + PyBytes_GET_SIZE(block);
    if (end - p < 4)
        return torn_block("no header");
    self->changes += get32(p);
    p += 4;
    while (p < end) {
        if (end - p < SECTION_SIZE)
            return torn_block("half a section's head");
        uint32_t target = get32(p), count = get32(p + 5);
        uint8_t kind = p[4];
        p += SECTION_SIZE;
        if (kind == 0) {
            if (merge_states(self, target, count, &p, end) < 0)
                return -1;
            continue;
        }
        if (kind != 1)
            return torn_block("no such kind of section");
        PyObject *place = Py_BuildValue("(nIIn)", number, (unsigned)target, (unsigned)count, (Py_ssize_t)(p - start));
        int done = place ? PyList_Append(self->rows, place) : -1;
        Py_XDECREF(place);
        if (done < 0 || skip_rows(count, &p, end) < 0)
            return -1;
    }
    return 0;
}

/* -- groups ---------------------------------------------------------------------------------------------------- */

static int rule_from(PyObject *rules, uint32_t plan, Rule *rule)
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
    if (PyBytes_GET_SIZE(kinds) != STATE_COUNT) {
        PyErr_SetString(PyExc_ValueError, "a rule has one byte a state");
        return -1;
    }
    memcpy(rule->kinds, PyBytes_AS_STRING(kinds), STATE_COUNT);
    return 0;
}

static int part_of(Combine *self, Entry *entry, PyObject *rules)
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

/* Numbers by size, then by their digits, in front of all else: about the order that the server keeps rows in. */
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

/* Brings the entries of a part into the order of their keys. */
static int sort_part(Combine *self, const Part *part)
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

/* Brings the entries of each part together, in the order of their keys. */
static int sort_entries(Combine *self, PyObject *rules)
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

/* A run of entries as one group; ``size`` is that of the body. */
static int add_group(Combine *self, const Part *part, int kind, size_t from, size_t to, uint64_t size, size_t count)
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
    int wrap = kind == 0 && part->rule.wrap;
    for (size_t i = from; i < to; i++) {
        const Entry *entry = &self->states.entries[self->order[i]];
        if (!(part->rule.kinds[entry->state & ~MIXED] >> kind & 1))
            continue;
        Span row = kind == 0 ? entry->key : entry->values;
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

/* Cuts the entries of one part that belong to a kind into groups by the rule's limits. */
static int cut_groups(Combine *self, const Part *part, int kind)
{
    const Rule *rule = &part->rule;
    size_t from = part->start, end = part->start + part->count, count = 0;
    uint32_t around = kind == 0 && rule->wrap ? 2 : 0;
    int64_t size = 0;
    for (size_t i = from; i < end; i++) {
        const Entry *entry = &self->states.entries[self->order[i]];
        if (!(rule->kinds[entry->state & ~MIXED] >> kind & 1))
            continue;
        int64_t more = (int64_t)(kind == 0 ? entry->key.size : entry->values.size) + around;
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

static int make_groups(Combine *self)
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

static PyObject *rows_combine(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *blocks, *rules, *result = NULL;
    int safe;
    if (!PyArg_ParseTuple(args, "O!O!p", &PyTuple_Type, &blocks, &PyDict_Type, &rules, &safe))
        return NULL;
    Combine self = {.rows = PyList_New(0), .groups = PyList_New(0), .rules = rules};
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

#endif
