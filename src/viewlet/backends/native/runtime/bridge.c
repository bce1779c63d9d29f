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
 *   Program.add(record, entries), Program.sizes(), Program.bytes()
 *   save(..), finished(pid), Program.twin(), .thaw(fd), .amounts(..), .put(..)   a state as it was, meanwhile (image.h)
 *
 * A batch that fails is undone by its opposite, or from notes (undo.h), so that it leaves no trace; VL_E_LOST means that this was not
 * possible. The interpreter lock is released while a batch runs.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>
#include <structmember.h>

#include "records.h"

/* ---- the Arrow C Data Interface ---- */

struct ArrowSchema {
    const char *format, *name, *metadata;
    int64_t flags, n_children;
    struct ArrowSchema **children, *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};
struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children, *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

typedef struct {
    PyObject_HEAD
    void *library;
    const vl_program_description *program;
    vl_instance instance;
    PyObject *functions; /* tuple of callables */
    char *path;          /* of the library */
    uint64_t strings_at; /* in the state */
    int file;            /* our own descriptor of the file that holds the state; -1: memory does */
    bool open, busy;
} Program;

static PyTypeObject ProgramType;

/* ---- numbers ---- */

static PyObject *python_of_wide(vl_i128 value) {
    if (value == (int64_t)value) return PyLong_FromLongLong((int64_t)value);
    PyObject *high = PyLong_FromLongLong((int64_t)(value >> 64)), *low = PyLong_FromUnsignedLongLong((uint64_t)value);
    PyObject *bits = PyLong_FromLong(64), *shifted = NULL, *result = NULL;
    if (high && low && bits && (shifted = PyNumber_Lshift(high, bits))) result = PyNumber_Or(shifted, low);
    Py_XDECREF(high), Py_XDECREF(low), Py_XDECREF(bits), Py_XDECREF(shifted);
    return result;
}

static bool wide_of_python(PyObject *object, vl_i128 *value) {
    int overflow;
    long long narrow = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (narrow == -1 && PyErr_Occurred()) return false;
    if (!overflow) {
        *value = narrow;
        return true;
    }
    PyObject *bits = PyLong_FromLong(64), *high = bits ? PyNumber_Rshift(object, bits) : NULL;
    bool done = false;
    if (high) {
        long long top = PyLong_AsLongLong(high);
        uint64_t low = PyLong_AsUnsignedLongLongMask(object);
        done = !PyErr_Occurred();
        *value = (vl_i128)((vl_u128)(uint64_t)top << 64 | low);
    }
    Py_XDECREF(bits), Py_XDECREF(high);
    return done;
}

static PyObject *python_of_text(const vl_instance *x, uint32_t id) {
    vl_text t = vl_string_at(&x->arena, x->strings, id);
    return PyUnicode_DecodeUTF8((const char *)t.bytes, (Py_ssize_t)t.length, "surrogatepass");
}

static PyObject *python_of_cell(const vl_instance *x, const vl_cell *cell, uint8_t kind) {
    if (cell->null) Py_RETURN_NONE;
    switch (kind) {
    case VL_BOOLEAN: return PyBool_FromLong(cell->as.i != 0);
    case VL_DECIMAL: return python_of_wide(cell->as.wide);
    case VL_DOUBLE: return PyFloat_FromDouble(cell->as.number + 0.0);
    case VL_TEXT: return python_of_text(x, cell->as.text);
    default: return PyLong_FromLongLong(cell->as.i);
    }
}

/* Text of a Python string; one with lone surrogates goes through `keep`. */
static bool text_of_python(PyObject *object, vl_text *text, PyObject **keep) {
    Py_ssize_t size;
    const char *bytes = PyUnicode_AsUTF8AndSize(object, &size);
    *keep = NULL;
    if (!bytes) {
        if (!PyUnicode_Check(object)) return false;
        PyErr_Clear();
        *keep = PyUnicode_AsEncodedString(object, "utf-8", "surrogatepass");
        if (!*keep) return false;
        bytes = PyBytes_AS_STRING(*keep);
        size = PyBytes_GET_SIZE(*keep);
    }
    *text = (vl_text){(const uint8_t *)bytes, (uint64_t)size};
    return true;
}

