/* ordered_sums.h: declares sums under integer keys in one of two forms, whichever suits the keys that there are.
 *
 *   #define SUMS_NAME bids_by_price
 *   #define SUMS_FIELDS(F) F(int64_t, volume, sum) F(ord_i128, turnover, sum)      integer sums only
 *   #define SUMS_LEAF 16                                                           slots of a leaf, if not 32
 *   #define SUMS_MARKS                                                             remember the last two prefixes
 *   #include "ordered_sums.h"
 *
 * A wide-node tree holds any keys. From SUMS_LEAST keys on, while they fill at least a quarter of their range, an
 * array over the range (flat.h) holds them in a few memory accesses. The array grows towards keys outside it, and
 * gives way to the tree when less than an eighth would be filled, or a sixteenth is left: between any two changes of
 * form there are as many changes of keys as in linear proportion to what the change of form costs.
 *
 * The array holds sums in 64 bits. `bulk` is the sum over all keys of their wide fields, taken positive: below 2^62 no
 * part of them can leave 64 bits. Where it is reached, the tree, which has all 128 bits, takes over.
 *
 * Functions as for ordered_tree.h: N_add, N_get, N_following, N_total, N_sum_below, N_sum_through, N_size, N_bytes.
 */
#include "ordered_types.h"

#define SUMS_(x) ORD_PASTE(SUMS_NAME, x)
#define SUMS_LEAST 16
#define SUMS_BULK (UINT64_C(1) << 62)
#define SUMS_STEPS 16 /* so far a mark moves cell by cell */

#define ORD_NAME SUMS_(tree)
#define ORD_FIELDS(F) SUMS_FIELDS(F)
#ifdef SUMS_LEAF
#define ORD_LEAF SUMS_LEAF
#endif
#include "ordered_tree.h"

#define FLAT_NAME SUMS_(dense)
#define FLAT_FIELDS(F) SUMS_FIELDS(F)
#define FLAT_LIKE SUMS_(tree)
#include "flat.h"

typedef SUMS_(tree_key) SUMS_(key);
typedef SUMS_(tree_rec) SUMS_(rec);

/* A prefix that was asked for, kept up by every change. Two ends of a range move by little from one question to the
 * next, and independently: a new one takes the place of the nearer. The prefix is the same at every key from `low` to
 * `high`, for no record lies in between. */
typedef struct {
    bool known;
    int64_t key, low, high;
    SUMS_(rec) before;
} SUMS_(mark);

/* Zero-initialized is empty. */
typedef struct {
    union {
        SUMS_(tree) tree;
        SUMS_(dense) dense;
    };
    uint64_t look; /* the number of keys in the tree at which their range is looked at */
    uint64_t bulk; /* of the array */
    bool is_dense;
#ifdef SUMS_MARKS
    SUMS_(mark) marks[2];
#endif
} SUMS_NAME;

VL_INLINE SUMS_(rec) SUMS_(none)(void) { return SUMS_(tree_none)(); }
VL_INLINE void SUMS_(join)(SUMS_(rec) * into, const SUMS_(rec) * r) { SUMS_(tree_join)(into, r); }
VL_INLINE uint64_t SUMS_(size)(const SUMS_NAME *t) { return t->is_dense ? t->dense.size : t->tree.size; }
VL_INLINE uint64_t SUMS_(bytes)(const SUMS_NAME *t) {
    return t->is_dense ? t->dense.account.bytes : t->tree.account.bytes;
}

/* The sum of a record's wide fields, taken positive, or SUMS_BULK if it is more. */
VL_INLINE uint64_t SUMS_(bulk)(const SUMS_(rec) * r) {
    ord_u128 sum = 0;
#define F(type, name, kind)                                                                             \
    if (sizeof(type) > 8) {                                                                             \
        ord_u128 x = r->name < 0 ? -(ord_u128)r->name : (ord_u128)r->name;                              \
        sum += x > SUMS_BULK ? SUMS_BULK : x;                                                           \
    }
    SUMS_FIELDS(F)
#undef F
    return sum > SUMS_BULK ? SUMS_BULK : (uint64_t)sum;
}

/* The bulk of the array after a change of what one key has in it, or SUMS_BULK if it is more. No sum that is held
 * reaches SUMS_BULK, so 64 bits tell. */
