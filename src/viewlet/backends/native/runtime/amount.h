/* amount.h: what triggers add up: exact integers with overflow bits, and doubles as unevaluated pairs. */
#ifndef VL_AMOUNT_H
#define VL_AMOUNT_H

#include "hash.h"
#include "number.h"

/* high + low, about 106 bits. */
typedef struct {
    double high, low;
} vl_pair;

VL_INLINE double vl_pair_value(vl_pair x) { return x.high + x.low; }
VL_INLINE bool vl_pair_zero(vl_pair x) { return x.high == 0 && x.low == 0; }
VL_INLINE vl_pair vl_pair_of(double x) { return (vl_pair){x, 0}; }
VL_INLINE vl_pair vl_pair_of_i64(int64_t x) {
    double high = (double)x;
    return (vl_pair){high, (double)(int64_t)((vl_i128)x - (vl_i128)high)};
}
VL_INLINE vl_pair vl_pair_of_i128(vl_i128 x) {
    double high = (double)x;
    return (vl_pair){high, (double)(x - (vl_i128)high)};
}
VL_INLINE vl_pair vl_pair_neg(vl_pair x) { return (vl_pair){-x.high, -x.low}; }

VL_INLINE vl_pair vl_pair_add(vl_pair x, vl_pair y) {
    double sum, error, low, low_error;
    vl_two_sum(x.high, y.high, &sum, &error);
    vl_two_sum(x.low, y.low, &low, &low_error);
    error += low;
    double high = sum + error;
    error = error - (high - sum) + low_error;
    double top = high + error;
    return (vl_pair){top, error - (top - high)};
}

VL_INLINE vl_pair vl_pair_mul(vl_pair x, vl_pair y) {
    double product, error;
    vl_two_product(x.high, y.high, &product, &error);
    error += x.high * y.low + x.low * y.high;
    double high = product + error;
    return (vl_pair){high, error - (high - product)};
}

VL_LENT vl_i128 vl_i128_times_wide(vl_i128 x, vl_i128 y, vl_errors *e);
VL_LENT vl_i128 vl_i128_times_checked(vl_i128 x, vl_i128 y, vl_i128 low, vl_i128 high, vl_errors *e);

/* x * y; a product of two 64-bit numbers always fits, and most are. */
VL_SHARED vl_i128 vl_i128_times(vl_i128 x, vl_i128 y, vl_errors *e) {
    if (VL_LIKELY(x == (int64_t)x && y == (int64_t)y)) return (vl_i128)(int64_t)x * (int64_t)y;
    return vl_i128_times_wide(x, y, e);
}

/* x * weight for a weight of 1 or -1, without a jump. */
VL_INLINE vl_i128 vl_turned(vl_i128 x, int64_t weight, vl_errors *e) {
    vl_i128 sign = weight >> 63;
    return vl_i128_sub(x ^ sign, sign, e);
}

/* x * weight, where the weight is nearly always 1 or -1. */
VL_SHARED vl_i128 vl_weighted(vl_i128 x, int64_t weight, vl_errors *e) {
    if (VL_LIKELY((((uint64_t)weight + 1) & ~UINT64_C(2)) == 0)) return vl_turned(x, weight, e);
    return vl_i128_times(x, weight, e);
}

/* x * y in [low, high], a range that has all products of two 64-bit numbers. */
VL_INLINE vl_i128 vl_i128_times_within(vl_i128 x, vl_i128 y, vl_i128 low, vl_i128 high, vl_errors *e) {
    if (VL_LIKELY(x == (int64_t)x && y == (int64_t)y)) return (vl_i128)(int64_t)x * (int64_t)y;
    return vl_i128_times_checked(x, y, low, high, e);
}

VL_INLINE void vl_i64_into(int64_t *sum, int64_t x, vl_errors *e) { *sum = vl_i64_add(*sum, x, e); }
/* The sum of 2^46 numbers of 64 bits and of what vl_i128_into_far lets pass fits: no program runs that long. */
VL_INLINE void vl_i128_plus(vl_i128 *sum, int64_t x) { *sum = (vl_i128)((vl_u128)*sum + (vl_u128)x); }
VL_LENT void vl_i128_into_far(vl_i128 *sum, vl_i128 x, vl_errors *e);

