/* sound.h: is an Arrow batch what its table declares, value by value?
 *
 * One look at every value: no NULL where none may be, counts of NULLs that are true, decimals with as many
 * digits as their type has, DOUBLE that is finite and has no negative zero, dates and timestamps of the years 1 to
 * 9999, text that is UTF-8. "No" is not an
 * error: the batch goes the long way (changes.py), which takes it all the same or finds the words for what is wrong.
 * That the buffers are as long as they should be has been checked before; so have the types.
 *
 * Part of bridge.c.
 */
#ifndef VL_SOUND_H
#define VL_SOUND_H

/* What a column is declared as, a byte; VL_MAY_BE_NULL is added to it. A second byte has the digits of a decimal. */
enum { VL_ANY_BITS, VL_DECIMAL_BITS, VL_FLOAT_BITS, VL_DOUBLE_BITS, VL_UTF8_BITS, VL_DAY_BITS, VL_MOMENT_BITS, VL_MAY_BE_NULL = 16 };

enum { VL_MOST_COPIES = INT32_MAX };

typedef enum { VL_NOT_TOLD, VL_ALL_ONCE, VL_SOME_OFTEN } Soundness;

static int64_t bits_set(const uint8_t *bits, int64_t from, int64_t to) {
    int64_t count = 0;
    for (; from < to && (from & 63); from++) count += vl_bit(bits, from);
    for (; from + 64 <= to; from += 64) {
        uint64_t word;
        memcpy(&word, bits + from / 8, sizeof word);
        count += __builtin_popcountll(word);
    }
    for (; from < to; from++) count += vl_bit(bits, from);
    return count;
}

/* |value| < 10^18 at most: `most` and the value are far enough from the ends for either sum to tell by its sign. */
static bool are_narrow_decimals(const int64_t *words, int64_t rows, uint64_t most) {
    uint64_t wrong = 0, other = 0;
    for (int64_t i = 0; i < rows; i++) {
        uint64_t low = (uint64_t)words[2 * i], high = (uint64_t)words[2 * i + 1];
        wrong |= (low + most) | (most - low);
        other |= high + (low >> 63);
    }
    return !(wrong >> 63) && !other;
}

static bool is_decimal(const vl_i128 *at, vl_i128 most) {
    vl_i128 value;
    memcpy(&value, at, sizeof value);
    return -most <= value && value <= most;
}

/* Finite, and no negative zero: the exponent is not all ones, and a sign has other bits beside it. */
static bool is_plain_double(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (bits >> 52 & 0x7ff) != 0x7ff && bits != (uint64_t)1 << 63;
}
static bool is_plain_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (bits >> 23 & 0xff) != 0xff && bits != (uint32_t)1 << 31;
}

/* What every processor has; wider vectors would go through memory without those instructions. */
typedef uint32_t Fours __attribute__((vector_size(16), aligned(4)));
typedef uint64_t Pairs __attribute__((vector_size(16), aligned(1)));

static bool are_days(const int32_t *days, int64_t rows, const uint8_t *valid, int64_t from) {
    for (int64_t i = 0; i < rows; i++)
        if ((days[i] < VL_DATE_MIN || days[i] > VL_DATE_MAX) && (!valid || vl_bit(valid, from + i))) return false;
    return true;
}
static bool are_moments(const int64_t *micros, int64_t rows, const uint8_t *valid, int64_t from) {
    const int64_t first = VL_DATE_MIN * VL_DAY, end = (VL_DATE_MAX + 1) * VL_DAY;
    for (int64_t i = 0; i < rows; i++)
        if ((micros[i] < first || micros[i] >= end) && (!valid || vl_bit(valid, from + i))) return false;
    return true;
}

static bool offsets_rise(const int32_t *at, int64_t rows) {
    Fours wrong = {0};
    uint32_t other = (uint32_t)at[0];
    int64_t i = 0;
    for (; i + 4 <= rows; i += 4) {
        Fours here = *(const Fours *)(const void *)(at + i), next = *(const Fours *)(const void *)(at + i + 1);
        wrong |= next | (next - here);
    }
    for (; i < rows; i++) other |= (uint32_t)at[i + 1] | ((uint32_t)at[i + 1] - (uint32_t)at[i]);
    return !((wrong[0] | wrong[1] | wrong[2] | wrong[3] | other) >> 31);
}

static bool is_ascii(const uint8_t *bytes, int64_t length) {
    Pairs seen[4] = {{0}, {0}, {0}, {0}};
    uint8_t other = 0;
    int64_t i = 0;
    for (; i + 64 <= length; i += 64)
        for (int k = 0; k < 4; k++) seen[k] |= *(const Pairs *)(const void *)(bytes + i + 16 * k);
    for (; i < length; i++) other |= bytes[i];
    Pairs all = seen[0] | seen[1] | seen[2] | seen[3];
    return !((all[0] | all[1]) & 0x8080808080808080u) && other < 0x80;
}

