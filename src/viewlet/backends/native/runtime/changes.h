/* changes.h: the changes of followed views, for Python.
 *
 * Part of bridge.c. Between follow([..]) and follow([]) the views given note what changes in them (feed.h).
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
    Py_RETURN_NONE;
}

/* changes(view) -> ([(row, weight)], errors): rows that go have negative weights; some may cancel out. */
static PyObject *Program_changes(Program *self, PyObject *number) {
    Py_ssize_t i = PyLong_AsSsize_t(number);
    if (!check_open(self) || (i == -1 && PyErr_Occurred())) return NULL;
    vl_instance *x = &self->instance;
    if (i < 0 || i >= 64 || !(x->feeding >> i & 1)) return PyErr_Format(PyExc_IndexError, "view number %zd is not followed", i);
    const vl_view *view = &self->program->view[i];
    vl_feed *f = &x->feeds[i];
    const uint64_t before = f->rows;
    x->arena.errors = 0;
    f->sign = 1;
    view->after(x);
    vl_errors errors = x->arena.errors;
    x->arena.errors = 0;
    Sink sink = {x, view->kinds, view->columns, 0, true, f->failed ? NULL : PyList_New(0), false};
    if (!sink.list) return f->failed ? PyErr_NoMemory() : NULL;
    for (uint64_t row = 0; row < f->rows; row++) collect_row(&sink, f->cells + row * f->columns, f->weights[row]);
    f->rows = before;
    if (sink.failed) {
        Py_DECREF(sink.list);
        return NULL;
    }
    return Py_BuildValue("(NI)", sink.list, errors);
}

#endif
