/* lane.h: one row per call, as cheap as a call can be.
 *
 * Part of bridge.c. A lane owns the buffers of its row, so that a call allocates nothing.
 */
#ifndef VL_LANE_H
#define VL_LANE_H

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    Program *program;
    const vl_table *table;
    Buffer *buffers;
    vl_column *columns;
    int64_t weight;
} Lane;

/* One row into the buffers of a lane; false with an exception. */
static bool fill_lane(Lane *lane, PyObject *const *args) {
    const vl_table *t = lane->table;
    for (uint32_t c = 0; c < t->columns; c++) {
        if (!t->used[c]) continue;
        Buffer *b = &lane->buffers[c];
        b->valid[0] = 1;
        b->text_used = 0;
        if (t->kinds[c] == VL_BOOLEAN) b->data[0] = 0;
        if (VL_UNLIKELY(!put_value(b, t->kinds[c], 0, args[c]))) return false;
        if (t->kinds[c] == VL_TEXT) lane->columns[c].data = b->data;
        lane->columns[c].valid = args[c] == Py_None ? b->valid : NULL;
    }
    return true;
}

static PyObject *Lane_call(PyObject *callable, PyObject *const *args, size_t flags, PyObject *names) {
    Lane *lane = (Lane *)callable;
    const vl_table *t = lane->table;
    Py_ssize_t n = PyVectorcall_NARGS(flags);
    if (VL_UNLIKELY(!check_open(lane->program))) return NULL;
    if (VL_UNLIKELY(n != (Py_ssize_t)t->columns || (names && PyTuple_GET_SIZE(names))))
        return PyErr_Format(PyExc_TypeError, "a row has %u values, in column order", t->columns);
    if (VL_UNLIKELY(!fill_lane(lane, args))) return NULL;
    Rows rows = {lane->columns, &lane->weight, 1, false};
    int64_t at = 0;
    vl_errors errors = apply_rows(lane->program, t, &rows, &at);
    return answer(errors, at);
}

static void Lane_dealloc(Lane *lane) {
    free_buffers(lane->buffers, lane->table ? lane->table->columns : 0);
    free(lane->columns);
    Py_XDECREF(lane->program);
    Py_TYPE(lane)->tp_free((PyObject *)lane);
}

static PyTypeObject LaneType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "viewlet_bridge.Lane",
    .tp_basicsize = sizeof(Lane),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Lane, call),
    .tp_call = PyVectorcall_Call,
    .tp_dealloc = (destructor)Lane_dealloc,
    .tp_doc = "One row per call: None, or (errors, 0).",
};

static PyObject *Program_lane(Program *self, PyObject *args) {
    Py_ssize_t number;
    int weight;
    if (!PyArg_ParseTuple(args, "ni", &number, &weight)) return NULL;
    const vl_table *t = table_at(self, number);
    if (!t) return NULL;
    Lane *lane = PyObject_New(Lane, &LaneType);
    if (!lane) return NULL;
    lane->call = Lane_call;
    lane->program = (Program *)Py_NewRef(self);
    lane->table = t;
    lane->weight = weight;
    lane->buffers = make_buffers(t, 1);
    lane->columns = calloc(t->columns ? t->columns : 1, sizeof *lane->columns);
    if (!lane->buffers || !lane->columns) {
        Py_DECREF(lane);
        return PyErr_NoMemory();
    }
    point_columns(t, lane->buffers, lane->columns);
    return (PyObject *)lane;
}

#endif
