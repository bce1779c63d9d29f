/* ordered_types.h: keys, sums and folds shared by the ordered structures.
 *
 * Sums are modular: they wrap like unsigned integers, so a total is exact whenever it fits its type,
 * whatever its parts did on the way. Choose the type so that every answer fits.
 */
#ifndef VL_ORDERED_TYPES_H
#define VL_ORDERED_TYPES_H

#include "arena.h"

typedef __int128 ord_i128;
typedef unsigned __int128 ord_u128;

#define ORD_I128_MAX ((ord_i128)(~(ord_u128)0 >> 1))
#define ORD_I128_MIN (-ORD_I128_MAX - 1)

enum { ORD_HEIGHT_MAX = 48 };

/* ---- doubles as keys: order-preserving int64, one zero, NaN above +infinity ---- */

VL_INLINE int64_t ord_key_of_double(double x) {
    if (x != x) return INT64_MAX;
    if (x == 0) x = 0; /* -0.0 equals 0.0 and must share its record */
    int64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits < 0 ? bits ^ INT64_MAX : bits;
}

VL_INLINE double ord_double_of_key(int64_t key) {
    if (key == INT64_MAX) return __builtin_nan("");
    int64_t bits = key < 0 ? key ^ INT64_MAX : key;
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* ---- two columns as one int128 key: slice column first ---- */

VL_INLINE ord_i128 ord_key_of_pair(int64_t slice, int64_t key) {
    return (ord_i128)(((ord_u128)(uint64_t)slice << 64) | ((uint64_t)key ^ ((uint64_t)1 << 63)));
}
VL_INLINE int64_t ord_pair_slice(ord_i128 key) { return (int64_t)(key >> 64); }
VL_INLINE int64_t ord_pair_key(ord_i128 key) { return (int64_t)((uint64_t)key ^ ((uint64_t)1 << 63)); }

/* ---- modular arithmetic by type ---- */

VL_INLINE int64_t ord_plus_i64(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
VL_INLINE int64_t ord_minus_i64(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
VL_INLINE ord_i128 ord_plus_i128(ord_i128 a, ord_i128 b) { return (ord_i128)((ord_u128)a + (ord_u128)b); }
VL_INLINE ord_i128 ord_minus_i128(ord_i128 a, ord_i128 b) { return (ord_i128)((ord_u128)a - (ord_u128)b); }
VL_INLINE double ord_plus_f64(double a, double b) { return a + b; }
VL_INLINE double ord_minus_f64(double a, double b) { return a - b; }

VL_INLINE int64_t ord_times_i64(int64_t a, int64_t n) { return (int64_t)((uint64_t)a * (uint64_t)n); }
VL_INLINE ord_i128 ord_times_i128(ord_i128 a, int64_t n) { return (ord_i128)((ord_u128)a * (ord_u128)n); }
VL_INLINE double ord_times_f64(double a, int64_t n) { return a * (double)n; }

/* Keys from which the leaves of a tree leave the cache: then all of one is asked for at once, not line after line. */
#define ORD_LARGE 4096

#define ORD_BY_TYPE(x, f) _Generic((x), int64_t: f##_i64, ord_i128: f##_i128, double: f##_f64)
#define ORD_PLUS(a, b) ORD_BY_TYPE(a, ord_plus)((a), (b))
#define ORD_MINUS(a, b) ORD_BY_TYPE(a, ord_minus)((a), (b))

/* Does this field keep its record alive? A double does not: its residue of rounding would, for ever. */
#define ORD_NONZERO_sum(x) (_Generic((x), double: 0, default: 1) && (x) != 0)
#define ORD_NONZERO_max(x) 0

/* A field is exact when an ancestor's value may be kept by adding differences. The others (double
 * sums, maxima) are recomputed from the children. */
#define ORD_EXACT_sum(type) _Generic((type)0, double: 0, default: 1)
#define ORD_EXACT_max(type) 0

/* How two neighbouring subtrees combine, starting from what. */
#define ORD_JOIN_sum(a, b) ORD_PLUS(a, b)
#define ORD_JOIN_max(a, b) ((a) > (b) ? (a) : (b))
#define ORD_NONE_sum(type) ((type)0)
#define ORD_NONE_max(type) \
    _Generic((type)0, int64_t: INT64_MIN, ord_i128: ORD_I128_MIN, double: -__builtin_inf())

/* What a change does to one record: sums add, maxima are set. */
#define ORD_CHANGE_sum(old, delta) ORD_PLUS(old, delta)
#define ORD_CHANGE_max(old, delta) (delta)

/* ---- folds over slots [from, to) of a column of `cap` slots ----
 * For int64 all slots are read, four at a time, and those outside are masked away: no jump depends on the data. */

VL_INLINE int64_t ord_fold_sum_i64(const int64_t *v, uint32_t from, uint32_t to, uint32_t cap) {
    typedef int64_t four __attribute__((vector_size(32)));
    typedef uint64_t four_read __attribute__((vector_size(32), aligned(8), may_alias));
    const int64_t first = from, end = to;
    four place = {0, 1, 2, 3};
    four_read sums = {0, 0, 0, 0};
    uint32_t j = 0;
    for (; j + 4 <= cap; j += 4, place += 4)
        sums += *(const four_read *)(const void *)(v + j) & (four_read)((place >= first) & (place < end));
    uint64_t s = sums[0] + sums[1] + sums[2] + sums[3];
    for (; j < cap; j++) s += j >= from && j < to ? (uint64_t)v[j] : 0;
    return (int64_t)s;
}
VL_INLINE ord_i128 ord_fold_sum_i128(const ord_i128 *v, uint32_t from, uint32_t to, uint32_t cap) {
    (void)cap;
    ord_u128 s = 0;
    for (uint32_t j = from; j < to; j++) s += (ord_u128)v[j];
    return (ord_i128)s;
}
VL_INLINE double ord_fold_sum_f64(const double *v, uint32_t from, uint32_t to, uint32_t cap) {
    (void)cap;
    double s = 0;
    for (uint32_t j = from; j < to; j++) s += v[j];
    return s;
}
VL_INLINE int64_t ord_fold_max_i64(const int64_t *v, uint32_t from, uint32_t to, uint32_t cap) {
    int64_t m = INT64_MIN;
    uint64_t first = from, width = to - from;
    for (uint64_t j = 0; j < cap; j++) {
        int64_t x = j - first < width ? v[j] : INT64_MIN;
        m = x > m ? x : m;
    }
    return m;
}
VL_INLINE ord_i128 ord_fold_max_i128(const ord_i128 *v, uint32_t from, uint32_t to, uint32_t cap) {
    (void)cap;
    ord_i128 m = ORD_I128_MIN;
    for (uint32_t j = from; j < to; j++) m = v[j] > m ? v[j] : m;
    return m;
}
VL_INLINE double ord_fold_max_f64(const double *v, uint32_t from, uint32_t to, uint32_t cap) {
    (void)cap;
    double m = -__builtin_inf();
    for (uint32_t j = from; j < to; j++) m = v[j] > m ? v[j] : m;
    return m;
}
#define ORD_FOLD_sum(v, from, to, cap) ORD_BY_TYPE((v)[0], ord_fold_sum)((v), (from), (to), (cap))
#define ORD_FOLD_max(v, from, to, cap) ORD_BY_TYPE((v)[0], ord_fold_max)((v), (from), (to), (cap))

/* An entry's sum may be no larger than this (about 10^30 units), so that no sum over entries can wrap. */
#define VL_ORDERED_MOST ((ord_i128)1 << 100)

/* How many slots a column has. */
#define ORD_SLOTS(v) ((uint32_t)(sizeof(v) / sizeof((v)[0])))

/* v[j] += d for every j >= i: one update of a column of running sums. */
VL_INLINE void ord_ramp_i64(int64_t *v, uint64_t i, int64_t d, uint32_t cap) {
    for (uint64_t j = 0; j < cap; j++) v[j] = (int64_t)((uint64_t)v[j] + (j >= i ? (uint64_t)d : 0));
}
VL_INLINE void ord_ramp_i128(ord_i128 *v, uint32_t i, ord_i128 d, uint32_t cap) {
    for (uint32_t j = i; j < cap; j++) v[j] = ord_plus_i128(v[j], d);
}
VL_INLINE void ord_ramp_f64(double *v, uint32_t i, double d, uint32_t cap) {
    for (uint32_t j = i; j < cap; j++) v[j] += d;
}
#define ORD_RAMP(v, i, d, cap) ORD_BY_TYPE((v)[0], ord_ramp)((v), (i), (d), (cap))

/* ---- search: bit i of the answer says keys[i] + offset < k ----
 * Comparison into a bit mask, then a population count, is several times shorter in latency than the sum
 * of a vector that a compiler makes of the plain loop. Builtins, because the intrinsics header alone takes
 * longer to compile than a trigger program. */

#if defined __AVX512F__ && defined __GNUC__ && !defined __clang__
typedef long long ord_lanes __attribute__((vector_size(64), aligned(8), may_alias));
typedef long long ord_wide_lanes __attribute__((vector_size(64)));
VL_INLINE uint64_t ord_lanes_below(const int64_t *keys, int64_t offset, int64_t k) {
    ord_lanes x = *(const ord_lanes *)(const void *)keys + offset, y = x - x + k;
    return (uint8_t)__builtin_ia32_cmpq512_mask((ord_wide_lanes)x, (ord_wide_lanes)y, 1, (uint8_t)-1);
}
#elif defined __AVX2__ && defined __GNUC__
typedef int64_t ord_lanes __attribute__((vector_size(32), aligned(8), may_alias));
typedef double ord_real_lanes __attribute__((vector_size(32)));
VL_INLINE uint64_t ord_lanes_below(const int64_t *keys, int64_t offset, int64_t k) {
    ord_lanes x = *(const ord_lanes *)(const void *)keys + offset, y = x - x + k;
    return (uint64_t)__builtin_ia32_movmskpd256((ord_real_lanes)(x < y));
}
#else
typedef int64_t ord_lanes;
VL_INLINE uint64_t ord_lanes_below(const int64_t *keys, int64_t offset, int64_t k) {
    return ord_plus_i64(*keys, offset) < k;
}
#endif

VL_INLINE uint64_t ord_mask_below(const int64_t *keys, uint32_t cap, int64_t offset, int64_t k) {
    enum { lanes = sizeof(ord_lanes) / sizeof(int64_t) };
    uint64_t mask = 0;
    uint32_t i = 0;
    for (; i + lanes <= cap; i += lanes) mask |= ord_lanes_below(keys + i, offset, k) << i;
    for (; i < cap; i++) mask |= (uint64_t)(ord_plus_i64(keys[i], offset) < k) << i;
    return mask;
}

#define ORD_PASTE_(a, b) a##_##b
#define ORD_PASTE(a, b) ORD_PASTE_(a, b)

#endif
