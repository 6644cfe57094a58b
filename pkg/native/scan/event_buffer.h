/* The rows events of the batch that is being filled.
 *
 * dm_worker/syncer/planning/event_buffer.py documents everything.
 */
#ifndef DM_EVENT_BUFFER_H
#define DM_EVENT_BUFFER_H

#include <Python.h>

#include <stdint.h>

#include "../common/buffer.h"
#include "../common/bytes.h"
#include "../common/gtid_run.h"

/* -1 from a function here means that memory is missing; none of them needs the GIL or sets an exception. */

/* Bytes of an event in the index. */
enum { RECORD = 16 };

/* Maximum runs of GTIDs that wait to be fetched; more of them end a scan. */
#define MAX_RUNS 4096

/* A table id and the rest of its TABLE_MAP. */
typedef struct {
    uint64_t id;
    unsigned char *shape;
    size_t size;
    int64_t number;
    int used;
} Table;

typedef struct {
    PyObject_HEAD
    unsigned long long offset, boundary, bytes_read;
    long long rows, skip;
    unsigned int newest, commit_time;
    char inside, standalone, is_void, ended;
    long long marked, marked_size, transactions;
    Buffer data, index;
    Table *tables;
    size_t table_room, table_count;
    GtidRun gtid; /* of the current transaction */
    GtidRun *runs;
    size_t run_count;
    int busy;
} EventBuffer;

/* The table id, six bytes, at ``at``. */
static inline uint64_t table_id(const unsigned char *at)
{
    return little_endian(at, 6);
}

static inline size_t event_count(const EventBuffer *self)
{
    return self->index.size / RECORD;
}

/* A rows event of the table plan ``number``. */
static inline int append_event(EventBuffer *self, uint32_t number, const unsigned char *event, size_t size,
                               uint32_t timestamp)
{
    unsigned char *record;
    if (buffer_extend(&self->data, size) < 0 || buffer_extend(&self->index, RECORD) < 0)
        return -1;
    put(&self->data, event, size);
    record = self->index.data + self->index.size;
    put32(record, number);
    put32(record + 4, (uint32_t)size);
    put32(record + 8, (uint32_t)self->offset);
    put32(record + 12, (uint32_t)(self->offset >> 32));
    self->index.size += RECORD;
    if (!self->commit_time)
        self->commit_time = timestamp;
    return 0;
}

/* Finds the slot of a table id, used or free. */
static inline Table *table_slot(Table *tables, size_t room, uint64_t id)
{
    size_t at = (size_t)((id * 0x9E3779B97F4A7C15u) >> 32) & (room - 1);
    while (tables[at].used && tables[at].id != id)
        at = (at + 1) & (room - 1);
    return &tables[at];
}

/* NULL for an unknown id. */
static inline Table *find_table(const EventBuffer *self, uint64_t id)
{
    Table *table = self->table_room ? table_slot(self->tables, self->table_room, id) : NULL;
    return table && table->used ? table : NULL;
}

/* Reserves memory for twice as many tables. */
int grow_tables(EventBuffer *self);

void clear_tables(EventBuffer *self);

/* Counts the current transaction, and its GTID, as ended. */
void end_transaction(EventBuffer *self, uint32_t timestamp);

/* Removes the first ``size`` bytes. */
void drop_front(Buffer *buffer, size_t size);

/* Bytes of the first `count` events. */
size_t bytes_of(const EventBuffer *self, size_t count);

#endif
