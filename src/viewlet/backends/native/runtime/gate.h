/* gate.h: calls that go from Python straight to a program, while a database lets them.
 *
 * A database and its gates share a clock of three words: the version of the last commit, how many calls are
 * inside the database, and a generation that moves on whenever views, subscribers or anything else changes on
 * which a gate relies. A gate is open if nobody is inside and its generation is the present one. Closed, or
 * given what it cannot take, it hands the same arguments to a Python callable, which does it the long way and
 * finds the words for what is wrong. The interpreter lock is held throughout, so nobody comes in between.
 *
 * Part of bridge.c, which has the lanes that rows go through; keeping.h has the rows that a table keeps.
 */
#ifndef VL_GATE_H
#define VL_GATE_H

enum { VL_CLOCK_VERSION, VL_CLOCK_INSIDE, VL_CLOCK_GENERATION, VL_CLOCK_WORDS };

/* What a column takes; VL_TAKES_NULL is added to it. What was converted has been checked. */
enum {
    VL_TAKES_I8,
    VL_TAKES_I16,
    VL_TAKES_I32,
    VL_TAKES_I64,
    VL_TAKES_DOUBLE,
    VL_TAKES_BOOLEAN,
    VL_TAKES_TEXT,
    VL_TAKES_CONVERTED,
    VL_TAKES_NULL = 16
};

enum { VL_MOST_CONVERTED = 64 };

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    Program *program;
    Lane *lane;          /* of a gate for rows */
    PyObject *takes;     /* likewise: a byte per column */
    Keeper keeper;       /* likewise */
    PyObject *converters; /* likewise: a tuple of a callable or None per column, empty if all are None */
    Py_ssize_t view;     /* of a gate for a value */
    PyObject *otherwise;
    Py_buffer clock;
    long long generation;
    long long count;     /* rows that went through */
} Gate;

static bool gate_open(const Gate *g) {
    const int64_t *clock = g->clock.buf;
    return clock[VL_CLOCK_INSIDE] == 0 && clock[VL_CLOCK_GENERATION] == g->generation && g->program->open && !g->program->busy;
}

static bool takes(uint8_t what, PyObject *value) {
    if (value == Py_None) return what & VL_TAKES_NULL;
    what &= VL_TAKES_NULL - 1;
    if (what == VL_TAKES_CONVERTED) return true;
    if (what == VL_TAKES_TEXT) {
        Py_ssize_t length;
        if (!PyUnicode_CheckExact(value)) return false;
        if (PyUnicode_IS_ASCII(value) || PyUnicode_AsUTF8AndSize(value, &length)) return true;
        PyErr_Clear(); /* lone surrogates */
        return false;
    }
    if (what == VL_TAKES_DOUBLE) return PyFloat_CheckExact(value) && vl_f64_finite(PyFloat_AS_DOUBLE(value));
    if (what == VL_TAKES_BOOLEAN) return PyBool_Check(value);
    if (!PyLong_CheckExact(value)) return false;
    int overflow;
    long long n = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow) return false;
    return what == VL_TAKES_I64 || (what == VL_TAKES_I32 ? n == (int32_t)n : what == VL_TAKES_I16 ? n == (int16_t)n : n == (int8_t)n);
}

/* After errors, which have left no trace unless the state is lost: then nobody may use it any more. */
static void gate_failed(Gate *g, vl_errors errors) {
    if (!(errors & VL_E_LOST)) return;
    Py_XDECREF(Program_close(g->program, NULL));
    PyErr_NoMemory();
}

/* Runs the trigger for the row in the lane; false, with an exception or without one, if it was refused. */
static bool gate_run(Gate *g) {
    Lane *lane = g->lane;
    Rows rows = {lane->columns, &lane->weight, 1, false};
    vl_instance *x = &g->program->instance;
    int64_t at = 0;
    vl_undo_forget(&x->undo);
    x->undo.held = true;
    vl_errors errors = apply_rows(g->program, lane->table, &rows, &at);
    x->undo.held = false;
    if (VL_LIKELY(!errors && !x->suspect)) return true;
    if (!errors && g->program->program->rounds) {
        errors = go_back(g->program, 0);
    } else if (!errors) {
        lane->weight = -lane->weight;
        errors = apply_rows(g->program, lane->table, &rows, &at);
        lane->weight = -lane->weight;
    }
    gate_failed(g, errors);
    return false;
}

