/* From a slice's events to one run of packed states per bucket, as dm_worker/syncer/execution/partition.py does it. */
#ifndef DM_SCATTER_H
#define DM_SCATTER_H

#include "fold.h"
#include "place.h"

enum { EVENT_HEADER = 19, RECORD_SIZE = 16, SECTION_SIZE = 9, STATE_SIZE = 17 };

/* What is known of one table plan; objects are borrowed from the caller's dict. */
typedef struct {
    Readers *readers;
    PyObject *prepare; /* (event) → (data, operation, start): for all that is not an ordinary event */
    Placement *placement;
    uint32_t number, target, source;
    int moved; /* an update changed a key */
} Plan;

typedef struct {
    Plan *plans;
    size_t plan_count;
    Map by_number;
    States states;
    Buffer arena, literal, canonical;
    Value *values;
    uint64_t changes;
    Map pair_numbers;
    Buffer pairs;
} Scatter;

static PyObject *event_error;

/* -- events ---------------------------------------------------------------------------------------------------- */

/* Whether all ``count`` columns are there. */
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

/* The operation and where the images begin; 0 when the event is none of the ordinary ones. */
static size_t ordinary_event(const Readers *readers, const uint8_t *event, size_t size, int *op)
{
    size_t at = EVENT_HEADER + 8, bitmap = (size_t)readers->bitmap;
    Py_ssize_t count = readers->count;
    if (size < at)
        return 0;
    uint8_t kind = event[4];
    if ((kind < 23 || kind > 25) && (kind < 30 || kind > 32))
        return 0;
    *op = kind < 26 ? kind - 23 : kind - 30;
    if (kind >= 30) {
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

static int new_span(const Buffer *arena, size_t from, Span *span)
{
    size_t size = arena->size - from;
    if (size > UINT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "a row is more than 4 GiB of SQL");
        return -1;
    }
    span->at = from;
    span->size = (uint32_t)size;
    return 0;
}

/* One change to the key that was written last to the arena; what of it is not needed is taken back. */
static int fold_change(Scatter *self, const Plan *plan, int op, Span key, Span values, size_t keep)
{
    States *states = &self->states;
    uint32_t hash = hash_of(self->arena.data + key.at, key.size, plan->target);
    size_t place = states_place(states, self->arena.data, hash, plan->target, key);
    if (states->places[place]) {
        self->arena.size = keep;
        Entry *known = &states->entries[states->places[place] - 1];
        int other = known->plan != plan->number &&
                    self->plans[map_find(&self->by_number, known->plan)].source != plan->source;
        return entry_step(states, known, self->arena.data, op, plan->number, other ? OTHER_SOURCE : SAME_SOURCE, values);
    }
    Entry *entry = states_add(states, place, hash, plan->target, key);
    if (entry == NULL)
        return -1;
    entry->state = (uint8_t)op;
    entry->plan = plan->number;
    entry->values = values;
    return 0;
}

static const Span no_values = {0, 0};

static int scatter_delete(Scatter *self, const Plan *plan, const Value *values)
{
    size_t start = self->arena.size;
    Span key;
    if (append_key(plan->readers, values, &self->arena) < 0 || new_span(&self->arena, start, &key) < 0)
        return -1;
    return fold_change(self, plan, DELETE, key, no_values, start);
}

static int scatter_put(Scatter *self, const Plan *plan, int op, const Value *values)
{
    Span text, key;
    size_t start = self->arena.size;
    if (append_tuple(plan->readers, values, &self->arena) < 0 || new_span(&self->arena, start, &text) < 0)
        return -1;
    size_t middle = self->arena.size;
    if (append_key(plan->readers, values, &self->arena) < 0 || new_span(&self->arena, middle, &key) < 0)
        return -1;
    return fold_change(self, plan, op, key, text, middle);
}

static int scatter_update(Scatter *self, const Plan *plan, const Value *before, const Value *after)
{
    if (same_key(plan->readers, before, after))
        return scatter_put(self, plan, UPDATE, after);
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
        return scatter_put(self, plan, UPDATE, after);
    self->plans[plan - self->plans].moved = 1;
    return scatter_delete(self, plan, before) < 0 ? -1 : scatter_put(self, plan, INSERT, after);
}

/* -- ties ------------------------------------------------------------------------------------------------------ */

static int add_pair(Scatter *self, uint32_t row, uint32_t tie)
{
    uint32_t count = (uint32_t)(self->pairs.size / 8);
    int64_t number = map_number(&self->pair_numbers, (uint64_t)row << 32 | tie, count);
    if (number < 0 || (number == count && buffer_reserve(&self->pairs, 8) < 0))
        return -1;
    if (number == count) {
        put32(self->pairs.data + self->pairs.size, row);
        put32(self->pairs.data + self->pairs.size + 4, tie);
        self->pairs.size += 8;
    }
    return 0;
}

/* Whether two images have the same literal in a column; -1 for an error. */
static int same_literal(Scatter *self, const Readers *readers, uint32_t i, const Value *before, const Value *after)
{
    if (same_origin(readers, i, before, after))
        return 1;
    if (is_null(readers, i, before) || is_null(readers, i, after))
        return 0;
    self->literal.size = 0;
    if (append_value(readers, i, before, &self->literal) < 0)
        return -1;
    size_t middle = self->literal.size;
    if (append_value(readers, i, after, &self->literal) < 0)
        return -1;
    const unsigned char *start = self->literal.data;
    return self->literal.size - middle == middle && memcmp(start, start + middle, middle) == 0;
}

/* Ties a row by its values in one image; not when one of them is NULL. */
static int tie_image(Scatter *self, const Readers *readers, const Tie *tie, uint32_t row, const Value *values)
{
    Py_ssize_t count = PyTuple_GET_SIZE(tie->columns);
    for (Py_ssize_t n = 0; n < count; n++)
        if (is_null(readers, tie->numbers[n], values))
            return 0;
    self->canonical.size = 0;
    for (Py_ssize_t n = 0; n < count; n++) {
        self->literal.size = 0;
        if ((n && append(&self->canonical, ",", 1) < 0) ||
            append_value(readers, tie->numbers[n], values, &self->literal) < 0 ||
            append_canon((Canon *)PyTuple_GET_ITEM(tie->canons, n), self->literal.data, self->literal.size,
                         &self->canonical) < 0)
            return -1;
    }
    return add_pair(self, row, crc32_of(tie->seed, self->canonical.data, self->canonical.size));
}

/* The pairs of a change; 1 when a tied value changes hands, -1 for an error. NULL for an image that is not there. */
static int bind_change(Scatter *self, const Plan *plan, const Value *before, const Value *after, uint32_t old_row,
                       uint32_t new_row)
{
    int changes = 0;
    for (Py_ssize_t i = 0; i < plan->placement->tie_count; i++) {
        const Tie *tie = &plan->placement->ties[i];
        int same = before != NULL && after != NULL;
        for (Py_ssize_t n = 0; same > 0 && n < PyTuple_GET_SIZE(tie->columns); n++)
            same = same_literal(self, plan->readers, tie->numbers[n], before, after);
        if (same < 0)
            return -1;
        if (same && old_row == new_row)
            continue;
        changes = changes || !same;
        if ((before != NULL && tie_image(self, plan->readers, tie, old_row, before) < 0) ||
            (after != NULL && tie_image(self, plan->readers, tie, new_row, after) < 0))
            return -1;
    }
    return changes;
}

/* The key of an image at the end of the arena, and its row hash. */
static int hashed_key(Scatter *self, const Plan *plan, const Value *values, Span *key, uint32_t *row)
{
    size_t start = self->arena.size;
    if (append_key(plan->readers, values, &self->arena) < 0 || new_span(&self->arena, start, key) < 0)
        return -1;
    return row_hash(plan->placement, self->arena.data + start, key->size, &self->canonical, row);
}

/* A change to a table with ties. An update that changes a tied value is a delete and an insert, so that the value is
 * free before another row takes it. */
static int scatter_tied(Scatter *self, const Plan *plan, int op, const Value *before, const Value *after)
{
    size_t start = self->arena.size;
    Span old = no_values, new = no_values;
    uint32_t old_row = 0, new_row = 0;
    if ((before != NULL && hashed_key(self, plan, before, &old, &old_row) < 0) ||
        (after != NULL && hashed_key(self, plan, after, &new, &new_row) < 0))
        return -1;
    int same = op == UPDATE && old.size == new.size &&
               memcmp(span_of(self->arena.data, old), span_of(self->arena.data, new), old.size) == 0;
    self->arena.size = start;
    int changes = bind_change(self, plan, before, after, old_row, new_row);
    if (changes < 0)
        return -1;
    if (after == NULL)
        return scatter_delete(self, plan, before);
    if (op == UPDATE && (changes || !same))
        return scatter_delete(self, plan, before) < 0 ? -1 : scatter_put(self, plan, INSERT, after);
    return scatter_put(self, plan, op, after);
}

/* ``first`` and ``second`` are the images of an update; others have one. */
static int scatter_row(Scatter *self, const Plan *plan, int op, const Value *first, const Value *second)
{
    if (plan->placement->tie_count) {
        const Value *after = op == UPDATE ? second : op == INSERT ? first : NULL;
        return scatter_tied(self, plan, op, op == INSERT ? NULL : first, after);
    }
    if (op == UPDATE)
        return scatter_update(self, plan, first, second);
    return op == DELETE ? scatter_delete(self, plan, first) : scatter_put(self, plan, INSERT, first);
}

static int scatter_images(Scatter *self, const Plan *plan, int op, const uint8_t *p, const uint8_t *end)
{
    Value *values = self->values;
    while (p < end) {
        if (read_image(plan->readers, &p, end, values) < 0)
            return -1;
        Value *second = values + plan->readers->count;
        if (op == UPDATE && read_image(plan->readers, &p, end, second) < 0)
            return -1;
        if (scatter_row(self, plan, op, values, second) < 0)
            return -1;
        self->changes++;
    }
    return 0;
}

/* An event that Python looks at first: compressed, of another form, or torn. */
static int scatter_prepared(Scatter *self, const Plan *plan, const uint8_t *event, size_t size)
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
            done = scatter_images(self, plan, op, bytes + start, bytes + PyBytes_GET_SIZE(data));
    }
    Py_DECREF(prepared);
    return done;
}