static bool are_texts(const int32_t *at, const uint8_t *bytes, int64_t rows) {
    if (!offsets_rise(at, rows)) return false;
    if (at[0] == at[rows]) return true;
    if (!bytes) return false;
    if (is_ascii(bytes + at[0], at[rows] - at[0])) return true;
    for (int64_t i = 0; i < rows; i++)
        if (!vl_utf8_valid((vl_text){bytes + at[i], (uint64_t)(at[i + 1] - at[i])})) return false;
    return true;
}

/* The values of a column; under NULL there may be any, though text is looked at as a whole. */
static bool are_sound(const struct ArrowArray *a, int64_t from, uint8_t what, uint8_t digits, const uint8_t *valid) {
    const void *data = a->buffers[1];
    if (!data) return false;
    if (what == VL_UTF8_BITS) return are_texts((const int32_t *)data + from, a->buffers[2], a->length);
    if (what == VL_DAY_BITS) return are_days((const int32_t *)data + from, a->length, valid, from);
    if (what == VL_MOMENT_BITS) return are_moments((const int64_t *)data + from, a->length, valid, from);
    if (what == VL_DECIMAL_BITS) {
        const vl_i128 most = (vl_i128)vl_pow10(digits) - 1;
        const int64_t *words = (const int64_t *)data + 2 * from;
        if (digits <= 18 && !valid) return are_narrow_decimals(words, a->length, (uint64_t)most);
        for (int64_t i = 0; i < a->length; i++)
            if ((!valid || vl_bit(valid, from + i)) && !is_decimal((const vl_i128 *)(const void *)(words + 2 * i), most)) return false;
    }
    for (int64_t i = 0; what == VL_DOUBLE_BITS && i < a->length; i++)
        if ((!valid || vl_bit(valid, from + i)) && !is_plain_double(((const double *)data)[from + i])) return false;
    for (int64_t i = 0; what == VL_FLOAT_BITS && i < a->length; i++)
        if ((!valid || vl_bit(valid, from + i)) && !is_plain_float(((const float *)data)[from + i])) return false;
    return true;
}

static bool is_sound_column(const struct ArrowArray *a, int64_t from, uint8_t what, uint8_t digits) {
    const uint8_t *valid = a->n_buffers ? a->buffers[0] : NULL;
    int64_t nulls = valid ? a->length - bits_set(valid, from, from + a->length) : 0;
    if (a->null_count >= 0 && a->null_count != nulls) return false;
    if (nulls && !(what & VL_MAY_BE_NULL)) return false;
    return !a->length || are_sound(a, from, what & (VL_MAY_BE_NULL - 1), digits, nulls ? valid : NULL);
}

static Soundness weights_are(const struct ArrowArray *a) {
    const int64_t *weights = (const int64_t *)a->buffers[1] + a->offset;
    uint64_t other = 0, wrong = 0;
    for (int64_t i = 0; i < a->length; i++) other |= (uint64_t)weights[i] ^ 1;
    if (!other) return VL_ALL_ONCE;
    for (int64_t i = 0; i < a->length; i++) wrong |= !weights[i] | ((uint64_t)weights[i] + VL_MOST_COPIES > 2 * (uint64_t)VL_MOST_COPIES);
    return wrong ? VL_NOT_TOLD : VL_SOME_OFTEN;
}

/* sound(array, declared, weighted): two bytes per column, of which the last one has weights. Answers a Soundness. */
static PyObject *sound(PyObject *module, PyObject *args) {
    PyObject *capsule;
    Py_buffer declared;
    int weighted;
    (void)module;
    if (!PyArg_ParseTuple(args, "Oy*p", &capsule, &declared, &weighted)) return NULL;
    const struct ArrowArray *array = PyCapsule_GetPointer(capsule, "arrow_array");
    const uint8_t *what = declared.buf;
    if (array && (2 * array->n_children != declared.len || array->n_children < weighted))
        PyErr_SetString(PyExc_ValueError, "two bytes per column");
    Soundness found = VL_NOT_TOLD;
    if (!PyErr_Occurred() && !array->offset) {
        Py_BEGIN_ALLOW_THREADS
        found = VL_ALL_ONCE;
        for (int64_t c = 0; found && c < array->n_children; c++) {
            const struct ArrowArray *column = array->children[c];
            if (column->length != array->length || !is_sound_column(column, column->offset, what[2 * c], what[2 * c + 1]))
                found = VL_NOT_TOLD;
        }
        if (found && weighted) found = weights_are(array->children[array->n_children - 1]);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&declared);
    return PyErr_Occurred() ? NULL : PyLong_FromLong(found);
}

#endif
