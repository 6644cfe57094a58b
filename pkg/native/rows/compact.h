/* Compaction: the last image of every key, as dm_worker/syncer/execution/compaction.py folds it. */
#ifndef DM_COMPACT_H
#define DM_COMPACT_H

#include <Python.h>

#include <stdint.h>

enum { INSERT, UPDATE, DELETE };

enum { INSERTED, UPDATED, DELETED, REPLACED, GONE, STATE_COUNT };

/* Added to a state when the key's changes came from several upstream tables. */
enum { MIXED = 8 };

/* Added to a state when the row is in a conflict set. */
enum { JOINED = 16 };

/* Both. */
enum { MARKS = 24 };

/* The owner of a changed row, compared with the change before: the same upstream table, another one, or unknown. */
enum { SAME_SOURCE, OTHER_SOURCE, SOME_SOURCE };

/* A later state as the changes that lead to it; -1 ends them. */
extern const int8_t fold_replay[STATE_COUNT][2];

/* Where bytes are: in memory that stays, or, with ``base``, from the start of an arena that may move. */
typedef struct {
    size_t at;
    uint32_t size;
} Span;

static inline const unsigned char *span_of(const unsigned char *base, Span span)
{
    return (const unsigned char *)((uintptr_t)base + span.at);
}

/* The state of a key. */
typedef struct {
    uint32_t hash, target, plan, more; /* more: the caller's data of an entry */
    Span key, values;
    uint8_t state;
} Entry;

/* All keys, by open addressing. */
typedef struct {
    Entry *entries;
    size_t count, room;
    uint32_t *slots; /* entry number + 1, 0 for a free slot */
    size_t mask;
    const int8_t *table;
} States;

/* ``safe``: by the rules of safe mode. */
int states_start(States *states, int safe);

void states_free(States *states);

/* A hash for the table only; it does not affect placement. */
uint32_t hash_of(const unsigned char *key, size_t size, uint32_t target);

/* The slot of a key: that of its entry, or the free one for a new entry. */
size_t states_slot(const States *states, const unsigned char *base, uint32_t hash, uint32_t target, Span key);

/* A new entry at a free slot; NULL with an exception. */
Entry *states_add(States *states, size_t slot, uint32_t hash, uint32_t target, Span key);

/* Applies one more change to a key with a state; raises Impossible for one that no upstream can have made. */
int entry_step(const States *states, Entry *entry, const unsigned char *base, int op, uint32_t plan, int source,
               Span values);

#endif