static int scatter_event(Scatter *self, const Plan *plan, const uint8_t *event, size_t size)
{
    int op;
    size_t start = ordinary_event(plan->readers, event, size, &op);
    if (start == 0)
        return scatter_prepared(self, plan, event, size);
    return scatter_images(self, plan, op, event + start, event + size);
}

/* The pending exception becomes EventError(number of the event, exception). */
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

static int scatter_slice(Scatter *self, PyObject *data, PyObject *index)
{
    const uint8_t *event = (const uint8_t *)PyBytes_AS_STRING(data), *record = (const uint8_t *)PyBytes_AS_STRING(index);
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
        if (plan >= 0 && scatter_event(self, &self->plans[plan], event, size) < 0) {
            raise_event_error(n);
            return -1;
        }
        event += size;
        left -= size;
    }
    return 0;
}

/* -- blocks ---------------------------------------------------------------------------------------------------- */

static int place_entry(Scatter *self, Entry *entry)
{
    const Plan *plan = &self->plans[map_find(&self->by_number, entry->plan)];
    const unsigned char *key = self->arena.data + entry->key.at;
    return row_hash(plan->placement, key, entry->key.size, &self->canonical, &entry->more);
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

/* The targets in ascending order; ``ranks`` gets the place of each. */
static uint32_t *sorted_targets(const Scatter *self, Map *ranks, size_t *count)
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

/* One bytes object for the sections of a bucket; ``sections`` then know where to write. None when there are none. */
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
        out[4] = 0;
        put32(out + 5, (uint32_t)sections[i].count);
        sections[i].out = out + SECTION_SIZE;
        out += SECTION_SIZE + sections[i].size;
    }
    return bytes;
}

