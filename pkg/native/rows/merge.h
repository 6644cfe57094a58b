/* From the blocks of one bucket to groups of SQL rows. */
#ifndef DM_MERGE_H
#define DM_MERGE_H

#include <Python.h>

#include <stdint.h>

#include "../common/map.h"
#include "compact.h"

/* Groups of deletes, inserts and replaces; the first have keys only. */
enum { GROUP_DELETE = 0, KINDS = 3 };

/* How the states of one plan become groups; see Rule in dm_worker/syncer/execution/merge.py. */
typedef struct {
    uint8_t kinds[2 * STATE_COUNT]; /* then those of rows in conflict sets */
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

/* The data of one call. */
typedef struct {
    States states;
    Part *parts;
    size_t part_count, part_room;
    Map part_numbers;
    uint32_t *order; /* entry numbers, grouped by part */
    uint64_t changes;
    PyObject *rows, *groups, *rules;
} Merger;

/* Whether entries of this state, with its marks, are in groups of this kind. */
static inline int is_of_kind(const Rule *rule, uint8_t state, int kind)
{
    return rule->kinds[(state & ~MARKS) + (state & JOINED ? STATE_COUNT : 0)] >> kind & 1;
}

/* The rule for a plan in ``rules``. */
int rule_from(PyObject *rules, uint32_t plan, Rule *rule);

/* Groups the entries by part, and sorts each part by key. */
int sort_entries(Merger *self, PyObject *rules);

/* The states as groups of SQL rows, in the order of their keys. */
int make_groups(Merger *self);

#endif
