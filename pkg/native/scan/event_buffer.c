/* Events, tables and GTIDs of the event buffer. Nothing here needs the GIL. */
#include <string.h>

#include "event_buffer.h"

/* How many of the newest runs are checked for one that the next GTID of a MySQL source continues. */
#define NEAR_RUNS 8

/* An empty buffer above this size is freed. */
#define KEPT_ROOM (8u << 20)

void drop_front(Buffer *buffer, size_t size)
{
    buffer->size -= size;
    if (buffer->size)
        memmove(buffer->data, buffer->data + size, buffer->size);
    else if (buffer->room > KEPT_ROOM)
        buffer_free(buffer);
}

size_t bytes_of(const EventBuffer *self, size_t count)
{
    size_t size = 0;
    for (size_t i = 0; i < count; i++)
        size += get32(self->index.data + RECORD * i + 4);
    return size;
}

int grow_tables(EventBuffer *self)
{
    size_t room = self->table_room ? self->table_room * 2 : 64;
    Table *tables = PyMem_RawCalloc(room, sizeof *tables);
    if (tables == NULL)
        return -1;
    for (size_t i = 0; i < self->table_room; i++)
        if (self->tables[i].used)
            *table_slot(tables, room, self->tables[i].id) = self->tables[i];
    PyMem_RawFree(self->tables);
    self->tables = tables;
    self->table_room = room;
    return 0;
}

void clear_tables(EventBuffer *self)
{
    for (size_t i = 0; i < self->table_room; i++)
        if (self->tables[i].used)
            PyMem_RawFree(self->tables[i].shape);
    PyMem_RawFree(self->tables);
    self->tables = NULL;
    self->table_room = self->table_count = 0;
}

/* Counts the pending GTID as executed. The caller reserves the memory. */
static void finish_gtid(EventBuffer *self)
{
    GtidRun *gtid = &self->gtid;
    size_t near = gtid->size == 8 ? self->run_count : self->run_count < NEAR_RUNS ? self->run_count : NEAR_RUNS;
    if (!gtid->size)
        return;
    for (size_t back = 1; back <= near; back++) {
        GtidRun *run = &self->runs[self->run_count - back];
        if (run->size != gtid->size)
            continue;
        if (run->size == 8 && !memcmp(run->source, gtid->source, 4)) {
            /* Only the last GTID of a MariaDB domain counts, with any server and number. */
            *run = *gtid;
            gtid->size = 0;
            return;
        }
        if (run->size >= 16 && run->last + 1 == gtid->last && !memcmp(run->source, gtid->source, run->size)) {
            run->last = gtid->last;
            gtid->size = 0;
            return;
        }
    }
    self->runs[self->run_count++] = *gtid;
    gtid->size = 0;
}

void end_transaction(EventBuffer *self, uint32_t timestamp)
{
    long long count = (long long)event_count(self);
    finish_gtid(self);
    /* A rows event has the time when its statement began; the commit time counts. */
    if (count > self->marked && !self->marked && timestamp)
        self->commit_time = timestamp;
    self->inside = self->standalone = self->is_void = 0;
    self->rows = self->skip = 0;
    self->boundary = self->offset;
    self->marked = count;
    self->marked_size = (long long)self->data.size;
    self->transactions++;
    self->ended = 1;
}
