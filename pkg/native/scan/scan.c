/* The fast path for ordinary events: it stops before the first other event, which the planner handles. Nothing here
 * needs the GIL, and the content of the binlog never raises an exception. */
#define _GNU_SOURCE /* memmem */
#include <string.h>

#include "../common/binlog_format.h"
#include "../common/crc32.h"
#include "scan.h"

/* The number of a table whose rows are skipped; the planner handles lower numbers. */
#define FILTERED (-1)
/* The table id of a rows event that only ends a statement. */
#define NO_TABLE 0xFFFFFF

static int is_rows(unsigned kind)
{
    return (kind >= WRITE_ROWS_EVENT_V1 && kind <= DELETE_ROWS_EVENT_V1) ||
           (kind >= WRITE_ROWS_EVENT && kind <= DELETE_ROWS_EVENT) || kind == PARTIAL_UPDATE_ROWS_EVENT ||
           (kind >= MARIADB_WRITE_ROWS_COMPRESSED_EVENT_V1 && kind <= MARIADB_DELETE_ROWS_COMPRESSED_EVENT);
}

static int ends_with(const unsigned char *event, size_t size, const char *word, size_t length)
{
    return size >= HEADER_SIZE + length && !memcmp(event + size - length, word, length);
}

static int is_full(const EventBuffer *self, const Rules *rules)
{
    return self->data.size >= rules->batch_bytes || event_count(self) >= rules->batch_events;
}

/* The fields of an event's header. */
typedef struct {
    uint32_t timestamp, size, log_pos;
    unsigned kind;
} Header;

/* The end of an event that follows `offset`. */
static uint64_t end_behind(uint64_t offset, uint32_t log_pos, uint32_t size)
{
    /* The header has only 32 bits of the offset; they wrap around in files beyond 4 GiB. MariaDB 11.4 and later
     * leave it 0 in events that pass through a transaction's cache: such an event ends after its bytes. */
    uint64_t end = (offset & ~(uint64_t)0xFFFFFFFFu) | log_pos;
    if (!log_pos)
        return offset + size;
    if (end >= offset)
        return end;
    return offset - end > (uint64_t)1 << 31 ? end + ((uint64_t)1 << 32) : offset;
}

static void move(EventBuffer *self, const Header *header)
{
    self->offset = end_behind(self->offset, header->log_pos, header->size);
    self->bytes_read += header->size;
    if (header->timestamp)
        self->newest = header->timestamp;
}

/* A GTID event of an ordinary transaction: not a statement without COMMIT, not XA, and not a part of an ALTER. */
static int take_gtid(EventBuffer *self, const Header *header, const unsigned char *event, size_t size)
{
    GtidRun *gtid = &self->gtid;
    if (self->run_count >= MAX_RUNS)
        return NOT_ORDINARY;
    if (header->kind == MARIADB_GTID_EVENT) {
        unsigned flags = size > HEADER_SIZE + 12 ? event[HEADER_SIZE + 12] : 1;
        size_t extra = HEADER_SIZE + 12 + (flags & 2 ? 9 : 1);
        if (flags & (1 | 64 | 128) || (size > extra && event[extra] & (2 | 8)))
            return NOT_ORDINARY;
        read_mariadb_gtid(gtid, event);
        self->is_void = 0;
    } else if (header->kind == GTID_EVENT) {
        if (size < MYSQL_GTID_SIZE)
            return NOT_ORDINARY;
        read_mysql_gtid(gtid, event);
    } else
        gtid->size = 0;
    self->inside = 1;
    self->standalone = header->kind != MARIADB_GTID_EVENT;
    move(self, header);
    /* Servers omit events: an event need not begin where the one before ended. */
    self->boundary = self->offset - header->size;
    return STOPPED;
}

