/* Row images: the type Readers, which steps over them by a table's column program. */
#ifndef DM_IMAGES_H
#define DM_IMAGES_H

#include "literals.h"

/* A literal beyond the columns: the constant ``text``, or what becomes of the literal of column ``source``. */
typedef struct {
    Py_ssize_t source; /* -1 for a constant */
    uint64_t base, limit;
    PyObject *text, *change;
} Derived;

typedef struct {
    PyObject_HEAD
    Py_ssize_t count, bitmap;
    Column *columns;
    Py_ssize_t derived_count;
    Derived *derived;
    Py_ssize_t key_count, write_count;
    uint32_t *key, *write;
} Readers;

static int torn(void)
{
    PyErr_SetString(PyExc_ValueError, "a row image ends beyond its event");
    return -1;
}

/* Finds the values of one image. ``values`` has room for every column; ``*at`` moves behind the image. */
static int read_image(const Readers *self, const uint8_t **at, const uint8_t *end, Value *values)
{
    const uint8_t *nulls = *at, *p = *at;
    if (end - p < self->bitmap)
        return torn();
    p += self->bitmap;
    for (Py_ssize_t i = 0; i < self->count; i++) {
        const Column *column = &self->columns[i];
        if (column->nullable && nulls[i >> 3] >> (i & 7) & 1) {
            values[i].data = NULL;
            values[i].size = 0;
            continue;
        }
        size_t size = column->size;
        if (column->prefix) {
            if (end - p < column->prefix)
                return torn();
            size = little_endian(p, column->prefix);
            p += column->prefix;
        }
        if ((size_t)(end - p) < size)
            return torn();
        values[i].data = p;
        values[i].size = size;
        p += size;
    }
    if (p == nulls) {
        PyErr_SetString(PyExc_ValueError, "a row image without columns");
        return -1;
    }
    *at = p;
    return 0;
}

/* A literal that stands behind ``from`` as a plain number below the limit becomes base | number; 0 for another one. */
static int add_base(const Derived *derived, Buffer *out, size_t from)
{
    size_t size = out->size - from;
    uint64_t value = 0;
    /* More digits than 18 may not fit. */
    if (size == 0 || size > 18)
        return 0;
    for (const uint8_t *p = out->data + from; p < out->data + out->size; p++) {
        if (*p < '0' || *p > '9')
            return 0;
        value = value * 10 + (uint64_t)(*p - '0');
    }
    if (value >= derived->limit)
        return 0;
    if (buffer_reserve(out, 20) < 0)
        return -1;
    out->size = (size_t)(put_uint(out->data + from, derived->base | value) - out->data);
    return 1;
}

/* Python makes another literal of the one that stands behind ``from``. */
static int change_literal(const Derived *derived, Buffer *out, size_t from)
{
    PyObject *changed = PyObject_CallFunction(derived->change, "y#", (const char *)out->data + from,
                                              (Py_ssize_t)(out->size - from));
    if (changed != NULL && !PyBytes_Check(changed)) {
        PyErr_Format(PyExc_TypeError, "a literal is bytes, not %.100s", Py_TYPE(changed)->tp_name);
        Py_CLEAR(changed);
    }
    if (changed == NULL)
        return -1;
    out->size = from;
    int done = append_bytes(out, changed);
    Py_DECREF(changed);
    return done;
}

static int append_derived(const Readers *self, const Derived *derived, const Value *values, Buffer *out)
{
    if (derived->source < 0)
        return append_bytes(out, derived->text);
    if (values[derived->source].data == NULL)
        return append(out, "NULL", 4);
    size_t from = out->size;
    if (append_literal(&self->columns[derived->source], &values[derived->source], out) < 0)
        return -1;
    int added = add_base(derived, out, from);
    return added ? (added < 0 ? -1 : 0) : change_literal(derived, out, from);
}