static bool cell_of_python(vl_instance *x, PyObject *object, uint8_t kind, vl_cell *cell) {
    memset(cell, 0, sizeof *cell);
    if (object == Py_None) {
        cell->null = true;
        return true;
    }
    switch (kind) {
    case VL_BOOLEAN: {
        int truth = PyObject_IsTrue(object);
        cell->as.i = truth > 0;
        return truth >= 0;
    }
    case VL_DECIMAL: return wide_of_python(object, &cell->as.wide);
    case VL_DOUBLE:
        cell->as.number = PyFloat_AsDouble(object) + 0.0;
        return !PyErr_Occurred();
    case VL_TEXT: {
        vl_text text;
        PyObject *keep;
        if (!text_of_python(object, &text, &keep)) return false;
        cell->as.text = vl_intern(&x->arena, x->strings, text);
        Py_XDECREF(keep);
        return true;
    }
    default:
        cell->as.i = PyLong_AsLongLong(object);
        return !(cell->as.i == -1 && PyErr_Occurred());
    }
}

/* ---- functions of the host ---- */

/* functions[i] is (callable, kinds of the arguments as bytes, kind of the result). */
static bool call_host(vl_instance *x, uint32_t function, const vl_cell *arguments, vl_cell *result) {
    PyGILState_STATE lock = PyGILState_Ensure();
    Program *self = x->host;
    PyObject *entry = PyTuple_GET_ITEM(self->functions, function), *kinds = PyTuple_GET_ITEM(entry, 1);
    Py_ssize_t n = PyBytes_GET_SIZE(kinds);
    PyObject *row = PyTuple_New(n), *value = NULL;
    bool done = row != NULL;
    for (Py_ssize_t i = 0; done && i < n; i++) {
        PyObject *item = python_of_cell(x, &arguments[i], (uint8_t)PyBytes_AS_STRING(kinds)[i]);
        if (item)
            PyTuple_SET_ITEM(row, i, item);
        else
            done = false;
    }
    if (done) value = PyObject_CallOneArg(PyTuple_GET_ITEM(entry, 0), row);
    done = value && cell_of_python(x, value, (uint8_t)PyLong_AsLong(PyTuple_GET_ITEM(entry, 2)), result);
    if (!done) {
        memset(result, 0, sizeof *result);
        result->null = true;
        x->arena.errors |= VL_E_CALL;
        PyErr_Clear(); /* the caller asks again, outside, for the words of the error */
    }
    Py_XDECREF(row), Py_XDECREF(value);
    PyGILState_Release(lock);
    return done;
}

/* ---- applying rows ---- */

enum { VL_KEPT_NOTES = 1 << 20 }; /* bytes of notes that stay allocated from step to step */

typedef struct {
    vl_column *columns;
    int64_t *weights; /* NULL: all 1 */
    int64_t rows;
    bool batch;
} Rows;

static void sweep_all_strings(Program *self) {
    vl_instance *x = &self->instance;
    vl_strings_mark(x->strings);
    for (uint32_t i = 0; i < self->program->records; i++) vl_record_keep_strings(x, &self->program->record[i]);
    vl_strings_sweep(&x->arena, x->strings);
    vl_forget_short_texts(x);
    x->swept_at = x->strings->index.count;
}

static void sweep_strings(Program *self) {
    vl_instance *x = &self->instance;
    if (x->strings->index.count > 2 * x->swept_at + 4096 && !x->feeding) sweep_all_strings(self);
}

static void run_batch(const vl_table *t, vl_instance *x, const Rows *rows, const int64_t *weights, bool *ran) {
    *ran = false;
    t->on_change(x, rows->columns, weights, 0, rows->rows);
    if (!x->arena.errors) {
        *ran = true;
        t->on_batch(x);
    }
    t->clear(x);
}

/* Writes back what was noted from some note on: answers VL_E_LOST if that was not possible. */
static vl_errors go_back(Program *self, uint64_t from) {
    vl_instance *x = &self->instance;
    x->arena.errors = 0;
    x->later.used = 0;
    vl_undo_back(x, self->program->record, from);
    vl_errors lost = x->arena.errors & VL_E_LOST;
    x->arena.errors = 0;
    return lost;
}

