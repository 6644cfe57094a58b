/* The planner's tape: the rows events of the batch that is being filled, and the fast way through ordinary events.
 *
 * dm_worker/syncer/planning/event_buffer.py has the same class in Python and says what everything means. Only this one has scan(), which
 * takes events out of raw bytes for as long as they are ordinary, and stops in front of the first one that is not: the
 * planner then handles that event and calls again. So nothing here raises for what it finds in the binlog.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include "buffer.h"
#include "crc32_fold.h"

#define HEADER 19
#define RECORD 16
#define CRC_RESIDUE 0x2144DF1Cu
#define FILTERED (-1)
/* Runs of GTIDs that wait to be fetched; more of them end a scan. */
#define MAX_RUNS 4096
/* How many of the newest runs are looked at for one that the next GTID of a MySQL source continues. */
#define NEAR_RUNS 8
/* Beyond this an empty buffer is given back. */
#define KEPT_ROOM (8u << 20)

enum { ROTATE = 4, QUERY = 2, FORMAT = 15, XID = 16, TABLE_MAP = 19, ROWS_QUERY = 29, GTID = 33, ANONYMOUS = 34,
       ANNOTATE = 160, MARIADB_GTID = 162 };
enum { STOPPED, CUT, CLOSE, NO_MEMORY };

/* A table id and the rest of its TABLE_MAP. */
typedef struct {
    uint64_t id;
    unsigned char *shape;
    size_t size;
    int64_t number;
    int used;
} Table;

/* source: a MySQL UUID, or a MariaDB domain and server (4 bytes each). */
typedef struct {
    unsigned char source[16];
    int size;
    uint64_t first, last;
} Run;

typedef struct {
    PyObject_HEAD
    unsigned long long offset, boundary, bytes_read;
    long long rows, skip;
    unsigned int newest, commit_time;
    char inside, standalone, is_void, ended;
    long long marked, marked_size, transactions;
    Buffer data, index;
    Table *tables;
    size_t table_room, table_count;
    Run gtid; /* size 0: none */
    Run *runs;
    size_t run_count;
    int busy;
} Tape;

static uint64_t table_id(const unsigned char *at)
{
    return get32(at) | (uint64_t)at[4] << 32 | (uint64_t)at[5] << 40;
}

/* -- the buffers ------------------------------------------------------------------------------------------------- */

static void drop_front(Buffer *buffer, size_t size)
{
    buffer->size -= size;
    if (buffer->size)
        memmove(buffer->data, buffer->data + size, buffer->size);
    else if (buffer->room > KEPT_ROOM)
        buffer_free(buffer);
}

static size_t event_count(const Tape *tape)
{
    return tape->index.size / RECORD;
}

/* Bytes of the first `count` events. */
static size_t bytes_of(const Tape *tape, size_t count)
{
    size_t size = 0;
    for (size_t i = 0; i < count; i++)
        size += get32(tape->index.data + RECORD * i + 4);
    return size;
}

static int append_event(Tape *tape, uint32_t number, const unsigned char *event, size_t size, uint32_t timestamp)
{
    unsigned char *record;
    if (buffer_extend(&tape->data, size) < 0 || buffer_extend(&tape->index, RECORD) < 0)
        return 0;
    put(&tape->data, event, size);
    record = tape->index.data + tape->index.size;
    put32(record, number);
    put32(record + 4, (uint32_t)size);
    put32(record + 8, (uint32_t)tape->offset);
    put32(record + 12, (uint32_t)(tape->offset >> 32));
    tape->index.size += RECORD;
    if (!tape->commit_time)
        tape->commit_time = timestamp;
    return 1;
}

/* -- tables ------------------------------------------------------------------------------------------------------ */

static Table *table_slot(Table *tables, size_t room, uint64_t id)
{
    size_t at = (size_t)((id * 0x9E3779B97F4A7C15u) >> 32) & (room - 1);
    while (tables[at].used && tables[at].id != id)
        at = (at + 1) & (room - 1);
    return &tables[at];
}

