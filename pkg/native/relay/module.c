/* The relay's path for ordinary binlog events: from packets to the bytes of a file, and through a file's bytes.
 *
 * dm_worker/relay/scan.py has the same in Python and documents everything. The scan stops before any other event, so
 * the content of the binlog never raises an exception here.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

#include "../common/binlog_format.h"
#include "../common/bytes.h"
#include "../common/crc32.h"
#include "../common/gtid_run.h"

/* Bytes before an event in a packet: the packet's header and a status. */
#define LEAD 5
/* Maximum runs of GTIDs in one call; more of them end it. */
#define MAX_RUNS 256

/* Result of follow(): the event is too short. */
enum { TORN = 1 };

/* The open transaction: none, one of unknown kind, one with COMMIT. */
enum { OUTSIDE, BEGUN, INSIDE };

typedef struct {
    int packets, checksummed, state;
    uint64_t offset;
    int64_t boundary;
    GtidRun gtid, runs[MAX_RUNS];
    size_t run_count, written;
} Scan;

static int is_special(unsigned kind)
{
    switch (kind) {
    case ROTATE_EVENT:
    case FORMAT_DESCRIPTION_EVENT:
    case HEARTBEAT_EVENT:
    case HEARTBEAT_EVENT_V2:
    case PREVIOUS_GTIDS_EVENT:
    case GTID_TAGGED_EVENT:
    case MARIADB_GTID_LIST_EVENT:
    case MARIADB_START_ENCRYPTION_EVENT:
        return 1;
    default:
        return 0;
    }
}

static int starts_with(const unsigned char *text, size_t size, const char *word)
{
    return size >= strlen(word) && !memcmp(text, word, strlen(word));
}

static int is_word(const unsigned char *text, size_t size, const char *word)
{
    return size == strlen(word) && starts_with(text, size, word);
}

static int after_query(int state, const unsigned char *event, size_t size)
{
    const unsigned char *text;
    size_t start, head = HEADER_SIZE + 13 + (event[4] == EXECUTE_LOAD_QUERY_EVENT ? LOAD_QUERY_HEAD : 0);
    if (size < head)
        start = size;
    else {
        start = head + (size_t)little_endian(event + 30, 2) + event[27] + 1;
        if (start > size)
            start = size;
    }
    text = event + start;
    size -= start;
    if (starts_with(text, size, "XA COMMIT") || starts_with(text, size, "XA ROLLBACK"))
        return OUTSIDE;
    if (state == INSIDE)
        return is_word(text, size, "COMMIT") || is_word(text, size, "ROLLBACK") ? OUTSIDE : INSIDE;
    return is_word(text, size, "BEGIN") || starts_with(text, size, "XA START") ? INSIDE : OUTSIDE;
}

/* Updates the open transaction after an event without checksum; 0 or TORN. */
static int follow(Scan *scan, const unsigned char *event, size_t size)
{
    GtidRun *gtid = &scan->gtid;
    switch (event[4]) {
    case GTID_EVENT:
        if (size < MYSQL_GTID_SIZE)
            return TORN;
        read_mysql_gtid(gtid, event);
        scan->state = BEGUN;
        break;
    case ANONYMOUS_GTID_EVENT:
        gtid->size = 0;
        scan->state = BEGUN;
        break;
    case MARIADB_GTID_EVENT:
        if (size < MARIADB_GTID_SIZE)
            return TORN;
        read_mariadb_gtid(gtid, event);
        scan->state = event[HEADER_SIZE + 12] & 1 ? BEGUN : INSIDE;
        break;
    case XID_EVENT:
    case XA_PREPARE_EVENT:
    case TRANSACTION_PAYLOAD_EVENT:
        scan->state = OUTSIDE;
        break;
    case QUERY_EVENT:
    case MARIADB_QUERY_COMPRESSED_EVENT:
    case EXECUTE_LOAD_QUERY_EVENT:
        scan->state = after_query(scan->state, event, size);
        break;
    default:
        break;
    }
    return 0;
}

static void add_run(Scan *scan)
{
    const GtidRun *gtid = &scan->gtid;
    for (size_t i = 0; i < scan->run_count; i++) {
        GtidRun *run = &scan->runs[i];
        if (gtid->size == 8 && !memcmp(run->source, gtid->source, 4)) {
            *run = *gtid;
            return;
        }
        if (run->size == gtid->size && run->last + 1 == gtid->first && !memcmp(run->source, gtid->source, gtid->size)) {
            run->last = gtid->last;
            return;
        }
    }
    scan->runs[scan->run_count++] = *gtid;
}

/* Takes events from `pos` on into `out` (NULL: nowhere); returns the position after them. */
static size_t run_scan(Scan *scan, const unsigned char *bytes, size_t stop, size_t pos, unsigned char *out)
{
    size_t lead = scan->packets ? LEAD : 0, least = HEADER_SIZE + (scan->checksummed ? CHECKSUM_SIZE : 0);
    while (stop - pos >= lead + HEADER_SIZE && scan->run_count < MAX_RUNS) {
        const unsigned char *at = bytes + pos, *event = at + lead;
        uint32_t size = get32(event + 9), end = get32(event + 13);
        if (size < least || size > stop - pos - lead || is_special(event[4]))
            break;
        /* The packet is one byte longer than its event, unless it is the first piece of a big one. */
        if (scan->packets && (size >= 0xFFFFFE || (get32(at) & 0xFFFFFF) != size + 1 || at[4]))
            break;
        /* MariaDB 11.4 and later leave the end position 0 in events that pass through a transaction's cache. */
        if (event[17] & FLAG_ARTIFICIAL || (end && end != (uint32_t)(scan->offset + size)))
            break;
        if (scan->checksummed && crc32_long(0, event, size) != CRC_RESIDUE)
            break;
        if (follow(scan, event, scan->checksummed ? size - CHECKSUM_SIZE : size) == TORN)
            break;
        if (out != NULL) {
            memcpy(out + scan->written, event, size);
            scan->written += size;
        }
        scan->offset += size;
        pos += lead + size;
        if (scan->state == OUTSIDE) {
            scan->boundary = (int64_t)scan->offset;
            if (scan->gtid.size)
                add_run(scan);
            scan->gtid.size = 0;
        }
    }
    return pos;
}