VL_INLINE uint64_t SUMS_(bulk_after)(uint64_t bulk, const SUMS_(dense_held) * own, const SUMS_(rec) * delta) {
    uint64_t less = 0, more = 0;
    bool fits = true;
#define F(type, name, kind)                                                                             \
    if (sizeof(type) > 8) {                                                                             \
        int64_t old = own->name, by = (int64_t)delta->name, sum;                                        \
        fits &= delta->name == by;                                                                      \
        fits &= !__builtin_add_overflow(old, by, &sum);                                                 \
        less += old < 0 ? -(uint64_t)old : (uint64_t)old;                                               \
        more += sum < 0 ? -(uint64_t)sum : (uint64_t)sum;                                               \
        fits &= more < SUMS_BULK;                                                                       \
    }
    SUMS_FIELDS(F)
#undef F
    return fits ? bulk - less + more : SUMS_BULK;
}

/* From the tree to the array, if the keys fill a quarter of it. */
VL_COLD void SUMS_(look)(vl_arena *a, SUMS_NAME *t) {
    uint64_t size = t->tree.size;
    t->look = size < SUMS_LEAST ? SUMS_LEAST : 2 * size;
    SUMS_(tree_path) p;
    if (size < SUMS_LEAST || !SUMS_(tree_last)(a, &t->tree, &p)) return;
    int64_t high = SUMS_(tree_path_key)(&p);
    SUMS_(tree_first)(a, &t->tree, &p);
    SUMS_(dense) f = {.low = SUMS_(tree_path_key)(&p), .capacity = 4 * SUMS_LEAST, .size = size};
    while (!SUMS_(dense_inside)(&f, high) && f.capacity <= 4 * size) f.capacity *= 2;
    if (f.capacity > 4 * size) return;
    uint64_t room = (f.capacity - 1 - SUMS_(dense_slot)(&f, high)) / 2; /* for keys a little below */
    f.low = (uint64_t)f.low - (uint64_t)INT64_MIN < room ? INT64_MIN : f.low - (int64_t)room;
    if (!SUMS_(dense_make)(a, &f)) return;
    SUMS_(dense_held) *cells = SUMS_(dense_cells)(a, &f);
    uint64_t bulk = 0;
    do {
        SUMS_(rec) r = SUMS_(tree_path_rec)(&p);
        bulk += SUMS_(bulk)(&r);
        cells[SUMS_(dense_slot)(&f, SUMS_(tree_path_key)(&p))] = SUMS_(dense_narrow)(&r);
    } while (bulk < SUMS_BULK && SUMS_(tree_next)(a, &t->tree, &p));
    if (bulk >= SUMS_BULK) {
        SUMS_(dense_clear)(a, &f);
        return;
    }
    SUMS_(dense_build)(a, &f);
    SUMS_(tree_clear)(a, &t->tree);
    t->dense = f;
    t->bulk = bulk;
    t->is_dense = true;
}

/* From the array back to the tree. */
VL_COLD void SUMS_(scatter)(vl_arena *a, SUMS_NAME *t) {
    SUMS_(dense) f = t->dense;
    const SUMS_(dense_held) *cells = SUMS_(dense_cells)(a, &f);
    memset(&t->tree, 0, sizeof t->tree);
    t->is_dense = false;
    for (uint64_t i = 0; i < f.capacity; i++)
        if (!SUMS_(dense_is_empty)(&cells[i])) {
            SUMS_(rec) r = SUMS_(dense_full)(&cells[i]);
            SUMS_(tree_add)(a, &t->tree, (int64_t)((uint64_t)f.low + i), &r, NULL);
        }
    SUMS_(dense_clear)(a, &f);
    t->look = 2 * t->tree.size;
}

/* A key outside the array: grow, unless hardly anything of it were filled. */
VL_COLD bool SUMS_(widen)(vl_arena *a, SUMS_NAME *t, int64_t k) {
    SUMS_(dense) wide = SUMS_(dense_towards)(t->dense, k);
    if (wide.capacity <= 8 * t->dense.size && SUMS_(dense_grow)(a, &t->dense, k)) return true;
    SUMS_(scatter)(a, t);
    return false;
}

