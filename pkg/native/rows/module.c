/* The row kernel: row images to SQL literals, compaction, partition into buckets, and groups of SQL rows. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "../common/crc32.h"
#include "errors.h"
#include "images.h"
#include "module.h"
#include "normalizer.h"
#include "placement.h"

PyObject *event_error;
PyObject *impossible_error;

static PyMethodDef rows_methods[] = {
    {"partition", rows_partition, METH_VARARGS,
     "partition(data, index, plans, buckets, safe) -> (changes, {bucket: sections}, pairs, plans whose keys moved)\n\n"
     "changes: {plan: (inserts, updates, deletes)}, of the plans that had any.\n"
     "plans: {number: (Readers, prepare, target, source, Placement)}; events of other plans are passed over.\n"
     "Raises EventError(number of the event, cause)."},
    {"records", rows_records, METH_VARARGS,
     "records(data, index, plans) -> ([(records, count)] by slot, [(plan, inserts, updates, deletes)])\n\n"
     "The rows of a slice's events as row_record() packs them.\n"
     "plans: {number: (Readers, prepare, slot, row hash, added to the operation if foreign keys were not checked)}.\n"
     "Raises EventError(number of the event, cause)."},
    {"merge", rows_merge, METH_VARARGS,
     "merge(blocks, rules, safe) -> (changes, [(plan, kind, body, cuts, count)], [(block, target, count, offset)])\n\n"
     "The last list shows where the rows that keep their order are. Raises Impossible and ValueError."},
    {"components", rows_components, METH_VARARGS,
     "components(packed pairs, …) -> {row hash: representative} of the components with two rows or more"},
    {"reassign", rows_reassign, METH_VARARGS, "reassign(block, home, moved, buckets) -> [(bucket, block)]"},
    {"ranks", rows_ranks, METH_VARARGS,
     "ranks(ordered rows, {plan: (Placement, flags)}) -> a number of 32 bits for each row: its wave, doubled, and 1 if\n"
     "its change gives other values to a link\n\n"
     "The conflict keys of the Placement are links. flags of each: 1 shared, 2 always, as in RowLink."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef rows_module = {
    PyModuleDef_HEAD_INIT, .m_name = "pkg.native._rows", .m_doc = "The compiled row kernel.",
    .m_size = -1,          .m_methods = rows_methods,
};

PyMODINIT_FUNC PyInit__rows(void)
{
    crc32_prepare();
    if (PyType_Ready(&readers_type) < 0 || PyType_Ready(&normalizer_type) < 0 || PyType_Ready(&placement_type) < 0)
        return NULL;
    PyObject *module = PyModule_Create(&rows_module);
    if (module == NULL)
        return NULL;
    event_error = PyErr_NewException("pkg.native._rows.EventError", NULL, NULL);
    impossible_error = PyErr_NewException("pkg.native._rows.Impossible", NULL, NULL);
    if (event_error == NULL || impossible_error == NULL ||
        PyModule_AddObjectRef(module, "EventError", event_error) < 0 ||
        PyModule_AddObjectRef(module, "Impossible", impossible_error) < 0 ||
        PyModule_AddObjectRef(module, "Readers", (PyObject *)&readers_type) < 0 ||
        PyModule_AddObjectRef(module, "KeyNormalizer", (PyObject *)&normalizer_type) < 0 ||
        PyModule_AddObjectRef(module, "Placement", (PyObject *)&placement_type) < 0 ||
        PyModule_AddStringConstant(module, "SOURCES", DM_SOURCES) < 0)
        Py_CLEAR(module);
    return module;
}