static PyObject *run_list(const Scan *scan)
{
    PyObject *list = PyList_New((Py_ssize_t)scan->run_count);
    if (list == NULL)
        return NULL;
    for (size_t i = 0; i < scan->run_count; i++) {
        const GtidRun *run = &scan->runs[i];
        PyObject *item = Py_BuildValue("(y#KK)", run->source, (Py_ssize_t)run->size, (unsigned long long)run->first,
                                       (unsigned long long)run->last);
        if (item == NULL) {
            Py_DECREF(list);
            return NULL;
        }
        PyList_SET_ITEM(list, (Py_ssize_t)i, item);
    }
    return list;
}

static PyObject *open_gtid(const Scan *scan)
{
    if (!scan->gtid.size)
        Py_RETURN_NONE;
    return Py_BuildValue("(y#K)", scan->gtid.source, (Py_ssize_t)scan->gtid.size, (unsigned long long)scan->gtid.last);
}

/* The GTID of the open transaction for Python: None, or its source and number. */
static int read_gtid(GtidRun *gtid, PyObject *from)
{
    const char *source;
    Py_ssize_t size;
    unsigned long long number;
    gtid->size = 0;
    if (from == Py_None)
        return 0;
    if (!PyTuple_Check(from) || !PyArg_ParseTuple(from, "y#K", &source, &size, &number)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "scan: a GTID is None or a tuple");
        return -1;
    }
    if (size != 8 && (size < 16 || size > LONGEST_SOURCE)) {
        PyErr_SetString(PyExc_ValueError, "scan: the source of a GTID has 8 or 16 to 48 bytes");
        return -1;
    }
    memcpy(gtid->source, source, (size_t)size);
    gtid->size = (size_t)size;
    gtid->first = gtid->last = number;
    return 0;
}

static PyObject *relay_scan(PyObject *self, PyObject *args)
{
    Py_buffer bytes;
    Py_ssize_t pos;
    unsigned long long offset;
    PyObject *from, *data, *gtid, *runs;
    Scan *scan = PyMem_Malloc(sizeof *scan);
    size_t end = 0;
    (void)self;
    if (scan == NULL)
        return PyErr_NoMemory();
    if (!PyArg_ParseTuple(args, "y*nppKiO:scan", &bytes, &pos, &scan->packets, &scan->checksummed, &offset,
                          &scan->state, &from)) {
        PyMem_Free(scan);
        return NULL;
    }
    data = NULL;
    if (pos < 0 || pos > bytes.len)
        PyErr_SetString(PyExc_ValueError, "scan: the position is out of range");
    else if (read_gtid(&scan->gtid, from) == 0)
        data = PyBytes_FromStringAndSize(NULL, scan->packets ? bytes.len - pos : 0);
    if (data != NULL) {
        unsigned char *out = scan->packets ? (unsigned char *)PyBytes_AS_STRING(data) : NULL;
        scan->offset = offset;
        scan->boundary = -1;
        scan->run_count = scan->written = 0;
        Py_BEGIN_ALLOW_THREADS
        end = run_scan(scan, bytes.buf, (size_t)bytes.len, (size_t)pos, out);
        Py_END_ALLOW_THREADS
        _PyBytes_Resize(&data, (Py_ssize_t)scan->written);
    }
    PyBuffer_Release(&bytes);
    if (data == NULL) {
        PyMem_Free(scan);
        return NULL;
    }
    gtid = open_gtid(scan);
    runs = run_list(scan);
    from = gtid == NULL || runs == NULL
               ? NULL
               : Py_BuildValue("(nOiLOO)", (Py_ssize_t)end, data, scan->state, (long long)scan->boundary, gtid, runs);
    Py_DECREF(data);
    Py_XDECREF(gtid);
    Py_XDECREF(runs);
    PyMem_Free(scan);
    return from;
}

static PyMethodDef methods[] = {
    {"scan", relay_scan, METH_VARARGS,
     "scan(raw, pos, packets, checksummed, offset, state, gtid) -> (pos, data, state, boundary, gtid, runs)"},
    {NULL, NULL, 0, NULL},
};

static int prepare(PyObject *module)
{
    crc32_prepare();
    return PyModule_AddStringConstant(module, "SOURCES", DM_SOURCES);
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, prepare}, {0, NULL}};

static PyModuleDef module = {
    .m_base = PyModuleDef_HEAD_INIT, .m_name = "_relay", .m_size = 0, .m_methods = methods, .m_slots = module_slots};

PyMODINIT_FUNC PyInit__relay(void)
{
    return PyModuleDef_Init(&module);
}
