/* finder.h: how often is a key in a record? A call from Python that runs no Python code: nobody comes in between.
 *
 * Part of bridge.c. A finder owns the space of a key, so that a call allocates nothing.
 */
#ifndef VL_FINDER_H
#define VL_FINDER_H

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    Program *program;
    const vl_record *record;
    PyObject *order; /* bytes: for each key of the record, its place in the tuple that is given */
    uint8_t *space;
} Finder;

/* The key of an entry from a tuple; false with an exception. */
static bool finder_fill(Finder *f, PyObject *given) {
    const vl_record *record = f->record;
    memset(f->space, 0, record->size);
    for (uint32_t c = 0; c < record->keys; c++) {
        vl_cell cell;
        PyObject *value = PyTuple_GET_ITEM(given, (uint8_t)PyBytes_AS_STRING(f->order)[c]);
        if (!cell_of_python(&f->program->instance, value, record->kinds[c], &cell)) return false;
        vl_key_put(record, f->space, c, &cell);
    }
    return true;
}

static PyObject *Finder_call(PyObject *callable, PyObject *const *args, size_t flags, PyObject *names) {
    Finder *f = (Finder *)callable;
    if (names || PyVectorcall_NARGS(flags) != 1 || !PyTuple_Check(args[0]) || PyTuple_GET_SIZE(args[0]) != PyBytes_GET_SIZE(f->order))
        return PyErr_Format(PyExc_TypeError, "a key is a tuple of %zd values", PyBytes_GET_SIZE(f->order));
    if (!check_open(f->program) || !finder_fill(f, args[0])) return NULL;
    vl_instance *x = &f->program->instance;
    x->arena.errors = 0;
    uint8_t *entry = f->record->touch(x, f->space);
    int64_t count = vl_stored_get(entry + f->record->offsets[f->record->keys], f->record->forms[f->record->keys]).as.i;
    f->record->leave(x, entry);
    bool failed = x->arena.errors != 0;
    x->arena.errors = 0;
    if (failed) return PyErr_NoMemory();
    sweep_strings(f->program);
    return PyLong_FromLongLong(count);
}

static void Finder_dealloc(Finder *f) {
    free(f->space);
    Py_XDECREF(f->order);
    Py_XDECREF(f->program);
    Py_TYPE(f)->tp_free((PyObject *)f);
}

static PyTypeObject FinderType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "viewlet_bridge.Finder",
    .tp_basicsize = sizeof(Finder),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Finder, call),
    .tp_call = PyVectorcall_Call,
    .tp_dealloc = (destructor)Finder_dealloc,
    .tp_doc = "How often is a key in a record?",
};

/* finder(record, order) */
static PyObject *Program_finder(Program *self, PyObject *args) {
    Py_ssize_t number;
    PyObject *order;
    if (!PyArg_ParseTuple(args, "nS", &number, &order)) return NULL;
    const vl_record *record = record_at(self, number);
    if (!record) return NULL;
    bool fits = record->layout != VL_PLAIN && PyBytes_GET_SIZE(order) == (Py_ssize_t)record->keys;
    for (uint32_t c = 0; fits && c < record->keys; c++) fits = (uint8_t)PyBytes_AS_STRING(order)[c] < record->keys;
    if (!fits) return PyErr_Format(PyExc_ValueError, "a key has %u places, one for each column", record->keys);
    Finder *f = PyObject_New(Finder, &FinderType);
    if (!f) return NULL;
    f->call = Finder_call;
    f->program = (Program *)Py_NewRef(self);
    f->record = record;
    f->order = Py_NewRef(order);
    f->space = aligned_alloc(16, vl_round_up(record->size, 16));
    if (f->space) return (PyObject *)f;
    Py_DECREF(f);
    return PyErr_NoMemory();
}

#endif
