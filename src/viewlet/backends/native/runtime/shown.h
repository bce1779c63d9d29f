/* shown.h: the rows of a view as columns, for Arrow.
 *
 * Part of bridge.c. A column is three runs of bytes: values of the width of their kind (a byte for BOOLEAN, text
 * one after the other), a byte per row that says whether it has a value, and for text where each ends, as 64-bit
 * integers.
 */
#ifndef VL_SHOWN_H
#define VL_SHOWN_H

typedef struct {
    uint8_t *bytes;
    size_t used, room;
} Run;

typedef struct {
    const vl_instance *x;
    const vl_view *view;
    Run *runs; /* values, presence, ends of every column; then the weights */
    bool failed;
} Shown;

static bool run_put(Run *run, const void *bytes, size_t n) {
    if (run->used + n > run->room) {
        size_t room = 2 * (run->used + n) + 4096;
        uint8_t *more = realloc(run->bytes, room);
        if (!more) return false;
        run->bytes = more;
        run->room = room;
    }
    if (n) memcpy(run->bytes + run->used, bytes, n);
    run->used += n;
    return true;
}

static bool run_put_cell(Run *runs, const vl_instance *x, const vl_cell *cell, uint8_t kind) {
    static const vl_cell nothing = {0};
    const vl_cell *shown = cell->null ? &nothing : cell;
    uint8_t present = !cell->null, truth = shown->as.i != 0;
    int32_t narrow = (int32_t)shown->as.i;
    double number = shown->as.number + 0.0;
    bool done = run_put(&runs[1], &present, 1);
    switch (kind) {
    case VL_BOOLEAN: return done && run_put(&runs[0], &truth, 1);
    case VL_INT32: return done && run_put(&runs[0], &narrow, sizeof narrow);
    case VL_INT64: return done && run_put(&runs[0], &shown->as.i, sizeof shown->as.i);
    case VL_DECIMAL: return done && run_put(&runs[0], &shown->as.wide, sizeof shown->as.wide);
    case VL_DOUBLE: return done && run_put(&runs[0], &number, sizeof number);
    default: {
        vl_text text = cell->null ? (vl_text){NULL, 0} : vl_string_at(&x->arena, x->strings, cell->as.text);
        done = done && run_put(&runs[0], text.bytes, text.length);
        int64_t end = (int64_t)runs[0].used;
        return done && run_put(&runs[2], &end, sizeof end);
    }
    }
}

static void collect_columns(void *sink, const vl_cell *row, int64_t weight) {
    Shown *s = sink;
    for (uint32_t c = 0; !s->failed && c < s->view->columns; c++)
        s->failed = !run_put_cell(&s->runs[3 * c], s->x, &row[c], s->view->kinds[c]);
    if (!s->failed) s->failed = !run_put(&s->runs[3 * s->view->columns], &weight, sizeof weight);
}

/* The runs as bytes objects; NULL without memory. */
static PyObject *runs_to_list(const Run *runs, Py_ssize_t count) {
    PyObject *list = PyList_New(count);
    for (Py_ssize_t r = 0; list && r < count; r++) {
        PyObject *bytes = PyBytes_FromStringAndSize((const char *)runs[r].bytes, (Py_ssize_t)runs[r].used);
        if (bytes)
            PyList_SET_ITEM(list, r, bytes);
        else
            Py_CLEAR(list);
    }
    return list;
}

static void free_runs(Run *runs, Py_ssize_t count) {
    for (Py_ssize_t r = 0; r < count; r++) free(runs[r].bytes);
    free(runs);
}

/* columns(view) -> ([bytes, three per column, then the weights], errors) */
static PyObject *Program_columns(Program *self, PyObject *number) {
    Py_ssize_t i = PyLong_AsSsize_t(number);
    if (!check_open(self) || (i == -1 && PyErr_Occurred())) return NULL;
    if (i < 0 || (uint64_t)i >= self->program->views) return PyErr_Format(PyExc_IndexError, "there is no view number %zd", i);
    vl_instance *x = &self->instance;
    const vl_view *view = &self->program->view[i];
    Py_ssize_t count = 3 * (Py_ssize_t)view->columns + 1;
    Shown shown = {x, view, calloc((size_t)count, sizeof(Run)), false};
    if (!shown.runs) return PyErr_NoMemory();
    x->arena.errors = 0;
    view->rows(x, &shown, collect_columns);
    vl_errors errors = x->arena.errors;
    x->arena.errors = 0;
    PyObject *list = shown.failed ? NULL : runs_to_list(shown.runs, count);
    free_runs(shown.runs, count);
    if (!list) return PyErr_NoMemory();
    return Py_BuildValue("(NI)", list, errors);
}

#endif
