/* The type Placement, and the row hash. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "../common/crc32.h"
#include "images.h"
#include "normalizer.h"
#include "placement.h"

static void placement_free(PyObject *object)
{
    Placement *self = (Placement *)object;
    for (Py_ssize_t i = 0; self->conflict_keys != NULL && i < self->conflict_key_count; i++) {
        Py_XDECREF(self->conflict_keys[i].columns);
        Py_XDECREF(self->conflict_keys[i].normalizers);
        Py_XDECREF(self->conflict_keys[i].deciding);
        PyMem_Free(self->conflict_keys[i].numbers);
        PyMem_Free(self->conflict_keys[i].deciding_numbers);
    }
    PyMem_Free(self->conflict_keys);
    Py_XDECREF(self->normalizers);
    Py_TYPE(object)->tp_free(object);
}

static int check_normalizers(PyObject *normalizers)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(normalizers); i++)
        if (!PyObject_TypeCheck(PyTuple_GET_ITEM(normalizers, i), &normalizer_type)) {
            PyErr_SetString(PyExc_TypeError, "normalized forms are needed");
            return -1;
        }
    return 0;
}

static void widen(Placement *self, const uint32_t *numbers, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++)
        if ((Py_ssize_t)numbers[i] >= self->widest)
            self->widest = (Py_ssize_t)numbers[i] + 1;
}

static int conflict_key_from(Placement *self, ConflictKey *key, PyObject *spec)
{
    unsigned seed;
    PyObject *columns, *normalizers, *deciding;
    if (!PyTuple_Check(spec)) {
        PyErr_SetString(PyExc_TypeError, "a conflict key is a tuple");
        return -1;
    }
    if (!PyArg_ParseTuple(spec, "IO!O!O!", &seed, &PyTuple_Type, &columns, &PyTuple_Type, &normalizers, &PyTuple_Type,
                          &deciding) ||
        check_normalizers(normalizers) < 0)
        return -1;
    key->seed = seed;
    key->columns = Py_NewRef(columns);
    key->normalizers = Py_NewRef(normalizers);
    key->deciding = Py_NewRef(deciding);
    if (PyTuple_GET_SIZE(columns) != PyTuple_GET_SIZE(normalizers)) {
        PyErr_SetString(PyExc_ValueError, "a conflict key has one normalizer for each column");
        return -1;
    }
    key->numbers = indexes_from(columns, 0xFFFF);
    key->deciding_numbers = key->numbers ? indexes_from(deciding, 0xFFFF) : NULL;
    if (key->deciding_numbers == NULL)
        return -1;
    widen(self, key->numbers, PyTuple_GET_SIZE(columns));
    widen(self, key->deciding_numbers, PyTuple_GET_SIZE(deciding));
    return 0;
}

static PyObject *placement_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(keywords))
{
    unsigned seed;
    int spread;
    PyObject *normalizers, *conflict_keys;
    if (!PyArg_ParseTuple(args, "IpO!O!", &seed, &spread, &PyTuple_Type, &normalizers, &PyTuple_Type, &conflict_keys) ||
        check_normalizers(normalizers) < 0)
        return NULL;
    Placement *self = (Placement *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->seed = seed;
    self->spread = spread;
    self->normalizers = Py_NewRef(normalizers);
    self->exact = self->any = 1;
    Py_ssize_t last = PyTuple_GET_SIZE(normalizers) - 1;
    self->block = last >= 0 && ((KeyNormalizer *)PyTuple_GET_ITEM(normalizers, last))->kind == NORMALIZE_BLOCK;
    for (Py_ssize_t i = 0; i <= last; i++) {
        int kind = ((KeyNormalizer *)PyTuple_GET_ITEM(normalizers, i))->kind;
        self->exact = self->exact && (kind == NORMALIZE_EXACT || (kind == NORMALIZE_BLOCK && i == last));
        self->any = self->any && kind == NORMALIZE_ANY;
    }
    self->conflict_keys = PyMem_Calloc((size_t)PyTuple_GET_SIZE(conflict_keys) + 1, sizeof(ConflictKey));
    if (self->conflict_keys == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    self->conflict_key_count = PyTuple_GET_SIZE(conflict_keys);
    for (Py_ssize_t i = 0; i < self->conflict_key_count; i++)
        if (conflict_key_from(self, &self->conflict_keys[i], PyTuple_GET_ITEM(conflict_keys, i)) < 0) {
            Py_DECREF(self);
            return NULL;
        }
    return (PyObject *)self;
}

PyTypeObject placement_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "pkg.native._rows.Placement",
    .tp_basicsize = sizeof(Placement),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc =
        "Placement(seed, spread, normalizers of the key, ((seed, columns, normalizers, deciding columns) of each conflict "
        "key, …)).",
    .tp_new = placement_new,
    .tp_dealloc = placement_free,
};

/* The end of the literal that begins at ``at``: a comma outside of quotes, or the end. */
static size_t literal_end(const uint8_t *key, size_t size, size_t at)
{
    int quoted = 0;
    for (; at < size && (quoted || key[at] != ','); at++) {
        if (quoted && key[at] == '\\' && at + 1 < size)
            at++;
        else if (key[at] == '\'')
            quoted = !quoted;
    }
    return at;
}

int row_hash(const Placement *self, const uint8_t *key, size_t size, Buffer *scratch, uint32_t *hash)
{
    *hash = self->seed;
    if (!self->spread || self->any)
        return 0;
    if (self->exact) {
        *hash = crc32_of(self->seed, key, self->block ? block_end(key, size) : size);
        return 0;
    }
    Py_ssize_t count = PyTuple_GET_SIZE(self->normalizers);
    size_t at = 0;
    scratch->size = 0;
    for (Py_ssize_t i = 0; i < count; i++, at++) {
        size_t end = count == 1 ? size : literal_end(key, size, at);
        if (at > size || (i + 1 < count ? end == size : end != size)) {
            PyErr_SetString(PyExc_ValueError, "a key with another number of columns");
            return -1;
        }
        if ((i && append(scratch, ",", 1) < 0) ||
            append_normalized((KeyNormalizer *)PyTuple_GET_ITEM(self->normalizers, i), key + at, end - at, scratch) < 0)
            return -1;
        at = end;
    }
    *hash = crc32_of(self->seed, scratch->data, scratch->size);
    return 0;
}
