/* keeping.h: one row comes to or goes from the rows that a database keeps of a table, beside a trigger.
 *
 * The rows are a dict from each to its number of copies and, of a table with a primary key, one from keys to rows
 * (`KeptRows.lane` in Python, None while they cannot be changed in this way). A row that comes is put down
 * before its trigger runs, and one that goes is taken away after it: so nothing that can fail is left to do
 * once the trigger has run, whether it refused or not.
 *
 * Part of bridge.c.
 */
#ifndef VL_KEEPING_H
#define VL_KEEPING_H

typedef struct {
    PyObject *kept;  /* has the attribute `lane`; NULL for a stream, which keeps no rows */
    PyObject *slots; /* bytes: the places of the columns of the primary key */
} Keeper;

typedef struct {
    PyObject *lane;   /* the two dicts */
    PyObject *row, *key;
    PyObject *before; /* the number of copies, NULL for none */
    PyObject *after;
} Keeping;

static void keeping_end(Keeping *k) {
    Py_XDECREF(k->lane);
    Py_XDECREF(k->row);
    Py_XDECREF(k->key);
    Py_XDECREF(k->before);
    Py_XDECREF(k->after);
}

/* Zeros below zero are written otherwise in a table. */
static bool kept_as_given(PyObject *value) {
    return !PyFloat_CheckExact(value) || PyFloat_AS_DOUBLE(value) != 0 || !signbit(PyFloat_AS_DOUBLE(value));
}

static PyObject *tuple_of(PyObject *const *values, Py_ssize_t count) {
    PyObject *row = PyTuple_New(count);
    for (Py_ssize_t i = 0; row && i < count; i++) {
        if (!kept_as_given(values[i])) Py_CLEAR(row);
        else PyTuple_SET_ITEM(row, i, Py_NewRef(values[i]));
    }
    return row;
}

static PyObject *key_of(PyObject *row, PyObject *slots) {
    Py_ssize_t count = PyBytes_GET_SIZE(slots);
    PyObject *key = PyTuple_New(count);
    for (Py_ssize_t i = 0; key && i < count; i++)
        PyTuple_SET_ITEM(key, i, Py_NewRef(PyTuple_GET_ITEM(row, (uint8_t)PyBytes_AS_STRING(slots)[i])));
    return key;
}

static PyObject *bag_of(const Keeping *k) { return PyTuple_GET_ITEM(k->lane, 0); }
static PyObject *keys_of(const Keeping *k) { return PyTuple_GET_ITEM(k->lane, 1); }

static void put(PyObject *bag, PyObject *row, PyObject *copies) {
    /* In place of others or of nothing: neither needs memory, and all rows can be hashed. */
    if ((copies ? PyDict_SetItem(bag, row, copies) : PyDict_DelItem(bag, row)) < 0) PyErr_WriteUnraisable(bag);
}

/* Finds the row among those that are kept, and whether it may come or go; with or without an exception if not. */
static bool keeping_find(Keeping *k, const Keeper *keeper, PyObject *const *values, Py_ssize_t count, int64_t weight) {
    k->lane = PyObject_GetAttrString(keeper->kept, "lane");
    if (!k->lane || k->lane == Py_None || !(k->row = tuple_of(values, count))) return false;
    k->before = Py_XNewRef(PyDict_GetItemWithError(bag_of(k), k->row));
    if (PyErr_Occurred()) return false;
    long long copies = k->before ? PyLong_AsLongLong(k->before) : 0;
    if (copies < 0 || (k->before && !copies) || copies + weight < 0) return false;
    if (copies + weight > 0 && !(k->after = PyLong_FromLongLong(copies + weight))) return false;
    if (!PyBytes_GET_SIZE(keeper->slots)) return true;
    k->key = key_of(k->row, keeper->slots);
    return k->key && (weight < 0 || !PyDict_Contains(keys_of(k), k->key)) && !PyErr_Occurred();
}

/* Before the trigger: false, with or without an exception, if the row must go the long way. */
static bool keeping_begin(Keeping *k, const Keeper *keeper, PyObject *const *values, Py_ssize_t count, int64_t weight) {
    if (!keeping_find(k, keeper, values, count, weight)) return false;
    if (weight < 0) return true;
    if (k->key && PyDict_SetItem(keys_of(k), k->key, k->row) < 0) return false;
    if (PyDict_SetItem(bag_of(k), k->row, k->after) == 0) return true;
    if (k->key) put(keys_of(k), k->key, NULL);
    return false;
}

/* After the trigger, which may have refused the row. */
static void keeping_settle(const Keeping *k, int64_t weight, bool refused) {
    if (refused == (weight < 0)) return;
    put(bag_of(k), k->row, refused ? k->before : k->after);
    if (k->key) put(keys_of(k), k->key, NULL);
}

#endif
