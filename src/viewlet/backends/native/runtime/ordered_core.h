/* ordered_core.h: one B+-tree of records under ordered keys; the common part of ordered_tree.h,
 * rpai.h and multiset.h, which are what programs include. Parameters and functions: ORDERED.md.
 *
 * Inner nodes hold, per child, the join of its records; a separator keys[i] is >= every key of child i
 * and < every key of child i + 1. Unused key slots hold the greatest key, so counting keys < k over all
 * slots needs no length, and the greatest key itself is an ordinary key: "< k" never counts padding.
 *
 * With ORD_SHIFT keys are relative: the true key is the stored one plus the `offset` of every child
 * pointer on the path plus the tree's `base`. Differences wrap, so true keys may span the whole type.
 */
#include "ordered_types.h"

#define ORD_(x) ORD_PASTE(ORD_NAME, x)

#ifndef ORD_INNER
#define ORD_INNER 16
#endif
#ifndef ORD_LEAF
#define ORD_LEAF 32
#endif
#ifndef ORD_CUMULATIVE
#define ORD_CUMULATIVE 0
#endif
#ifndef ORD_SHIFT
#define ORD_SHIFT 0
#endif
#ifndef ORD_KEY_WORDS
#define ORD_KEY_WORDS 1
#endif
#ifndef ORD_FIELDS
#define ORD_FIELDS(F)
#endif
#define ORD_ALL(F) F(int64_t, n, sum) ORD_FIELDS(F)

_Static_assert(ORD_LEAF >= 4 && ORD_LEAF <= 64 && ORD_INNER >= 4 && ORD_INNER <= 64, "nodes have 4 to 64 slots");
#if ORD_SHIFT && !defined ORD_KEY_INT128 && ORD_KEY_WORDS > 1
#error "a composite key cannot shift: ORD_SHIFT needs an int64 or int128 key"
#endif

/* ---- keys ---- */

#ifdef ORD_KEY_INT128
typedef ord_i128 ORD_(key);
#define ORD_LESS(a, b) ((a) < (b))
#define ORD_EQUAL(a, b) ((a) == (b))
#define ORD_KEY_MAX ORD_I128_MAX
#elif ORD_KEY_WORDS == 1 && !defined ORD_KEY_TEXT
typedef int64_t ORD_(key);
#define ORD_LESS(a, b) ((a) < (b))
#define ORD_EQUAL(a, b) ((a) == (b))
#define ORD_KEY_MAX INT64_MAX
#elif defined ORD_KEY_TEXT
typedef uint32_t ORD_(key); /* the id of an interned string: equal strings have equal ids, and bytes tell the order */
#define ORD_LESS(x, y) (vl_string_compare(a, vl_strings_of(a), x, y) < 0)
#define ORD_EQUAL(x, y) ((x) == (y))
#else
typedef struct {
    int64_t word[ORD_KEY_WORDS]; /* slice columns first, the ordered column last */
} ORD_(key);
VL_INLINE bool ORD_(less)(ORD_(key) a, ORD_(key) b) {
    for (int w = 0; w < ORD_KEY_WORDS - 1; w++)
        if (a.word[w] != b.word[w]) return a.word[w] < b.word[w];
    return a.word[ORD_KEY_WORDS - 1] < b.word[ORD_KEY_WORDS - 1];
}
VL_INLINE bool ORD_(equal)(ORD_(key) a, ORD_(key) b) {
    int64_t differ = 0;
    for (int w = 0; w < ORD_KEY_WORDS; w++) differ |= a.word[w] ^ b.word[w];
    return differ == 0;
}
#define ORD_LESS(a, b) ORD_(less)(a, b)
#define ORD_EQUAL(a, b) ORD_(equal)(a, b)
#endif

#if ORD_SHIFT
#define ORD_TRUE(stored, offset) ORD_PLUS(stored, offset)
#define ORD_STORED(true_key, offset) ORD_MINUS(true_key, offset)
typedef ORD_(key) ORD_(offset);
#else
#define ORD_TRUE(stored, offset) ((void)(offset), (stored))
#define ORD_STORED(true_key, offset) ((void)(offset), (true_key))
typedef int ORD_(offset); /* always 0 */
#endif

/* ---- records, nodes, tree ---- */

typedef struct {
#define F(type, name, kind) type name;
    ORD_ALL(F)
#undef F
} ORD_(rec);

VL_INLINE ORD_(rec) ORD_(none)(void) {
    ORD_(rec) r;
#define F(type, name, kind) r.name = ORD_NONE_##kind(type);
    ORD_ALL(F)
#undef F
    return r;
}

VL_INLINE void ORD_(join)(ORD_(rec) * into, const ORD_(rec) * r) {
#define F(type, name, kind) into->name = ORD_JOIN_##kind(into->name, r->name);
    ORD_ALL(F)
#undef F
}

/* May the record be dropped? */
VL_INLINE bool ORD_(is_empty)(const ORD_(rec) * r) {
    bool kept = false;
#define F(type, name, kind) kept |= ORD_NONZERO_##kind(r->name);
    ORD_ALL(F)
#undef F
    return !kept;
}

enum {
    ORD_(all_exact) = 1
#define F(type, name, kind) &&ORD_EXACT_##kind(type)
    ORD_ALL(F)
#undef F
};
#if ORD_CUMULATIVE
_Static_assert(ORD_(all_exact), "cumulative nodes hold integer sums only: no double, no maximum");
#endif

