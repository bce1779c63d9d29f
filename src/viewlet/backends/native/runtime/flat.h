/* flat.h: declares records under a dense integer domain: an array of them, and the sums of every 8, 64, 512, ..
 *
 *   #define FLAT_NAME ticks
 *   #define FLAT_FIELDS(F) F(int64_t, volume, sum) F(ord_i128, turnover, sum)      integer sums only
 *   #define FLAT_LIKE levels                                                       the tree whose records these are
 *   #include "flat.h"
 *
 * Level 0 has a record for each key of the domain; one of the next level sums eight, and the last level has eight at
 * most. A change touches one place of each level, always as many, so there is nothing to foresee; a Fenwick array
 * touches a varying number, of twice the memory. Every sum is held in 64 bits: whoever adds must know that they suffice.
 */
#include "ordered_types.h"

#define FLAT_(x) ORD_PASTE(FLAT_NAME, x)
#define FLAT_ALL(F) F(int64_t, n, sum) FLAT_FIELDS(F)
#define FLAT_CAPACITY_MOST (UINT64_C(1) << 36)

typedef ORD_PASTE(FLAT_LIKE, rec) FLAT_(rec);

typedef struct {
#define F(type, name, kind) int64_t name;
    FLAT_ALL(F)
#undef F
} FLAT_(held);

#define F(type, name, kind) _Static_assert(ORD_EXACT_sum(type), "sums kept by differences: integers only");
FLAT_ALL(F)
#undef F

typedef struct {
    vl_ref cells;      /* level after level */
    int64_t low;       /* the key of slot 0 */
    uint64_t capacity; /* slots of level 0: a power of two, at least 64 */
    uint64_t size;     /* slots with a record */
    vl_account account;
} FLAT_NAME;

VL_INLINE FLAT_(held) * FLAT_(cells)(const vl_arena *a, const FLAT_NAME *f) { return vl_at(a, f->cells); }
VL_INLINE uint64_t FLAT_(slot)(const FLAT_NAME *f, int64_t k) { return (uint64_t)k - (uint64_t)f->low; }
VL_INLINE bool FLAT_(inside)(const FLAT_NAME *f, int64_t k) { return k >= f->low && FLAT_(slot)(f, k) < f->capacity; }

/* Levels, and the places of all of them, or of the first few. */
VL_INLINE uint32_t FLAT_(height)(const FLAT_NAME *f) {
    uint32_t height = 1;
    for (uint64_t n = f->capacity; n > 8; n >>= 3) height++;
    return height;
}
VL_INLINE uint64_t FLAT_(places)(const FLAT_NAME *f, uint32_t levels) {
    uint64_t places = 0;
    for (uint32_t l = 0; l < levels; l++) places += f->capacity >> 3 * l;
    return places;
}

/* The key of a slot, or the nearest from low to high; the greatest key inside them is not below the first slot's. */
VL_INLINE int64_t FLAT_(key)(const FLAT_NAME *f, uint64_t slot, int64_t low, int64_t high) {
    int64_t k = slot > (uint64_t)high - (uint64_t)f->low ? high : (int64_t)((uint64_t)f->low + slot);
    return k < low ? low : k;
}

VL_INLINE FLAT_(held) FLAT_(narrow)(const FLAT_(rec) * d) {
#define F(type, name, kind) .name = (int64_t)d->name,
    return (FLAT_(held)){FLAT_ALL(F)};
#undef F
}
VL_INLINE FLAT_(rec) FLAT_(full)(const FLAT_(held) * r) {
#define F(type, name, kind) .name = r->name,
    return (FLAT_(rec)){FLAT_ALL(F)};
#undef F
}
/* Records of four sums are common: they are added at once. */
VL_INLINE void FLAT_(put)(FLAT_(held) * into, const FLAT_(held) * d) {
    typedef uint64_t words __attribute__((vector_size(32), aligned(8), may_alias));
    if (sizeof *d == sizeof(words)) {
        *(words *)(void *)into += *(const words *)(const void *)d;
        return;
    }
#define F(type, name, kind) into->name = ORD_PLUS(into->name, d->name);
    FLAT_ALL(F)
#undef F
}
VL_INLINE bool FLAT_(is_empty)(const FLAT_(held) * r) {
    int64_t kept = 0;
#define F(type, name, kind) kept |= r->name;
    FLAT_ALL(F)
#undef F
    return kept == 0;
}

/* The domain doubled towards k until it holds k, or is too large to. */
VL_INLINE FLAT_NAME FLAT_(towards)(FLAT_NAME g, int64_t k) {
    while (!FLAT_(inside)(&g, k) && g.capacity < FLAT_CAPACITY_MOST) {
        if (k < g.low) g.low = g.low < INT64_MIN + (int64_t)g.capacity ? INT64_MIN : g.low - (int64_t)g.capacity;
        g.capacity *= 2;
    }
    return g;
}

