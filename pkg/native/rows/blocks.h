/* The form of blocks, as dm_worker/syncer/execution/row_block.py has it. */
#ifndef DM_BLOCKS_H
#define DM_BLOCKS_H

#include <stdint.h>

/* A slice's index has a record for each event. A block is a count of changes and sections; a section is a head, and
 * states (kind 0) or rows that keep their order (kind 1), each behind a head of its own. */
enum { RECORD_SIZE = 16, BLOCK_HEADER = 4, SECTION_SIZE = 9, STATE_SIZE = 17, ROW_SIZE = 21 };
enum { SECTION_STATES = 0, SECTION_ROWS = 1 };

#endif