static Table *find_table(const Tape *tape, uint64_t id)
{
    Table *table = tape->table_room ? table_slot(tape->tables, tape->table_room, id) : NULL;
    return table && table->used ? table : NULL;
}

static int grow_tables(Tape *tape)
{
    size_t room = tape->table_room ? tape->table_room * 2 : 64;
    Table *tables = PyMem_RawCalloc(room, sizeof *tables);
    if (tables == NULL)
        return 0;
    for (size_t i = 0; i < tape->table_room; i++)
        if (tape->tables[i].used)
            *table_slot(tables, room, tape->tables[i].id) = tape->tables[i];
    PyMem_RawFree(tape->tables);
    tape->tables = tables;
    tape->table_room = room;
    return 1;
}

static void clear_tables(Tape *tape)
{
    for (size_t i = 0; i < tape->table_room; i++)
        if (tape->tables[i].used)
            PyMem_RawFree(tape->tables[i].shape);
    PyMem_RawFree(tape->tables);
    tape->tables = NULL;
    tape->table_room = tape->table_count = 0;
}

/* -- GTIDs ------------------------------------------------------------------------------------------------------- */

/* Counts the pending GTID as executed. Callers see to it that there is room. */
static void finish_gtid(Tape *tape)
{
    Run *gtid = &tape->gtid;
    size_t near = gtid->size == 8 ? tape->run_count : tape->run_count < NEAR_RUNS ? tape->run_count : NEAR_RUNS;
    if (!gtid->size)
        return;
    for (size_t back = 1; back <= near; back++) {
        Run *run = &tape->runs[tape->run_count - back];
        if (run->size != gtid->size)
            continue;
        if (run->size == 8 && !memcmp(run->source, gtid->source, 4)) {
            /* Of a MariaDB domain the last GTID counts, whatever its server and number. */
            *run = *gtid;
            gtid->size = 0;
            return;
        }
        if (run->size == 16 && run->last + 1 == gtid->last && !memcmp(run->source, gtid->source, 16)) {
            run->last = gtid->last;
            gtid->size = 0;
            return;
        }
    }
    tape->runs[tape->run_count++] = *gtid;
    gtid->size = 0;
}

/* -- transactions ------------------------------------------------------------------------------------------------ */

static void end_transaction(Tape *tape, uint32_t timestamp)
{
    long long count = (long long)event_count(tape);
    finish_gtid(tape);
    /* A rows event has the time its statement began; what counts is when it was committed. */
    if (count > tape->marked && !tape->marked && timestamp)
        tape->commit_time = timestamp;
    tape->inside = tape->standalone = tape->is_void = 0;
    tape->rows = tape->skip = 0;
    tape->boundary = tape->offset;
    tape->marked = count;
    tape->marked_size = (long long)tape->data.size;
    tape->transactions++;
    tape->ended = 1;
}

static void move(Tape *tape, uint32_t timestamp, uint32_t size, uint32_t log_pos)
{
    /* The header has 32 bits of the offset only; they start over in files beyond 4 GiB. MariaDB 11.4 and later leave it
     * 0 in what goes through a transaction's cache: such an event ends behind its bytes. */
    uint64_t end = (tape->offset & ~(uint64_t)0xFFFFFFFFu) | log_pos;
    if (!log_pos)
        tape->offset += size;
    else if (end >= tape->offset)
        tape->offset = end;
    else if (tape->offset - end > (uint64_t)1 << 31)
        tape->offset = end + ((uint64_t)1 << 32);
    tape->bytes_read += size;
    if (timestamp)
        tape->newest = timestamp;
}

static int is_rows(unsigned kind)
{
    return (kind >= 23 && kind <= 25) || (kind >= 30 && kind <= 32) || (kind >= 166 && kind <= 171);
}

