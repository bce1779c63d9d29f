/* steps.h: several batches as one step, and the end of a program.
 *
 * Part of bridge.c. A step is undone from notes (undo.h) where sums round, else by its opposite batches.
 */
#ifndef VL_STEPS_H
#define VL_STEPS_H

static void forget_notes(Program *self) {
    vl_undo *u = &self->instance.undo;
    free(u->bytes);
    u->bytes = NULL;
    u->room = 0;
    vl_undo_forget(u);
}

/* begin() -> bool: batches from here to end() are one step, from which restore() leads back; False where the
 * opposite batches do that. */
static PyObject *Program_begin(Program *self, PyObject *unused) {
    (void)unused;
    if (!check_open(self)) return NULL;
    if (!self->program->rounds) Py_RETURN_FALSE;
    vl_undo_forget(&self->instance.undo);
    self->instance.undo.held = true;
    Py_RETURN_TRUE;
}

static PyObject *Program_end(Program *self, PyObject *unused) {
    (void)unused;
    if (!check_open(self)) return NULL;
    if (self->instance.undo.room > VL_KEPT_NOTES) forget_notes(self);
    vl_undo_forget(&self->instance.undo);
    self->instance.undo.held = false;
    sweep_strings(self);
    Py_RETURN_NONE;
}

/* sweep(): give back what strings take that no record holds; nothing while notes may hold some */
static PyObject *Program_sweep(Program *self, PyObject *unused) {
    (void)unused;
    if (!check_open(self)) return NULL;
    if (!self->instance.undo.held && !self->instance.feeding) sweep_all_strings(self);
    Py_RETURN_NONE;
}

/* restore() -> error bits: back to begin() */
static PyObject *Program_restore(Program *self, PyObject *unused) {
    (void)unused;
    if (!check_open(self)) return NULL;
    return PyLong_FromUnsignedLong(go_back(self, 0));
}

static void forget_feeds(Program *self) {
    vl_instance *x = &self->instance;
    for (uint32_t i = 0; x->feeds && i < self->program->views; i++) vl_feed_free(&x->feeds[i]);
    free(x->feeds);
    x->feeds = NULL;
    x->feeding = 0;
}

static PyObject *Program_close(Program *self, PyObject *unused) {
    (void)unused;
    if (self->busy) return PyErr_Format(PyExc_RuntimeError, "the program is running in another thread");
    if (self->open) vl_arena_close(&self->instance.arena);
    if (self->file >= 0) close(self->file);
    self->file = -1;
    free(self->instance.later.bytes);
    self->instance.later.bytes = NULL;
    forget_feeds(self);
    forget_notes(self);
    self->open = false;
    Py_RETURN_NONE;
}

static void Program_dealloc(Program *self) {
    if (self->open) vl_arena_close(&self->instance.arena);
    if (self->file >= 0) close(self->file);
    free(self->instance.later.bytes);
    forget_feeds(self);
    forget_notes(self);
    if (self->library) dlclose(self->library);
    free(self->path);
    Py_XDECREF(self->functions);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

#endif
