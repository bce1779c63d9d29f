/* bridge.c: compiled programs as Python objects. Compiled once; programs are loaded by it.
 *
 *   open(path, functions, limit, fd) -> Program           with its state in the file `fd`, unless that is -1
 *   Program.apply(table, rows, weights, batch)            rows of physical values; None, or (errors, row)
 *   Program.apply_arrow(table, schema, array, weights, batch)   capsules of the Arrow C Data Interface
 *   Program.lane(table, weight) -> callable               one row per call, as cheap as a call can be
 *   Program.row_gate(..), Program.value_gate(..)          the same for users of a database (gate.h)
 *   Program.rows(view), Program.entries(record)           lists of tuples
 *   Program.columns(view)                                 the rows as columns, for Arrow (shown.h)
 *   Program.top(view, keys, ties, rows)                   the first rows in some order (top.h)
 *   Program.follow(views), Program.changes(view)          what changes in views from now on (changes.h)
 *   Program.value(view)                                   of a view with one row and one column
 *   Program.begin(), Program.restore(), Program.end()     several batches as one step, where sums round (undo.h)
 *   Program.suspect(), Program.check(view)                may a view have become unreadable, and has it?
 *   Program.counts(record, schema, array)                 how often the rows of a batch are in a record
 *   Program.finder(record, order) -> callable             how often is a key there? (finder.h)
 *   Program.add(record, entries), Program.sizes(), Program.bytes()
 *   sound(array, declared, weighted)                       is a batch what its table declares? (sound.h)
 *   alike(schema, array, columns, weights)                which of its rows are the same (alike.h)
 *   save(..), finished(pid), Program.twin(), .thaw(fd), .amounts(..), .put(..)   a state as it was, meanwhile (image.h)
 *
 * A batch that fails is undone by its opposite, or from notes (undo.h), so that it leaves no trace; VL_E_LOST means that this was not
 * possible. The interpreter lock is released while a batch runs.
 */
#define VL_HOST
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>
#include <structmember.h>

#include "records.h"

#include "host.h"
#include "sound.h"
#include "arriving.h"
#include "alike.h"
#include "reading.h"
#include "steps.h"
#include "lane.h"
#include "finder.h"
#include "keeping.h"
#include "gate.h"
#include "shown.h"
#include "changes.h"
#include "top.h"
#include "image.h"

static Program *load_program(const char *path, PyObject *functions);

/* The same program, closed: it waits for a state to be thawed. */
static PyObject *Program_twin(Program *self, PyObject *unused) {
    (void)unused;
    if (!check_open(self)) return NULL;
    Program *twin = load_program(self->path, self->functions);
    if (twin) twin->strings_at = (uint64_t)((uint8_t *)self->instance.strings - (uint8_t *)self->instance.state);
    return (PyObject *)twin;
}

static PyMethodDef Program_methods[] = {
    {"apply", (PyCFunction)Program_apply, METH_VARARGS, "apply(table, rows, weights, batch)"},
    {"apply_arrow", (PyCFunction)Program_apply_arrow, METH_VARARGS, "apply_arrow(table, schema, array, weights, batch)"},
    {"lane", (PyCFunction)Program_lane, METH_VARARGS, "lane(table, weight)"},
    {"row_gate", (PyCFunction)Program_row_gate, METH_VARARGS, "row_gate(table, weight, takes, converters, kept, slots, clock, otherwise)"},
    {"value_gate", (PyCFunction)Program_value_gate, METH_VARARGS, "value_gate(view, clock, otherwise)"},
    {"columns", (PyCFunction)Program_columns, METH_O, "columns(view) -> ([bytes], errors)"},
    {"rows", (PyCFunction)Program_rows, METH_VARARGS, "rows(view) -> ([(row, weight)], errors)"},
    {"follow", (PyCFunction)Program_follow, METH_O, "follow([view]): note what changes in these views from now on"},
    {"changes", (PyCFunction)Program_changes, METH_O, "changes(view) -> ([(row, weight)], errors) since it is followed"},
    {"changes_columns", (PyCFunction)Program_changes_columns, METH_O, "changes_columns(view) -> ([bytes], errors)"},
    {"touched", (PyCFunction)Program_touched, METH_O, "touched(view): under how many keys it may have changed"},
    {"top", (PyCFunction)Program_top, METH_VARARGS, "top(view, keys, ties, rows) -> ([(row, weight)], errors) or None"},
    {"count", (PyCFunction)Program_count, METH_O, "count(view) -> (rows, errors)"},
    {"check", (PyCFunction)Program_check, METH_O, "check(view) -> errors of reading it"},
    {"begin", (PyCFunction)Program_begin, METH_NOARGS, "batches from here to end() are one step; can restore() lead back?"},
    {"end", (PyCFunction)Program_end, METH_NOARGS, "forget how entries were before the step"},
    {"restore", (PyCFunction)Program_restore, METH_NOARGS, "lead back to begin(); answers error bits"},
    {"suspect", (PyCFunction)Program_suspect, METH_NOARGS, "has a sum grown large since this was asked last?"},
    {"value", (PyCFunction)Program_value, METH_O, "value(view) of one row and one column; else LookupError"},
    {"entries", (PyCFunction)Program_entries, METH_VARARGS, "entries(record) -> [keys and fields]"},
    {"add", (PyCFunction)Program_add, METH_VARARGS, "add(record, entries)"},
    {"counts", (PyCFunction)Program_counts, METH_VARARGS, "counts(record, schema, array) -> bytes of 64-bit integers"},
    {"finder", (PyCFunction)Program_finder, METH_VARARGS, "finder(record, order) -> callable: how often is a key there?"},
    {"sizes", (PyCFunction)Program_sizes, METH_NOARGS, "sizes() -> [(entries, bytes)] by record"},
    {"bytes", (PyCFunction)Program_bytes, METH_NOARGS, "bytes of the whole state"},
    {"sweep", (PyCFunction)Program_sweep, METH_NOARGS, "sweep(): forget strings that no record holds"},
    {"present", (PyCFunction)Program_present, METH_O, "present(bytes): have memory for so much growth"},
    {"twin", (PyCFunction)Program_twin, METH_NOARGS, "the same program without state"},
    {"thaw", (PyCFunction)Program_thaw, METH_O, "thaw(fd): take over a state that was saved"},
    {"amounts", (PyCFunction)Program_amounts, METH_VARARGS, "amounts(record, field, after, most) -> (after, runs)"},
    {"put", (PyCFunction)Program_put, METH_VARARGS, "put(record, field, runs): adds what amounts() gave"},
    {"close", (PyCFunction)Program_close, METH_NOARGS, "give the state back"},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject ProgramType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "viewlet_bridge.Program",
    .tp_basicsize = sizeof(Program),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_methods = Program_methods,
    .tp_dealloc = (destructor)Program_dealloc,
    .tp_doc = "A compiled program with its state.",
};

