/* The type EventBuffer for Python: the rows events of the batch that is being filled.
 *
 * dm_worker/syncer/planning/event_buffer.py has the same class in Python and documents everything. Only this one has
 * scan(), which takes events from raw bytes until one is not ordinary.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <string.h>

#include "../common/crc32.h"
#include "scan.h"

/* A scan in another thread may move the buffers. */
static int check_free(const EventBuffer *self)
{
    if (!self->busy)
        return 0;
    PyErr_SetString(PyExc_RuntimeError, "the event buffer is being filled by another thread");
    return -1;
}

static PyObject *EventBuffer_scan(EventBuffer *self, PyObject *args)
{
    Py_buffer bytes;
    Py_ssize_t pos, batch_bytes, batch_events;
    Rules rules;
    size_t at;
    int done;
    if (!PyArg_ParseTuple(args, "y*nppnn:scan", &bytes, &pos, &rules.packets, &rules.checksummed, &batch_bytes,
                          &batch_events))
        return NULL;
    if (check_free(self) == 0 && (pos < 0 || pos > bytes.len || batch_bytes < 0 || batch_events < 0))
        PyErr_SetString(PyExc_ValueError, "scan: a position or limit is out of range");
    if (PyErr_Occurred()) {
        PyBuffer_Release(&bytes);
        return NULL;
    }
    rules.batch_bytes = (size_t)batch_bytes;
    rules.batch_events = (size_t)batch_events;
    at = (size_t)pos;
    self->busy = 1;
    Py_BEGIN_ALLOW_THREADS
    done = scan(self, &rules, bytes.buf, (size_t)bytes.len, &at);
    Py_END_ALLOW_THREADS
    self->busy = 0;
    PyBuffer_Release(&bytes);
    if (done < 0)
        return PyErr_NoMemory();
    return Py_BuildValue("(ni)", (Py_ssize_t)at, done);
}

