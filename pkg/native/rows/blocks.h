/* The form of blocks, as in dm_worker/syncer/execution/row_block.py. */
#ifndef DM_BLOCKS_H
#define DM_BLOCKS_H

#include <stdint.h>

/* A slice's index has a record for each event. A block is a count of changes, then sections; a section is a head,
 * then states (kind 0) or rows in their order (kind 1), each after its own head. */
enum { RECORD_SIZE = 16, BLOCK_HEADER = 4, SECTION_SIZE = 9, STATE_SIZE = 17, ROW_SIZE = 21 };
enum { STATE_AT = 4 }; /* of a state's record */
enum { SECTION_STATES = 0, SECTION_ROWS = 1 };

#endif