/* Makes cells for the domain of f, with no records; false when there is no memory for them. */
VL_INLINE bool FLAT_(make)(vl_arena *a, FLAT_NAME *f) {
    f->cells = vl_try_alloc_zeroed(a, &f->account, FLAT_(places)(f, FLAT_(height)(f)) * sizeof(FLAT_(held)));
    return f->cells != 0;
}
VL_INLINE void FLAT_(unmake)(vl_arena *a, FLAT_NAME *f) {
    vl_free(a, &f->account, f->cells, FLAT_(places)(f, FLAT_(height)(f)) * sizeof(FLAT_(held)));
}

/* All sums from the records, in linear time. */
VL_COLD void FLAT_(build)(const vl_arena *a, const FLAT_NAME *f) {
    FLAT_(held) *from = FLAT_(cells)(a, f);
    for (uint64_t n = f->capacity; n > 8; n >>= 3) {
        for (uint64_t i = 0; i < n; i++) FLAT_(put)(&from[n + (i >> 3)], &from[i]);
        from += n;
    }
}

/* Grows the domain to hold k; false, and nothing done, when that cannot be. */
VL_COLD bool FLAT_(grow)(vl_arena *a, FLAT_NAME *f, int64_t k) {
    FLAT_NAME g = FLAT_(towards)(*f, k), old = *f;
    if (!FLAT_(inside)(&g, k) || !FLAT_(make)(a, &g)) return false;
    memcpy(FLAT_(cells)(a, &g) + FLAT_(slot)(&g, old.low), FLAT_(cells)(a, &old), old.capacity * sizeof(FLAT_(held)));
    FLAT_(build)(a, &g);
    old.account = g.account;
    FLAT_(unmake)(a, &old);
    g.account = old.account;
    *f = g;
    return true;
}

/* Changes the record of a key inside the domain. */
VL_INLINE void FLAT_(add)(const vl_arena *a, FLAT_NAME *f, int64_t k, const FLAT_(held) * d) {
    FLAT_(held) *level = FLAT_(cells)(a, f);
    uint64_t n = f->capacity, i = FLAT_(slot)(f, k);
    f->size -= !FLAT_(is_empty)(&level[i]);
    FLAT_(put)(&level[i], d);
    f->size += !FLAT_(is_empty)(&level[i]);
    while (n > 8) {
        level += n;
        n >>= 3;
        i >>= 3;
        FLAT_(put)(&level[i], d);
    }
}

/* Asks for the two places of a key that are most often not in the cache. */
VL_INLINE void FLAT_(prefetch)(const vl_arena *a, const FLAT_NAME *f, int64_t k) {
    const FLAT_(held) *level = FLAT_(cells)(a, f);
    __builtin_prefetch(&level[FLAT_(slot)(f, k)]);
    __builtin_prefetch(&level[f->capacity + (FLAT_(slot)(f, k) >> 3)]);
}

/* The sum of the first `slots` slots: what stands before them among its eight, level by level. */
VL_INLINE FLAT_(rec) FLAT_(prefix)(const vl_arena *a, const FLAT_NAME *f, uint64_t slots) {
    FLAT_(held) sum;
    memset(&sum, 0, sizeof sum);
    const FLAT_(held) *level = FLAT_(cells)(a, f);
    uint64_t n = f->capacity;
    for (;; level += n, n >>= 3, slots >>= 3) {
        for (uint64_t i = n > 8 ? slots & ~UINT64_C(7) : 0; i < slots; i++) FLAT_(put)(&sum, &level[i]);
        if (n <= 8) return FLAT_(full)(&sum);
    }
}
VL_FUNCTION FLAT_(rec) FLAT_(total)(const vl_arena *a, const FLAT_NAME *f) { return FLAT_(prefix)(a, f, f->capacity); }
VL_FUNCTION FLAT_(rec) FLAT_(sum_below)(const vl_arena *a, const FLAT_NAME *f, int64_t k) {
    uint64_t slots = k <= f->low ? 0 : FLAT_(slot)(f, k) < f->capacity ? FLAT_(slot)(f, k) : f->capacity;
    return FLAT_(prefix)(a, f, slots);
}

VL_FUNCTION void FLAT_(clear)(vl_arena *a, FLAT_NAME *f) {
    FLAT_(unmake)(a, f);
    memset(f, 0, sizeof *f);
}

#undef FLAT_
#undef FLAT_NAME
#undef FLAT_FIELDS
#undef FLAT_ALL
#undef FLAT_LIKE
#undef FLAT_CAPACITY_MOST
