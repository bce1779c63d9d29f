/* fenwick.h: declares records under a dense integer domain: two flat arrays, growing at either end.
 *
 *   #define FEN_NAME ticks
 *   #define FEN_FIELDS(F) F(int64_t, volume) F(ord_i128, turnover)      integer sums only
 *   #define FEN_SEEK_1 volume
 *   #include "fenwick.h"
 *
 * sums[i] covers the lowest-set-bit(i) records that end at slot i, i from 1; records[i] is slot i itself.
 * A record is a row of the array: one cache line serves all fields.
 */
#include "ordered_types.h"

#define FEN_(x) ORD_PASTE(FEN_NAME, x)
#ifndef FEN_FIELDS
#define FEN_FIELDS(F)
#endif
#define FEN_ALL(F) F(int64_t, n) FEN_FIELDS(F)
#define FEN_CAPACITY_LEAST 64
#define FEN_CAPACITY_MOST (UINT64_C(1) << 36)

typedef struct {
#define F(type, name) type name;
    FEN_ALL(F)
#undef F
} FEN_(rec);

#define F(type, name) \
    _Static_assert(ORD_EXACT_sum(type), "a Fenwick array keeps sums by differences: integers only");
FEN_ALL(F)
#undef F

/* Zero-initialized is empty. */
typedef struct {
    vl_ref records, sums;
    int64_t low;       /* the key of slot 0 */
    uint64_t capacity; /* a power of two, or 0 */
    uint64_t size;     /* slots with a record */
    vl_account account;
} FEN_NAME;

typedef struct {
    int64_t key;
    FEN_(rec) before;
} FEN_(hit);

VL_INLINE FEN_(rec) * FEN_(records)(const vl_arena *a, const FEN_NAME *f) { return vl_at(a, f->records); }
VL_INLINE FEN_(rec) * FEN_(sums)(const vl_arena *a, const FEN_NAME *f) { return vl_at(a, f->sums); }
VL_INLINE uint64_t FEN_(slot)(const FEN_NAME *f, int64_t k) { return (uint64_t)k - (uint64_t)f->low; }
VL_INLINE bool FEN_(inside)(const FEN_NAME *f, int64_t k) { return k >= f->low && FEN_(slot)(f, k) < f->capacity; }

VL_INLINE void FEN_(join)(FEN_(rec) * into, const FEN_(rec) * r) {
#define F(type, name) into->name = ORD_PLUS(into->name, r->name);
    FEN_ALL(F)
#undef F
}
VL_INLINE FEN_(rec) FEN_(minus)(FEN_(rec) x, const FEN_(rec) * y) {
#define F(type, name) x.name = ORD_MINUS(x.name, y->name);
    FEN_ALL(F)
#undef F
    return x;
}
VL_INLINE bool FEN_(is_empty)(const FEN_(rec) * r) {
    bool kept = false;
#define F(type, name) kept |= r->name != 0;
    FEN_ALL(F)
#undef F
    return !kept;
}