VL_INLINE void vl_i128_into(vl_i128 *sum, vl_i128 x, vl_errors *e) {
    if (VL_LIKELY(x == (int64_t)x))
        vl_i128_plus(sum, (int64_t)x);
    else
        vl_i128_into_far(sum, x, e);
}
VL_INLINE void vl_pair_into(vl_pair *sum, vl_pair x) { *sum = vl_pair_add(*sum, x); }

/* Is a sum larger than a limit, by absolute value? Limits have at most 36 digits; NaN is beyond any. */
VL_INLINE bool vl_beyond_i128(vl_i128 sum, vl_i128 limit) { return (vl_u128)sum + (vl_u128)limit > 2 * (vl_u128)limit; }
VL_INLINE bool vl_beyond_pair(vl_pair sum, double limit) { return !(sum.high <= limit && sum.high >= -limit); }

/* Is a sum in [-2^k, 2^k)? With 2^k added it has no bits above the lowest k + 1, and several can be asked together.
 * Of a sum in [-2^(64 + k), 2^(64 + k)) the upper half tells. */
VL_INLINE uint64_t vl_raised_i64(int64_t sum, int k) { return (uint64_t)sum + (UINT64_C(1) << k); }
VL_INLINE vl_u128 vl_raised_i128(vl_i128 sum, int k) { return (vl_u128)sum + (UINT64_C(1) << k); }
VL_INLINE uint64_t vl_raised_upper(vl_i128 sum, int k) { return vl_raised_i64((int64_t)(sum >> 64), k); }
/* Not 0 where one of them is not. */
VL_INLINE uint64_t vl_above_i64(uint64_t sums, int k) { return sums >> (k + 1); }
VL_INLINE uint64_t vl_above_i128(vl_u128 sums, int k) { return (uint64_t)sums >> (k + 1) | (uint64_t)(sums >> 64); }

/* The result of DOUBLE arithmetic: a finite number, and never -0.0. */
VL_INLINE double vl_f64_result(double x, vl_errors *e, vl_errors bit) {
    if (VL_UNLIKELY(!vl_f64_finite(x))) {
        *e |= bit;
        return 0;
    }
    return x + 0.0;
}

/* a in [low, high], or an error bit; the value is kept, so that the ring is. */
VL_INLINE int64_t vl_i64_fit(int64_t x, int64_t low, int64_t high, vl_errors bit, vl_errors *e) {
    if (VL_UNLIKELY(x < low || x > high)) *e |= bit;
    return x;
}
VL_INLINE vl_i128 vl_i128_fit(vl_i128 x, vl_i128 low, vl_i128 high, vl_errors bit, vl_errors *e) {
    if (VL_UNLIKELY(x < low || x > high)) *e |= bit;
    return x;
}

/* Truncating division; 0 with VL_E_DIVIDE by zero. */
VL_LENT vl_i128 vl_i128_quotient(vl_i128 x, vl_i128 y, vl_errors *e);

/* x times a power of ten, at the end of the range where it does not fit: for comparisons only. */
VL_INLINE vl_i128 vl_i128_saturated(vl_i128 x, vl_i128 unit) {
    vl_i128 product;
    if (VL_LIKELY(!__builtin_mul_overflow(x, unit, &product))) return product;
    return x < 0 ? VL_I128_MIN : VL_I128_MAX;
}

#ifndef VL_HOSTED

VL_LENT vl_i128 vl_i128_times_wide(vl_i128 x, vl_i128 y, vl_errors *e) { return vl_i128_mul(x, y, e); }

VL_LENT vl_i128 vl_i128_times_checked(vl_i128 x, vl_i128 y, vl_i128 low, vl_i128 high, vl_errors *e) {
    vl_i128 z = vl_i128_mul(x, y, e);
    if (z < low || z > high) *e |= VL_E_DECIMAL;
    return z;
}

VL_LENT void vl_i128_into_far(vl_i128 *sum, vl_i128 x, vl_errors *e) {
    const vl_i128 most = VL_I128_MAX - ((vl_i128)1 << 110);
    *sum = vl_i128_add(*sum, x, e);
    if (*sum > most || *sum < -most) *e |= VL_E_DECIMAL;
}

VL_LENT vl_i128 vl_i128_quotient(vl_i128 x, vl_i128 y, vl_errors *e) {
    if (y == 0) {
        *e |= VL_E_DIVIDE;
        return 0;
    }
    return y == -1 ? vl_i128_sub(0, x, e) : x / y;
}

#endif

#endif