static int take_rows(EventBuffer *self, const Rules *rules, const Header *header, const unsigned char *event,
                     size_t size)
{
    if (size < HEADER_SIZE + 6)
        return NOT_ORDINARY;
    uint64_t id = table_id(event + HEADER_SIZE);
    const Table *table = find_table(self, id);
    /* The caller counts rows of a table that is held back. */
    if (self->rows >= self->skip && (table == NULL ? id != NO_TABLE : table->number < FILTERED))
        return NOT_ORDINARY;
    /* Before any change: a failure must leave the buffer unchanged. */
    if (buffer_extend(&self->data, size) < 0 || buffer_extend(&self->index, RECORD) < 0)
        return -1;
    move(self, header);
    if (++self->rows <= self->skip || table == NULL || table->number == FILTERED)
        return STOPPED;
    if (append_event(self, (uint32_t)table->number, event, size, header->timestamp) < 0)
        return -1;
    return is_full(self, rules) ? CUT : STOPPED;
}

/* The same TABLE_MAP as before. */
static int is_known_table(const EventBuffer *self, const unsigned char *event, size_t size)
{
    const Table *table = size < HEADER_SIZE + 6 ? NULL : find_table(self, table_id(event + HEADER_SIZE));
    return table != NULL && table->size == size - HEADER_SIZE - 6 &&
           !memcmp(table->shape, event + HEADER_SIZE + 6, table->size);
}

static int take_commit(EventBuffer *self, const Rules *rules, const Header *header)
{
    if (self->run_count >= MAX_RUNS)
        return NOT_ORDINARY;
    move(self, header);
    end_transaction(self, header->timestamp);
    return is_full(self, rules) ? CLOSE : STOPPED;
}

/* One complete event, without checksum. */
static int take(EventBuffer *self, const Rules *rules, const unsigned char *event, size_t size)
{
    const Header header = {
        .timestamp = get32(event), .size = get32(event + 9), .log_pos = get32(event + 13), .kind = event[4]};
    if (event[17] & FLAG_ARTIFICIAL)
        return NOT_ORDINARY;
    if (is_rows(header.kind))
        return take_rows(self, rules, &header, event, size);
    switch (header.kind) {
    case TABLE_MAP_EVENT:
        if (!is_known_table(self, event, size))
            return NOT_ORDINARY;
        self->inside = 1;
        break;
    case GTID_EVENT:
    case ANONYMOUS_GTID_EVENT:
    case MARIADB_GTID_EVENT:
        return take_gtid(self, &header, event, size);
    case QUERY_EVENT:
        if (ends_with(event, size, "\0COMMIT", 7))
            return take_commit(self, rules, &header);
        if (!ends_with(event, size, "\0BEGIN", 6))
            return NOT_ORDINARY;
        self->inside = 1;
        self->standalone = 0;
        break;
    case XID_EVENT:
        return take_commit(self, rules, &header);
    case ROWS_QUERY_EVENT:
    case MARIADB_ANNOTATE_ROWS_EVENT:
        if (!self->inside)
            return NOT_ORDINARY;
        break;
    default:
        return NOT_ORDINARY;
    }
    move(self, &header);
    return STOPPED;
}

/* The size of the event at `pos`; 0 for one that is incomplete, damaged, a piece of one, or begins a file. */
static uint32_t whole_event(const Rules *rules, const unsigned char *bytes, size_t stop, size_t pos)
{
    size_t lead = rules->packets ? 5 : 0;
    const unsigned char *at = bytes + pos, *event = at + lead;
    uint32_t size;
    if (stop - pos < lead + HEADER_SIZE)
        return 0;
    size = get32(event + 9);
    if (size < HEADER_SIZE + CHECKSUM_SIZE || size > stop - pos - lead || event[4] == ROTATE_EVENT ||
        event[4] == FORMAT_DESCRIPTION_EVENT)
        return 0;
    /* The packet is one byte longer than its event, unless it is the first piece of a big one. */
    if (rules->packets && (size >= 0xFFFFFE || (get32(at) & 0xFFFFFF) != size + 1 || at[4]))
        return 0;
    return rules->checksummed && crc32_long(0, event, size) != CRC_RESIDUE ? 0 : size;
}

static int is_passed(const unsigned char *event, size_t size)
{
    unsigned kind = event[4];
    if (kind == QUERY_EVENT)
        return ends_with(event, size, "\0COMMIT", 7) || ends_with(event, size, "\0BEGIN", 6);
    return is_rows(kind) || kind == TABLE_MAP_EVENT || kind == XID_EVENT || kind == GTID_EVENT ||
           kind == ANONYMOUS_GTID_EVENT || kind == MARIADB_GTID_EVENT || kind == ROWS_QUERY_EVENT ||
           kind == MARIADB_ANNOTATE_ROWS_EVENT;
}

