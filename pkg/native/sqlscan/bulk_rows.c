/* The tuples of an INSERT as the values of a MariaDB bulk execution, as dm_worker/loader/bulk_rows.py sends them. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

#include "module.h"
#include "sqltext.h"

/* The forms of literals; pkg/mysql/bulk_types.py has the same numbers (tests/unit/pkg/native/test_shared_numbers.py).
 */
enum {
    NO_FORM,
    IS_NULL = 1,
    INTEGER = 2,
    FOUR_DIGITS = 4,
    FRACTION = 8,
    EXPONENT = 16,
    STRING = 32,
    BINARY = 64,
    EMPTY = 128
};

/* Maximum digits of a number; DECIMAL(65,30) has them. With more digits, an SQL literal is rounded, text is not. */
#define MOST_DIGITS 65

#define MOST_DECIMALS 30
#define MOST_NUMBER 200

/* The meaning of a backslash with this byte, 0 for those that dump tools do not write; NUL is ESCAPED_NUL. */
#define ESCAPED_NUL 256
static const unsigned short escaped[256] = {
    ['0'] = ESCAPED_NUL, ['b'] = '\b',  ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t',
    ['Z'] = 26,          ['\\'] = '\\', ['\''] = '\'', ['"'] = '"',
};

typedef struct {
    const unsigned char *at, *end;
    unsigned char *out; /* has memory for the rest of the text, see ROOM */
} Values;

/* The maximum growth: one digit and its comma become an indicator, a length and the digit. Copies write whole
 * blocks. */
#define ROOM(size) ((size) + (size) / 2 + 2 * BLOCK)

static void skip_blanks(Values *v)
{
    v->at += skip_blanks_at(v->at, 0, v->end - v->at);
}

/* Writes the indicator "a value" and its length. The length has the form for `most`, which is not less. */
static unsigned char *put_size(unsigned char *out, size_t size, size_t most)
{
    int bytes = most < 251 ? 0 : most < 1 << 16 ? 2 : most < 1 << 24 ? 3 : 8;
    *out++ = 0;
    if (bytes == 0)
        *out++ = (unsigned char)size;
    else {
        *out++ = bytes == 2 ? 0xfc : bytes == 3 ? 0xfd : 0xfe;
        for (int i = 0; i < bytes; i++)
            *out++ = (unsigned char)((unsigned long long)size >> 8 * i);
    }
    return out;
}

static int put_number(Values *v)
{
    const unsigned char *start = v->at, *p = start, *end = v->end;
    int negative = p < end && *p == '-', nonzero = 0, digits = 0, decimals = 0, form = INTEGER;
    for (p += negative; p < end && is_digit(*p) && digits <= MOST_DIGITS; p++, digits++)
        nonzero |= *p != '0';
    if (!digits)
        return NO_FORM;
    if (p < end && *p == '.') {
        form = FRACTION;
        for (p++; p < end && is_digit(*p) && decimals <= MOST_DECIMALS; p++, decimals++)
            nonzero |= *p != '0';
        if (!decimals)
            return NO_FORM;
    }
    if (digits + decimals > MOST_DIGITS || decimals > MOST_DECIMALS)
        return NO_FORM;
    if (p < end && (*p == 'e' || *p == 'E')) {
        form = EXPONENT;
        p++;
        p += p < end && (*p == '-' || *p == '+');
        const unsigned char *first = p;
        while (p < end && is_digit(*p))
            p++;
        if (p == first || p - start > MOST_NUMBER)
            return NO_FORM;
    } else if (negative && !nonzero)
        return NO_FORM; /* -0 is 0 in SQL, but a negative zero as text */
    else if (form == INTEGER && digits == 4 && !negative)
        form = FOUR_DIGITS;
    size_t size = (size_t)(p - start);
    v->out = put_size(v->out, size, size);
    memcpy(v->out, start, size);
    v->out += size;
    v->at = p;
    return form;
}

/* The text between the quotes `p - 1` and `stop`, with backslashes or doubled quotes. */
static int put_unescaped(Values *v, const unsigned char *p, const unsigned char *stop, unsigned char quote)
{
    size_t most = (size_t)(stop - p);
    unsigned char *size_at = v->out, *out = put_size(v->out, 0, most), *first = out;
    while (p < stop) {
        const unsigned char *pause = stop - p >= BLOCK ? p + BLOCK : stop;
        if (pause - p == BLOCK && !has_stop(p, quote)) {
            memcpy(out, p, BLOCK);
            p += BLOCK;
            out += BLOCK;
            continue;
        }
        while (p < pause) {
            if (*p == '\\') {
                unsigned short byte = p + 1 < stop ? escaped[p[1]] : NO_FORM;
                if (!byte)
                    return NO_FORM;
                *out++ = (unsigned char)byte;
                p += 2;
            } else {
                p += *p == quote; /* doubled */
                *out++ = *p++;
            }
        }
    }
    put_size(size_at, (size_t)(out - first), most);
    v->out = out;
    return STRING;
}

