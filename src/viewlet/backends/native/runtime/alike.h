/* alike.h: which rows of an Arrow batch are the same, and how often each one is there.
 *
 * NULL is NULL, zero has no sign, and a text is its bytes. The rows are hashed column by column, so that each loop
 * reads one array, and found in a table of the numbers of rows; those with equal hashes are compared.
 *
 * Part of bridge.c.
 */
#ifndef VL_ALIKE_H
#define VL_ALIKE_H

/* The kind of the cells of an Arrow format; -1 for one that no column of a table has. */
static int kind_of_format(const char *format) {
    switch (format[0]) {
    case 'b': return VL_BOOLEAN;
    case 'c': case 's': case 'i': return VL_INT32;
    case 'l': return VL_INT64;
    case 'f': case 'g': return VL_DOUBLE;
    case 'u': case 'U': return VL_TEXT;
    case 'd': return strchr(format, ',') == strrchr(format, ',') ? VL_DECIMAL : -1; /* a third number is another width */
    case 't': return format[1] == 's' ? VL_INT64 : strcmp(format, "tdD") == 0 ? VL_INT32 : -1;
    default: return -1;
    }
}

VL_INLINE uint64_t alike_word(const vl_column *c, uint8_t kind, int64_t i) {
    switch (kind) {
    case VL_BOOLEAN: return vl_bit(c->data, c->from + i);
    case VL_INT32: return (uint64_t)((const int32_t *)c->data)[c->from + i];
    case VL_INT64: return (uint64_t)((const int64_t *)c->data)[c->from + i];
    case VL_DOUBLE: return vl_f64_key(((const double *)c->data)[c->from + i]);
    default: return 0;
    }
}
VL_INLINE vl_text alike_text(const vl_column *c, int64_t i) { return vl_column_text(c, c->from + i); }
VL_INLINE vl_i128 alike_decimal(const vl_column *c, int64_t i) { return vl_column_decimal(c, c->from + i); }

VL_INLINE uint64_t alike_hash(const vl_column *c, uint8_t kind, int64_t i) {
    if (kind == VL_TEXT) {
        vl_text text = alike_text(c, i);
        return vl_hash_bytes(text.bytes, text.length);
    }
    if (kind != VL_DECIMAL) return alike_word(c, kind, i);
    vl_i128 value = alike_decimal(c, i);
    return (uint64_t)value ^ vl_hash1((uint64_t)(value >> 64));
}

VL_INLINE void alike_mix(uint64_t *hashes, const vl_column *c, uint8_t kind, int64_t rows) {
    for (int64_t i = 0; i < rows; i++) {
        uint64_t word = c->valid && vl_column_null(c, i) ? VL_SEED1 : alike_hash(c, kind, i);
        hashes[i] = vl_fold(hashes[i] ^ word, VL_SEED0);
    }
}

/* One column into the hashes of the rows; each kind has a loop of its own. */
static void alike_hashes(uint64_t *hashes, const vl_column *c, uint8_t kind, int64_t rows) {
    switch (kind) {
    case VL_BOOLEAN: alike_mix(hashes, c, VL_BOOLEAN, rows); break;
    case VL_INT32: alike_mix(hashes, c, VL_INT32, rows); break;
    case VL_INT64: alike_mix(hashes, c, VL_INT64, rows); break;
    case VL_DOUBLE: alike_mix(hashes, c, VL_DOUBLE, rows); break;
    case VL_DECIMAL: alike_mix(hashes, c, VL_DECIMAL, rows); break;
    default: alike_mix(hashes, c, VL_TEXT, rows);
    }
}

static bool are_alike(const Arriving *given, const uint8_t *kinds, int64_t i, int64_t j) {
    for (uint32_t k = 0; k < given->count; k++) {
        const vl_column *c = &given->columns[k];
        bool null = vl_column_null(c, i);
        if (null != vl_column_null(c, j)) return false;
        if (null) continue;
        if (kinds[k] == VL_TEXT) {
            vl_text one = alike_text(c, i), other = alike_text(c, j);
            if (one.length != other.length || (one.length && memcmp(one.bytes, other.bytes, one.length))) return false;
        } else if (kinds[k] == VL_DECIMAL ? alike_decimal(c, i) != alike_decimal(c, j)
                                          : alike_word(c, kinds[k], i) != alike_word(c, kinds[k], j)) {
            return false;
        }
    }
    return true;
}

