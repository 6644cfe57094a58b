/* The row kernel: row images to SQL literals, compaction, placement into buckets, and groups of SQL rows.
 *
 * Python twins with the same results: pkg/binlog/codegen.py (Readers), dm_worker/syncer/execution/partition.py, combine.py.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "combine.h"
#include "images.h"
#include "place.h"
#include "scatter.h"
#include "settle.h"

static PyMethodDef rows_methods[] = {
    {"scatter", rows_scatter, METH_VARARGS,
     "scatter(data, index, plans, buckets, safe) -> (changes, {bucket: sections}, pairs)\n\n"
     "plans: {number: (Readers, prepare, target, Placement)}; events of other plans are passed over.\n"
     "Raises EventError(number of the event, cause)."},
    {"combine", rows_combine, METH_VARARGS,
     "combine(blocks, rules, safe) -> (changes, [(plan, kind, body, cuts, count)], [(block, target, count, offset)])\n\n"
     "The last list tells where the rows that keep their order stand. Raises Impossible and ValueError."},
    {"components", rows_components, METH_VARARGS,
     "components(packed pairs, …) -> {row hash: representative} of the components with two rows or more"},
    {"resettle", rows_resettle, METH_VARARGS, "resettle(block, home, moved, buckets) -> [(bucket, block)]"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef rows_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "pkg.native._rows",
    .m_doc = "The compiled row kernel.",
    .m_size = -1,
    .m_methods = rows_methods,
};

PyMODINIT_FUNC PyInit__rows(void)
{
    crc32_prepare();
    if (PyType_Ready(&readers_type) < 0 || PyType_Ready(&canon_type) < 0 || PyType_Ready(&placement_type) < 0)
        return NULL;
    PyObject *module = PyModule_Create(&rows_module);
    if (module == NULL)
        return NULL;
    event_error = PyErr_NewException("pkg.native._rows.EventError", NULL, NULL);
    impossible_error = PyErr_NewException("pkg.native._rows.Impossible", NULL, NULL);
    if (event_error == NULL || impossible_error == NULL || PyModule_AddObjectRef(module, "EventError", event_error) < 0 ||
        PyModule_AddObjectRef(module, "Impossible", impossible_error) < 0 ||
        PyModule_AddObjectRef(module, "Readers", (PyObject *)&readers_type) < 0 ||
        PyModule_AddObjectRef(module, "Canon", (PyObject *)&canon_type) < 0 ||
        PyModule_AddObjectRef(module, "Placement", (PyObject *)&placement_type) < 0 ||
        PyModule_AddStringConstant(module, "SOURCES", DM_SOURCES) < 0)
        Py_CLEAR(module);
    return module;
}
