/* Strings, comments and names in SQL text: finds their ends. */
#ifndef DM_SQLTEXT_H
#define DM_SQLTEXT_H

#include <Python.h>

#include <string.h>

#define BLOCK 32

/* The end is missing. */
#define OPEN (-1)

/* Whether the byte may begin something other than plain text. */
extern const unsigned char special[256];

static inline int has_stop(const unsigned char *p, unsigned char quote)
{
    unsigned char found = 0; /* a byte, and no early exit, so that the compiler compares whole vectors of bytes */
    for (int i = 0; i < BLOCK; i++)
        found |= (p[i] == quote) | (p[i] == '\\');
    return found;
}

/* The closing quote of a string without backslashes and doubled quotes; NULL for others. `p` is after the opening quote. */
const unsigned char *find_plain_end(const unsigned char *p, const unsigned char *end, unsigned char quote);

/* `i` is after the opening quote; returns the offset after the string's end, OPEN when the end is missing. */
Py_ssize_t skip_string(const unsigned char *p, Py_ssize_t i, Py_ssize_t size, unsigned char quote);

/* Skips the token that begins with the special byte at `i`; OPEN when its end is missing. */
Py_ssize_t skip(const unsigned char *p, Py_ssize_t i, Py_ssize_t size);

static inline int is_digit(unsigned char byte)
{
    return byte >= '0' && byte <= '9';
}

static inline Py_ssize_t skip_blanks_at(const unsigned char *p, Py_ssize_t i, Py_ssize_t size)
{
    while (i < size && (p[i] == ' ' || (p[i] >= '\t' && p[i] <= '\r')))
        i++;
    return i;
}

#endif