static int fill_blocks(Scatter *self, uint32_t buckets, const uint32_t *targets, size_t count, const Map *ranks,
                       Section *sections, PyObject *blocks)
{
    States *states = &self->states;
    for (size_t i = 0; i < states->count; i++) {
        Entry *entry = &states->entries[i];
        if (place_entry(self, entry) < 0)
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

static PyObject *scatter_blocks(Scatter *self, uint32_t buckets)
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

/* The numbers of the plans without ties whose updates changed keys. */
static PyObject *moved_plans(const Scatter *self)
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
        PyErr_SetString(PyExc_ValueError, "a tie of columns that are not there");
        return -1;
    }
    plan->number = (uint32_t)value;
    plan->target = target;
    plan->source = source;
    return 0;
}

static int scatter_start(Scatter *self, PyObject *plans, int safe)
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
        if (plan_from(plan, number, spec) < 0 || map_number(&self->by_number, plan->number, (uint32_t)self->plan_count) < 0)
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
    Buffer *buffers[] = {&self->arena, &self->literal, &self->canonical, &self->pairs};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        if (buffer_reserve(buffers[i], 1) < 0)
            return -1;
    return 0;
}

static PyObject *rows_scatter(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *data, *index, *plans, *result = NULL, *blocks = NULL;
    unsigned buckets;
    int safe;
    if (!PyArg_ParseTuple(args, "SSO!Ip", &data, &index, &PyDict_Type, &plans, &buckets, &safe))
        return NULL;
    if (buckets == 0) {
        PyErr_SetString(PyExc_ValueError, "no buckets");
        return NULL;
    }
    Scatter self;
    if (scatter_start(&self, plans, safe) == 0 && scatter_slice(&self, data, index) == 0)
        blocks = scatter_blocks(&self, buckets);
    PyObject *moved = blocks ? moved_plans(&self) : NULL;
    if (moved != NULL)
        result = Py_BuildValue("(KOy#O)", (unsigned long long)self.changes, blocks, (const char *)self.pairs.data,
                               (Py_ssize_t)self.pairs.size, moved);
    Py_XDECREF(blocks);
    Py_XDECREF(moved);
    map_free(&self.by_number);
    map_free(&self.pair_numbers);
    buffer_free(&self.pairs);
    buffer_free(&self.literal);
    buffer_free(&self.canonical);
    states_free(&self.states);
    PyMem_Free(self.plans);
    PyMem_Free(self.values);
    buffer_free(&self.arena);
    return result;
}

#endif