static int ends_with(const unsigned char *event, size_t size, const char *word, size_t length)
{
    return size >= HEADER + length && !memcmp(event + size - length, word, length);
}

/* A GTID event of an ordinary transaction: neither a statement without COMMIT, nor XA, nor a part of an ALTER. */
static int take_gtid(Tape *tape, unsigned kind, const unsigned char *event, size_t size)
{
    Run *gtid = &tape->gtid;
    if (tape->run_count >= MAX_RUNS)
        return 0;
    if (kind == MARIADB_GTID) {
        unsigned flags = size > HEADER + 12 ? event[HEADER + 12] : 1;
        size_t extra = HEADER + 12 + (flags & 2 ? 9 : 1);
        if (flags & (1 | 64 | 128) || (size > extra && event[extra] & (2 | 8)))
            return 0;
        memcpy(gtid->source, event + HEADER + 8, 4);
        memcpy(gtid->source + 4, event + 5, 4);
        gtid->size = 8;
        gtid->first = gtid->last = get64(event + HEADER);
        tape->is_void = 0;
    } else if (kind == GTID) {
        if (size < HEADER + 25)
            return 0;
        memcpy(gtid->source, event + HEADER + 1, 16);
        gtid->size = 16;
        gtid->first = gtid->last = get64(event + HEADER + 17);
    } else
        gtid->size = 0;
    tape->inside = 1;
    tape->standalone = kind != MARIADB_GTID;
    return 1;
}

/* -- the scan ---------------------------------------------------------------------------------------------------- */

typedef struct {
    int packets, checksummed;
    size_t batch_bytes, batch_events;
} Rules;

static int is_full(const Tape *tape, const Rules *rules)
{
    return tape->data.size >= rules->batch_bytes || event_count(tape) >= rules->batch_events;
}

/* One whole event, without checksum. -1: not taken, for it is not ordinary. */
static int take(Tape *tape, const Rules *rules, const unsigned char *event, size_t size)
{
    uint32_t timestamp = get32(event), whole = get32(event + 9), log_pos = get32(event + 13);
    unsigned kind = event[4];
    if (event[17] & 0x20)
        return -1;
    if (is_rows(kind)) {
        Table *table;
        if (size < HEADER + 6)
            return -1;
        table = find_table(tape, table_id(event + HEADER));
        /* Rows of a table that is held back are counted by the caller. */
        if (tape->rows >= tape->skip &&
            (table == NULL ? table_id(event + HEADER) != 0xFFFFFF : table->number < FILTERED))
            return -1;
        /* Before anything moves: a failure must leave the tape as it was. */
        if (buffer_extend(&tape->data, size) < 0 || buffer_extend(&tape->index, RECORD) < 0)
            return NO_MEMORY;
        move(tape, timestamp, whole, log_pos);
        if (++tape->rows <= tape->skip || table == NULL || table->number == FILTERED)
            return STOPPED;
        append_event(tape, (uint32_t)table->number, event, size, timestamp);
        return is_full(tape, rules) ? CUT : STOPPED;
    }
    switch (kind) {
    case TABLE_MAP: {
        Table *table = size < HEADER + 6 ? NULL : find_table(tape, table_id(event + HEADER));
        if (table == NULL || table->size != size - HEADER - 6 || memcmp(table->shape, event + HEADER + 6, table->size))
            return -1;
        tape->inside = 1;
        break;
    }
    case GTID:
    case ANONYMOUS:
    case MARIADB_GTID:
        if (!take_gtid(tape, kind, event, size))
            return -1;
        move(tape, timestamp, whole, log_pos);
        /* Servers leave out events: where the one before ended need not be where this one begins. */
        tape->boundary = tape->offset - whole;
        return STOPPED;
    case QUERY:
        if (ends_with(event, size, "\0BEGIN", 6)) {
            tape->inside = 1;
            tape->standalone = 0;
            break;
        }
        if (!ends_with(event, size, "\0COMMIT", 7))
            return -1;
        /* fall through */
    case XID:
        if (tape->run_count >= MAX_RUNS)
            return -1;
        move(tape, timestamp, whole, log_pos);
        end_transaction(tape, timestamp);
        return is_full(tape, rules) ? CLOSE : STOPPED;
    case ROWS_QUERY:
    case ANNOTATE:
        if (!tape->inside)
            return -1;
        break;
    default:
        return -1;
    }
    move(tape, timestamp, whole, log_pos);
    return STOPPED;
}