/* May the array take a change? Else it has become a tree. */
VL_INLINE bool SUMS_(takes)(vl_arena *a, SUMS_NAME *t, int64_t k, const SUMS_(rec) * delta) {
    if (VL_UNLIKELY(!t->is_dense)) return false;
    if (VL_UNLIKELY(!SUMS_(dense_inside)(&t->dense, k)) && !SUMS_(widen)(a, t, k)) return false;
    const SUMS_(dense_held) *own = SUMS_(dense_cells)(a, &t->dense) + SUMS_(dense_slot)(&t->dense, k);
    uint64_t bulk = SUMS_(bulk_after)(t->bulk, own, delta);
    if (VL_UNLIKELY(bulk >= SUMS_BULK)) {
        SUMS_(scatter)(a, t);
        return false;
    }
    t->bulk = bulk;
    return true;
}

#ifdef SUMS_MARKS
/* A change at k, on either side of a mark. */
VL_INLINE void SUMS_(pass)(SUMS_(mark) * mark, int64_t k, const SUMS_(rec) * delta) {
    if (k < mark->key) {
        SUMS_(join)(&mark->before, delta);
        mark->low = mark->low > k ? mark->low : k + 1;
    } else {
        mark->high = mark->high < k ? mark->high : k;
    }
}
#endif

VL_FUNCTION void SUMS_(add)(vl_arena *a, SUMS_NAME *t, int64_t k, const SUMS_(rec) * delta, SUMS_(rec) * old) {
#ifdef SUMS_MARKS
    for (int i = 0; i < 2; i++) SUMS_(pass)(&t->marks[i], k, delta);
#endif
    if (SUMS_(takes)(a, t, k, delta)) {
        const SUMS_(dense_held) change = SUMS_(dense_narrow)(delta);
        if (old) *old = SUMS_(dense_full)(SUMS_(dense_cells)(a, &t->dense) + SUMS_(dense_slot)(&t->dense, k));
        SUMS_(dense_add)(a, &t->dense, k, &change);
        if (VL_UNLIKELY(t->dense.capacity > 16 * t->dense.size)) SUMS_(scatter)(a, t);
        return;
    }
    const SUMS_(rec) change = *delta; /* that of an array has no address then, and stays in registers */
    SUMS_(tree_add)(a, &t->tree, k, &change, old);
    if (VL_UNLIKELY(t->tree.size >= t->look)) SUMS_(look)(a, t);
}

/* The record of k; false, and no record, when there is none. */
VL_FUNCTION bool SUMS_(get)(const vl_arena *a, const SUMS_NAME *t, int64_t k, SUMS_(rec) * out) {
    if (!t->is_dense) return SUMS_(tree_get)(a, &t->tree, k, out);
    *out = SUMS_(none)();
    if (!SUMS_(dense_inside)(&t->dense, k)) return false;
    const SUMS_(dense_held) *own = SUMS_(dense_cells)(a, &t->dense) + SUMS_(dense_slot)(&t->dense, k);
    *out = SUMS_(dense_full)(own);
    return !SUMS_(dense_is_empty)(own);
}

/* The first record, or the first above k; false when there is none. */
VL_FUNCTION bool SUMS_(following)(const vl_arena *a, const SUMS_NAME *t, const int64_t *k, int64_t *key, SUMS_(rec) * out) {
    if (!t->is_dense) return SUMS_(tree_following)(a, &t->tree, k, key, out);
    const SUMS_(dense_held) *cells = SUMS_(dense_cells)(a, &t->dense);
    uint64_t i = !k || *k < t->dense.low ? 0 : SUMS_(dense_slot)(&t->dense, *k) + 1;
    while (i < t->dense.capacity && SUMS_(dense_is_empty)(&cells[i])) i++;
    if (i >= t->dense.capacity) return false;
    *key = (int64_t)((uint64_t)t->dense.low + i);
    *out = SUMS_(dense_full)(&cells[i]);
    return true;
}

/* Ask for the places of a key, if they can be told without looking. */
VL_INLINE void SUMS_(prefetch)(const vl_arena *a, const SUMS_NAME *t, int64_t k) {
    if (t->is_dense && SUMS_(dense_inside)(&t->dense, k)) SUMS_(dense_prefetch)(a, &t->dense, k);
}

