/* changes.h: the changes of followed views, for Python.
 *
 * Part of bridge.c. Between follow([..]) and follow([]) the views given note what changes in them (feed.h). Strings
 * stay meanwhile, so those that nothing uses any more go when following ends.
 */
#ifndef VL_CHANGES_H
#define VL_CHANGES_H

/* follow(views): note the changes of these views from now on, and forget what was noted. */
static PyObject *Program_follow(Program *self, PyObject *numbers) {
    if (!check_open(self)) return NULL;
    vl_instance *x = &self->instance;
    if (!x->feeds) x->feeds = calloc(self->program->views + 1, sizeof *x->feeds);
    if (!x->feeds) return PyErr_NoMemory();
    for (uint32_t i = 0; x->feeding && i < self->program->views; i++) vl_feed_clear(&x->feeds[i]);
    x->feeding = 0;
    PyObject *list = PySequence_Fast(numbers, "view numbers come in a list");
    if (!list) return NULL;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list); i++) {
        Py_ssize_t number = PyLong_AsSsize_t(PySequence_Fast_GET_ITEM(list, i));
        if (number < 0 || number >= 64 || (uint64_t)number >= self->program->views || !self->program->view[number].after) {
            if (!PyErr_Occurred()) PyErr_Format(PyExc_IndexError, "view number %zd notes no changes", number);
            x->feeding = 0;
            Py_DECREF(list);
            return NULL;
        }
        x->feeds[number].columns = self->program->view[number].columns;
        x->feeding |= UINT64_C(1) << number;
    }
    Py_DECREF(list);
    if (!x->undo.held) sweep_strings(self);
    Py_RETURN_NONE;
}

/* The feed of a followed view with the rows under all touched keys; `before` rows were there without them. */
static vl_feed *finished_feed(Program *self, PyObject *number, const vl_view **view, uint64_t *before, vl_errors *errors) {
    Py_ssize_t i = PyLong_AsSsize_t(number);
    if (!check_open(self) || (i == -1 && PyErr_Occurred())) return NULL;
    vl_instance *x = &self->instance;
    if (i < 0 || i >= 64 || !(x->feeding >> i & 1)) {
        PyErr_Format(PyExc_IndexError, "view number %zd is not followed", i);
        return NULL;
    }
    vl_feed *f = &x->feeds[i];
    *view = &self->program->view[i];
    *before = f->rows;
    x->arena.errors = 0;
    f->sign = 1;
    (*view)->after(x);
    *errors = x->arena.errors;
    x->arena.errors = 0;
    if (!f->failed) return f;
    PyErr_NoMemory();
    return NULL;
}

/* changes(view) -> ([(row, weight)], errors): rows that go have negative weights; some may cancel out. */
static PyObject *Program_changes(Program *self, PyObject *number) {
    const vl_view *view;
    uint64_t before;
    vl_errors errors;
    vl_feed *f = finished_feed(self, number, &view, &before, &errors);
    if (!f) return NULL;
    Sink sink = {&self->instance, view->kinds, view->columns, 0, true, PyList_New(0), false};
    if (!sink.list) return NULL;
    for (uint64_t row = 0; row < f->rows; row++) collect_row(&sink, f->cells + row * f->columns, f->weights[row]);
    f->rows = before;
    if (!sink.failed) return Py_BuildValue("(NI)", sink.list, errors);
    Py_DECREF(sink.list);
    return NULL;
}

/* changes_columns(view): the same as columns; see Program.columns. */
static PyObject *Program_changes_columns(Program *self, PyObject *number) {
    const vl_view *view;
    uint64_t before;
    vl_errors errors;
    vl_feed *f = finished_feed(self, number, &view, &before, &errors);
    if (!f) return NULL;
    Py_ssize_t count = 3 * (Py_ssize_t)view->columns + 1;
    Shown shown = {&self->instance, view, calloc((size_t)count, sizeof(Run)), false};
    if (!shown.runs) return PyErr_NoMemory();
    for (uint64_t row = 0; row < f->rows; row++) collect_columns(&shown, f->cells + row * f->columns, f->weights[row]);
    f->rows = before;
    PyObject *list = shown.failed ? NULL : runs_to_list(shown.runs, count);
    free_runs(shown.runs, count);
    if (!list) return PyErr_NoMemory();
    return Py_BuildValue("(NI)", list, errors);
}

/* touched(view): under how many keys a followed view may have changed. */
static PyObject *Program_touched(Program *self, PyObject *number) {
    Py_ssize_t i = PyLong_AsSsize_t(number);
    if (!check_open(self) || (i == -1 && PyErr_Occurred())) return NULL;
    bool followed = i >= 0 && i < 64 && self->instance.feeding >> i & 1;
    return PyLong_FromUnsignedLongLong(followed ? self->instance.feeds[i].count : 0);
}

static void collect_count(void *sink, const vl_cell *row, int64_t weight) {
    (void)row;
    *(int64_t *)sink += weight;
}

/* count(view) -> (the number of its rows, errors) */
static PyObject *Program_count(Program *self, PyObject *number) {
    Py_ssize_t i = PyLong_AsSsize_t(number);
    if (!check_open(self) || (i == -1 && PyErr_Occurred())) return NULL;
    if (i < 0 || (uint64_t)i >= self->program->views) return PyErr_Format(PyExc_IndexError, "there is no view number %zd", i);
    vl_instance *x = &self->instance;
    int64_t rows = 0;
    x->arena.errors = 0;
    self->program->view[i].rows(x, &rows, collect_count);
    vl_errors errors = x->arena.errors;
    x->arena.errors = 0;
    return Py_BuildValue("(LI)", (long long)rows, errors);
}

#endif