#define COL(x) ORD_PASTE(ORD_NAME, ORD_PASTE(leaf, x))
#define CAP ORD_LEAF
#include "ordered_columns.h"
#define COL(x) ORD_PASTE(ORD_NAME, ORD_PASTE(inner, x))
#define CAP ORD_INNER
#include "ordered_columns.h"

typedef struct {
    ORD_(key) keys[ORD_LEAF];
    uint32_t len;
    ORD_(leaf_columns) cols;
} ORD_(leaf);

typedef struct {
    ORD_(key) keys[ORD_INNER];
    uint32_t len;
    vl_ref child[ORD_INNER];
#if ORD_SHIFT
    ORD_(key) offset[ORD_INNER];
#endif
    ORD_(inner_columns) cols;
} ORD_(inner);

/* Zero-initialized is empty. Lives in the arena, alone or inside another record. */
typedef struct {
    vl_ref root;
    uint32_t height; /* inner levels above the leaves */
    uint32_t shape;  /* changes whenever a record appears, disappears or moves */
    uint64_t size;   /* records */
    vl_account account;
#if ORD_SHIFT
    ORD_(key) base;
#endif
} ORD_NAME;

/* Where a search stopped: the key, the join of what it passed, and the record's place for a cursor. */
typedef struct {
    ORD_(key) key;
    ORD_(rec) before;
    vl_ref leaf;
    uint32_t slot;
} ORD_(hit);

#if ORD_SHIFT
#define ORD_BASE(t) ((t)->base)
#define ORD_BELOW(offset_so_far, node, i) ORD_PLUS(offset_so_far, (node)->offset[i])
#else
#define ORD_BASE(t) 0
#define ORD_BELOW(offset_so_far, node, i) ((void)(i), (offset_so_far))
#endif

/* ---- search inside a node: how many keys are < k ---- */

VL_INLINE uint32_t ORD_(count_below)(const vl_arena *a, const ORD_(key) * keys, uint32_t len, uint32_t cap,
                                     ORD_(key) k, ORD_(offset) offset) {
    (void)a;
#if defined ORD_KEY_INT128 || defined ORD_KEY_TEXT || ORD_KEY_WORDS > 1
    (void)cap, (void)offset;
    const ORD_(key) *p = keys;
    while (len > 0) {
        uint32_t half = (len + 1) / 2;
        p += ORD_LESS(ORD_TRUE(p[half - 1], offset), k) ? half : 0;
        len -= half;
    }
    return (uint32_t)(p - keys);
#else
    uint64_t mask = ord_mask_below(keys, cap, offset, k);
#if ORD_SHIFT
    mask &= len ? ~UINT64_C(0) >> (64 - len) : 0; /* relative padding is not the greatest key */
#endif
    (void)len;
    return (uint32_t)__builtin_popcountll(mask);
#endif
}

VL_INLINE uint32_t ORD_(leaf_slot)(const vl_arena *a, const ORD_(leaf) * x, ORD_(key) k, ORD_(offset) offset) {
    return ORD_(count_below)(a, x->keys, x->len, ORD_LEAF, k, offset);
}
/* The child whose key range holds k. */
VL_INLINE uint32_t ORD_(route)(const vl_arena *a, const ORD_(inner) * x, ORD_(key) k, ORD_(offset) offset) {
    return ORD_(count_below)(a, x->keys, x->len - 1, ORD_INNER, k, offset);
}
VL_INLINE bool ORD_(holds)(const ORD_(leaf) * x, uint32_t slot, ORD_(key) k, ORD_(offset) offset) {
    return slot < x->len && ORD_EQUAL(ORD_TRUE(x->keys[slot], offset), k);
}

VL_INLINE void ORD_(pad)(ORD_(key) * keys, uint32_t from, uint32_t to) {
#ifdef ORD_KEY_MAX
    for (uint32_t i = from; i < to; i++) keys[i] = ORD_KEY_MAX;
#else
    (void)keys, (void)from, (void)to; /* composite keys are searched by length */
#endif
}

#ifdef ORD_KEY_TEXT
/* Keeps the strings that inner nodes are searched by: their records may have gone. Those of leaves are in records. */
VL_FUNCTION void ORD_(keep)(vl_arena *a, vl_ref r, uint32_t height) {
    if (height == 0) return;
    const ORD_(inner) *x = vl_at(a, r);
    for (uint32_t i = 0; i < x->len; i++) {
        if (i + 1 < x->len) vl_string_keep(a, vl_strings_of(a), x->keys[i]);
        ORD_(keep)(a, x->child[i], height - 1);
    }
}
#endif

#include "ordered_read.h"
#include "ordered_change.h"

/* ---- threshold descent: always on the count (k-th), and on the fields the program names ---- */

#define ORD_SEEK n
#include "ordered_seek.h"
#ifdef ORD_SEEK_1
#define ORD_SEEK ORD_SEEK_1
#ifdef ORD_SEEK_1_KIND
#define ORD_SEEK_KIND ORD_SEEK_1_KIND
#endif
#include "ordered_seek.h"
#endif
#ifdef ORD_SEEK_2
#define ORD_SEEK ORD_SEEK_2
#ifdef ORD_SEEK_2_KIND
#define ORD_SEEK_KIND ORD_SEEK_2_KIND
#endif
#include "ordered_seek.h"
#endif
#ifdef ORD_SEEK_3
#define ORD_SEEK ORD_SEEK_3
#ifdef ORD_SEEK_3_KIND
#define ORD_SEEK_KIND ORD_SEEK_3_KIND
#endif
#include "ordered_seek.h"
#endif