static PyObject *EventBuffer_append(EventBuffer *self, PyObject *args)
{
    unsigned int number, timestamp;
    Py_buffer event;
    int done;
    if (!PyArg_ParseTuple(args, "Iy*I:append", &number, &event, &timestamp))
        return NULL;
    if (check_free(self) == 0 && (size_t)event.len > UINT32_MAX)
        PyErr_SetString(PyExc_OverflowError, "append: an event of 4 GiB or more");
    if (PyErr_Occurred()) {
        PyBuffer_Release(&event);
        return NULL;
    }
    done = append_event(self, number, event.buf, (size_t)event.len, timestamp);
    PyBuffer_Release(&event);
    if (done < 0)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *EventBuffer_end_transaction(EventBuffer *self, PyObject *timestamp)
{
    unsigned long time = PyLong_AsUnsignedLong(timestamp);
    if (PyErr_Occurred() || check_free(self) < 0)
        return NULL;
    if (self->run_count >= MAX_RUNS + 1) {
        PyErr_SetString(PyExc_RuntimeError, "take_gtids must be called from time to time");
        return NULL;
    }
    end_transaction(self, (uint32_t)time);
    Py_RETURN_NONE;
}

static PyObject *EventBuffer_begin_gtid(EventBuffer *self, PyObject *args)
{
    Py_buffer source;
    unsigned long long number;
    if (!PyArg_ParseTuple(args, "y*K:begin_gtid", &source, &number))
        return NULL;
    if (check_free(self) == 0 && source.len != 0 && source.len != 8 && (source.len < 16 || source.len > LONGEST_SOURCE))
        PyErr_SetString(PyExc_ValueError, "begin_gtid: a source has 0, 8 or 16 to 48 bytes");
    if (PyErr_Occurred()) {
        PyBuffer_Release(&source);
        return NULL;
    }
    memcpy(self->gtid.source, source.buf, (size_t)source.len);
    self->gtid.size = (size_t)source.len;
    self->gtid.first = self->gtid.last = number;
    PyBuffer_Release(&source);
    Py_RETURN_NONE;
}

static PyObject *run_value(const GtidRun *run)
{
    return Py_BuildValue("(y#KK)", run->source, (Py_ssize_t)run->size, run->first, run->last);
}

static PyObject *EventBuffer_gtid(EventBuffer *self, void *closure)
{
    (void)closure;
    if (!self->gtid.size)
        Py_RETURN_NONE;
    return run_value(&self->gtid);
}

static PyObject *EventBuffer_take_gtids(EventBuffer *self, PyObject *none)
{
    PyObject *found;
    (void)none;
    if (check_free(self) < 0 || (found = PyList_New((Py_ssize_t)self->run_count)) == NULL)
        return NULL;
    for (size_t i = 0; i < self->run_count; i++) {
        PyObject *value = run_value(&self->runs[i]);
        if (value == NULL) {
            Py_DECREF(found);
            return NULL;
        }
        PyList_SET_ITEM(found, (Py_ssize_t)i, value);
    }
    self->run_count = 0;
    return found;
}

static int read_table_id(PyObject *bytes, uint64_t *id)
{
    if (!PyBytes_Check(bytes) || PyBytes_GET_SIZE(bytes) != 6) {
        PyErr_SetString(PyExc_ValueError, "a table id has 6 bytes");
        return -1;
    }
    *id = table_id((const unsigned char *)PyBytes_AS_STRING(bytes));
    return 0;
}

static PyObject *EventBuffer_set_table(EventBuffer *self, PyObject *args)
{
    PyObject *name;
    Py_buffer shape;
    long long number;
    uint64_t id = 0;
    Table *table;
    unsigned char *copy = NULL;
    if (!PyArg_ParseTuple(args, "Oy*L:set_table", &name, &shape, &number))
        return NULL;
    if (check_free(self) == 0 && read_table_id(name, &id) == 0) {
        copy = PyMem_RawMalloc(shape.len ? (size_t)shape.len : 1);
        if (copy == NULL || (self->table_count * 2 >= self->table_room && grow_tables(self) < 0))
            PyErr_NoMemory();
    }
    if (PyErr_Occurred()) {
        PyMem_RawFree(copy);
        PyBuffer_Release(&shape);
        return NULL;
    }
    table = table_slot(self->tables, self->table_room, id);
    self->table_count += !table->used;
    PyMem_RawFree(table->shape);
    memcpy(copy, shape.buf, (size_t)shape.len);
    *table = (Table){.id = id, .shape = copy, .size = (size_t)shape.len, .number = number, .used = 1};
    PyBuffer_Release(&shape);
    Py_RETURN_NONE;
}

static PyObject *EventBuffer_table(EventBuffer *self, PyObject *name)
{
    uint64_t id;
    Table *table;
    if (check_free(self) < 0 || read_table_id(name, &id) < 0)
        return NULL;
    table = find_table(self, id);
    if (table == NULL)
        Py_RETURN_NONE;
    return PyLong_FromLongLong(table->number);
}

static PyObject *EventBuffer_forget_tables(EventBuffer *self, PyObject *none)
{
    (void)none;
    if (check_free(self) < 0)
        return NULL;
    clear_tables(self);
    Py_RETURN_NONE;
}

/* A number of events from Python, at most as many as there are; -1 with an exception otherwise. */
static Py_ssize_t count_of(const EventBuffer *self, PyObject *value)
{
    Py_ssize_t count = PyLong_AsSsize_t(value);
    if (PyErr_Occurred() || check_free(self) < 0)
        return -1;
    if (count < 0 || (size_t)count > event_count(self)) {
        PyErr_SetString(PyExc_ValueError, "the event buffer holds fewer events");
        return -1;
    }
    return count;
}

static PyObject *EventBuffer_truncate(EventBuffer *self, PyObject *value)
{
    Py_ssize_t count = count_of(self, value);
    if (count < 0)
        return NULL;
    self->data.size = bytes_of(self, (size_t)count);
    self->index.size = (size_t)count * RECORD;
    Py_RETURN_NONE;
}

static PyObject *EventBuffer_cut(EventBuffer *self, PyObject *value)
{
    Py_ssize_t count = count_of(self, value);
    if (count < 0)
        return NULL;
    drop_front(&self->data, bytes_of(self, (size_t)count));
    drop_front(&self->index, (size_t)count * RECORD);
    self->commit_time = self->index.size ? self->newest : 0;
    self->marked = self->marked_size = self->transactions = 0;
    Py_RETURN_NONE;
}

static PyObject *EventBuffer_numbers(EventBuffer *self, PyObject *value)
{
    Py_ssize_t count = count_of(self, value);
    PyObject *found;
    int64_t last = -1;
    if (count < 0 || (found = PySet_New(NULL)) == NULL)
        return NULL;
    for (Py_ssize_t i = 0; i < count; i++) {
        uint32_t number = get32(self->index.data + RECORD * i);
        PyObject *item;
        if ((int64_t)number == last)
            continue;
        last = number;
        item = PyLong_FromUnsignedLong(number);
        if (item == NULL || PySet_Add(found, item) < 0) {
            Py_XDECREF(item);
            Py_DECREF(found);
            return NULL;
        }
        Py_DECREF(item);
    }
    return found;
}

static int add_slice(PyObject *found, const EventBuffer *self, size_t first, size_t after, size_t from, size_t to)
{
    PyObject *part = Py_BuildValue("(ny#y#)", (Py_ssize_t)first, self->data.data + from, (Py_ssize_t)(to - from),
                                   self->index.data + RECORD * first, (Py_ssize_t)(RECORD * (after - first)));
    int done = part ? PyList_Append(found, part) : -1;
    Py_XDECREF(part);
    return done;
}

static PyObject *EventBuffer_slices(EventBuffer *self, PyObject *args)
{
    PyObject *value, *edges, *found;
    Py_ssize_t count, slice_bytes, edge = 0;
    size_t first = 0, from = 0, to = 0;
    if (!PyArg_ParseTuple(args, "OnO!:slices", &value, &slice_bytes, &PyList_Type, &edges))
        return NULL;
    count = count_of(self, value);
    if (count < 0 || (found = PyList_New(0)) == NULL)
        return NULL;
    for (size_t at = 0; at < (size_t)count; at++) {
        int starts = at > first && to - from >= (size_t)slice_bytes;
        for (; edge < PyList_GET_SIZE(edges); edge++) {
            Py_ssize_t place = PyLong_AsSsize_t(PyList_GET_ITEM(edges, edge));
            if (place < 0 && PyErr_Occurred())
                goto failed;
            if (place > (Py_ssize_t)at)
                break;
            starts = at > first;
        }
        if (starts) {
            if (add_slice(found, self, first, at, from, to) < 0)
                goto failed;
            first = at;
            from = to;
        }
        to += get32(self->index.data + RECORD * at + 4);
    }
    if (count == 0 || add_slice(found, self, first, (size_t)count, from, to) == 0)
        return found;
failed:
    Py_DECREF(found);
    return NULL;
}

static PyObject *EventBuffer_count(EventBuffer *self, void *closure)
{
    (void)closure;
    return PyLong_FromSize_t(event_count(self));
}

static PyObject *EventBuffer_size(EventBuffer *self, void *closure)
{
    (void)closure;
    return PyLong_FromSize_t(self->data.size);
}

static PyObject *EventBuffer_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    EventBuffer *self;
    if (!PyArg_ParseTuple(args, ":EventBuffer") || (kwargs && PyDict_GET_SIZE(kwargs)))
        return NULL;
    self = (EventBuffer *)type->tp_alloc(type, 0);
    /* One more than a scan uses: the planner's own transaction may be added. */
    if (self != NULL && (self->runs = PyMem_RawCalloc(MAX_RUNS + 1, sizeof *self->runs)) == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    return (PyObject *)self;
}

static void EventBuffer_dealloc(EventBuffer *self)
{
    PyTypeObject *type = Py_TYPE(self);
    clear_tables(self);
    buffer_free(&self->data);
    buffer_free(&self->index);
    PyMem_RawFree(self->runs);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"scan", (PyCFunction)EventBuffer_scan, METH_VARARGS, NULL},
    {"append", (PyCFunction)EventBuffer_append, METH_VARARGS, NULL},
    {"end_transaction", (PyCFunction)EventBuffer_end_transaction, METH_O, NULL},
    {"begin_gtid", (PyCFunction)EventBuffer_begin_gtid, METH_VARARGS, NULL},
    {"take_gtids", (PyCFunction)EventBuffer_take_gtids, METH_NOARGS, NULL},
    {"set_table", (PyCFunction)EventBuffer_set_table, METH_VARARGS, NULL},
    {"table", (PyCFunction)EventBuffer_table, METH_O, NULL},
    {"forget_tables", (PyCFunction)EventBuffer_forget_tables, METH_NOARGS, NULL},
    {"truncate", (PyCFunction)EventBuffer_truncate, METH_O, NULL},
    {"cut", (PyCFunction)EventBuffer_cut, METH_O, NULL},
    {"numbers", (PyCFunction)EventBuffer_numbers, METH_O, NULL},
    {"slices", (PyCFunction)EventBuffer_slices, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

#define MEMBER(name, kind) {#name, kind, offsetof(EventBuffer, name), 0, NULL}

static PyMemberDef members[] = {
    MEMBER(offset, T_ULONGLONG),     MEMBER(boundary, T_ULONGLONG),
    MEMBER(bytes_read, T_ULONGLONG), MEMBER(rows, T_LONGLONG),
    MEMBER(skip, T_LONGLONG),        MEMBER(newest, T_UINT),
    MEMBER(commit_time, T_UINT),     MEMBER(inside, T_BOOL),
    MEMBER(standalone, T_BOOL),      MEMBER(is_void, T_BOOL),
    MEMBER(ended, T_BOOL),           MEMBER(marked, T_LONGLONG),
    MEMBER(marked_size, T_LONGLONG), MEMBER(transactions, T_LONGLONG),
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef properties[] = {
    {"gtid", (getter)EventBuffer_gtid, NULL, NULL, NULL},
    {"count", (getter)EventBuffer_count, NULL, NULL, NULL},
    {"size", (getter)EventBuffer_size, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, EventBuffer_new}, {Py_tp_dealloc, EventBuffer_dealloc}, {Py_tp_methods, methods},
    {Py_tp_members, members},     {Py_tp_getset, properties},           {0, NULL},
};

static PyType_Spec spec = {"pkg.native._scan.EventBuffer", sizeof(EventBuffer), 0, Py_TPFLAGS_DEFAULT, slots};

/* zlib.crc32(data, start), for the tests. */
static PyObject *crc32_py(PyObject *self, PyObject *args)
{
    Py_buffer data;
    unsigned int start;
    uint32_t crc;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*I:crc32", &data, &start))
        return NULL;
    crc = crc32_long(start, data.buf, (size_t)data.len);
    PyBuffer_Release(&data);
    return PyLong_FromUnsignedLong(crc);
}

static PyObject *pass_rows_py(PyObject *self, PyObject *args)
{
    Py_buffer bytes;
    Py_ssize_t pos;
    unsigned long long offset;
    uint64_t end;
    Rules rules = {0};
    size_t at;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*nppK:pass_rows", &bytes, &pos, &rules.packets, &rules.checksummed, &offset))
        return NULL;
    if (pos < 0 || pos > bytes.len) {
        PyBuffer_Release(&bytes);
        return PyErr_Format(PyExc_ValueError, "pass_rows: a position is out of range");
    }
    at = (size_t)pos;
    end = offset;
    Py_BEGIN_ALLOW_THREADS
    pass_rows(&rules, bytes.buf, (size_t)bytes.len, &at, &end);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&bytes);
    return Py_BuildValue("(nK)", (Py_ssize_t)at, (unsigned long long)end);
}

static PyObject *pass_known_py(PyObject *self, PyObject *args)
{
    Py_buffer bytes;
    Py_ssize_t pos, own_size, others_size;
    const char *own_names, *others_names;
    unsigned long long offset, boundary;
    TableNames own, others;
    Passed passed;
    Rules rules = {0};
    size_t at;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*nppKKppy#y#:pass_known", &bytes, &pos, &rules.packets, &rules.checksummed, &offset,
                          &boundary, &passed.own, &passed.inside, &own_names, &own_size, &others_names, &others_size))
        return NULL;
    if (pos < 0 || pos > bytes.len) {
        PyBuffer_Release(&bytes);
        return PyErr_Format(PyExc_ValueError, "pass_known: a position is out of range");
    }
    own = (TableNames){(const unsigned char *)own_names, (size_t)own_size};
    others = (TableNames){(const unsigned char *)others_names, (size_t)others_size};
    passed.offset = offset;
    passed.boundary = boundary;
    at = (size_t)pos;
    Py_BEGIN_ALLOW_THREADS
    pass_known(&rules, &own, &others, bytes.buf, (size_t)bytes.len, &at, &passed);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&bytes);
    return Py_BuildValue("(nKKNN)", (Py_ssize_t)at, (unsigned long long)passed.offset,
                         (unsigned long long)passed.boundary, PyBool_FromLong(passed.own),
                         PyBool_FromLong(passed.inside));
}

static PyMethodDef functions[] = {{"crc32", crc32_py, METH_VARARGS, NULL},
                                  {"pass_rows", pass_rows_py, METH_VARARGS, NULL},
                                  {"pass_known", pass_known_py, METH_VARARGS, NULL},
                                  {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_scan", NULL, -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__scan(void)
{
    PyObject *made = PyModule_Create(&module), *type = PyType_FromSpec(&spec);
    crc32_prepare();
    if (made == NULL || type == NULL || PyModule_AddObject(made, "EventBuffer", type) < 0) {
        Py_XDECREF(type);
        Py_XDECREF(made);
        return NULL;
    }
    if (PyModule_AddStringConstant(made, "SOURCES", DM_SOURCES) < 0)
        Py_CLEAR(made);
    return made;
}
