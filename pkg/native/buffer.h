/* Growing memory. Sizes are checked; -1 stands for a failure, with MemoryError set unless something else is said. */
#ifndef DM_BUFFER_H
#define DM_BUFFER_H

#include <Python.h>
#include <stdint.h>
#include <string.h>

#include "bytes.h"

typedef struct {
    unsigned char *data;
    size_t size, room;
} Buffer;

/* Makes room for ``extra`` more bytes; -1 without memory. Sets no exception and needs no GIL. */
static int buffer_extend(Buffer *buffer, size_t extra)
{
    size_t wanted = buffer->size + extra, room = buffer->room ? buffer->room : 1024;
    if (extra <= buffer->room - buffer->size)
        return 0;
    if (wanted < extra || wanted > PY_SSIZE_T_MAX / 2)
        return -1;
    while (room < wanted)
        room *= 2;
    unsigned char *data = PyMem_RawRealloc(buffer->data, room);
    if (data == NULL)
        return -1;
    buffer->data = data;
    buffer->room = room;
    return 0;
}

static void buffer_free(Buffer *buffer)
{
    PyMem_RawFree(buffer->data);
    *buffer = (Buffer){0};
}

/* Makes room for ``extra`` more bytes. */
static inline int buffer_reserve(Buffer *buffer, size_t extra)
{
    if (extra <= buffer->room - buffer->size || buffer_extend(buffer, extra) == 0)
        return 0;
    PyErr_NoMemory();
    return -1;
}

/* For callers that have made room. */
static inline void put(Buffer *buffer, const void *data, size_t size)
{
    if (size == 0)
        return; /* there may be no memory at all yet */
    memcpy(buffer->data + buffer->size, data, size);
    buffer->size += size;
}

static inline int append(Buffer *buffer, const void *data, size_t size)
{
    if (size == 0)
        return 0;
    if (buffer_reserve(buffer, size) < 0)
        return -1;
    put(buffer, data, size);
    return 0;
}

#endif