/* Applies rows, or nothing: answers the error bits, and in `at` the row that brought them (-1: the batch). */
static vl_errors apply_rows(Program *self, const vl_table *t, const Rows *rows, int64_t *at) {
    vl_instance *x = &self->instance;
    bool ran;
    int64_t done = -1;
    uint64_t begun = vl_undo_begin(&x->undo);
    x->arena.errors = 0;
    if (rows->batch)
        run_batch(t, x, rows, rows->weights, &ran);
    else
        done = t->on_tuple(x, rows->columns, rows->weights, 0, rows->rows);
    vl_errors errors = x->arena.errors;
    *at = done;
    if (VL_LIKELY(!errors)) {
        if (!x->undo.held) sweep_strings(self);
        return 0;
    }
    if (self->program->rounds) return errors | go_back(self, begun);
    int64_t *opposite = malloc((size_t)(rows->rows ? rows->rows : 1) * sizeof *opposite);
    if (!opposite) return errors | VL_E_LOST;
    for (int64_t i = 0; i < rows->rows; i++) opposite[i] = rows->weights ? -rows->weights[i] : -1;
    x->arena.errors = 0;
    x->later.used = 0;
    if (rows->batch) {
        if (ran) run_batch(t, x, rows, opposite, &ran);
    } else {
        for (int64_t i = done; i >= 0; i--) t->on_tuple(x, rows->columns, opposite, i, i + 1);
    }
    errors |= x->arena.errors & VL_E_LOST;
    x->arena.errors = 0;
    free(opposite);
    return errors;
}

/* Buffers for rows that come as Python objects. */
typedef struct {
    vl_column column;
    uint8_t *data, *valid;
    int64_t *offsets;
    uint64_t text_used, text_room;
    bool has_null; /* else triggers are told of no bitmap, which is quicker */
} Buffer;

static const size_t WIDTH[] = {[VL_BOOLEAN] = 1, [VL_INT32] = 4, [VL_INT64] = 8, [VL_DECIMAL] = 16, [VL_DOUBLE] = 8};

static void free_buffers(Buffer *buffers, uint32_t n) {
    for (uint32_t i = 0; buffers && i < n; i++) {
        free(buffers[i].data);
        free(buffers[i].valid);
        free(buffers[i].offsets);
    }
    free(buffers);
}

static Buffer *make_buffers(const vl_table *t, int64_t rows) {
    Buffer *buffers = calloc(t->columns ? t->columns : 1, sizeof *buffers);
    if (!buffers) return NULL;
    for (uint32_t c = 0; c < t->columns; c++) {
        if (!t->used[c]) continue;
        Buffer *b = &buffers[c];
        bool text = t->kinds[c] == VL_TEXT;
        b->text_room = text ? 64 : 0;
        b->data = calloc(text ? 64 : (size_t)rows * WIDTH[t->kinds[c]], 1);
        b->valid = malloc((size_t)(rows + 7) / 8);
        b->offsets = text ? calloc((size_t)rows + 1, sizeof *b->offsets) : NULL;
        if (!b->data || !b->valid || (text && !b->offsets)) {
            free_buffers(buffers, t->columns);
            return NULL;
        }
        memset(b->valid, 0xff, (size_t)(rows + 7) / 8);
    }
    return buffers;
}

static bool put_text(Buffer *b, int64_t i, PyObject *object) {
    vl_text text = {NULL, 0};
    PyObject *keep = NULL;
    if (object != Py_None && !text_of_python(object, &text, &keep)) return false;
    if (b->text_used + text.length > b->text_room) {
        uint64_t room = 2 * (b->text_used + text.length);
        uint8_t *data = realloc(b->data, room);
        if (!data) {
            Py_XDECREF(keep);
            PyErr_NoMemory();
            return false;
        }
        b->data = data;
        b->text_room = room;
    }
    if (text.length) memcpy(b->data + b->text_used, text.bytes, text.length);
    b->text_used += text.length;
    b->offsets[i + 1] = (int64_t)b->text_used;
    Py_XDECREF(keep);
    return true;
}

