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

/* Names of tables as TABLE_MAP has them, two zero bytes before each. */
typedef struct {
    const unsigned char *names;
    size_t size;
} TableNames;

/* `offset`: the end of the last event in the file, `boundary` that of the last whole transaction. `own`: the current
 * transaction changes a table that only this program writes; `inside`: a COMMIT will end it, not its only statement. */
typedef struct {
    uint64_t offset, boundary;
    int own, inside;
} Passed;

/* As pass_rows(), but stops before a TABLE_MAP of a table that is in neither list, outside of own transactions. */
void pass_known(const Rules *rules, const TableNames *own, const TableNames *others, const unsigned char *bytes,
                size_t stop, size_t *pos, Passed *passed);

#endif
