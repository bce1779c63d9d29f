/* grid.h: sums of DOUBLE that no order of addition rounds, for ordered indexes.
 *
 * Every double is a whole number of some power of two. A grid is one such power for a field of a record: amounts that
 * are whole numbers of its unit, and no more than 2^VL_GRID_BITS of them, are added up as 128-bit integers, exactly,
 * whatever came and went before. Others are outside. While one is, whoever asks an index goes through the entries
 * instead, and now and then a unit is looked for that suits them all.
 *
 *   vl_grid_units(g, x)             an amount in units; 0 where it is outside
 *   vl_grid_moved(g, old, new)      the difference of two, with account of what is outside
 *   vl_grid_value(g, units), vl_grid_pair(g, units)     the nearest double; a pair that has every bit of 106
 *   vl_extent_take(e, x), vl_grid_over(e, &g)           which bits amounts have, and a grid for all of them
 *
 * A zeroed grid has no unit yet: all but 0 is outside. The definition is viewlet/indexes/grid.py.
 */
#ifndef VL_GRID_H
#define VL_GRID_H

#include "amount.h"

#define VL_GRID_BITS 95          /* of an amount: the sum of 2^32 of them has 127 */
#define VL_GRID_USUAL 64         /* bits that amounts come to need, sooner or later */
#define VL_GRID_LEAST (-1000)    /* exponents of a unit, between which units of any number are normal doubles */
#define VL_GRID_MOST 890

typedef struct {
    double unit;      /* 2^exponent */
    int32_t exponent;
    bool known;
    uint64_t outside; /* how many amounts are */
    uint64_t wait, again; /* so many changes until a unit is looked for, and after that if there is none */
} vl_grid;

/* The bits of some amounts: multiples of 2^low below 2^high. */
typedef struct {
    int32_t low, high;
    bool any;
} vl_extent;

/* x = mantissa * 2^exponent */
typedef struct {
    uint64_t mantissa;
    int32_t exponent;
    bool negative;
} vl_parts;

VL_INLINE vl_parts vl_parts_of(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint64_t biased = bits >> 52 & 0x7ff, fraction = bits & ((UINT64_C(1) << 52) - 1);
    return (vl_parts){fraction | (uint64_t)(biased != 0) << 52, (int32_t)(biased ? biased : 1) - 1075, bits >> 63};
}

/* Is x a whole number of units, and not too many? Infinities and NaN are too many for any unit. */
VL_INLINE bool vl_grid_holds(const vl_grid *g, double x, vl_i128 *units) {
    const vl_parts p = vl_parts_of(x);
    const int32_t by = p.exponent - g->exponent;
    *units = 0;
    if (p.mantissa == 0) return true;
    if (!g->known || by > VL_GRID_BITS - 53 || by < -52) return false;
    const uint64_t mask = by < 0 ? (UINT64_C(1) << -by) - 1 : 0;
    const vl_i128 size = by < 0 ? (vl_i128)(p.mantissa >> -by) : (vl_i128)p.mantissa << by;
    *units = p.negative ? -size : size;
    return (p.mantissa & mask) == 0;
}

VL_INLINE bool vl_grid_holds_pair(const vl_grid *g, vl_pair x, vl_i128 *units) {
    vl_i128 low = 0;
    bool fits = vl_grid_holds(g, x.high, units);
    if (x.low != 0) fits &= vl_grid_holds(g, x.low, &low);
    *units = fits ? *units + low : 0;
    return fits;
}

VL_INLINE vl_i128 vl_grid_units(const vl_grid *g, vl_pair x) {
    vl_i128 units;
    vl_grid_holds_pair(g, x, &units);
    return units;
}

VL_INLINE vl_i128 vl_grid_moved(vl_grid *g, vl_pair from, vl_pair to) {
    vl_i128 before, after;
    g->outside -= !vl_grid_holds_pair(g, from, &before);
    g->outside += !vl_grid_holds_pair(g, to, &after);
    return after - before;
}

VL_INLINE double vl_grid_value(const vl_grid *g, vl_i128 units) { return (double)units * g->unit; }
VL_INLINE vl_pair vl_grid_pair(const vl_grid *g, vl_i128 units) {
    const vl_pair x = vl_pair_of_i128(units);
    return (vl_pair){x.high * g->unit, x.low * g->unit};
}

VL_INLINE void vl_extent_take(vl_extent *e, double x) {
    const vl_parts p = vl_parts_of(x);
    if (p.mantissa == 0) return;
    const int32_t low = p.exponent + __builtin_ctzll(p.mantissa), high = p.exponent + 64 - __builtin_clzll(p.mantissa);
    e->low = e->any && e->low < low ? e->low : low;
    e->high = e->any && e->high > high ? e->high : high;
    e->any = true;
}
VL_INLINE void vl_extent_take_pair(vl_extent *e, vl_pair x) {
    vl_extent_take(e, x.high);
    vl_extent_take(e, x.low);
}

/* A unit for amounts of some extent, with room at both ends for what comes later; false if none suits them. */
VL_INLINE bool vl_grid_over(vl_extent e, vl_grid *g) {
    if (!e.any || e.high - e.low > VL_GRID_BITS) return false;
    int32_t low = e.low < e.high - VL_GRID_USUAL ? e.low : e.high - VL_GRID_USUAL;
    low -= (VL_GRID_BITS - (e.high - low)) / 3;
    if (low < VL_GRID_LEAST) low = VL_GRID_LEAST;
    if (low > e.low || low > VL_GRID_MOST) return false;
    const uint64_t bits = (uint64_t)(low + 1023) << 52;
    *g = (vl_grid){.exponent = low, .known = true};
    memcpy(&g->unit, &bits, sizeof bits);
    return true;
}

/* Is it time to look for another unit? Each time that there is none it takes twice as long. */
VL_INLINE bool vl_grid_asks(vl_grid *g) {
    if (g->wait > 0) {
        g->wait--;
        return false;
    }
    g->again = g->again ? 2 * g->again : 1;
    g->wait = g->again;
    return true;
}

#endif
