/* One inserted or deleted row in the states of a slice's keys. */
#ifndef DM_ROW_CHANGES_H
#define DM_ROW_CHANGES_H

#include "partition.h"

/* The end of the arena, from ``from`` on. */
int new_span(const Buffer *arena, size_t from, Span *span);

static const Span no_values = {0, 0};

/* The row with these values was deleted. */
int partition_delete(Partitioner *self, const Plan *plan, const Value *values);

/* The row has these values now, by INSERT or UPDATE. */
int partition_put(Partitioner *self, const Plan *plan, int op, const Value *values);

#endif
