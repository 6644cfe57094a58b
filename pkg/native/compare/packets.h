/* The rows of one result set. */
#ifndef DM_PACKETS_H
#define DM_PACKETS_H

#include "unpaired.h"

typedef struct {
    PyObject_HEAD
    Unpaired *table;
    int source;
    Py_ssize_t width;
    Buffer hold;   /* bytes of a row that is not complete */
    Buffer joined; /* a row of several packets */
    Buffer error;  /* the server's error packet */
    long long rows;
    int done, broken;
} ResultRows;

/* Takes bytes of the socket, which may be cut anywhere. */
int result_take(ResultRows *self, const unsigned char *p, size_t size);

#endif