/* Takes events from `*pos` on; leaves `*pos` behind the last one taken. */
static int scan(Tape *tape, const Rules *rules, const unsigned char *bytes, size_t stop, size_t *pos)
{
    size_t lead = rules->packets ? 5 : 0;
    while (stop - *pos >= lead + HEADER) {
        const unsigned char *at = bytes + *pos, *event = at + lead;
        uint32_t size = get32(event + 9);
        int done;
        if (size < HEADER + 4 || size > stop - *pos - lead || event[4] == ROTATE || event[4] == FORMAT)
            break;
        /* The packet is one byte longer than its event, unless it is the first piece of a big one. */
        if (rules->packets && (size >= 0xFFFFFE || (get32(at) & 0xFFFFFF) != size + 1 || at[4]))
            break;
        if (rules->checksummed && crc32_long(0, event, size) != CRC_RESIDUE)
            break;
        done = take(tape, rules, event, rules->checksummed ? size - 4 : size);
        if (done < 0 || done == NO_MEMORY)
            return done < 0 ? STOPPED : NO_MEMORY;
        *pos += lead + size;
        if (done != STOPPED)
            return done;
    }
    return STOPPED;
}

/* The buffers may move during a scan of another thread. */
static int is_free(const Tape *tape)
{
    if (tape->busy)
        PyErr_SetString(PyExc_RuntimeError, "the tape is being filled by another thread");
    return !tape->busy;
}

static PyObject *Tape_scan(Tape *tape, PyObject *args)
{
    Py_buffer bytes;
    Py_ssize_t pos, batch_bytes, batch_events;
    Rules rules;
    size_t at;
    int done;
    if (!PyArg_ParseTuple(args, "y*nppnn:scan", &bytes, &pos, &rules.packets, &rules.checksummed, &batch_bytes,
                          &batch_events))
        return NULL;
    if (is_free(tape) && (pos < 0 || pos > bytes.len || batch_bytes < 0 || batch_events < 0))
        PyErr_SetString(PyExc_ValueError, "scan: a position or limit is out of range");
    if (PyErr_Occurred()) {
        PyBuffer_Release(&bytes);
        return NULL;
    }
    rules.batch_bytes = (size_t)batch_bytes;
    rules.batch_events = (size_t)batch_events;
    at = (size_t)pos;
    tape->busy = 1;
    Py_BEGIN_ALLOW_THREADS
    done = scan(tape, &rules, bytes.buf, (size_t)bytes.len, &at);
    Py_END_ALLOW_THREADS
    tape->busy = 0;
    PyBuffer_Release(&bytes);
    if (done == NO_MEMORY)
        return PyErr_NoMemory();
    return Py_BuildValue("(ni)", (Py_ssize_t)at, done);
}

/* -- what Python calls ------------------------------------------------------------------------------------------- */