static inline int append_value(const Readers *self, uint32_t i, const Value *values, Buffer *out)
{
    if ((Py_ssize_t)i >= self->count)
        return append_derived(self, &self->derived[i - self->count], values, out);
    if (values[i].data == NULL)
        return append(out, "NULL", 4);
    return append_literal(&self->columns[i], &values[i], out);
}

/* The literals of the key columns, joined by commas. */
static int append_key(const Readers *self, const Value *values, Buffer *out)
{
    for (Py_ssize_t n = 0; n < self->key_count; n++)
        if ((n && append(out, ",", 1) < 0) || append_value(self, self->key[n], values, out) < 0)
            return -1;
    return 0;
}

/* ``(literal,…)`` of the columns to write. */
static int append_tuple(const Readers *self, const Value *values, Buffer *out)
{
    if (append(out, "(", 1) < 0)
        return -1;
    for (Py_ssize_t n = 0; n < self->write_count; n++)
        if ((n && append(out, ",", 1) < 0) || append_value(self, self->write[n], values, out) < 0)
            return -1;
    return append(out, ")", 1);
}

static int same_value(const Value *one, const Value *other)
{
    if (one->data == NULL || other->data == NULL)
        return one->data == other->data;
    return one->size == other->size && memcmp(one->data, other->data, one->size) == 0;
}

/* The column that literal ``i`` is made of; -1 for a constant. */
static inline Py_ssize_t column_of(const Readers *self, uint32_t i)
{
    return (Py_ssize_t)i < self->count ? (Py_ssize_t)i : self->derived[i - self->count].source;
}

static int is_null(const Readers *self, uint32_t i, const Value *values)
{
    Py_ssize_t column = column_of(self, i);
    return column >= 0 && values[column].data == NULL;
}

/* Whether literal ``i`` is made of the same bytes in two images; of others may still come equal ones. */
static int same_origin(const Readers *self, uint32_t i, const Value *one, const Value *other)
{
    Py_ssize_t column = column_of(self, i);
    return column < 0 || same_value(&one[column], &other[column]);
}

/* Whether two images have the same key bytes; others may still have equal literals. */
static int same_key(const Readers *self, const Value *one, const Value *other)
{
    for (Py_ssize_t n = 0; n < self->key_count; n++)
        if (!same_origin(self, self->key[n], one, other))
            return 0;
    return 1;
}

static Value *values_for(const Readers *self, size_t images)
{
    Value *values = PyMem_Calloc((size_t)self->count * images + 1, sizeof(Value));
    if (values == NULL)
        PyErr_NoMemory();
    return values;
}

/* -- Python's view: (data, start, end, append) → where it stopped ----------------------------------------------- */

typedef PyObject *(*MakeChange)(const Readers *, const Value *, Buffer *);

static PyObject *taken(Buffer *buffer, size_t from)
{
    return PyBytes_FromStringAndSize((const char *)buffer->data + from, (Py_ssize_t)(buffer->size - from));
}

static PyObject *key_object(const Readers *self, const Value *values, Buffer *buffer)
{
    buffer->size = 0;
    return append_key(self, values, buffer) < 0 ? NULL : taken(buffer, 0);
}

/* Steals key and old; makes (op, key, values, old). */
static PyObject *change_object(const Readers *self, long op, PyObject *key, PyObject *old, const Value *values,
                               Buffer *buffer)
{
    PyObject *text = NULL, *change = NULL;
    buffer->size = 0;
    if (key != NULL && old != NULL) {
        if (op == 2)
            text = PyBytes_FromStringAndSize(NULL, 0);
        else if (append_tuple(self, values, buffer) == 0)
            text = taken(buffer, 0);
    }
    if (text != NULL)
        change = Py_BuildValue("(lOOO)", op, key, text, old);
    Py_XDECREF(key);
    Py_XDECREF(old);
    Py_XDECREF(text);
    return change;
}

static PyObject *make_insert(const Readers *self, const Value *values, Buffer *buffer)
{
    return change_object(self, 0, key_object(self, values, buffer), PyBytes_FromStringAndSize(NULL, 0), values, buffer);
}

