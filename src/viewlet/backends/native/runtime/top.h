/* top.h: the first rows of a view in some order, without making all of them.
 *
 * Part of bridge.c. A heap of as many rows as are wanted, the last of them on top: each row of the view is
 * compared with it, and most are forgotten at once.
 */
#ifndef VL_TOP_H
#define VL_TOP_H

enum { VL_DESCENDING = 1, VL_NULLS_FIRST = 2 };

typedef struct {
    const vl_instance *x;
    const vl_view *view;
    const uint8_t *keys; /* pairs: a column, and how it is ordered */
    Py_ssize_t key_count;
    const uint8_t *ties; /* columns by which equal rows are ordered, ascending, NULL first */
    Py_ssize_t tie_count;
    vl_cell *cells;
    int64_t *weights;
    Py_ssize_t rows, room;
    bool unsure; /* a row was taken away: then the first of all rows are not the first of these */
} Top;

static int compare_cells(const Top *t, const vl_cell *p, const vl_cell *q, uint8_t column) {
    switch (t->view->kinds[column]) {
    case VL_DECIMAL: return (p->as.wide > q->as.wide) - (p->as.wide < q->as.wide);
    case VL_DOUBLE: return (p->as.number > q->as.number) - (p->as.number < q->as.number);
    case VL_TEXT: return vl_string_compare(&t->x->arena, t->x->strings, p->as.text, q->as.text);
    default: return (p->as.i > q->as.i) - (p->as.i < q->as.i);
    }
}

/* Below 0 if the row p comes before the row q. */
static int compare_rows(const Top *t, const vl_cell *p, const vl_cell *q) {
    for (Py_ssize_t i = 0; i < t->key_count; i++) {
        const uint8_t column = t->keys[2 * i], how = t->keys[2 * i + 1];
        const vl_cell *a = &p[column], *b = &q[column];
        int order = a->null || b->null ? (b->null - a->null) * (how & VL_NULLS_FIRST ? 1 : -1)
                                       : compare_cells(t, a, b, column) * (how & VL_DESCENDING ? -1 : 1);
        if (order) return order;
    }
    for (Py_ssize_t i = 0; i < t->tie_count; i++) {
        const vl_cell *a = &p[t->ties[i]], *b = &q[t->ties[i]];
        int order = a->null || b->null ? b->null - a->null : compare_cells(t, a, b, t->ties[i]);
        if (order) return order;
    }
    return 0;
}

static vl_cell *top_row(const Top *t, Py_ssize_t i) { return t->cells + i * (Py_ssize_t)t->view->columns; }

static void put_row(Top *t, Py_ssize_t at, const vl_cell *row, int64_t weight) {
    memcpy(top_row(t, at), row, t->view->columns * sizeof *row);
    t->weights[at] = weight;
}

/* A row into the place of a parent or child that moves: `row` is not in the heap. */
static void sift(Top *t, Py_ssize_t at, const vl_cell *row, int64_t weight, bool up) {
    while (up && at > 0 && compare_rows(t, top_row(t, (at - 1) / 2), row) < 0) {
        put_row(t, at, top_row(t, (at - 1) / 2), t->weights[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    while (!up && 2 * at + 1 < t->rows) {
        Py_ssize_t child = 2 * at + 1;
        if (child + 1 < t->rows && compare_rows(t, top_row(t, child), top_row(t, child + 1)) < 0) child++;
        if (compare_rows(t, top_row(t, child), row) <= 0) break;
        put_row(t, at, top_row(t, child), t->weights[child]);
        at = child;
    }
    put_row(t, at, row, weight);
}

static void collect_top(void *sink, const vl_cell *row, int64_t weight) {
    Top *t = sink;
    t->unsure |= weight < 0;
    if (t->rows < t->room) {
        sift(t, t->rows++, row, weight, true);
    } else if (compare_rows(t, row, top_row(t, 0)) < 0) {
        sift(t, 0, row, weight, false);
    }
}

/* top(view, keys, ties, rows) -> ([(row, weight)], errors), or None: the first rows cannot be told apart. */
static PyObject *Program_top(Program *self, PyObject *args) {
    Py_ssize_t i, keys, ties, room;
    Top top = {0};
    if (!PyArg_ParseTuple(args, "ny#y#n", &i, &top.keys, &keys, &top.ties, &ties, &room) || !check_open(self)) return NULL;
    if (i < 0 || (uint64_t)i >= self->program->views) return PyErr_Format(PyExc_IndexError, "there is no view number %zd", i);
    vl_instance *x = &self->instance;
    top.x = x, top.view = &self->program->view[i];
    top.key_count = keys / 2, top.tie_count = ties, top.room = room;
    for (Py_ssize_t c = 0; c < keys + ties; c++)
        if ((c < keys ? c % 2 == 0 : true) && (c < keys ? top.keys[c] : top.ties[c - keys]) >= top.view->columns)
            return PyErr_Format(PyExc_IndexError, "the view has %u columns", top.view->columns);
    if (room < 1) return PyErr_Format(PyExc_ValueError, "at least one row is wanted, not %zd", room);
    top.cells = calloc((size_t)room * (top.view->columns + 1), sizeof *top.cells);
    top.weights = calloc((size_t)room, sizeof *top.weights);
    PyObject *answer = NULL;
    Sink sink = {x, top.view->kinds, top.view->columns, 0, true, PyList_New(0), false};
    if (top.cells && top.weights && sink.list) {
        x->arena.errors = 0;
        top.view->rows(x, &top, collect_top);
        vl_errors errors = x->arena.errors;
        x->arena.errors = 0;
        for (Py_ssize_t r = 0; r < top.rows; r++) collect_row(&sink, top_row(&top, r), top.weights[r]);
        if (!sink.failed) answer = top.unsure ? Py_NewRef(Py_None) : Py_BuildValue("(OI)", sink.list, errors);
    } else if (sink.list) {
        PyErr_NoMemory();
    }
    Py_XDECREF(sink.list);
    free(top.cells);
    free(top.weights);
    return answer;
}

#endif
