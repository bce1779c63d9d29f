/* number.h: exact integers and decimals that say when they leave their range, and compensated doubles.
 *
 * Every function takes the error word last and sets a bit instead of stopping. After an integer or
 * decimal overflow the result is the true one modulo 2^64 or 2^128: sums stay a ring, so the inverse
 * change restores them.
 *
 * A DECIMAL(p, s) is a vl_i128 (or an int64_t when p <= 18) that counts units of 10^-s. Rounding is
 * HALF_UP: away from zero on ties.
 */
#ifndef VL_NUMBER_H
#define VL_NUMBER_H

#include "status.h"

#define VL_I128_MAX ((vl_i128)(((vl_u128)1 << 127) - 1))
#define VL_I128_MIN (-VL_I128_MAX - 1)

VL_INLINE vl_errors vl_bit_if(bool wrong, vl_errors bit) { return wrong ? bit : 0; }

/* ---- INT and BIGINT ---- */

#define VL_CHECKED(name, type, builtin, bit)                      \
    VL_INLINE type name(type x, type y, vl_errors *e) {           \
        type z;                                                   \
        if (VL_UNLIKELY(__builtin_##builtin##_overflow(x, y, &z))) *e |= bit; /* a branch, no write */ \
        return z;                                                 \
    }
VL_CHECKED(vl_i32_add, int32_t, add, VL_E_INTEGER)
VL_CHECKED(vl_i32_sub, int32_t, sub, VL_E_INTEGER)
VL_CHECKED(vl_i32_mul, int32_t, mul, VL_E_INTEGER)
VL_CHECKED(vl_i64_add, int64_t, add, VL_E_INTEGER)
VL_CHECKED(vl_i64_sub, int64_t, sub, VL_E_INTEGER)
VL_CHECKED(vl_i64_mul, int64_t, mul, VL_E_INTEGER)
VL_CHECKED(vl_i128_add, vl_i128, add, VL_E_DECIMAL)
VL_CHECKED(vl_i128_sub, vl_i128, sub, VL_E_DECIMAL)
VL_CHECKED(vl_i128_mul, vl_i128, mul, VL_E_DECIMAL)
#undef VL_CHECKED

VL_INLINE int32_t vl_i32_neg(int32_t x, vl_errors *e) { return vl_i32_sub(0, x, e); }
VL_INLINE int64_t vl_i64_neg(int64_t x, vl_errors *e) { return vl_i64_sub(0, x, e); }
VL_INLINE int32_t vl_i32_abs(int32_t x, vl_errors *e) { return x < 0 ? vl_i32_neg(x, e) : x; }
VL_INLINE int64_t vl_i64_abs(int64_t x, vl_errors *e) { return x < 0 ? vl_i64_neg(x, e) : x; }

/* Truncating division; 0 with VL_E_DIVIDE by zero. */
VL_INLINE int64_t vl_i64_div(int64_t x, int64_t y, vl_errors *e) {
    if (VL_UNLIKELY(y == 0)) {
        *e |= VL_E_DIVIDE;
        return 0;
    }
    return y == -1 ? vl_i64_neg(x, e) : x / y;
}

/* Remainder with the sign of x; 0 with VL_E_DIVIDE by zero. */
VL_INLINE int64_t vl_i64_mod(int64_t x, int64_t y, vl_errors *e) {
    if (VL_UNLIKELY(y == 0)) {
        *e |= VL_E_DIVIDE;
        return 0;
    }
    return y == -1 ? 0 : x % y;
}

VL_INLINE int32_t vl_i32_of_i64(int64_t x, vl_errors *e) {
    *e |= vl_bit_if(x != (int32_t)x, VL_E_INTEGER);
    return (int32_t)x;
}
VL_INLINE int64_t vl_i64_of_i128(vl_i128 x, vl_errors *e) {
    *e |= vl_bit_if(x != (int64_t)x, VL_E_INTEGER);
    return (int64_t)x;
}

/* CAST(x AS BIGINT): towards zero; NaN and values out of range are errors. */
VL_INLINE int64_t vl_i64_of_f64(double x, vl_errors *e) {
    if (VL_LIKELY(x >= -9223372036854775808.0 && x < 9223372036854775808.0)) return (int64_t)x;
    *e |= VL_E_INTEGER;
    return 0;
}

/* ---- 256-bit intermediates ---- */

typedef struct {
    vl_u128 high, low;
} vl_u256;

/* ---- DECIMAL ---- */

#define VL_E18 UINT64_C(1000000000000000000)

VL_INLINE vl_u128 vl_pow10(int n) {
    static const uint64_t small[20] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000,
                                       UINT64_C(10000000000), UINT64_C(100000000000), UINT64_C(1000000000000),
                                       UINT64_C(10000000000000), UINT64_C(100000000000000),
                                       UINT64_C(1000000000000000), UINT64_C(10000000000000000),
                                       UINT64_C(100000000000000000), VL_E18, UINT64_C(10000000000000000000)};
    return n < 20 ? small[n] : (vl_u128)small[19] * small[n - 19];
}

VL_INLINE vl_u128 vl_magnitude(vl_i128 x) { return x < 0 ? -(vl_u128)x : (vl_u128)x; }

/* x, or VL_E_DECIMAL when it has more than `precision` digits. */
VL_INLINE vl_i128 vl_decimal_check(vl_i128 x, int precision, vl_errors *e) {
    *e |= vl_bit_if(vl_magnitude(x) >= vl_pow10(precision), VL_E_DECIMAL);
    return x;
}

VL_INLINE vl_i128 vl_signed(bool negative, vl_u128 magnitude, vl_errors *e) {
    *e |= vl_bit_if(magnitude > (vl_u128)VL_I128_MAX, VL_E_DECIMAL);
    return (vl_i128)(negative ? -magnitude : magnitude);
}

/* x / y rounded HALF_UP, for a y > 0. */
VL_INLINE vl_i128 vl_round_div(vl_i128 x, vl_u128 y) {
    vl_u128 n = vl_magnitude(x), q, r;
    if (VL_LIKELY(n >> 64 == 0 && y >> 64 == 0)) { /* 128-bit division is a slow library call */
        q = (uint64_t)n / (uint64_t)y;
        r = (uint64_t)n % (uint64_t)y;
    } else {
        q = n / y;
        r = n % y;
    }
    q += r >= y - r;
    return (vl_i128)(x < 0 ? -q : q);
}

/* A decimal with `from` fraction digits as one with `to`. */
VL_INLINE vl_i128 vl_rescale(vl_i128 x, int from, int to, vl_errors *e) {
    if (to == from) return x;
    if (to > from) return vl_i128_mul(x, (vl_i128)vl_pow10(to - from), e);
    return from - to > 38 ? 0 : vl_round_div(x, vl_pow10(from - to));
}

/* x * y with `drop` fraction digits fewer than the exact product. */
VL_LENT vl_i128 vl_decimal_mul(vl_i128 x, vl_i128 y, int drop, vl_errors *e);
/* x * 10^raise / y, HALF_UP; 0 with VL_E_DIVIDE by zero. For x of scale s and y of scale t a result of
 * scale u takes raise = u - s + t, which must be in 0..76. */
VL_LENT vl_i128 vl_decimal_div(vl_i128 x, vl_i128 y, int raise, vl_errors *e);
/* x % y of equal scales, with the sign of x. */
VL_LENT vl_i128 vl_decimal_mod(vl_i128 x, vl_i128 y, vl_errors *e);

/* FLOOR and CEIL to an integer (scale 0). */
VL_INLINE vl_i128 vl_decimal_floor(vl_i128 x, int scale) {
    vl_i128 by = (vl_i128)vl_pow10(scale), q = x / by;
    return q - (x % by < 0);
}
VL_INLINE vl_i128 vl_decimal_ceil(vl_i128 x, int scale) {
    vl_i128 by = (vl_i128)vl_pow10(scale), q = x / by;
    return q + (x % by > 0);
}

/* ROUND(x, digits) at an unchanged scale; digits may be negative. */
VL_INLINE vl_i128 vl_decimal_round(vl_i128 x, int scale, int digits, vl_errors *e) {
    if (digits >= scale) return x;
    if (scale - digits > 38) return 0;
    vl_u128 by = vl_pow10(scale - digits);
    return vl_i128_mul(vl_round_div(x, by), (vl_i128)by, e);
}

/* x / 10^scale for x other than 0: 56 bits or more of the quotient, of which the lowest says whether anything
 * follows, so that there is one rounding. */
VL_LENT double vl_f64_of_quotient(vl_i128 x, int scale);
/* The nearest double to x / 10^scale; where both are doubles, the division rounds. */
VL_INLINE double vl_f64_of_decimal(vl_i128 x, int scale) {
    static const double exact[23] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                     1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const vl_i128 limit = (vl_i128)1 << 53;
    if (scale == 0 || (scale <= 22 && -limit <= x && x <= limit)) return (double)x / exact[scale];
    return x == 0 ? 0.0 : vl_f64_of_quotient(x, scale);
}

/* ---- DOUBLE: a sum as an unevaluated pair, exact to about 106 bits ---- */

/* Infinities and NaN are counted apart, so that deleting one leaves the finite sum behind. */
typedef struct {
    double high, low;
    int32_t plus, minus, nans; /* how many infinities and NaN are in the sum */
    int32_t unused;
} vl_f64_sum;

VL_INLINE void vl_two_sum(double x, double y, double *sum, double *error) {
    double s = x + y, v = s - x;
    *error = (x - (s - v)) + (y - v);
    *sum = s;
}

/* x * y = product + error exactly, barring overflow. */
VL_INLINE void vl_two_product(double x, double y, double *product, double *error) {
    double p = x * y;
#ifdef __FP_FAST_FMA
    *error = __builtin_fma(x, y, -p);
#else
    double cx = x * 134217729.0, cy = y * 134217729.0; /* 2^27 + 1 splits 53 bits into halves */
    double xh = cx - (cx - x), xl = x - xh, yh = cy - (cy - y), yl = y - yh;
    *error = ((xh * yh - p) + xh * yl + xl * yh) + xl * yl;
    if (*error - *error != 0) *error = 0; /* near the end of the range the halves leave it */
#endif
    *product = p;
}

VL_INLINE void vl_f64_sum_pair(vl_f64_sum *s, double high, double low) {
    double sum, error, t, t_error;
    vl_two_sum(s->high, high, &sum, &error);
    vl_two_sum(s->low, low, &t, &t_error);
    error += t;
    double h = sum + error;
    error -= h - sum;
    error += t_error;
    s->high = h + error;
    s->low = error - (s->high - h);
}

VL_COLD void vl_f64_sum_special(vl_f64_sum *s, double x, int32_t weight) {
    if (x != x)
        s->nans += weight;
    else if (x > 0)
        s->plus += weight;
    else
        s->minus += weight;
}

VL_INLINE bool vl_f64_finite(double x) { return x - x == 0; }

/* s += weight * x: weight -1 undoes weight 1. */
VL_INLINE void vl_f64_sum_add(vl_f64_sum *s, double x, int32_t weight) {
    if (VL_UNLIKELY(!vl_f64_finite(x))) {
        vl_f64_sum_special(s, x, weight);
        return;
    }
    double product = x * weight, error = 0;
    if (weight != 1 && weight != -1) vl_two_product(x, weight, &product, &error);
    vl_f64_sum_pair(s, product, error);
}

/* s += t */
VL_INLINE void vl_f64_sum_merge(vl_f64_sum *s, const vl_f64_sum *t) {
    vl_f64_sum_pair(s, t->high, t->low);
    s->plus += t->plus;
    s->minus += t->minus;
    s->nans += t->nans;
}

VL_INLINE double vl_f64_sum_value(const vl_f64_sum *s) {
    if (VL_UNLIKELY((s->plus | s->minus | s->nans) != 0)) {
        if (s->nans || (s->plus && s->minus)) return __builtin_nan("");
        return s->plus ? __builtin_inf() : -__builtin_inf();
    }
    return s->high + s->low;
}

/* FLOOR, CEIL and ROUND (HALF_UP) of a double, without the mathematics library. */
VL_INLINE double vl_f64_trunc(double x) {
    if (!(x > -4503599627370496.0 && x < 4503599627370496.0)) return x; /* whole already, or NaN */
    return __builtin_copysign((double)(int64_t)x, x);
}
VL_INLINE double vl_f64_floor(double x) {
    double t = vl_f64_trunc(x);
    return t > x ? t - 1 : t;
}
VL_INLINE double vl_f64_ceil(double x) {
    double t = vl_f64_trunc(x);
    return t < x ? __builtin_copysign(t + 1, x) : t;
}
VL_INLINE double vl_f64_round(double x) {
    double t = vl_f64_trunc(x), rest = x - t;
    return rest >= 0.5 ? t + 1 : rest <= -0.5 ? t - 1 : t;
}

/* From one number to another, as far as the part of a place behind the point says. */
VL_INLINE double vl_f64_between(double low, double high, vl_i128 place, int64_t unit) {
    double part = (double)(int64_t)(place % unit) / (double)unit;
    return low == high ? low : (1.0 - part) * low + part * high;
}

/* SQL order of doubles: NaN equals itself and is larger than everything; -0.0 equals 0.0. */
VL_INLINE int vl_f64_compare(double x, double y) {
    if (VL_UNLIKELY(x != x || y != y)) return (x != x) - (y != y);
    return (x > y) - (x < y);
}

#ifndef VL_HOSTED

VL_FUNCTION vl_u256 vl_u256_mul(vl_u128 x, vl_u128 y) {
    vl_u128 x0 = (uint64_t)x, x1 = x >> 64, y0 = (uint64_t)y, y1 = y >> 64;
    vl_u128 low = x0 * y0, a = x0 * y1, b = x1 * y0;
    vl_u128 middle = (low >> 64) + (uint64_t)a + (uint64_t)b;
    return (vl_u256){x1 * y1 + (a >> 64) + (b >> 64) + (middle >> 64), (middle << 64) | (uint64_t)low};
}

/* Quotient and remainder of x / y for y > 0; false when the quotient needs more than 128 bits. Binary
 * long division, only for operands that really are that wide. */
VL_FUNCTION bool vl_u256_div(vl_u256 x, vl_u128 y, vl_u128 *quotient, vl_u128 *remainder) {
    if (x.high == 0) {
        *quotient = x.low / y;
        *remainder = x.low % y;
        return true;
    }
    if (x.high >= y) return false;
    vl_u128 r = x.high, q = 0;
    for (int i = 127; i >= 0; i--) {
        bool carry = (r >> 127) != 0;
        r = (r << 1) | ((x.low >> i) & 1);
        q <<= 1;
        if (carry || r >= y) {
            r -= y;
            q |= 1;
        }
    }
    *quotient = q;
    *remainder = r;
    return true;
}

VL_LENT vl_i128 vl_decimal_mul(vl_i128 x, vl_i128 y, int drop, vl_errors *e) {
    vl_i128 narrow;
    if (VL_LIKELY(!__builtin_mul_overflow(x, y, &narrow))) return drop ? vl_round_div(narrow, vl_pow10(drop)) : narrow;
    vl_u256 wide = vl_u256_mul(vl_magnitude(x), vl_magnitude(y));
    vl_u128 by = vl_pow10(drop), q = 0, r = 0;
    if (drop == 0 || !vl_u256_div(wide, by, &q, &r)) {
        *e |= VL_E_DECIMAL;
        return (vl_i128)((vl_u128)x * (vl_u128)y);
    }
    q += r >= by - r;
    return vl_signed((x < 0) != (y < 0), q, e);
}

VL_LENT vl_i128 vl_decimal_div(vl_i128 x, vl_i128 y, int raise, vl_errors *e) {
    if (y == 0) {
        *e |= VL_E_DIVIDE;
        return 0;
    }
    vl_u128 n = vl_magnitude(x), d = vl_magnitude(y), q, r;
    uint64_t small;
    if (VL_LIKELY((n | d) >> 64 == 0 && raise < 20 &&
                  !__builtin_mul_overflow((uint64_t)n, (uint64_t)vl_pow10(raise), &small))) {
        uint64_t whole = small / (uint64_t)d, rest = small % (uint64_t)d;
        vl_i128 rounded = (vl_i128)whole + (rest >= (uint64_t)d - rest);
        return (x < 0) != (y < 0) ? -rounded : rounded;
    }
    vl_u256 wide = vl_u256_mul(n, vl_pow10(raise > 38 ? 38 : raise));
    if (raise > 38) {
        vl_u128 more = vl_pow10(raise - 38);
        vl_u256 low = vl_u256_mul(wide.low, more), high = vl_u256_mul(wide.high, more);
        if (high.high != 0 || high.low + low.high < high.low) {
            *e |= VL_E_DECIMAL;
            return 0;
        }
        wide = (vl_u256){high.low + low.high, low.low};
    }
    if (!vl_u256_div(wide, d, &q, &r)) {
        *e |= VL_E_DECIMAL;
        return 0;
    }
    q += r >= d - r;
    return vl_signed((x < 0) != (y < 0), q, e);
}

VL_LENT vl_i128 vl_decimal_mod(vl_i128 x, vl_i128 y, vl_errors *e) {
    if (y == 0) {
        *e |= VL_E_DIVIDE;
        return 0;
    }
    return y == -1 ? 0 : x % y;
}

VL_LENT double vl_f64_of_quotient(vl_i128 x, int scale) {
    vl_u128 n = vl_magnitude(x), d = vl_pow10(scale), q = n / d, rest = n % d;
    int exponent = 0;
    for (; q < (UINT64_C(1) << 55); exponent--) {
        rest <<= 1;
        q = q << 1 | (rest >= d);
        if (rest >= d) rest -= d;
    }
    bool more = rest != 0;
    for (; q >> 63; exponent++) {
        more |= q & 1;
        q >>= 1;
    }
    double size = __builtin_ldexp((double)((int64_t)q | more), exponent);
    return x < 0 ? -size : size;
}
#endif

#endif
