/* Consecutive GTIDs of one source in the event stream. */
#ifndef DM_GTID_RUN_H
#define DM_GTID_RUN_H

#include <stdint.h>
#include <string.h>

#include "binlog_format.h"
#include "bytes.h"

/* A MySQL UUID has 16 bytes; a tag after it has up to 32. */
enum { LONGEST_SOURCE = 16 + 32 };

/* source: a MySQL UUID and tag, or a MariaDB domain and server (4 bytes each). size 0: no GTID. */
typedef struct {
    unsigned char source[LONGEST_SOURCE];
    size_t size;
    uint64_t first, last;
} GtidRun;

/* The minimum size of a GTID_EVENT. */
enum { MYSQL_GTID_SIZE = HEADER_SIZE + 25, MARIADB_GTID_SIZE = HEADER_SIZE + 13 };

/* The GTID of a complete GTID_EVENT. */
static inline void read_mysql_gtid(GtidRun *gtid, const unsigned char *event)
{
    memcpy(gtid->source, event + HEADER_SIZE + 1, 16);
    gtid->size = 16;
    gtid->first = gtid->last = get64(event + HEADER_SIZE + 17);
}

/* The GTID of a complete MARIADB_GTID_EVENT. */
static inline void read_mariadb_gtid(GtidRun *gtid, const unsigned char *event)
{
    memcpy(gtid->source, event + HEADER_SIZE + 8, 4);
    memcpy(gtid->source + 4, event + 5, 4);
    gtid->size = 8;
    gtid->first = gtid->last = get64(event + HEADER_SIZE);
}

#endif