/* The commit version, or NULL: with an exception, or without one if the row must go the long way. */
static PyObject *gate_row(Gate *g, PyObject *const *args) {
    Lane *lane = g->lane;
    const uint8_t *what = (const uint8_t *)PyBytes_AS_STRING(g->takes);
    for (uint32_t c = 0; c < lane->table->columns; c++)
        if (VL_UNLIKELY(!takes(what[c], args[c]))) return NULL;
    if (VL_UNLIKELY(!fill_lane(lane, args))) return NULL;
    bool done;
    if (g->keeper.kept) {
        Keeping kept = {0};
        bool begun = keeping_begin(&kept, &g->keeper, args, (Py_ssize_t)lane->table->columns, lane->weight);
        done = begun && gate_run(g);
        if (begun) keeping_settle(&kept, lane->weight, !done);
        keeping_end(&kept);
    } else {
        done = gate_run(g);
    }
    if (VL_UNLIKELY(!done)) return NULL;
    sweep_strings(g->program);
    int64_t *clock = g->clock.buf;
    g->count++;
    return PyLong_FromLongLong(++clock[VL_CLOCK_VERSION]);
}

/* The same for values some of which are converted first, which may run any Python code: so the gate is asked again. */
static PyObject *gate_converted(Gate *g, PyObject *const *args) {
    PyObject *values[VL_MOST_CONVERTED], *version = NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(g->converters), done = 0;
    for (; done < count; done++) {
        PyObject *converter = PyTuple_GET_ITEM(g->converters, done);
        values[done] = converter == Py_None ? Py_NewRef(args[done]) : PyObject_CallOneArg(converter, args[done]);
        if (!values[done]) break;
    }
    if (done == count && gate_open(g)) version = gate_row(g, values);
    else if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception)) PyErr_Clear(); /* the long way says it */
    while (done) Py_DECREF(values[--done]);
    return version;
}

static PyObject *Gate_row(PyObject *callable, PyObject *const *args, size_t flags, PyObject *names) {
    Gate *g = (Gate *)callable;
    if (VL_LIKELY(!names && gate_open(g) && PyVectorcall_NARGS(flags) == (Py_ssize_t)g->lane->table->columns)) {
        PyObject *version = PyTuple_GET_SIZE(g->converters) ? gate_converted(g, args) : gate_row(g, args);
        if (VL_LIKELY(version || PyErr_Occurred())) return version;
    }
    return PyObject_Vectorcall(g->otherwise, args, flags, names);
}

static PyObject *Gate_value(PyObject *callable, PyObject *const *args, size_t flags, PyObject *names) {
    Gate *g = (Gate *)callable;
    if (VL_LIKELY(gate_open(g))) {
        One one = {0};
        vl_instance *x = &g->program->instance;
        x->arena.errors = 0;
        g->program->program->view[g->view].rows(x, &one, collect_one);
        bool failed = x->arena.errors != 0;
        x->arena.errors = 0;
        if (VL_LIKELY(!failed && one.rows == 1)) return python_of_cell(x, &one.cell, g->program->program->view[g->view].kinds[0]);
    }
    return PyObject_Vectorcall(g->otherwise, args, flags, names);
}

static int Gate_traverse(Gate *g, visitproc visit, void *arg) {
    Py_VISIT(g->program);
    Py_VISIT(g->otherwise);
    Py_VISIT(g->keeper.kept);
    Py_VISIT(g->converters);
    return 0;
}

static int Gate_clear(Gate *g) {
    Py_CLEAR(g->otherwise);
    Py_CLEAR(g->keeper.kept);
    return 0;
}

static void Gate_dealloc(Gate *g) {
    PyObject_GC_UnTrack(g);
    Py_XDECREF(g->otherwise);
    Py_XDECREF(g->lane);
    Py_XDECREF(g->takes);
    Py_XDECREF(g->keeper.kept);
    Py_XDECREF(g->keeper.slots);
    Py_XDECREF(g->converters);
    Py_XDECREF(g->program);
    if (g->clock.buf) PyBuffer_Release(&g->clock);
    PyObject_GC_Del(g);
}