void pass_rows(const Rules *rules, const unsigned char *bytes, size_t stop, size_t *pos, uint64_t *offset)
{
    size_t lead = rules->packets ? 5 : 0;
    uint32_t size;
    while ((size = whole_event(rules, bytes, stop, *pos)) != 0) {
        const unsigned char *event = bytes + *pos + lead;
        if (event[17] & FLAG_ARTIFICIAL || !is_passed(event, rules->checksummed ? size - CHECKSUM_SIZE : size))
            return;
        *offset = end_behind(*offset, get32(event + 13), size);
        *pos += lead + size;
    }
}

/* The length of the names in a TABLE_MAP: schema and table, each after its length and before a zero byte. 0 if they are
 * torn. */
static size_t names_size(const unsigned char *names, size_t stop)
{
    size_t size = 0;
    for (int part = 0; part < 2; part++) {
        if (size >= stop)
            return 0;
        size += (size_t)names[size] + 2;
    }
    return size <= stop ? size : 0;
}

static int is_among(const TableNames *known, const unsigned char *names, size_t size)
{
    /* Lengths are not zero and names have no zero byte, so two of them are only before a name. */
    unsigned char wanted[2 * 256 + 4] = {0};
    memcpy(wanted + 2, names, size);
    return known->size && memmem(known->names, known->size, wanted, size + 2) != NULL;
}

/* Notes where a transaction begins or ends. */
static void note_transaction(Passed *passed, const unsigned char *event, size_t size)
{
    unsigned kind = event[4];
    if (kind == TABLE_MAP_EVENT)
        passed->inside = 1;
    else if (kind == MARIADB_GTID_EVENT) {
        passed->own = 0;
        passed->inside = size > HEADER_SIZE + 12 && !(event[HEADER_SIZE + 12] & 1);
    } else if (kind == GTID_EVENT || kind == ANONYMOUS_GTID_EVENT)
        passed->own = passed->inside = 0;
    else if (kind == XID_EVENT || (kind == QUERY_EVENT && ends_with(event, size, "\0COMMIT", 7))) {
        passed->own = passed->inside = 0;
        passed->boundary = passed->offset;
    } else if (kind == QUERY_EVENT) { /* BEGIN */
        passed->own = 0;
        passed->inside = 1;
    }
}

void pass_known(const Rules *rules, const TableNames *own, const TableNames *others, const unsigned char *bytes,
                size_t stop, size_t *pos, Passed *passed)
{
    enum { NAMES = HEADER_SIZE + 8 };
    size_t lead = rules->packets ? 5 : 0;
    uint32_t whole;
    while ((whole = whole_event(rules, bytes, stop, *pos)) != 0) {
        const unsigned char *event = bytes + *pos + lead;
        size_t size = rules->checksummed ? whole - CHECKSUM_SIZE : whole;
        if (event[17] & FLAG_ARTIFICIAL || !is_passed(event, size))
            return;
        if (event[4] == TABLE_MAP_EVENT && !passed->own) {
            size_t length = size > NAMES ? names_size(event + NAMES, size - NAMES) : 0;
            if (!length)
                return;
            if (is_among(own, event + NAMES, length))
                passed->own = 1;
            else if (!is_among(others, event + NAMES, length))
                return;
        }
        passed->offset = end_behind(passed->offset, get32(event + 13), whole);
        note_transaction(passed, event, size);
        *pos += lead + whole;
    }
}

int scan(EventBuffer *self, const Rules *rules, const unsigned char *bytes, size_t stop, size_t *pos)
{
    size_t lead = rules->packets ? 5 : 0;
    uint32_t size;
    while ((size = whole_event(rules, bytes, stop, *pos)) != 0) {
        const unsigned char *event = bytes + *pos + lead;
        int done = take(self, rules, event, rules->checksummed ? size - CHECKSUM_SIZE : size);
        if (done < 0)
            return -1;
        if (done == NOT_ORDINARY)
            break;
        *pos += lead + size;
        if (done != STOPPED)
            return done;
    }
    return STOPPED;
}