static PyObject *make_delete(const Readers *self, const Value *values, Buffer *buffer)
{
    return change_object(self, 2, key_object(self, values, buffer), PyBytes_FromStringAndSize(NULL, 0), values, buffer);
}

static PyObject *make_update(const Readers *self, const Value *values, Buffer *buffer)
{
    const Value *after = values + self->count;
    /* The old key comes first: of two values that can't be mapped, the error names the older one. */
    int same = same_key(self, values, after);
    PyObject *old = same ? NULL : key_object(self, values, buffer);
    if (old == NULL && !same)
        return NULL;
    PyObject *key = key_object(self, after, buffer);
    if (same)
        old = Py_XNewRef(key);
    return change_object(self, 1, key, old, after, buffer);
}

static PyObject *make_image(const Readers *self, const Value *values, Buffer *buffer)
{
    PyObject *image = PyList_New(self->count + self->derived_count);
    for (Py_ssize_t i = 0; image != NULL && i < self->count + self->derived_count; i++) {
        buffer->size = 0;
        PyObject *text = append_value(self, (uint32_t)i, values, buffer) < 0 ? NULL : taken(buffer, 0);
        if (text == NULL)
            Py_CLEAR(image);
        else
            PyList_SET_ITEM(image, i, text);
    }
    return image;
}

static PyObject *make_image_pair(const Readers *self, const Value *values, Buffer *buffer)
{
    PyObject *before = make_image(self, values, buffer);
    PyObject *after = before ? make_image(self, values + self->count, buffer) : NULL;
    PyObject *pair = after ? PyTuple_Pack(2, before, after) : NULL;
    Py_XDECREF(before);
    Py_XDECREF(after);
    return pair;
}

static int read_rows(const Readers *self, const uint8_t **p, const uint8_t *end, PyObject *call, size_t images,
                     MakeChange make)
{
    Value *values = values_for(self, images);
    Buffer buffer = {0};
    int done = values == NULL || buffer_reserve(&buffer, 1) < 0 ? -1 : 0;
    while (done == 0 && *p < end) {
        done = read_image(self, p, end, values);
        if (done == 0 && images == 2)
            done = read_image(self, p, end, values + self->count);
        PyObject *made = done == 0 ? make(self, values, &buffer) : NULL;
        PyObject *result = made ? PyObject_CallOneArg(call, made) : NULL;
        if (result == NULL)
            done = -1;
        Py_XDECREF(made);
        Py_XDECREF(result);
    }
    PyMem_Free(values);
    buffer_free(&buffer);
    return done;
}

static PyObject *read_event(PyObject *self, PyObject *const *args, Py_ssize_t count, size_t images, MakeChange make)
{
    if (count != 4 || !PyBytes_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "data as bytes, start, end and append are needed");
        return NULL;
    }
    Py_ssize_t start = PyLong_AsSsize_t(args[1]), end = PyLong_AsSsize_t(args[2]);
    if (PyErr_Occurred())
        return NULL;
    if (start < 0 || end < 0 || end > PyBytes_GET_SIZE(args[0])) {
        PyErr_SetString(PyExc_ValueError, "start and end are beyond the data");
        return NULL;
    }
    if (start >= end)
        return PyLong_FromSsize_t(start);
    const uint8_t *data = (const uint8_t *)PyBytes_AS_STRING(args[0]), *p = data + start;
    if (read_rows((Readers *)self, &p, data + end, args[3], images, make) < 0)
        return NULL;
    return PyLong_FromSsize_t(p - data);
}

