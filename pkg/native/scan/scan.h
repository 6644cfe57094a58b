/* The fast path for ordinary events. */
#ifndef DM_SCAN_H
#define DM_SCAN_H

#include "event_buffer.h"

/* Why a scan ended; Python uses all numbers except the last. NOT_ORDINARY: one event was not taken. */
enum { STOPPED, CUT, CLOSE, NOT_ORDINARY };

typedef struct {
    int packets, checksummed;
    size_t batch_bytes, batch_events;
} Rules;

/* Takes events from `*pos` on and moves `*pos` past the last one. Returns why it ended; -1 without memory. */
int scan(EventBuffer *self, const Rules *rules, const unsigned char *bytes, size_t stop, size_t *pos);

/* Skips complete events of rows, and those that begin and end transactions, from `*pos` on: statements and all
 * others stop it. Moves `*pos` past the last one, and `*offset` to its end in the file. */
void pass_rows(const Rules *rules, const unsigned char *bytes, size_t stop, size_t *pos, uint64_t *offset);

#endif
