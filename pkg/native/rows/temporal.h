/* Dates and times. */
#ifndef DM_TEMPORAL_H
#define DM_TEMPORAL_H

#include "literals.h"

static inline int64_t sign_extended(uint64_t value, size_t size)
{
    unsigned shift = 64 - 8 * (unsigned)size;
    return (int64_t)(value << shift) >> shift;
}

/* The value in quotes; NULL for bytes that no server writes. */
unsigned char *put_temporal(unsigned char *out, const Column *column, const Value *value);

#endif