/* One value into row i of a buffer. */
static bool put_value(Buffer *b, uint8_t kind, int64_t i, PyObject *object) {
    if (object == Py_None) {
        b->valid[i >> 3] &= (uint8_t)~(1u << (i & 7));
        b->has_null = true;
    }
    if (kind == VL_TEXT) return put_text(b, i, object);
    if (object == Py_None) return true;
    switch (kind) {
    case VL_BOOLEAN: {
        int truth = PyObject_IsTrue(object);
        if (truth > 0) b->data[i >> 3] |= (uint8_t)(1u << (i & 7));
        return truth >= 0;
    }
    case VL_DOUBLE: {
        double value = PyFloat_AsDouble(object);
        memcpy(b->data + i * 8, &value, 8);
        return !(value == -1.0 && PyErr_Occurred());
    }
    case VL_DECIMAL: {
        vl_i128 value;
        if (!wide_of_python(object, &value)) return false;
        memcpy(b->data + i * 16, &value, 16);
        return true;
    }
    default: {
        long long value = PyLong_AsLongLong(object);
        if (value == -1 && PyErr_Occurred()) return false;
        if (kind == VL_INT32) {
            if (value != (int32_t)value) {
                PyErr_SetString(PyExc_OverflowError, "value out of range for a 32-bit column");
                return false;
            }
            ((int32_t *)(void *)b->data)[i] = (int32_t)value;
        } else {
            ((int64_t *)(void *)b->data)[i] = value;
        }
        return true;
    }
    }
}

static void point_columns(const vl_table *t, Buffer *buffers, vl_column *columns) {
    for (uint32_t c = 0; c < t->columns; c++)
        columns[c] = (vl_column){buffers[c].data, buffers[c].has_null ? buffers[c].valid : NULL, buffers[c].offsets, true, 0};
}

/* ---- Program ---- */

static bool check_open(Program *self) {
    if (self->open && !self->busy) return true;
    PyErr_SetString(PyExc_RuntimeError, self->open ? "the program is running in another thread" : "the program is closed");
    return false;
}

static const vl_table *table_at(Program *self, Py_ssize_t i) {
    if (!check_open(self)) return NULL;
    if (i >= 0 && (uint64_t)i < self->program->tables) return &self->program->table[i];
    PyErr_Format(PyExc_IndexError, "there is no table number %zd", i);
    return NULL;
}

static PyObject *answer(vl_errors errors, int64_t at) {
    if (VL_LIKELY(!errors)) Py_RETURN_NONE;
    return Py_BuildValue("(IL)", errors, (long long)at);
}

static bool weights_of_list(PyObject *list, int64_t *weights, Py_ssize_t n) {
    for (Py_ssize_t i = 0; i < n; i++) {
        long long weight = PyLong_AsLongLong(PyList_GET_ITEM(list, i));
        if (weight == -1 && PyErr_Occurred()) return false;
        if (weight != (int32_t)weight) {
            PyErr_SetString(PyExc_OverflowError, "a weight is out of range");
            return false;
        }
        weights[i] = weight;
    }
    return true;
}

static PyObject *Program_apply(Program *self, PyObject *args) {
    Py_ssize_t number;
    PyObject *list, *weight_list;
    int batch;
    if (!PyArg_ParseTuple(args, "nO!O!p", &number, &PyList_Type, &list, &PyList_Type, &weight_list, &batch)) return NULL;
    const vl_table *t = table_at(self, number);
    if (!t) return NULL;
    Py_ssize_t n = PyList_GET_SIZE(list);
    if (PyList_GET_SIZE(weight_list) != n) return PyErr_Format(PyExc_ValueError, "one weight per row");
    Buffer *buffers = make_buffers(t, n);
    vl_column *columns = calloc(t->columns ? t->columns : 1, sizeof *columns);
    int64_t *weights = malloc((size_t)(n ? n : 1) * sizeof *weights), at = 0;
    PyObject *result = NULL;
    if (!buffers || !columns || !weights) {
        PyErr_NoMemory();
        goto end;
    }
    if (!weights_of_list(weight_list, weights, n)) goto end;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *row = PyList_GET_ITEM(list, i);
        if (!PyTuple_Check(row) || PyTuple_GET_SIZE(row) != (Py_ssize_t)t->columns) {
            PyErr_Format(PyExc_TypeError, "row %zd is not a tuple of %u values", i, t->columns);
            goto end;
        }
        for (uint32_t c = 0; c < t->columns; c++)
            if (t->used[c] && !put_value(&buffers[c], t->kinds[c], i, PyTuple_GET_ITEM(row, c))) goto end;
    }
    point_columns(t, buffers, columns);
    Rows rows = {columns, weights, n, batch};
    vl_errors errors;
    self->busy = true;
    Py_BEGIN_ALLOW_THREADS
    errors = apply_rows(self, t, &rows, &at);
    Py_END_ALLOW_THREADS
    self->busy = false;
    result = answer(errors, at);