/* The first of the rows that are the same and how often they are there, closed up; answers how many there are. */
static int64_t find_alike(const Arriving *given, const uint8_t *kinds, const int64_t *weights, int64_t rows,
                          uint64_t *hashes, uint32_t *slots, uint64_t mask, int64_t *firsts, int64_t *sums) {
    int64_t count = 0;
    memset(hashes, 0, (size_t)rows * sizeof *hashes);
    for (uint32_t k = 0; k < given->count; k++) alike_hashes(hashes, &given->columns[k], kinds[k], rows);
    for (int64_t i = 0; i < rows; i++) {
        uint64_t at = (hashes[i] ^ hashes[i] >> 32) & mask;
        int64_t weight = weights ? weights[i] : 1;
        for (; slots[at]; at = (at + 1) & mask) {
            int64_t first = firsts[slots[at] - 1];
            if (hashes[first] == hashes[i] && are_alike(given, kinds, first, i)) break;
        }
        if (slots[at]) {
            sums[slots[at] - 1] += weight;
        } else {
            firsts[count] = i;
            sums[count] = weight;
            slots[at] = (uint32_t)++count;
        }
    }
    return count;
}

/* (positions, sums) of the rows that differ, in the order in which they come, as bytes of 64-bit integers. */
static PyObject *alike_of(const Arriving *given, const uint8_t *kinds, const int64_t *weights, int64_t rows) {
    uint64_t room = 16;
    while (room < 2 * (uint64_t)rows) room *= 2;
    uint64_t *hashes = malloc((size_t)(rows + 1) * sizeof *hashes);
    uint32_t *slots = calloc(room, sizeof *slots);
    Py_ssize_t size = (Py_ssize_t)rows * (Py_ssize_t)sizeof(int64_t);
    PyObject *firsts = PyBytes_FromStringAndSize(NULL, size), *sums = PyBytes_FromStringAndSize(NULL, size), *found = NULL;
    if (hashes && slots && firsts && sums) {
        int64_t *first = (int64_t *)(void *)PyBytes_AS_STRING(firsts), *sum = (int64_t *)(void *)PyBytes_AS_STRING(sums), count;
        Py_BEGIN_ALLOW_THREADS
        count = find_alike(given, kinds, weights, rows, hashes, slots, room - 1, first, sum);
        Py_END_ALLOW_THREADS
        size = (Py_ssize_t)count * (Py_ssize_t)sizeof(int64_t);
        if (_PyBytes_Resize(&firsts, size) == 0 && _PyBytes_Resize(&sums, size) == 0) found = PyTuple_Pack(2, firsts, sums);
    } else if (!PyErr_Occurred()) {
        PyErr_NoMemory();
    }
    free(hashes), free(slots);
    Py_XDECREF(firsts), Py_XDECREF(sums);
    return found;
}

/* alike(schema, array, columns, weights or None), of the first columns; None for types that no table has, or too many rows. */
static PyObject *alike(PyObject *module, PyObject *args) {
    PyObject *schema_capsule, *array_capsule, *weights_object, *found = NULL;
    (void)module;
    uint32_t count;
    if (!PyArg_ParseTuple(args, "OOIO", &schema_capsule, &array_capsule, &count, &weights_object)) return NULL;
    const struct ArrowSchema *schema = PyCapsule_GetPointer(schema_capsule, "arrow_schema");
    const struct ArrowArray *array = schema ? PyCapsule_GetPointer(array_capsule, "arrow_array") : NULL;
    if (!array) return NULL;
    if (count > schema->n_children || schema->n_children != array->n_children)
        return PyErr_Format(PyExc_ValueError, "a batch needs %u columns", count);
    Py_buffer weights = {0};
    Arriving given = {0};
    uint8_t *kinds = malloc(count + 1);
    bool known = kinds && array->length < INT32_MAX;
    for (uint32_t c = 0; known && c < count; c++) {
        int kind = kind_of_format(schema->children[c]->format);
        kinds[c] = (uint8_t)kind;
        known = kind >= 0;
    }
    if (kinds && !known) {
        found = Py_NewRef(Py_None);
    } else if (!kinds || !arriving_of_arrow(&given, schema, array, count, kinds, NULL)) {
        PyErr_NoMemory();
    } else {
        if (weights_object == Py_None || PyObject_GetBuffer(weights_object, &weights, PyBUF_SIMPLE) == 0) {
            if (weights.obj && weights.len != array->length * (Py_ssize_t)sizeof(int64_t))
                PyErr_SetString(PyExc_ValueError, "one 64-bit weight per row");
            else
                found = alike_of(&given, kinds, weights.buf, array->length);
        }
        free_arriving(&given);
    }
    if (weights.obj) PyBuffer_Release(&weights);
    free(kinds);
    return found;
}

#endif