static PyObject *Tape_append(Tape *tape, PyObject *args)
{
    unsigned int number, timestamp;
    Py_buffer event;
    int done;
    if (!PyArg_ParseTuple(args, "Iy*I:append", &number, &event, &timestamp))
        return NULL;
    if (is_free(tape) && (size_t)event.len > UINT32_MAX)
        PyErr_SetString(PyExc_OverflowError, "append: an event of 4 GiB or more");
    if (PyErr_Occurred()) {
        PyBuffer_Release(&event);
        return NULL;
    }
    done = append_event(tape, number, event.buf, (size_t)event.len, timestamp);
    PyBuffer_Release(&event);
    if (!done)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *Tape_end_transaction(Tape *tape, PyObject *timestamp)
{
    unsigned long time = PyLong_AsUnsignedLong(timestamp);
    if (PyErr_Occurred() || !is_free(tape))
        return NULL;
    if (tape->run_count >= MAX_RUNS + 1) {
        PyErr_SetString(PyExc_RuntimeError, "take_gtids must be called from time to time");
        return NULL;
    }
    end_transaction(tape, (uint32_t)time);
    Py_RETURN_NONE;
}

static PyObject *Tape_begin_gtid(Tape *tape, PyObject *args)
{
    Py_buffer source;
    unsigned long long number;
    if (!PyArg_ParseTuple(args, "y*K:begin_gtid", &source, &number))
        return NULL;
    if (is_free(tape) && source.len != 0 && source.len != 8 && source.len != 16)
        PyErr_SetString(PyExc_ValueError, "begin_gtid: a source has 0, 8 or 16 bytes");
    if (PyErr_Occurred()) {
        PyBuffer_Release(&source);
        return NULL;
    }
    memcpy(tape->gtid.source, source.buf, (size_t)source.len);
    tape->gtid.size = (int)source.len;
    tape->gtid.first = tape->gtid.last = number;
    PyBuffer_Release(&source);
    Py_RETURN_NONE;
}

static PyObject *run_value(const Run *run)
{
    return Py_BuildValue("(y#KK)", run->source, (Py_ssize_t)run->size, run->first, run->last);
}

static PyObject *Tape_gtid(Tape *tape, void *closure)
{
    (void)closure;
    if (!tape->gtid.size)
        Py_RETURN_NONE;
    return run_value(&tape->gtid);
}

static PyObject *Tape_take_gtids(Tape *tape, PyObject *none)
{
    PyObject *found;
    (void)none;
    if (!is_free(tape) || (found = PyList_New((Py_ssize_t)tape->run_count)) == NULL)
        return NULL;
    for (size_t i = 0; i < tape->run_count; i++) {
        PyObject *value = run_value(&tape->runs[i]);
        if (value == NULL) {
            Py_DECREF(found);
            return NULL;
        }
        PyList_SET_ITEM(found, (Py_ssize_t)i, value);
    }
    tape->run_count = 0;
    return found;
}

static int id_of(PyObject *bytes, uint64_t *id)
{
    if (!PyBytes_Check(bytes) || PyBytes_GET_SIZE(bytes) != 6) {
        PyErr_SetString(PyExc_ValueError, "a table id has 6 bytes");
        return 0;
    }
    *id = table_id((const unsigned char *)PyBytes_AS_STRING(bytes));
    return 1;
}

static PyObject *Tape_set_table(Tape *tape, PyObject *args)
{
    PyObject *name;
    Py_buffer shape;
    long long number;
    uint64_t id = 0;
    Table *table;
    unsigned char *copy = NULL;
    if (!PyArg_ParseTuple(args, "Oy*L:set_table", &name, &shape, &number))
        return NULL;
    if (is_free(tape) && id_of(name, &id)) {
        copy = PyMem_RawMalloc(shape.len ? (size_t)shape.len : 1);
        if (copy == NULL || (tape->table_count * 2 >= tape->table_room && !grow_tables(tape)))
            PyErr_NoMemory();
    }
    if (PyErr_Occurred()) {
        PyMem_RawFree(copy);
        PyBuffer_Release(&shape);
        return NULL;
    }
    table = table_slot(tape->tables, tape->table_room, id);
    tape->table_count += !table->used;
    PyMem_RawFree(table->shape);
    memcpy(copy, shape.buf, (size_t)shape.len);
    *table = (Table){.id = id, .shape = copy, .size = (size_t)shape.len, .number = number, .used = 1};
    PyBuffer_Release(&shape);
    Py_RETURN_NONE;
}

static PyObject *Tape_table(Tape *tape, PyObject *name)
{
    uint64_t id;
    Table *table;
    if (!is_free(tape) || !id_of(name, &id))
        return NULL;
    table = find_table(tape, id);
    if (table == NULL)
        Py_RETURN_NONE;
    return PyLong_FromLongLong(table->number);
}

static PyObject *Tape_forget_tables(Tape *tape, PyObject *none)
{
    (void)none;
    if (!is_free(tape))
        return NULL;
    clear_tables(tape);
    Py_RETURN_NONE;
}

/* A number of events from Python, at most as many as there are; -1 with an exception otherwise. */
static Py_ssize_t count_of(const Tape *tape, PyObject *value)
{
    Py_ssize_t count = PyLong_AsSsize_t(value);
    if (PyErr_Occurred() || !is_free(tape))
        return -1;
    if (count < 0 || (size_t)count > event_count(tape)) {
        PyErr_SetString(PyExc_ValueError, "the tape holds fewer events");
        return -1;
    }
    return count;
}

static PyObject *Tape_truncate(Tape *tape, PyObject *value)
{
    Py_ssize_t count = count_of(tape, value);
    if (count < 0)
        return NULL;
    tape->data.size = bytes_of(tape, (size_t)count);
    tape->index.size = (size_t)count * RECORD;
    Py_RETURN_NONE;
}

static PyObject *Tape_cut(Tape *tape, PyObject *value)
{
    Py_ssize_t count = count_of(tape, value);
    if (count < 0)
        return NULL;
    drop_front(&tape->data, bytes_of(tape, (size_t)count));
    drop_front(&tape->index, (size_t)count * RECORD);
    tape->commit_time = tape->index.size ? tape->newest : 0;
    tape->marked = tape->marked_size = tape->transactions = 0;
    Py_RETURN_NONE;
}

static PyObject *Tape_numbers(Tape *tape, PyObject *value)
{
    Py_ssize_t count = count_of(tape, value);
    PyObject *found;
    int64_t last = -1;
    if (count < 0 || (found = PySet_New(NULL)) == NULL)
        return NULL;
    for (Py_ssize_t i = 0; i < count; i++) {
        uint32_t number = get32(tape->index.data + RECORD * i);
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

static int add_slice(PyObject *found, const Tape *tape, size_t first, size_t after, size_t from, size_t to)
{
    PyObject *part = Py_BuildValue("(ny#y#)", (Py_ssize_t)first, tape->data.data + from, (Py_ssize_t)(to - from),
                                   tape->index.data + RECORD * first, (Py_ssize_t)(RECORD * (after - first)));
    int done = part != NULL && PyList_Append(found, part) == 0;
    Py_XDECREF(part);
    return done;
}

static PyObject *Tape_slices(Tape *tape, PyObject *args)
{
    PyObject *value, *edges, *found;
    Py_ssize_t count, slice_bytes, edge = 0;
    size_t first = 0, from = 0, to = 0;
    if (!PyArg_ParseTuple(args, "OnO!:slices", &value, &slice_bytes, &PyList_Type, &edges))
        return NULL;
    count = count_of(tape, value);
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
            if (!add_slice(found, tape, first, at, from, to))
                goto failed;
            first = at;
            from = to;
        }
        to += get32(tape->index.data + RECORD * at + 4);
    }
    if (count == 0 || add_slice(found, tape, first, (size_t)count, from, to))
        return found;
failed:
    Py_DECREF(found);
    return NULL;
}

static PyObject *Tape_count(Tape *tape, void *closure)
{
    (void)closure;
    return PyLong_FromSize_t(event_count(tape));
}

static PyObject *Tape_size(Tape *tape, void *closure)
{
    (void)closure;
    return PyLong_FromSize_t(tape->data.size);
}

static PyObject *Tape_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    Tape *tape;
    if (!PyArg_ParseTuple(args, ":Tape") || (kwargs && PyDict_GET_SIZE(kwargs)))
        return NULL;
    tape = (Tape *)type->tp_alloc(type, 0);
    /* One more than a scan uses: the planner's own transaction may come on top. */
    if (tape != NULL && (tape->runs = PyMem_RawCalloc(MAX_RUNS + 1, sizeof *tape->runs)) == NULL) {
        Py_DECREF(tape);
        return PyErr_NoMemory();
    }
    return (PyObject *)tape;
}

