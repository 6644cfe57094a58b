/* Where a statement of an SQL file ends: the same as the regular expression of dm_worker.loader.sqlfile. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <string.h>

#define BLOCK 32
#define OPEN (-1)

/* 1 for the bytes that may begin something other than plain text. */
static unsigned char special[256];

static inline int has_stop(const unsigned char *p, unsigned char quote)
{
    int found = 0; /* no early exit: this is to become vector instructions */
    for (int i = 0; i < BLOCK; i++)
        found |= (p[i] == quote) | (p[i] == '\\');
    return found;
}

/* `i` is behind the opening quote; where the string's text goes on behind its end, OPEN when it is not there. */
static Py_ssize_t skip_string(const unsigned char *p, Py_ssize_t i, Py_ssize_t size, unsigned char quote)
{
    while (i < size) {
        if (size - i >= BLOCK && !has_stop(p + i, quote)) {
            i += BLOCK;
            continue;
        }
        if (p[i] == '\\')
            i += 2;
        else if (p[i] != quote)
            i++;
        else if (i + 1 < size && p[i + 1] == quote)
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

/* Behind what begins with the special byte at `i`; OPEN when its end is not there. */
static Py_ssize_t skip(const unsigned char *p, Py_ssize_t i, Py_ssize_t size)
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

static PyObject *statement_end(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer data;
    Py_ssize_t i;
    if (!PyArg_ParseTuple(args, "y*n", &data, &i))
        return NULL;
    const unsigned char *p = data.buf;
    Py_ssize_t size = data.len, found = OPEN;
    if (i < 0 || i > size) {
        PyBuffer_Release(&data);
        PyErr_SetString(PyExc_ValueError, "the start lies outside of the text");
        return NULL;
    }
    while (i != OPEN && i < size) {
        if (!special[p[i]])
            i++;
        else if (p[i] == ';') {
            found = i;
            break;
        } else
            i = skip(p, i, size);
    }
    PyBuffer_Release(&data);
    return PyLong_FromSsize_t(found);
}

static PyMethodDef methods[] = {
    {"statement_end", statement_end, METH_VARARGS,
     "statement_end(text, start): the index of the semicolon that ends the statement at start, -1 without one."},
    {NULL, NULL, 0, NULL},
};

static int prepare(PyObject *Py_UNUSED(module))
{
    for (const char *byte = "'\"`;/#-"; *byte; byte++)
        special[(unsigned char)*byte] = 1;
    return 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, prepare}, {0, NULL}};

static PyModuleDef module = {
    .m_base = PyModuleDef_HEAD_INIT, .m_name = "_sqlscan", .m_size = 0, .m_methods = methods, .m_slots = slots};

PyMODINIT_FUNC PyInit__sqlscan(void)
{
    return PyModuleDef_Init(&module);
}