VL_FUNCTION SUMS_(rec) SUMS_(total)(const vl_arena *a, const SUMS_NAME *t) {
    return t->is_dense ? SUMS_(dense_total)(a, &t->dense) : SUMS_(tree_total)(a, &t->tree);
}
VL_FUNCTION SUMS_(rec) SUMS_(prefix)(const vl_arena *a, const SUMS_NAME *t, int64_t k) {
    return t->is_dense ? SUMS_(dense_sum_below)(a, &t->dense, k) : SUMS_(tree_sum_below)(a, &t->tree, k);
}
#ifdef SUMS_MARKS
/* Moves the sums of a mark to a key nearby, cell by cell; false, and nothing done, outside the array. */
VL_INLINE bool SUMS_(shift)(const vl_arena *a, const SUMS_NAME *t, SUMS_(mark) * mark, int64_t k) {
    if (!t->is_dense || !SUMS_(dense_inside)(&t->dense, k) || !SUMS_(dense_inside)(&t->dense, mark->key)) return false;
    const SUMS_(dense_held) *cells = SUMS_(dense_cells)(a, &t->dense);
    uint64_t from = SUMS_(dense_slot)(&t->dense, mark->key), to = SUMS_(dense_slot)(&t->dense, k);
    SUMS_(dense_held) moved = {0};
    for (uint64_t i = from < to ? from : to; i < (from < to ? to : from); i++) SUMS_(dense_put)(&moved, &cells[i]);
    const SUMS_(rec) by = SUMS_(dense_full)(&moved);
#define F(type, name, kind) mark->before.name = from < to ? ORD_PLUS(mark->before.name, by.name) : ORD_MINUS(mark->before.name, by.name);
    F(int64_t, n, sum) SUMS_FIELDS(F)
#undef F
    return true;
}
/* How far the records of a tree are from a mark, as far as one leaf tells. */
VL_INLINE void SUMS_(surround)(const vl_arena *a, const SUMS_NAME *t, SUMS_(mark) * mark) {
    SUMS_(tree_path) p;
    SUMS_(tree_descend)(a, &t->tree, mark->key, &p);
    if (p.slot > 0) mark->low = p.leaf->keys[p.slot - 1] + 1;
    if (p.slot < p.leaf->len) mark->high = p.leaf->keys[p.slot];
}
static VL_APART SUMS_(rec) SUMS_(mark_at)(const vl_arena *a, SUMS_NAME *t, int64_t k) {
    uint64_t far[2];
    for (int i = 0; i < 2; i++) {
        int64_t at = t->marks[i].key;
        far[i] = !t->marks[i].known ? 0 : at < k ? (uint64_t)k - (uint64_t)at : (uint64_t)at - (uint64_t)k;
    }
    const bool second = far[1] < far[0];
    SUMS_(mark) *mark = &t->marks[second];
    if (!mark->known || far[second] > SUMS_STEPS || !SUMS_(shift)(a, t, mark, k)) mark->before = SUMS_(prefix)(a, t, k);
    mark->known = true;
    mark->key = mark->low = mark->high = k;
    if (!t->is_dense) SUMS_(surround)(a, t, mark);
    return mark->before;
}
VL_FUNCTION SUMS_(rec) SUMS_(sum_below)(const vl_arena *a, const SUMS_NAME *t, int64_t k) {
    if (SUMS_(size)(t) == 0) return SUMS_(none)(); /* an empty one may be read-only */
    for (int i = 0; i < 2; i++)
        if (t->marks[i].known && t->marks[i].low <= k && k <= t->marks[i].high) return t->marks[i].before;
    return SUMS_(mark_at)(a, (SUMS_NAME *)(uintptr_t)t, k);
}
#else
VL_FUNCTION SUMS_(rec) SUMS_(sum_below)(const vl_arena *a, const SUMS_NAME *t, int64_t k) {
    return SUMS_(prefix)(a, t, k);
}
#endif
VL_FUNCTION SUMS_(rec) SUMS_(sum_through)(const vl_arena *a, const SUMS_NAME *t, int64_t k) {
    return k == INT64_MAX ? SUMS_(total)(a, t) : SUMS_(sum_below)(a, t, k + 1);
}

#undef SUMS_
#undef SUMS_NAME
#undef SUMS_FIELDS
#undef SUMS_LEAF
#undef SUMS_MARKS
#undef SUMS_LEAST
#undef SUMS_BULK
#undef SUMS_STEPS