#define READER(name, images)                                                                                           \
    static PyObject *readers_##name(PyObject *self, PyObject *const *args, Py_ssize_t count)                           \
    {                                                                                                                  \
        return read_event(self, args, count, images, make_##name);                                                     \
    }
READER(insert, 1)
READER(update, 2)
READER(delete, 1)
READER(image, 1)
READER(image_pair, 2)

static PyMethodDef readers_methods[] = {
    {"insert", (PyCFunction)(void (*)(void))readers_insert, METH_FASTCALL, NULL},
    {"update", (PyCFunction)(void (*)(void))readers_update, METH_FASTCALL, NULL},
    {"delete", (PyCFunction)(void (*)(void))readers_delete, METH_FASTCALL, NULL},
    {"image", (PyCFunction)(void (*)(void))readers_image, METH_FASTCALL, NULL},
    {"image_pair", (PyCFunction)(void (*)(void))readers_image_pair, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static int column_from(Column *column, PyObject *program)
{
    unsigned op, prefix, size, a, b;
    int raw, number, nullable;
    PyObject *render, *head, *tail, *text;
    if (!PyTuple_Check(program)) {
        PyErr_SetString(PyExc_TypeError, "a column program is a tuple");
        return -1;
    }
    if (!PyArg_ParseTuple(program, "IICppIIIOSSS", &op, &prefix, &raw, &number, &nullable, &size, &a, &b, &render, &head,
                          &tail, &text))
        return -1;
    column->render = Py_NewRef(render);
    column->head = Py_NewRef(head);
    column->tail = Py_NewRef(tail);
    column->text = Py_NewRef(text);
    /* What the ops read without looking. */
    static const uint8_t sizes[OP_COUNT] = {
        [OP_YEAR] = 1,          [OP_FLOAT] = 4,         [OP_DOUBLE] = 8, [OP_DATE] = 3,
        [OP_OLD_TIME] = 3,      [OP_OLD_DATETIME] = 8,  [OP_OLD_TIMESTAMP] = 4,
        [OP_WIDE_SET] = 8,
    };
    uint32_t fraction = (a + 1) / 2;
    int fits = op < OP_COUNT && prefix <= 4 && (prefix == 0 || size == 0) && size <= 0xFFFF;
    if (fits && sizes[op])
        fits = size == sizes[op];
    if (op == OP_INT || op == OP_UINT || op == OP_UINT_BE)
        fits = fits && size >= 1 && size <= 8;
    if (op == OP_TIME || op == OP_DATETIME || op == OP_TIMESTAMP)
        fits = fits && a <= 6 && size == (op == OP_TIME ? 3 : op == OP_DATETIME ? 5 : 4) + fraction;
    if (op == OP_DECIMAL) {
        static const uint8_t bytes[] = {0, 1, 1, 2, 2, 3, 3, 4, 4, 4};
        fits = fits && a >= 1 && a <= 65 && b <= a &&
               size == (a - b) / 9 * 4 + bytes[(a - b) % 9] + b / 9 * 4 + bytes[b % 9];
    }
    if (op >= OP_TEXT)
        fits = fits && prefix >= 1 && a <= 0xFFFF;
    /* What Python's render gets, for any op. */
    if (prefix == 0)
        fits = fits && (raw == 's' || (raw == 'f' && size == 4) || (raw == 'd' && size == 8) ||
                        ((raw == 'i' || raw == 'u') && size >= 1 && size <= 8));
    if (prefix)
        fits = fits && raw == 's';
    if (!fits) {
        PyErr_Format(PyExc_ValueError, "no column program: op %u, prefix %u, size %u", op, prefix, size);
        return -1;
    }
    column->op = (uint8_t)op;
    column->prefix = (uint8_t)prefix;
    column->raw = (uint8_t)raw;
    column->number = (uint8_t)number;
    column->nullable = (uint8_t)nullable;
    column->size = size;
    column->a = a;
    column->b = b;
    return 0;
}

static int derived_from(Derived *derived, PyObject *program, Py_ssize_t columns)
{
    unsigned long long base, limit;
    Py_ssize_t source;
    PyObject *text, *change;
    if (!PyTuple_Check(program)) {
        PyErr_SetString(PyExc_TypeError, "a derived literal is a tuple");
        return -1;
    }
    if (!PyArg_ParseTuple(program, "nKKSO", &source, &base, &limit, &text, &change))
        return -1;
    if (source < -1 || source >= columns) {
        PyErr_SetString(PyExc_ValueError, "a literal derived from no column");
        return -1;
    }
    derived->source = source;
    derived->base = base;
    derived->limit = limit;
    derived->text = Py_NewRef(text);
    derived->change = Py_NewRef(change);
    return 0;
}

/* Column numbers from a tuple. */
static uint32_t *indexes_from(PyObject *tuple, Py_ssize_t columns)
{
    Py_ssize_t count = PyTuple_GET_SIZE(tuple);
    uint32_t *found = PyMem_Calloc((size_t)count + 1, sizeof(uint32_t));
    if (found == NULL)
        return (uint32_t *)PyErr_NoMemory();
    for (Py_ssize_t n = 0; n < count; n++) {
        Py_ssize_t i = PyLong_AsSsize_t(PyTuple_GET_ITEM(tuple, n));
        if (i < 0 || i >= columns) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "no such column");
            PyMem_Free(found);
            return NULL;
        }
        found[n] = (uint32_t)i;
    }
    return found;
}

static void readers_free(PyObject *object)
{
    Readers *self = (Readers *)object;
    for (Py_ssize_t i = 0; self->columns != NULL && i < self->count; i++) {
        Py_XDECREF(self->columns[i].render);
        Py_XDECREF(self->columns[i].head);
        Py_XDECREF(self->columns[i].tail);
        Py_XDECREF(self->columns[i].text);
    }
    for (Py_ssize_t i = 0; self->derived != NULL && i < self->derived_count; i++) {
        Py_XDECREF(self->derived[i].text);
        Py_XDECREF(self->derived[i].change);
    }
    PyMem_Free(self->columns);
    PyMem_Free(self->derived);
    PyMem_Free(self->key);
    PyMem_Free(self->write);
    Py_TYPE(object)->tp_free(object);
}

static PyObject *readers_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(keywords))
{
    PyObject *programs, *key, *write, *derived = NULL;
    if (!PyArg_ParseTuple(args, "O!O!O!|O!", &PyTuple_Type, &programs, &PyTuple_Type, &key, &PyTuple_Type, &write,
                          &PyTuple_Type, &derived))
        return NULL;
    Readers *self = (Readers *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->count = PyTuple_GET_SIZE(programs);
    self->bitmap = (self->count + 7) / 8;
    self->key_count = PyTuple_GET_SIZE(key);
    self->write_count = PyTuple_GET_SIZE(write);
    self->derived_count = derived ? PyTuple_GET_SIZE(derived) : 0;
    Py_ssize_t literals = self->count + self->derived_count;
    self->columns = PyMem_Calloc((size_t)self->count + 1, sizeof(Column));
    self->derived = PyMem_Calloc((size_t)self->derived_count + 1, sizeof(Derived));
    self->key = self->columns && self->derived ? indexes_from(key, literals) : (uint32_t *)PyErr_NoMemory();
    self->write = self->key ? indexes_from(write, literals) : NULL;
    int done = self->write ? 0 : -1;
    for (Py_ssize_t i = 0; done == 0 && i < self->derived_count; i++)
        done = derived_from(&self->derived[i], PyTuple_GET_ITEM(derived, i), self->count);
    for (Py_ssize_t i = 0; done == 0 && i < self->count; i++)
        done = column_from(&self->columns[i], PyTuple_GET_ITEM(programs, i));
    if (done < 0)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static PyTypeObject readers_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "pkg.native._rows.Readers",
    .tp_basicsize = sizeof(Readers),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "The readers of one table shape: Readers(programs, key, write, derived=()), see pkg.binlog.programs.",
    .tp_new = readers_new,
    .tp_dealloc = readers_free,
    .tp_methods = readers_methods,
};

#endif