end:
    free_buffers(buffers, t->columns);
    free(columns);
    free(weights);
    return result;
}

static vl_column column_of_arrow(const struct ArrowSchema *schema, const struct ArrowArray *array, uint32_t c, uint8_t kind) {
    const struct ArrowArray *child = array->children[c];
    bool text = kind == VL_TEXT;
    return (vl_column){.data = child->buffers[text ? 2 : 1],
                       .valid = child->null_count == 0 ? NULL : child->buffers[0],
                       .offsets = text ? child->buffers[1] : NULL,
                       .large = schema->children[c]->format[0] == 'U',
                       .from = child->offset + array->offset};
}

static PyObject *Program_apply_arrow(Program *self, PyObject *args) {
    Py_ssize_t number;
    PyObject *schema_capsule, *array_capsule, *weights_object;
    int batch;
    if (!PyArg_ParseTuple(args, "nOOOp", &number, &schema_capsule, &array_capsule, &weights_object, &batch)) return NULL;
    const vl_table *t = table_at(self, number);
    if (!t) return NULL;
    struct ArrowSchema *schema = PyCapsule_GetPointer(schema_capsule, "arrow_schema");
    struct ArrowArray *array = schema ? PyCapsule_GetPointer(array_capsule, "arrow_array") : NULL;
    if (!array) return NULL;
    if (array->n_children != (int64_t)t->columns || schema->n_children != (int64_t)t->columns)
        return PyErr_Format(PyExc_ValueError, "a batch needs %u columns", t->columns);
    Py_buffer weights = {0};
    if (weights_object != Py_None) {
        if (PyObject_GetBuffer(weights_object, &weights, PyBUF_SIMPLE) < 0) return NULL;
        if (weights.len < array->length * 8) {
            PyBuffer_Release(&weights);
            return PyErr_Format(PyExc_ValueError, "one 64-bit weight per row");
        }
    }
    vl_column *columns = calloc(t->columns ? t->columns : 1, sizeof *columns);
    if (!columns) return PyErr_NoMemory();
    for (uint32_t c = 0; c < t->columns; c++) columns[c] = column_of_arrow(schema, array, c, t->kinds[c]);
    Rows rows = {columns, weights.buf, array->length, batch};
    vl_errors errors;
    int64_t at;
    self->busy = true;
    Py_BEGIN_ALLOW_THREADS
    errors = apply_rows(self, t, &rows, &at);
    Py_END_ALLOW_THREADS
    self->busy = false;
    free(columns);
    if (weights_object != Py_None) PyBuffer_Release(&weights);
    return answer(errors, at);
}

/* ---- reading ---- */

typedef struct {
    const vl_instance *x;
    const uint8_t *kinds;
    uint32_t width, sums; /* the last `sums` cells are fields of a record */
    bool weighted;
    PyObject *list;
    bool failed;
} Sink;

static PyObject *python_of_field(const vl_cell *cell, uint8_t kind) {
    if (kind != VL_DOUBLE) return kind == VL_DECIMAL ? python_of_wide(cell->as.wide) : PyLong_FromLongLong(cell->as.i);
    return Py_BuildValue("(dd)", cell->as.sum.high, cell->as.sum.low);
}

