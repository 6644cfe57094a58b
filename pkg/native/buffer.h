/* Growing memory, and a small map from 64-bit keys. Sizes are checked; failures set MemoryError and return -1. */
#ifndef DM_BUFFER_H
#define DM_BUFFER_H

#include <Python.h>
#include <stdint.h>

typedef struct {
    unsigned char *data;
    size_t size, room;
} Buffer;

static int buffer_grow(Buffer *buffer, size_t extra)
{
    size_t wanted = buffer->size + extra;
    if (wanted < buffer->size || wanted > PY_SSIZE_T_MAX / 2) {
        PyErr_NoMemory();
        return -1;
    }
    size_t room = buffer->room ? buffer->room : 1024;
    while (room < wanted)
        room *= 2;
    unsigned char *data = PyMem_Realloc(buffer->data, room);
    if (data == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    buffer->data = data;
    buffer->room = room;
    return 0;
}

/* Makes room for ``extra`` more bytes. */
static inline int buffer_reserve(Buffer *buffer, size_t extra)
{
    return extra <= buffer->room - buffer->size ? 0 : buffer_grow(buffer, extra);
}

/* Open addressing; the caller keeps what the values are numbers of. */
typedef struct {
    uint64_t *keys;
    uint32_t *values; /* number + 1, 0 for a free place */
    size_t mask, used;
} Map;

static inline uint64_t mix(uint64_t value)
{
    value *= 0x9E3779B97F4A7C15u;
    return value ^ (value >> 32);
}

static void map_free(Map *map)
{
    PyMem_Free(map->keys);
    PyMem_Free(map->values);
}

static int map_resize(Map *map, size_t places)
{
    Map bigger = {PyMem_Calloc(places, sizeof(uint64_t)), PyMem_Calloc(places, sizeof(uint32_t)), places - 1, map->used};
    if (bigger.keys == NULL || bigger.values == NULL) {
        map_free(&bigger);
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; map->keys != NULL && i <= map->mask; i++) {
        if (map->values[i] == 0)
            continue;
        size_t at = mix(map->keys[i]) & bigger.mask;
        while (bigger.values[at])
            at = (at + 1) & bigger.mask;
        bigger.keys[at] = map->keys[i];
        bigger.values[at] = map->values[i];
    }
    map_free(map);
    *map = bigger;
    return 0;
}

/* The number of ``key``: the one that it has, else ``number``, which it then gets. -1 without memory. */
static int64_t map_number(Map *map, uint64_t key, uint32_t number)
{
    if ((map->keys == NULL || map->used * 2 > map->mask) && map_resize(map, map->keys ? (map->mask + 1) * 2 : 16) < 0)
        return -1;
    size_t at = mix(key) & map->mask;
    while (map->values[at]) {
        if (map->keys[at] == key)
            return map->values[at] - 1;
        at = (at + 1) & map->mask;
    }
    map->keys[at] = key;
    map->values[at] = number + 1;
    map->used++;
    return number;
}

/* The number of ``key``, -1 when it has none. */
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
