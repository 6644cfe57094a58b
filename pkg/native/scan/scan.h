/* The fast way through ordinary events. */
#ifndef DM_SCAN_H
#define DM_SCAN_H

#include "event_buffer.h"

/* Why a scan ended; Python knows all but the last by these numbers. NOT_ORDINARY: one event was not taken. */
enum { STOPPED, CUT, CLOSE, NOT_ORDINARY };

typedef struct {
    int packets, checksummed;
    size_t batch_bytes, batch_events;
} Rules;

/* Takes events from `*pos` on and moves `*pos` behind the last one taken. Returns why it ended; -1 without memory. */
int scan(EventBuffer *self, const Rules *rules, const unsigned char *bytes, size_t stop, size_t *pos);

/* Passes over whole events of rows, and those that begin and end transactions, from `*pos` on: statements and all else stop it. Moves `*pos`
 * behind the last one, and `*offset` to where that ends in its file. */
void pass_rows(const Rules *rules, const unsigned char *bytes, size_t stop, size_t *pos, uint64_t *offset);

#endif
