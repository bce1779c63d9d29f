/* fenwick.h: declares records under a dense integer domain: one flat array of cells, growing at either end.
 *
 *   #define FEN_NAME ticks
 *   #define FEN_FIELDS(F) F(int64_t, volume, sum) F(ord_i128, turnover, sum)      integer sums only
 *   #define FEN_SEEK_1 volume
 *   #include "fenwick.h"
 *
 * Cell i, i from 1, has the record of slot i - 1 and the sum of the lowest-set-bit(i) records that end there: a
 * change finds both in one place.
 */
#include "ordered_types.h"

#define FEN_(x) ORD_PASTE(FEN_NAME, x)
#ifndef FEN_FIELDS
#define FEN_FIELDS(F)
#endif
#define FEN_ALL(F) F(int64_t, n, sum) FEN_FIELDS(F)
#define FEN_CAPACITY_LEAST 64
#define FEN_CAPACITY_MOST (UINT64_C(1) << 36)

typedef struct {
#define F(type, name, kind) type name;
    FEN_ALL(F)
#undef F
} FEN_(rec);

typedef struct {
    FEN_(rec) own, sum;
} FEN_(cell);

#define F(type, name, kind) \
    _Static_assert(ORD_EXACT_sum(type), "a Fenwick array keeps sums by differences: integers only");
FEN_ALL(F)
#undef F

/* Zero-initialized is empty. */
typedef struct {
    vl_ref cells;      /* one more than the capacity: cell 0 stays empty */
    int64_t low;       /* the key of slot 0 */
    uint64_t capacity; /* a power of two, or 0 */
    uint64_t size;     /* slots with a record */
    vl_account account;
} FEN_NAME;

typedef struct {
    int64_t key;
    FEN_(rec) before;
} FEN_(hit);

VL_INLINE FEN_(cell) * FEN_(cells)(const vl_arena *a, const FEN_NAME *f) { return vl_at(a, f->cells); }
VL_INLINE uint64_t FEN_(slot)(const FEN_NAME *f, int64_t k) { return (uint64_t)k - (uint64_t)f->low; }
VL_INLINE bool FEN_(inside)(const FEN_NAME *f, int64_t k) { return k >= f->low && FEN_(slot)(f, k) < f->capacity; }

VL_INLINE void FEN_(join)(FEN_(rec) * into, const FEN_(rec) * r) {
#define F(type, name, kind) into->name = ORD_PLUS(into->name, r->name);
    FEN_ALL(F)
#undef F
}
VL_INLINE FEN_(rec) FEN_(none)(void) {
    FEN_(rec) none;
    memset(&none, 0, sizeof none);
    return none;
}
VL_INLINE FEN_(rec) FEN_(minus)(FEN_(rec) x, const FEN_(rec) * y) {
#define F(type, name, kind) x.name = ORD_MINUS(x.name, y->name);
    FEN_ALL(F)
#undef F
    return x;
}
VL_INLINE bool FEN_(is_empty)(const FEN_(rec) * r) {
    bool kept = false;
#define F(type, name, kind) kept |= r->name != 0;
    FEN_ALL(F)
#undef F
    return !kept;
}

/* The domain doubled towards k until it holds k, or is too large to. */
VL_INLINE FEN_NAME FEN_(towards)(FEN_NAME g, int64_t k) {
    if (g.capacity == 0) {
        g.low = k;
        g.capacity = FEN_CAPACITY_LEAST;
    }
    while (!FEN_(inside)(&g, k) && g.capacity < FEN_CAPACITY_MOST) {
        if (k < g.low) g.low = g.low < INT64_MIN + (int64_t)g.capacity ? INT64_MIN : g.low - (int64_t)g.capacity;
        g.capacity *= 2;
    }
    return g;
}

/* Makes cells for the domain of f, with no records; false when there is no memory for them. */
VL_INLINE bool FEN_(make)(vl_arena *a, FEN_NAME *f) {
    f->cells = vl_try_alloc_zeroed(a, &f->account, (f->capacity + 1) * sizeof(FEN_(cell)));
    return f->cells != 0;
}
VL_INLINE void FEN_(unmake)(vl_arena *a, FEN_NAME *f) {
    vl_free(a, &f->account, f->cells, f->capacity ? (f->capacity + 1) * sizeof(FEN_(cell)) : 0);
}

/* All sums from the records, in linear time. */
VL_COLD void FEN_(build)(const vl_arena *a, const FEN_NAME *f) {
    FEN_(cell) *c = FEN_(cells)(a, f);
    for (uint64_t i = 1; i <= f->capacity; i++) c[i].sum = c[i].own;
    for (uint64_t i = 1; i < f->capacity; i++) FEN_(join)(&c[i + (i & -i)].sum, &c[i].sum);
}

/* Grows the domain to hold k; false, and nothing done, when that cannot be. */
VL_COLD bool FEN_(grow)(vl_arena *a, FEN_NAME *f, int64_t k) {
    FEN_NAME g = FEN_(towards)(*f, k), old = *f;
    if (!FEN_(inside)(&g, k) || !FEN_(make)(a, &g)) return false;
    if (old.capacity) {
        FEN_(cell) *to = FEN_(cells)(a, &g) + FEN_(slot)(&g, old.low);
        memcpy(to + 1, FEN_(cells)(a, &old) + 1, old.capacity * sizeof *to);
        FEN_(build)(a, &g);
        old.account = g.account;
        FEN_(unmake)(a, &old);
        g.account = old.account;
    }
    *f = g;
    return true;
}

