/* A small map from 64-bit keys to numbers. */
#ifndef DM_MAP_H
#define DM_MAP_H

#include <Python.h>

#include <stdint.h>

/* Open addressing; the caller stores the objects that the numbers refer to. */
typedef struct {
    uint64_t *keys;
    uint32_t *values; /* number + 1, 0 for a free slot */
    size_t mask, used;
} Map;

static inline uint64_t mix(uint64_t value)
{
    value *= 0x9E3779B97F4A7C15u;
    return value ^ (value >> 32);
}

/* Frees the memory. */
void map_free(Map *map);

/* The number of ``key``; a new key gets ``number``. -1 with an exception. */
int64_t map_number(Map *map, uint64_t key, uint32_t number);

/* The number of ``key``, -1 if there is none. */
static inline int64_t map_find(const Map *map, uint64_t key)
{
    if (map->keys == NULL)
        return -1;
    for (size_t at = mix(key) & map->mask; map->values[at]; at = (at + 1) & map->mask)
        if (map->keys[at] == key)
            return map->values[at] - 1;
    return -1;
}

#endif
