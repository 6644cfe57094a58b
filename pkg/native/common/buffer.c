/* A growing buffer. */
#include "buffer.h"

int buffer_extend(Buffer *buffer, size_t extra)
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

void buffer_free(Buffer *buffer)
{
    PyMem_RawFree(buffer->data);
    *buffer = (Buffer){0};
}
