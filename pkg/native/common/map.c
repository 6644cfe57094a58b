/* A small map from 64-bit keys to numbers. */
#include "map.h"

void map_free(Map *map)
{
    PyMem_Free(map->keys);
    PyMem_Free(map->values);
}

static int map_resize(Map *map, size_t slots)
{
    if (slots > UINT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "too many rows in one slice");
        return -1;
    }
    Map bigger = {PyMem_Calloc(slots, sizeof(uint64_t)), PyMem_Calloc(slots, sizeof(uint32_t)), slots - 1, map->used};
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

int64_t map_number(Map *map, uint64_t key, uint32_t number)
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
