/* reading.h: rows of views, entries of records, and sizes, as Python objects.
 *
 * Part of bridge.c. Views as columns, their changes and their first rows are read by shown.h, changes.h and top.h.
 */
#ifndef VL_READING_H
#define VL_READING_H

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
    Arriving given;
    uint8_t *space = aligned_alloc(16, vl_round_up(record->size, 16));
    if (!result || !space || !arriving_of_arrow(&given, schema, array, record->keys, record->kinds, NULL)) {
        free(space);
        Py_XDECREF(result);
        return PyErr_NoMemory();
    }
    vl_instance *x = &self->instance;
    x->arena.errors = 0;
    for (int64_t i = 0; i < array->length; i++) {
        memset(space, 0, record->size);
        for (uint32_t c = 0; c < record->keys; c++) {
            vl_cell cell = cell_of_column(x, &given.columns[c], record->kinds[c], i);
            vl_key_put(record, space, c, &cell);
        }
        uint8_t *entry = record->touch(x, space);
        int64_t count = vl_stored_get(entry + record->offsets[record->keys], record->forms[record->keys]).as.i;
        memcpy(PyBytes_AS_STRING(result) + i * (int64_t)sizeof count, &count, sizeof count);
        record->leave(x, entry);
    }
    bool failed = x->arena.errors != 0;
    x->arena.errors = 0;
    free_arriving(&given);
    free(space);
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

#endif