static void collect_row(void *sink, const vl_cell *row, int64_t weight) {
    Sink *s = sink;
    if (s->failed) return;
    PyObject *tuple = PyTuple_New(s->width);
    s->failed = tuple == NULL;
    for (uint32_t i = 0; !s->failed && i < s->width; i++) {
        bool field = i + s->sums >= s->width;
        PyObject *item = field ? python_of_field(&row[i], s->kinds[i]) : python_of_cell(s->x, &row[i], s->kinds[i]);
        s->failed = item == NULL;
        if (item) PyTuple_SET_ITEM(tuple, i, item);
    }
    if (!s->failed && s->weighted) {
        PyObject *pair = Py_BuildValue("(NL)", tuple, (long long)weight);
        tuple = pair;
        s->failed = pair == NULL;
    }
    if (!s->failed) s->failed = PyList_Append(s->list, tuple) < 0;
    Py_XDECREF(tuple);
}

static PyObject *Program_rows(Program *self, PyObject *args) {
    Py_ssize_t i;
    if (!PyArg_ParseTuple(args, "n", &i) || !check_open(self)) return NULL;
    if (i < 0 || (uint64_t)i >= self->program->views) return PyErr_Format(PyExc_IndexError, "there is no view number %zd", i);
    const vl_view *view = &self->program->view[i];
    vl_instance *x = &self->instance;
    Sink sink = {x, view->kinds, view->columns, 0, true, PyList_New(0), false};
    if (!sink.list) return NULL;
    x->arena.errors = 0;
    view->rows(x, &sink, collect_row);
    vl_errors errors = x->arena.errors;
    x->arena.errors = 0;
    if (sink.failed) {
        Py_DECREF(sink.list);
        return NULL;
    }
    return Py_BuildValue("(NI)", sink.list, errors);
}

static void collect_nothing(void *sink, const vl_cell *row, int64_t weight) { (void)sink, (void)row, (void)weight; }

/* The error bits that reading a view would give. */
static PyObject *Program_check(Program *self, PyObject *number) {
    Py_ssize_t i = PyLong_AsSsize_t(number);
    if (!check_open(self) || (i == -1 && PyErr_Occurred())) return NULL;
    if (i < 0 || (uint64_t)i >= self->program->views) return PyErr_Format(PyExc_IndexError, "there is no view number %zd", i);
    vl_instance *x = &self->instance;
    x->arena.errors = 0;
    self->program->view[i].rows(x, NULL, collect_nothing);
    vl_errors errors = x->arena.errors;
    x->arena.errors = 0;
    return PyLong_FromUnsignedLong(errors);
}

/* Has a sum grown beyond what every view can show, since this was asked last? */
static PyObject *Program_suspect(Program *self, PyObject *unused) {
    (void)unused;
    if (!check_open(self)) return NULL;
    bool suspect = self->instance.suspect != 0;
    self->instance.suspect = 0;
    return PyBool_FromLong(suspect);
}

typedef struct {
    vl_cell cell;
    int64_t rows;
} One;

static void collect_one(void *sink, const vl_cell *row, int64_t weight) {
    One *one = sink;
    one->cell = row[0];
    one->rows += weight;
}

/* The value of a view with one row and one column; LookupError where rows() has to be asked. */
static PyObject *Program_value(Program *self, PyObject *number) {
    Py_ssize_t i = PyLong_AsSsize_t(number);
    if (!check_open(self) || (i == -1 && PyErr_Occurred())) return NULL;
    if (i < 0 || (uint64_t)i >= self->program->views || self->program->view[i].columns != 1)
        return PyErr_Format(PyExc_IndexError, "view number %zd does not exist or has several columns", i);
    vl_instance *x = &self->instance;
    One one = {0};
    x->arena.errors = 0;
    self->program->view[i].rows(x, &one, collect_one);
    bool failed = x->arena.errors != 0;
    x->arena.errors = 0;
    if (VL_UNLIKELY(failed || one.rows != 1))
        return PyErr_Format(PyExc_LookupError, "%s", failed ? "a value is out of range" : "the view has not one row");
    return python_of_cell(x, &one.cell, self->program->view[i].kinds[0]);
}