/* Doubles the domain towards k until it holds k, and rebuilds in linear time. */
VL_COLD bool FEN_(grow)(vl_arena *a, FEN_NAME *f, int64_t k) {
    FEN_NAME g = *f;
    if (g.capacity == 0) {
        g.low = k;
        g.capacity = FEN_CAPACITY_LEAST;
    }
    while (!FEN_(inside)(&g, k) && g.capacity < FEN_CAPACITY_MOST) {
        if (k < g.low) g.low = g.low < INT64_MIN + (int64_t)g.capacity ? INT64_MIN : g.low - (int64_t)g.capacity;
        g.capacity *= 2;
    }
    uint64_t bytes = g.capacity * sizeof(FEN_(rec));
    vl_ref records = 0, sums = 0;
    if (FEN_(inside)(&g, k)) records = vl_alloc_zeroed(a, &g.account, bytes);
    if (records) sums = vl_alloc(a, &g.account, bytes + sizeof(FEN_(rec)));
    if (!sums) {
        vl_free(a, &g.account, records, bytes);
        a->errors |= VL_E_MEMORY | VL_E_LOST;
        return false;
    }
    FEN_(rec) *r = vl_at(a, records), *s = vl_at(a, sums);
    if (f->capacity) {
        uint64_t old = f->capacity * sizeof(FEN_(rec));
        memcpy(r + FEN_(slot)(&g, f->low), FEN_(records)(a, f), old);
        vl_free(a, &g.account, f->records, old);
        vl_free(a, &g.account, f->sums, old + sizeof(FEN_(rec)));
    }
    memset(s, 0, sizeof *s);
    memcpy(s + 1, r, bytes);
    for (uint64_t i = 1; i < g.capacity; i++) {
        uint64_t j = i + (i & -i);
        if (j <= g.capacity) FEN_(join)(&s[j], &s[i]);
    }
    g.records = records;
    g.sums = sums;
    *f = g;
    return true;
}

VL_FUNCTION void FEN_(add)(vl_arena *a, FEN_NAME *f, int64_t k, const FEN_(rec) * delta, FEN_(rec) * old) {
    if (old) memset(old, 0, sizeof *old);
    if (VL_UNLIKELY(!FEN_(inside)(f, k)) && (FEN_(is_empty)(delta) || !FEN_(grow)(a, f, k))) return;
    uint64_t slot = FEN_(slot)(f, k);
    FEN_(rec) *r = FEN_(records)(a, f) + slot, *s = FEN_(sums)(a, f);
    if (old) *old = *r;
    f->size -= !FEN_(is_empty)(r);
    FEN_(join)(r, delta);
    f->size += !FEN_(is_empty)(r);
    for (uint64_t i = slot + 1; i <= f->capacity; i += i & -i) FEN_(join)(&s[i], delta);
}

VL_FUNCTION bool FEN_(get)(const vl_arena *a, const FEN_NAME *f, int64_t k, FEN_(rec) * out) {
    memset(out, 0, sizeof *out);
    if (!FEN_(inside)(f, k)) return false;
    *out = FEN_(records)(a, f)[FEN_(slot)(f, k)];
    return !FEN_(is_empty)(out);
}

VL_FUNCTION FEN_(rec) FEN_(total)(const vl_arena *a, const FEN_NAME *f) {
    FEN_(rec) none;
    memset(&none, 0, sizeof none);
    return f->capacity ? FEN_(sums)(a, f)[f->capacity] : none;
}

/* The sum of the first `slots` slots. */
VL_INLINE FEN_(rec) FEN_(prefix)(const vl_arena *a, const FEN_NAME *f, uint64_t slots) {
    FEN_(rec) out;
    memset(&out, 0, sizeof out);
    const FEN_(rec) *s = FEN_(sums)(a, f);
    for (uint64_t i = slots; i; i &= i - 1) FEN_(join)(&out, &s[i]);
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
    FEN_(rec) plus, minus;
    memset(&plus, 0, sizeof plus);
    memset(&minus, 0, sizeof minus);
    if (low > high) return plus;
    uint64_t i = FEN_(slots_through)(f, high), j = FEN_(slots_below)(f, low);
    const FEN_(rec) *s = FEN_(sums)(a, f);
    for (; i > j; i &= i - 1) FEN_(join)(&plus, &s[i]);
    for (; j > i; j &= j - 1) FEN_(join)(&minus, &s[j]);
    return FEN_(minus)(plus, &minus);
}

VL_FUNCTION void FEN_(clear)(vl_arena *a, FEN_NAME *f) {
    uint64_t bytes = f->capacity * sizeof(FEN_(rec));
    vl_free(a, &f->account, f->records, bytes);
    vl_free(a, &f->account, f->sums, bytes + sizeof(FEN_(rec)));
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