/* `at` is on the opening quote. */
static int put_string(Values *v)
{
    const unsigned char *p = v->at + 1, *end = v->end;
    unsigned char quote = *v->at;
    const unsigned char *stop = find_plain_end(p, end, quote);
    if (stop != NULL) {
        size_t size = (size_t)(stop - p);
        unsigned char *out = put_size(v->out, size, size);
        memcpy(out, p, size);
        v->out = out + size;
    } else {
        Py_ssize_t last = skip_string(p, 0, end - p, quote);
        if (last == OPEN || last > end - p)
            return NO_FORM;
        stop = p + last - 1; /* the closing quote */
        if (put_unescaped(v, p, stop, quote) == NO_FORM)
            return NO_FORM;
    }
    v->at = stop + 1;
    return stop > p ? STRING : EMPTY;
}

static int hex_digit(unsigned char byte)
{
    if (is_digit(byte))
        return byte - '0';
    byte |= 0x20;
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

/* x'…' or 0x…, of whole bytes. */
static int put_binary(Values *v)
{
    int quoted = *v->at != '0';
    const unsigned char *p = v->at + 2, *first = p, *end = v->end;
    while (p < end && hex_digit(*p) >= 0)
        p++;
    size_t size = (size_t)(p - first) / 2;
    if ((p - first) % 2 || (quoted ? p >= end || *p != '\'' : size == 0))
        return NO_FORM;
    v->out = put_size(v->out, size, size);
    for (size_t i = 0; i < size; i++)
        *v->out++ = (unsigned char)(hex_digit(first[2 * i]) << 4 | hex_digit(first[2 * i + 1]));
    v->at = p + quoted;
    return BINARY;
}

static int begins(const Values *v, const char *word)
{
    size_t size = strlen(word);
    return (size_t)(v->end - v->at) > size && memcmp(v->at, word, size) == 0;
}

/* Reads and writes the literal at `at`; returns its form, or NO_FORM for one that is left to the server's parser. */
static int put_value(Values *v)
{
    if (v->at >= v->end)
        return NO_FORM;
    if (*v->at == '\'' || *v->at == '"')
        return put_string(v);
    if (begins(v, "NULL")) {
        v->at += 4;
        *v->out++ = 1;
        return IS_NULL;
    }
    if (begins(v, "x'") || begins(v, "X'") || begins(v, "0x"))
        return put_binary(v);
    if (begins(v, "_binary ")) {
        v->at += 8;
        skip_blanks(v);
        return v->at < v->end && (*v->at == '\'' || *v->at == '"') && put_string(v) ? BINARY : NO_FORM;
    }
    return put_number(v);
}

/* One tuple with a value for each column; 0 or UNUSUAL_TEXT. */
static int put_row(Values *v, unsigned char *forms, Py_ssize_t columns)
{
    if (v->at >= v->end || *v->at++ != '(')
        return UNUSUAL_TEXT;
    for (Py_ssize_t i = 0; i < columns; i++) {
        skip_blanks(v);
        int form = put_value(v);
        if (form == NO_FORM)
            return UNUSUAL_TEXT;
        forms[i] |= (unsigned char)form;
        skip_blanks(v);
        if (v->at >= v->end || *v->at++ != (i + 1 < columns ? ',' : ')'))
            return UNUSUAL_TEXT;
    }
    skip_blanks(v);
    return 0;
}

/* The whole text as rows; 0, or UNUSUAL_TEXT when it contains anything else. */
static int put_rows(Values *v, unsigned char *forms, Py_ssize_t columns, Py_ssize_t *rows)
{
    *rows = 0;
    for (;;) {
        skip_blanks(v);
        if (put_row(v, forms, columns) == UNUSUAL_TEXT)
            return UNUSUAL_TEXT;
        ++*rows;
        if (v->at == v->end)
            return 0;
        if (*v->at++ != ',')
            return UNUSUAL_TEXT;
    }
}

PyObject *bulk_rows(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer data;
    Py_ssize_t start, columns;
    if (!PyArg_ParseTuple(args, "y*nn", &data, &start, &columns))
        return NULL;
    PyObject *forms = NULL, *body = NULL, *result = NULL;
    if (start < 0 || start > data.len || columns < 1 || data.len > PY_SSIZE_T_MAX / 2) {
        PyErr_SetString(PyExc_ValueError, "the start lies outside of the text, or there are no columns");
        goto done;
    }
    forms = PyBytes_FromStringAndSize(NULL, columns);
    body = PyBytes_FromStringAndSize(NULL, ROOM(data.len - start));
    if (forms == NULL || body == NULL)
        goto done;
    memset(PyBytes_AS_STRING(forms), 0, (size_t)columns);
    const unsigned char *p = data.buf;
    Values values = {p + start, p + data.len, (unsigned char *)PyBytes_AS_STRING(body)};
    Py_ssize_t rows;
    if (put_rows(&values, (unsigned char *)PyBytes_AS_STRING(forms), columns, &rows) == UNUSUAL_TEXT)
        result = Py_NewRef(Py_None);
    else if (_PyBytes_Resize(&body, (char *)values.out - PyBytes_AS_STRING(body)) == 0)
        result = Py_BuildValue("nOO", rows, forms, body);
done:
    Py_XDECREF(forms);
    Py_XDECREF(body);
    PyBuffer_Release(&data);
    return result;
}