static const vl_record *record_at(Program *self, Py_ssize_t i) {
    if (!check_open(self)) return NULL;
    if (i >= 0 && (uint64_t)i < self->program->records) return &self->program->record[i];
    PyErr_Format(PyExc_IndexError, "there is no record number %zd", i);
    return NULL;
}

static PyObject *Program_entries(Program *self, PyObject *args) {
    Py_ssize_t i;
    if (!PyArg_ParseTuple(args, "n", &i)) return NULL;
    const vl_record *record = record_at(self, i);
    if (!record) return NULL;
    Sink sink = {&self->instance, record->kinds, record->keys + record->fields, record->fields, false, PyList_New(0), false};
    if (!sink.list) return NULL;
    vl_cell *row = calloc(sink.width + 1, sizeof *row);
    sink.failed = row == NULL;
    if (row) vl_record_entries(&self->instance, record, row, &sink, collect_row);
    free(row);
    if (!sink.failed) return sink.list;
    if (!PyErr_Occurred()) PyErr_NoMemory();
    Py_DECREF(sink.list);
    return NULL;
}

/* Adds entries: keys, then an amount for every field; a DOUBLE amount is a pair. */
static PyObject *Program_add(Program *self, PyObject *args) {
    Py_ssize_t number;
    PyObject *list;
    if (!PyArg_ParseTuple(args, "nO!", &number, &PyList_Type, &list)) return NULL;
    const vl_record *record = record_at(self, number);
    if (!record) return NULL;
    uint32_t width = record->keys + record->fields;
    vl_cell *row = calloc(width + 1, sizeof *row);
    uint8_t *space = aligned_alloc(16, vl_round_up(record->size, 16));
    vl_instance *x = &self->instance;
    bool failed = !row || !space;
    if (failed) PyErr_NoMemory();
    x->arena.errors = 0;
    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(list); i++) {
        PyObject *entry = PyList_GET_ITEM(list, i);
        failed = !PyTuple_Check(entry) || PyTuple_GET_SIZE(entry) != (Py_ssize_t)width;
        if (failed) PyErr_SetString(PyExc_TypeError, "an entry is a tuple of keys and fields");
        for (uint32_t c = 0; !failed && c < width; c++) {
            PyObject *item = PyTuple_GET_ITEM(entry, c);
            if (c >= record->keys && record->kinds[c] == VL_DOUBLE) {
                memset(&row[c], 0, sizeof row[c]);
                failed = !PyArg_ParseTuple(item, "dd", &row[c].as.sum.high, &row[c].as.sum.low);
            } else {
                failed = !cell_of_python(x, item, record->kinds[c], &row[c]);
            }
        }
        if (!failed) vl_record_add(x, record, row, space);
    }
    free(row);
    free(space);
    vl_errors errors = x->arena.errors;
    x->arena.errors = 0;
    return failed ? NULL : answer(errors, -1);
}

static vl_cell cell_of_column(vl_instance *x, const vl_column *c, uint8_t kind, int64_t i) {
    vl_cell cell = {0};
    cell.null = vl_column_null(c, i);
    if (cell.null) return cell;
    switch (kind) {
    case VL_BOOLEAN: cell.as.i = vl_bit(c->data, c->from + i); break;
    case VL_INT32: cell.as.i = ((const int32_t *)c->data)[c->from + i]; break;
    case VL_INT64: cell.as.i = ((const int64_t *)c->data)[c->from + i]; break;
    case VL_DECIMAL: cell.as.wide = vl_column_decimal(c, i); break;
    case VL_DOUBLE: cell.as.number = ((const double *)c->data)[c->from + i] + 0.0; break;
    default: cell.as.text = vl_intern(&x->arena, x->strings, vl_column_text(c, i)); break;
    }
    return cell;
}