VL_FUNCTION void FEN_(add)(vl_arena *a, FEN_NAME *f, int64_t k, const FEN_(rec) * delta, FEN_(rec) * old) {
    if (old) *old = FEN_(none)();
    if (VL_UNLIKELY(!FEN_(inside)(f, k))) {
        if (FEN_(is_empty)(delta)) return;
        if (!FEN_(grow)(a, f, k)) {
            a->errors |= VL_E_MEMORY | VL_E_LOST;
            return;
        }
    }
    uint64_t i = FEN_(slot)(f, k) + 1, capacity = f->capacity;
    FEN_(cell) *c = FEN_(cells)(a, f);
    FEN_(rec) *r = &c[i].own;
    if (old) *old = *r;
    f->size -= !FEN_(is_empty)(r);
    FEN_(join)(r, delta);
    f->size += !FEN_(is_empty)(r);
    for (; i <= capacity; i += i & -i) FEN_(join)(&c[i].sum, delta);
}

VL_FUNCTION bool FEN_(get)(const vl_arena *a, const FEN_NAME *f, int64_t k, FEN_(rec) * out) {
    *out = FEN_(none)();
    if (!FEN_(inside)(f, k)) return false;
    *out = FEN_(cells)(a, f)[FEN_(slot)(f, k) + 1].own;
    return !FEN_(is_empty)(out);
}

VL_FUNCTION FEN_(rec) FEN_(total)(const vl_arena *a, const FEN_NAME *f) {
    return f->capacity ? FEN_(cells)(a, f)[f->capacity].sum : FEN_(none)();
}

/* The sum of the first `slots` slots. */
VL_INLINE FEN_(rec) FEN_(prefix)(const vl_arena *a, const FEN_NAME *f, uint64_t slots) {
    FEN_(rec) out = FEN_(none)();
    const FEN_(cell) *c = FEN_(cells)(a, f);
    for (uint64_t i = slots; i; i &= i - 1) FEN_(join)(&out, &c[i].sum);
    return out;
}
VL_INLINE uint64_t FEN_(slots_below)(const FEN_NAME *f, int64_t k) {
    return k <= f->low ? 0 : FEN_(slot)(f, k) < f->capacity ? FEN_(slot)(f, k) : f->capacity;
}
VL_INLINE uint64_t FEN_(slots_through)(const FEN_NAME *f, int64_t k) {
    return k < f->low ? 0 : FEN_(slot)(f, k) < f->capacity ? FEN_(slot)(f, k) + 1 : f->capacity;
}

VL_FUNCTION FEN_(rec) FEN_(sum_below)(const vl_arena *a, const FEN_NAME *f, int64_t k) {
    return FEN_(prefix)(a, f, FEN_(slots_below)(f, k));
}
VL_FUNCTION FEN_(rec) FEN_(sum_through)(const vl_arena *a, const FEN_NAME *f, int64_t k) {
    return FEN_(prefix)(a, f, FEN_(slots_through)(f, k));
}
VL_FUNCTION FEN_(rec) FEN_(sum_from)(const vl_arena *a, const FEN_NAME *f, int64_t k) {
    FEN_(rec) below = FEN_(sum_below)(a, f, k);
    return FEN_(minus)(FEN_(total)(a, f), &below);
}
/* low <= key <= high. Stops where the two prefixes meet. */
VL_FUNCTION FEN_(rec) FEN_(sum_range)(const vl_arena *a, const FEN_NAME *f, int64_t low, int64_t high) {
    FEN_(rec) plus = FEN_(none)(), minus = FEN_(none)();
    if (low > high) return plus;
    uint64_t i = FEN_(slots_through)(f, high), j = FEN_(slots_below)(f, low);
    const FEN_(cell) *c = FEN_(cells)(a, f);
    for (; i > j; i &= i - 1) FEN_(join)(&plus, &c[i].sum);
    for (; j > i; j &= j - 1) FEN_(join)(&minus, &c[j].sum);
    return FEN_(minus)(plus, &minus);
}

VL_FUNCTION void FEN_(clear)(vl_arena *a, FEN_NAME *f) {
    FEN_(unmake)(a, f);
    memset(f, 0, sizeof *f);
}

#define FEN_SEEK n
#include "fenwick_seek.h"
#ifdef FEN_SEEK_1
#define FEN_SEEK FEN_SEEK_1
#include "fenwick_seek.h"
#endif
#ifdef FEN_SEEK_2
#define FEN_SEEK FEN_SEEK_2
#include "fenwick_seek.h"
#endif

#undef FEN_
#undef FEN_NAME
#undef FEN_FIELDS
#undef FEN_ALL
#undef FEN_CAPACITY_LEAST
#undef FEN_CAPACITY_MOST
#undef FEN_SEEK_1
#undef FEN_SEEK_2