static PyMemberDef Gate_members[] = {
    {"count", T_LONGLONG, offsetof(Gate, count), 0, "rows that went through"},
    {"generation", T_LONGLONG, offsetof(Gate, generation), READONLY, "when it was made"},
    {NULL, 0, 0, 0, NULL},
};

static PyTypeObject GateType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "viewlet_bridge.Gate",
    .tp_basicsize = sizeof(Gate),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC,
    .tp_vectorcall_offset = offsetof(Gate, call),
    .tp_call = PyVectorcall_Call,
    .tp_members = Gate_members,
    .tp_traverse = (traverseproc)Gate_traverse,
    .tp_clear = (inquiry)Gate_clear,
    .tp_dealloc = (destructor)Gate_dealloc,
    .tp_doc = "A call that goes straight to a program while its database lets it.",
};

static Gate *make_gate(Program *self, vectorcallfunc call, PyObject *clock, PyObject *otherwise) {
    Gate *g = PyObject_GC_New(Gate, &GateType);
    if (!g) return NULL;
    memset((char *)g + sizeof(PyObject), 0, sizeof *g - sizeof(PyObject));
    g->call = call;
    g->program = (Program *)Py_NewRef(self);
    g->otherwise = Py_NewRef(otherwise);
    PyObject_GC_Track(g);
    if (PyObject_GetBuffer(clock, &g->clock, PyBUF_WRITABLE) < 0) {
        Py_DECREF(g);
        return NULL;
    }
    if (g->clock.len < (Py_ssize_t)(VL_CLOCK_WORDS * sizeof(int64_t))) {
        Py_DECREF(g);
        PyErr_SetString(PyExc_ValueError, "a clock has three 64-bit words");
        return NULL;
    }
    g->generation = ((const int64_t *)g->clock.buf)[VL_CLOCK_GENERATION];
    return g;
}

/* row_gate(table, weight, takes, converters, kept, slots, clock, otherwise); kept is None for a stream */
static PyObject *Program_row_gate(Program *self, PyObject *args) {
    PyObject *number, *weight, *what, *converters, *kept, *slots, *clock, *otherwise;
    if (!PyArg_ParseTuple(args, "OOSO!OSOO", &number, &weight, &what, &PyTuple_Type, &converters, &kept, &slots, &clock, &otherwise))
        return NULL;
    PyObject *both = PyTuple_Pack(2, number, weight), *lane = both ? Program_lane(self, both) : NULL;
    Py_XDECREF(both);
    if (!lane) return NULL;
    Gate *g = NULL;
    Py_ssize_t columns = (Py_ssize_t)((Lane *)lane)->table->columns, converted = PyTuple_GET_SIZE(converters);
    if (PyBytes_GET_SIZE(what) != columns || (converted && (converted != columns || columns > VL_MOST_CONVERTED)))
        PyErr_SetString(PyExc_ValueError, "one byte per column, and one converter of not too many, or none");
    else
        g = make_gate(self, Gate_row, clock, otherwise);
    if (!g) {
        Py_DECREF(lane);
        return NULL;
    }
    g->lane = (Lane *)lane;
    g->takes = Py_NewRef(what);
    g->converters = Py_NewRef(converters);
    g->keeper = (Keeper){kept == Py_None ? NULL : Py_NewRef(kept), Py_NewRef(slots)};
    return (PyObject *)g;
}

/* value_gate(view, clock, otherwise) */
static PyObject *Program_value_gate(Program *self, PyObject *args) {
    Py_ssize_t view;
    PyObject *clock, *otherwise;
    if (!PyArg_ParseTuple(args, "nOO", &view, &clock, &otherwise) || !check_open(self)) return NULL;
    if (view < 0 || (uint64_t)view >= self->program->views || self->program->view[view].columns != 1)
        return PyErr_Format(PyExc_IndexError, "view number %zd does not exist or has several columns", view);
    Gate *g = make_gate(self, Gate_value, clock, otherwise);
    if (g) g->view = view;
    return (PyObject *)g;
}

#endif
