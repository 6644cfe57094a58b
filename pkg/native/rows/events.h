/* The rows events of a slice. */
#ifndef DM_EVENTS_H
#define DM_EVENTS_H

#include <Python.h>

#include <stdint.h>

#include "images.h"

/* The operation, and the offset of the images; 0 when the event is not an ordinary one. */
size_t ordinary_event(const Readers *readers, const uint8_t *event, size_t size, int *op);

/* What is done with an event: the number of its plan, its number in the slice, and the position after it. */
typedef int (*EventStep)(void *context, uint32_t plan, size_t order, uint64_t position, const uint8_t *event,
                         size_t size);

/* Runs ``step`` for all events of a slice. An exception in it becomes EventError(number of the event, exception). */
int each_event(PyObject *data, PyObject *index, EventStep step, void *context);

#endif