static bool start(Program *self, uint64_t limit) {
    vl_instance *x = &self->instance;
    if (self->file >= 0 ? vl_arena_create_file(&x->arena, self->file, limit, NO_HASH) : vl_arena_create(&x->arena, limit, NO_HASH))
        return false;
    self->open = true;
    vl_account account = {0};
    vl_ref state = vl_alloc_zeroed(&x->arena, &account, self->program->state_bytes);
    if (!state) return false;
    vl_head(&x->arena)->roots[0] = state;
    x->state = vl_at(&x->arena, state);
    return self->program->init(x);
}

/* A program without state. */
static Program *load_program(const char *path, PyObject *functions) {
    Program *self = PyObject_New(Program, &ProgramType);
    if (!self) return NULL;
    memset((char *)self + sizeof(PyObject), 0, sizeof *self - sizeof(PyObject));
    self->functions = Py_NewRef(functions);
    self->file = -1;
    self->instance.host = self;
    self->instance.call = call_host;
    self->path = strdup(path);
    self->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    self->program = self->library ? dlsym(self->library, "vl_program") : NULL;
    if (self->path && self->program && self->program->abi == VL_PROGRAM_ABI) return self;
    if (self->path)
        PyErr_Format(PyExc_ImportError, "%s: %s", path, self->program ? "made for another bridge" : dlerror());
    else
        PyErr_NoMemory();
    Py_DECREF(self);
    return NULL;
}

static PyObject *open_program(PyObject *module, PyObject *args) {
    const char *path;
    PyObject *functions;
    unsigned long long limit;
    int fd = -1;
    (void)module;
    if (!PyArg_ParseTuple(args, "sO!K|i", &path, &PyTuple_Type, &functions, &limit, &fd)) return NULL;
    Program *self = load_program(path, functions);
    if (self && fd >= 0) self->file = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (self && ((fd >= 0 && self->file < 0) || !start(self, limit))) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    return (PyObject *)self;
}

static PyMethodDef module_methods[] = {
    {"open", open_program, METH_VARARGS, "open(path, functions, limit, fd) -> Program"},
    {"save", save_programs, METH_O, "save([(program, fd)]) -> pid of the child that writes their states"},
    {"sound", sound, METH_VARARGS, "sound(array, declared, weighted): is a batch what its table declares?"},
    {"alike", alike, METH_VARARGS, "alike(schema, array, columns, weights) -> (positions, sums) of the rows that differ, or None"},
    {"finished", finished, METH_O, "finished(pid): wait for that child; has it written everything?"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT, .m_name = "viewlet_bridge", .m_doc = "Compiled programs.", .m_size = -1,
    .m_methods = module_methods,
};

/* Programs find here what the runtime lends them (status.h), so its names must be seen by libraries loaded later. */
static bool lend(void) {
    static const char here;
    Dl_info own;
    return dladdr(&here, &own) && dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
}

PyMODINIT_FUNC PyInit_viewlet_bridge(void) {
    if (!lend()) return PyErr_Format(PyExc_ImportError, "the runtime cannot be shown to programs: %s", dlerror());
    if (!name_of_lane && !(name_of_lane = PyUnicode_InternFromString("lane"))) return NULL;
    PyTypeObject *const types[] = {&ProgramType, &LaneType, &GateType, &FinderType};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (PyType_Ready(types[i]) < 0) return NULL;
    return PyModule_Create(&module_definition);
}
