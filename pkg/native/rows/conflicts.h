/* Changes to tables with conflict keys. */
#ifndef DM_CONFLICTS_H
#define DM_CONFLICTS_H

#include "partition.h"

/* A change to a table with conflict keys. An update that changes a value of one is a delete and an insert, so that the
 * value is free before another row takes it. */
int partition_conflicting(Partitioner *self, const Plan *plan, int op, const Value *before, const Value *after);

#endif