/* The first field of the entries whose keys are the rows of an Arrow batch, 0 where there is none: as bytes. */
static PyObject *Program_counts(Program *self, PyObject *args) {
    Py_ssize_t number;
    PyObject *schema_capsule, *array_capsule;
    if (!PyArg_ParseTuple(args, "nOO", &number, &schema_capsule, &array_capsule)) return NULL;
    const vl_record *record = record_at(self, number);
    const struct ArrowSchema *schema = record ? PyCapsule_GetPointer(schema_capsule, "arrow_schema") : NULL;
    const struct ArrowArray *array = schema ? PyCapsule_GetPointer(array_capsule, "arrow_array") : NULL;
    if (!array) return NULL;
    if (record->layout == VL_PLAIN || array->n_children != (int64_t)record->keys)
        return PyErr_Format(PyExc_ValueError, "a batch needs %u columns", record->keys);
    PyObject *result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(array->length * (int64_t)sizeof(int64_t)));
    vl_column *columns = calloc(record->keys, sizeof *columns);
    uint8_t *space = aligned_alloc(16, vl_round_up(record->size, 16));
    if (!result || !columns || !space) {
        free(columns), free(space);
        Py_XDECREF(result);
        return PyErr_NoMemory();
    }
    vl_instance *x = &self->instance;
    x->arena.errors = 0;
    for (uint32_t c = 0; c < record->keys; c++) columns[c] = column_of_arrow(schema, array, c, record->kinds[c]);
    for (int64_t i = 0; i < array->length; i++) {
        uint32_t nulls = 0;
        memset(space, 0, record->size);
        for (uint32_t c = 0; c < record->keys; c++) {
            vl_cell cell = cell_of_column(x, &columns[c], record->kinds[c], i);
            if (!cell.null) vl_stored_put(space + record->offsets[c], record->forms[c], &cell);
            nulls |= (uint32_t)cell.null << c;
        }
        if (record->nulls >= 0) *(uint32_t *)(void *)(space + record->nulls) = nulls;
        uint8_t *entry = record->touch(x, space);
        int64_t count = vl_stored_get(entry + record->offsets[record->keys], record->forms[record->keys]).as.i;
        memcpy(PyBytes_AS_STRING(result) + i * (int64_t)sizeof count, &count, sizeof count);
        record->leave(x, entry);
    }
    bool failed = x->arena.errors != 0;
    x->arena.errors = 0;
    free(columns), free(space);
    if (!failed) return result;
    Py_DECREF(result);
    return PyErr_NoMemory();
}

static PyObject *Program_sizes(Program *self, PyObject *unused) {
    (void)unused;
    if (!check_open(self)) return NULL;
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < self->program->records; i++) {
        const vl_record *record = &self->program->record[i];
        PyObject *pair = Py_BuildValue("(KK)", (unsigned long long)vl_record_count(&self->instance, record),
                                       (unsigned long long)vl_record_bytes(&self->instance, record));
        if (!pair || PyList_Append(list, pair) < 0) Py_CLEAR(list);
        Py_XDECREF(pair);
    }
    return list;
}

static PyObject *Program_bytes(Program *self, PyObject *unused) {
    (void)unused;
    if (!check_open(self)) return NULL;
    return PyLong_FromUnsignedLongLong(vl_head(&self->instance.arena)->live);
}

static PyObject *Program_present(Program *self, PyObject *given) {
    unsigned long long bytes = PyLong_AsUnsignedLongLong(given);
    if (PyErr_Occurred() || !check_open(self)) return NULL;
    vl_arena *a = &self->instance.arena;
    if (vl_make_present(a, bytes)) Py_RETURN_NONE;
    a->errors = 0; /* nothing happened */
    return PyErr_Format(PyExc_MemoryError, "there is no memory for %llu bytes more", bytes);
}

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

/* ---- lanes: one row per call ---- */

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
    {"row_gate", (PyCFunction)Program_row_gate, METH_VARARGS, "row_gate(table, weight, takes, clock, otherwise)"},
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
    {"finished", finished, METH_O, "finished(pid): wait for that child; has it written everything?"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT, .m_name = "viewlet_bridge", .m_doc = "Compiled programs.", .m_size = -1,
    .m_methods = module_methods,
};

PyMODINIT_FUNC PyInit_viewlet_bridge(void) {
    if (PyType_Ready(&ProgramType) < 0 || PyType_Ready(&LaneType) < 0 || PyType_Ready(&GateType) < 0) return NULL;
    return PyModule_Create(&module_definition);
}
