/* Rows to statements: a row above the statement size is passed on piece by piece. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

#include "statements.h"

int malformed(Statements *self, const char *why)
{
    self->broken = 1;
    PyErr_Format(PyExc_ValueError, "malformed packet after row %lld: %s", self->rows, why);
    return -1;
}

int emit(Statements *self, int starts, size_t size, int ends)
{
    PyObject *text = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size + (ends ? 2 : 0));
    if (text == NULL)
        return -1;
    memcpy(PyBytes_AS_STRING(text), self->out.data, size);
    if (ends)
        memcpy(PyBytes_AS_STRING(text) + size, ";\n", 2);
    PyObject *piece = Py_BuildValue("(ON)", starts ? Py_True : Py_False, text);
    if (piece == NULL)
        return -1;
    int failed = PyList_Append(self->pieces, piece);
    Py_DECREF(piece);
    return failed;
}

int begin_statement(Statements *self)
{
    self->out.size = 0;
    self->pending = 0;
    return append(&self->out, self->head.data, self->head.size);
}

/* Ends the statement before the current row, which becomes the first row of the next statement. */
static int cut_before_row(Statements *self)
{
    if (emit(self, 1, self->row_start - 2, 1) < 0)
        return -1;
    size_t size = self->out.size - self->row_start;
    memmove(self->out.data + self->head.size, self->out.data + self->row_start, size);
    self->row_start = self->head.size;
    self->out.size = self->head.size + size;
    self->pending = 0;
    return 0;
}

int begin_row(Statements *self)
{
    if (buffer_reserve(&self->out, VALUE_EXTRA) < 0)
        return -1;
    if (self->pending)
        put(&self->out, ",\n", 2);
    self->row_start = self->out.size;
    self->in_row = 1;
    self->column = 0;
    return 0;
}

int end_row(Statements *self)
{
    if (self->in_value || self->prefix_size || self->column != self->width)
        return malformed(self, "the row ends within a value, or its columns differ from the result set's");
    if (buffer_reserve(&self->out, VALUE_EXTRA) < 0)
        return -1;
    put_byte(&self->out, ')');
    self->in_row = 0;
    self->rows++;
    if (self->leaving) {
        self->leaving = 0;
        return emit(self, 0, self->out.size, 1) < 0 ? -1 : begin_statement(self);
    }
    if (self->pending && self->out.size + 2 > self->limit && cut_before_row(self) < 0)
        return -1;
    self->pending++;
    return 0;
}

int relieve(Statements *self)
{
    if (self->pending && self->out.size + 2 > self->limit && cut_before_row(self) < 0)
        return -1;
    if (self->pending || self->out.size == 0 || (!self->leaving && self->out.size <= self->limit))
        return 0;
    if (emit(self, !self->leaving, self->out.size, 0) < 0)
        return -1;
    self->leaving = 1;
    self->out.size = 0;
    return 0;
}
