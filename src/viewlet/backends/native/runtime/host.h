/* host.h: a program as a Python object, and values between Python and its cells.
 *
 * Part of bridge.c. Functions that a program cannot compute are called back here, under the interpreter lock.
 */
#ifndef VL_HOST_H
#define VL_HOST_H

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

#endif
