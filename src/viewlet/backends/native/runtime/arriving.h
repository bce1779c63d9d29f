/* arriving.h: rows on their way into a program, from Python objects or from Arrow.
 *
 * Part of bridge.c. Rows are applied all or not at all: what fails is undone by its opposite, or from notes
 * (undo.h). The interpreter lock is released while triggers run.
 */
#ifndef VL_ARRIVING_H
#define VL_ARRIVING_H

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

/* The columns of an Arrow batch; narrow numbers are made as wide as programs read them. */
typedef struct {
    vl_column *columns;
    void **wide; /* what was made, by column */
    uint32_t count;
} Arriving;

static void free_arriving(Arriving *g) {
    for (uint32_t c = 0; g->wide && c < g->count; c++) free(g->wide[c]);
    free(g->wide);
    free(g->columns);
}

static vl_column column_of_arrow(const struct ArrowSchema *schema, const struct ArrowArray *child, uint8_t kind) {
    bool text = kind == VL_TEXT;
    return (vl_column){.data = child->buffers[text ? 2 : 1],
                       .valid = child->null_count == 0 ? NULL : child->buffers[0],
                       .offsets = text ? child->buffers[1] : NULL,
                       .large = schema->format[0] == 'U',
                       .from = child->offset};
}

/* TINYINT and SMALLINT as 32-bit integers, FLOAT as double; false without memory. */
static bool widen(vl_column *column, void **wide, char format, int64_t rows) {
    const int64_t from = column->from;
    if (format != 'c' && format != 's' && format != 'f') return true;
    *wide = malloc((size_t)(rows + 8) * (format == 'f' ? sizeof(double) : sizeof(int32_t)));
    if (!*wide) return false;
    column->from = from & 7; /* of the byte of the bitmap that it begins in */
    for (int64_t i = 0; i < rows; i++) {
        if (format == 'f') ((double *)*wide)[column->from + i] = ((const float *)column->data)[from + i];
        else if (format == 's') ((int32_t *)*wide)[column->from + i] = ((const int16_t *)column->data)[from + i];
        else ((int32_t *)*wide)[column->from + i] = ((const int8_t *)column->data)[from + i];
    }
    column->data = *wide;
    if (column->valid) column->valid += from >> 3;
    return true;
}

/* Those of the columns that are `used` (NULL: all), in the order of a program's; false without memory. */
static bool arriving_of_arrow(Arriving *g, const struct ArrowSchema *schema, const struct ArrowArray *array, uint32_t count,
                           const uint8_t *kinds, const uint8_t *used) {
    *g = (Arriving){calloc(count ? count : 1, sizeof *g->columns), calloc(count ? count : 1, sizeof *g->wide), count};
    bool done = g->columns && g->wide;
    for (uint32_t c = 0; done && c < count; c++) {
        if (used && !used[c]) continue;
        g->columns[c] = column_of_arrow(schema->children[c], array->children[c], kinds[c]);
        g->columns[c].from += array->offset;
        done = widen(&g->columns[c], &g->wide[c], schema->children[c]->format[0], array->length);
    }
    if (!done) free_arriving(g);
    return done;
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
    if (array->n_children < (int64_t)t->columns || schema->n_children != array->n_children) /* weights may follow */
        return PyErr_Format(PyExc_ValueError, "a batch needs %u columns", t->columns);
    Py_buffer weights = {0};
    if (weights_object != Py_None) {
        if (PyObject_GetBuffer(weights_object, &weights, PyBUF_SIMPLE) < 0) return NULL;
        if (weights.len < array->length * 8) {
            PyBuffer_Release(&weights);
            return PyErr_Format(PyExc_ValueError, "one 64-bit weight per row");
        }
    }
    Arriving given;
    if (!arriving_of_arrow(&given, schema, array, t->columns, t->kinds, t->used)) {
        if (weights_object != Py_None) PyBuffer_Release(&weights);
        return PyErr_NoMemory();
    }
    Rows rows = {given.columns, weights.buf, array->length, batch};
    vl_errors errors;
    int64_t at;
    self->busy = true;
    Py_BEGIN_ALLOW_THREADS
    errors = apply_rows(self, t, &rows, &at);
    Py_END_ALLOW_THREADS
    self->busy = false;
    free_arriving(&given);
    if (weights_object != Py_None) PyBuffer_Release(&weights);
    return answer(errors, at);
}

#endif