static void Tape_dealloc(Tape *tape)
{
    PyTypeObject *type = Py_TYPE(tape);
    clear_tables(tape);
    buffer_free(&tape->data);
    buffer_free(&tape->index);
    PyMem_RawFree(tape->runs);
    type->tp_free((PyObject *)tape);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"scan", (PyCFunction)Tape_scan, METH_VARARGS, NULL},
    {"append", (PyCFunction)Tape_append, METH_VARARGS, NULL},
    {"end_transaction", (PyCFunction)Tape_end_transaction, METH_O, NULL},
    {"begin_gtid", (PyCFunction)Tape_begin_gtid, METH_VARARGS, NULL},
    {"take_gtids", (PyCFunction)Tape_take_gtids, METH_NOARGS, NULL},
    {"set_table", (PyCFunction)Tape_set_table, METH_VARARGS, NULL},
    {"table", (PyCFunction)Tape_table, METH_O, NULL},
    {"forget_tables", (PyCFunction)Tape_forget_tables, METH_NOARGS, NULL},
    {"truncate", (PyCFunction)Tape_truncate, METH_O, NULL},
    {"cut", (PyCFunction)Tape_cut, METH_O, NULL},
    {"numbers", (PyCFunction)Tape_numbers, METH_O, NULL},
    {"slices", (PyCFunction)Tape_slices, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

#define MEMBER(name, kind) {#name, kind, offsetof(Tape, name), 0, NULL}
static PyMemberDef members[] = {
    MEMBER(offset, T_ULONGLONG),    MEMBER(boundary, T_ULONGLONG),  MEMBER(bytes_read, T_ULONGLONG),
    MEMBER(rows, T_LONGLONG),       MEMBER(skip, T_LONGLONG),       MEMBER(newest, T_UINT),
    MEMBER(commit_time, T_UINT),    MEMBER(inside, T_BOOL),         MEMBER(standalone, T_BOOL),
    MEMBER(is_void, T_BOOL),        MEMBER(ended, T_BOOL),          MEMBER(marked, T_LONGLONG),
    MEMBER(marked_size, T_LONGLONG), MEMBER(transactions, T_LONGLONG),
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef properties[] = {
    {"gtid", (getter)Tape_gtid, NULL, NULL, NULL},
    {"count", (getter)Tape_count, NULL, NULL, NULL},
    {"size", (getter)Tape_size, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, Tape_new},        {Py_tp_dealloc, Tape_dealloc}, {Py_tp_methods, methods},
    {Py_tp_members, members},     {Py_tp_getset, properties},    {0, NULL},
};

static PyType_Spec spec = {"pkg.native._scan.Tape", sizeof(Tape), 0, Py_TPFLAGS_DEFAULT, slots};

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

static PyMethodDef functions[] = {{"crc32", crc32_py, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_scan", NULL, -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__scan(void)
{
    PyObject *made = PyModule_Create(&module), *type = PyType_FromSpec(&spec);
    crc32_prepare();
    if (made == NULL || type == NULL || PyModule_AddObject(made, "Tape", type) < 0) {
        Py_XDECREF(type);
        Py_XDECREF(made);
        return NULL;
    }
    if (PyModule_AddStringConstant(made, "SOURCES", DM_SOURCES) < 0)
        Py_CLEAR(made);
    return made;
}
