/* A growing buffer. */
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

/* Reserves ``extra`` more bytes. Needs no GIL and sets no exception. */
int buffer_extend(Buffer *buffer, size_t extra);

void buffer_free(Buffer *buffer);

/* Reserves ``extra`` more bytes. */
static inline int buffer_reserve(Buffer *buffer, size_t extra)
{
    if (extra <= buffer->room - buffer->size || buffer_extend(buffer, extra) == 0)
        return 0;
    PyErr_NoMemory();
    return -1;
}

/* For callers that have reserved the bytes. */
static inline void put(Buffer *buffer, const void *data, size_t size)
{
    if (size == 0)
        return; /* there may be no memory yet */
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
