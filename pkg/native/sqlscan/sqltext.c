/* Strings, comments and names in SQL text: finds their ends. */
#include "sqltext.h"

const unsigned char special[256] = {
    ['\''] = 1, ['"'] = 1, ['`'] = 1, [';'] = 1, ['/'] = 1, ['#'] = 1, ['-'] = 1,
};

const unsigned char *find_plain_end(const unsigned char *p, const unsigned char *end, unsigned char quote)
{
    const unsigned char *stop = memchr(p, quote, (size_t)(end - p));
    if (stop == NULL || (stop + 1 < end && stop[1] == quote) || memchr(p, '\\', (size_t)(stop - p)) != NULL)
        return NULL;
    return stop;
}

Py_ssize_t skip_string(const unsigned char *p, Py_ssize_t i, Py_ssize_t size, unsigned char quote)
{
    const unsigned char *plain = i < size ? find_plain_end(p + i, p + size, quote) : NULL;
    if (plain != NULL)
        return plain - p + 1;
    while (i < size) {
        Py_ssize_t stop = size - i >= BLOCK ? i + BLOCK : size;
        if (stop - i == BLOCK && !has_stop(p + i, quote)) {
            i = stop;
            continue;
        }
        while (i < stop && p[i] != '\\' && p[i] != quote)
            i++;
        if (i == stop)
            continue;
        if (p[i] == '\\' || (i + 1 < size && p[i + 1] == quote))
            i += 2;
        else
            return i + 1;
    }
    return OPEN;
}

static Py_ssize_t skip_past(const unsigned char *p, Py_ssize_t i, Py_ssize_t size, unsigned char last)
{
    if (i >= size)
        return OPEN;
    const unsigned char *found = memchr(p + i, last, (size_t)(size - i));
    return found == NULL ? OPEN : found - p + 1;
}

static Py_ssize_t skip_comment(const unsigned char *p, Py_ssize_t i, Py_ssize_t size)
{
    while ((i = skip_past(p, i, size, '*')) != OPEN)
        if (i < size && p[i] == '/')
            return i + 1;
    return OPEN;
}

static int ends_dashes(unsigned char byte)
{
    return byte == 0 || byte == ' ' || (byte >= '\t' && byte <= '\r');
}

Py_ssize_t skip(const unsigned char *p, Py_ssize_t i, Py_ssize_t size)
{
    unsigned char first = p[i];
    if (first == '\'' || first == '"')
        return skip_string(p, i + 1, size, first);
    if (first == '`')
        return skip_past(p, i + 1, size, '`');
    if (first == '#')
        return skip_past(p, i + 1, size, '\n');
    if (i + 1 >= size)
        return OPEN;
    if (first == '/')
        return p[i + 1] == '*' ? skip_comment(p, i + 2, size) : i + 1;
    if (p[i + 1] != '-')
        return i + 1;
    if (i + 2 >= size)
        return OPEN;
    return ends_dashes(p[i + 2]) ? skip_past(p, i + 2, size, '\n') : i + 2;
}
