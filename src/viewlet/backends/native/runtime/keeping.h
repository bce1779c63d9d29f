/* keeping.h: one row comes to or goes from the rows that a database keeps of a table, beside a trigger.
 *
 * The rows are a dict from each to its number of copies and, of a table with a primary key, one from keys to rows
 * (`KeptRows.lane` in Python, None while they cannot be changed in this way). Where further rows are elsewhere, a
 * callable tells how many have a key: it runs no Python code, so that nobody comes in between. A row that comes is put down
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

static PyObject *name_of_lane; /* "lane" */

typedef struct {
    PyObject *lane;   /* the two dicts, and the callable or None */
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

/* Numbers and texts refer to nothing: the collector of Python need never look at such a tuple, nor at a dict of them. */
static PyObject *tuple_of(PyObject *const *values, Py_ssize_t count) {
    PyObject *row = PyTuple_New(count);
    for (Py_ssize_t i = 0; row && i < count; i++) {
        if (!kept_as_given(values[i])) Py_CLEAR(row);
        else PyTuple_SET_ITEM(row, i, Py_NewRef(values[i]));
    }
    if (row) PyObject_GC_UnTrack(row);
    return row;
}

static PyObject *key_of(PyObject *row, PyObject *slots) {
    Py_ssize_t count = PyBytes_GET_SIZE(slots);
    PyObject *key = PyTuple_New(count);
    for (Py_ssize_t i = 0; key && i < count; i++)
        PyTuple_SET_ITEM(key, i, Py_NewRef(PyTuple_GET_ITEM(row, (uint8_t)PyBytes_AS_STRING(slots)[i])));
    if (key) PyObject_GC_UnTrack(key);
    return key;
}

static PyObject *bag_of(const Keeping *k) { return PyTuple_GET_ITEM(k->lane, 0); }
static PyObject *keys_of(const Keeping *k) { return PyTuple_GET_ITEM(k->lane, 1); }

/* Has no row elsewhere the key? False also with an exception. */
static bool is_free_elsewhere(const Keeping *k) {
    PyObject *elsewhere = PyTuple_GET_ITEM(k->lane, 2);
    if (elsewhere == Py_None) return true;
    PyObject *found = PyObject_CallOneArg(elsewhere, k->key);
    bool is_free = found && PyObject_Not(found) == 1; /* a number */
    Py_XDECREF(found);
    return is_free;
}

static void put(PyObject *bag, PyObject *row, PyObject *copies) {
    /* In place of others or of nothing: neither needs memory, and all rows can be hashed. */
    if ((copies ? PyDict_SetItem(bag, row, copies) : PyDict_DelItem(bag, row)) < 0) PyErr_WriteUnraisable(bag);
}

/* The dicts, the row and its key: false, with or without an exception, if the row cannot be kept in this way. */
static bool keeping_row(Keeping *k, const Keeper *keeper, PyObject *const *values, Py_ssize_t count) {
    k->lane = PyObject_GetAttr(keeper->kept, name_of_lane);
    if (!k->lane || k->lane == Py_None || !(k->row = tuple_of(values, count))) return false;
    return !PyBytes_GET_SIZE(keeper->slots) || (k->key = key_of(k->row, keeper->slots));
}

/* What a dict has under a key, else what it is given to have: NULL then, or with an exception. */
static PyObject *found_or_put(PyObject *dict, PyObject *key, PyObject *value) {
    Py_ssize_t size = PyDict_GET_SIZE(dict);
    PyObject *found = PyDict_SetDefault(dict, key, value);
    return PyDict_GET_SIZE(dict) == size ? Py_XNewRef(found) : NULL;
}

/* Another number of copies than there are: false, with or without an exception, if there are none to be had. */
static bool count_copies(Keeping *k, int64_t weight) {
    long long copies = k->before ? PyLong_AsLongLong(k->before) : 0;
    if (copies < 0 || (k->before && !copies) || copies + weight < 0) return false;
    return copies + weight == 0 || (k->after = PyLong_FromLongLong(copies + weight));
}

/* Puts down a row that comes, which usually is a new one; each dict is asked once. */
static bool keeping_put(Keeping *k, int64_t weight) {
    if (k->key) {
        if (!is_free_elsewhere(k)) return false;
        PyObject *taken = found_or_put(keys_of(k), k->key, k->row);
        Py_XDECREF(taken);
        if (taken || PyErr_Occurred()) return false;
    }
    PyObject *once = PyLong_FromLongLong(weight);
    k->before = once ? found_or_put(bag_of(k), k->row, once) : NULL;
    bool done = !PyErr_Occurred() && (!k->before || (count_copies(k, weight) && PyDict_SetItem(bag_of(k), k->row, k->after) == 0));
    Py_XDECREF(once);
    if (!done && k->key) put(keys_of(k), k->key, NULL);
    return done;
}

/* Before the trigger: false, with or without an exception, if the row must go the long way. */
static bool keeping_begin(Keeping *k, const Keeper *keeper, PyObject *const *values, Py_ssize_t count, int64_t weight) {
    if (!keeping_row(k, keeper, values, count)) return false;
    if (weight > 0) return keeping_put(k, weight);
    k->before = Py_XNewRef(PyDict_GetItemWithError(bag_of(k), k->row));
    return !PyErr_Occurred() && count_copies(k, weight);
}

/* After the trigger, which may have refused the row. */
static void keeping_settle(const Keeping *k, int64_t weight, bool refused) {
    if (refused == (weight < 0)) return;
    put(bag_of(k), k->row, refused ? k->before : k->after);
    if (k->key) put(keys_of(k), k->key, NULL);
}

#endif
