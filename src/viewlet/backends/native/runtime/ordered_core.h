/* ordered_core.h: one B+-tree of records under ordered keys; the common part of ordered_tree.h,
 * rpai.h and multiset.h, which are what programs include. Parameters and functions: ORDERED.md.
 *
 * Inner nodes hold, per child, the join of its records; a separator keys[i] is >= every key of child i
 * and < every key of child i + 1. Unused key slots hold the greatest key, so counting keys < k over all
 * slots needs no length, and the greatest key itself is an ordinary key: "< k" never counts padding.
 *
 * A change walks down once, adding the exact fields on the way. What cannot be kept by differences
 * (double sums, maxima) is recomputed from the children on the way back.
 *
 * A node below a quarter is joined with a neighbour when both fit in three quarters; an empty node goes.
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
#elif ORD_KEY_WORDS == 1
typedef int64_t ORD_(key);
#define ORD_LESS(a, b) ((a) < (b))
#define ORD_EQUAL(a, b) ((a) == (b))
#define ORD_KEY_MAX INT64_MAX
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

VL_INLINE uint32_t ORD_(count_below)(const ORD_(key) * keys, uint32_t len, uint32_t cap, ORD_(key) k,
                                     ORD_(offset) offset) {
#if defined ORD_KEY_INT128 || ORD_KEY_WORDS > 1
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

VL_INLINE uint32_t ORD_(leaf_slot)(const ORD_(leaf) * x, ORD_(key) k, ORD_(offset) offset) {
    return ORD_(count_below)(x->keys, x->len, ORD_LEAF, k, offset);
}
/* The child whose key range holds k. */
VL_INLINE uint32_t ORD_(route)(const ORD_(inner) * x, ORD_(key) k, ORD_(offset) offset) {
    return ORD_(count_below)(x->keys, x->len - 1, ORD_INNER, k, offset);
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

/* ---- paths: where in the tree a slot is; also the iterator ---- */

typedef struct {
    struct {
        ORD_(inner) * node;
        uint32_t slot;
    } level[ORD_HEIGHT_MAX]; /* the root first */
    uint32_t height;
    ORD_(leaf) * leaf;
    uint32_t slot;
    ORD_(offset) offset; /* of the leaf's keys */
} ORD_(path);

VL_INLINE void ORD_(descend)(const vl_arena *a, const ORD_NAME *t, ORD_(key) k, ORD_(path) * p) {
    vl_ref r = t->root;
    ORD_(offset) offset = ORD_BASE(t);
    p->height = t->height;
    for (uint32_t l = 0; l < t->height; l++) {
        ORD_(inner) *x = vl_at(a, r);
        uint32_t i = ORD_(route)(x, k, offset);
        p->level[l].node = x;
        p->level[l].slot = i;
        r = x->child[i];
        offset = ORD_BELOW(offset, x, i);
    }
    p->leaf = vl_at(a, r);
    p->offset = offset;
    p->slot = ORD_(leaf_slot)(p->leaf, k, offset);
}

/* Offset of the keys in the node below level l - 1 (l = 0: the root's). */
VL_INLINE ORD_(offset) ORD_(offset_at)(const ORD_NAME *t, const ORD_(path) * p, uint32_t l) {
    ORD_(offset) offset = ORD_BASE(t);
    for (uint32_t i = 0; i < l; i++) offset = ORD_BELOW(offset, p->level[i].node, p->level[i].slot);
    (void)t, (void)p;
    return offset;
}

/* From level l with its slot already set: down to the first or last record below. */
VL_FUNCTION void ORD_(descend_edge)(const vl_arena *a, const ORD_NAME *t, ORD_(path) * p, uint32_t l, bool last) {
    ORD_(offset) offset = ORD_(offset_at)(t, p, l);
    vl_ref r = l ? p->level[l - 1].node->child[p->level[l - 1].slot] : t->root;
    for (; l < p->height; l++) {
        ORD_(inner) *x = vl_at(a, r);
        p->level[l].node = x;
        p->level[l].slot = last ? x->len - 1 : 0;
        r = x->child[p->level[l].slot];
        offset = ORD_BELOW(offset, x, p->level[l].slot);
    }
    p->leaf = vl_at(a, r);
    p->offset = offset;
    p->slot = last ? p->leaf->len - 1 : 0;
}

/* Moves a path whose slot is just past its leaf to the next leaf; false at the end. */
VL_FUNCTION bool ORD_(to_next_leaf)(const vl_arena *a, const ORD_NAME *t, ORD_(path) * p) {
    for (uint32_t l = p->height; l-- > 0;)
        if (p->level[l].slot + 1 < p->level[l].node->len) {
            p->level[l].slot++;
            ORD_(descend_edge)(a, t, p, l + 1, false);
            return true;
        }
    return false;
}
VL_FUNCTION bool ORD_(to_previous_leaf)(const vl_arena *a, const ORD_NAME *t, ORD_(path) * p) {
    for (uint32_t l = p->height; l-- > 0;)
        if (p->level[l].slot > 0) {
            p->level[l].slot--;
            ORD_(descend_edge)(a, t, p, l + 1, true);
            return true;
        }
    return false;
}

/* ---- iteration and neighbours; a path is valid until the next change ---- */

VL_INLINE ORD_(key) ORD_(path_key)(const ORD_(path) * p) { return ORD_TRUE(p->leaf->keys[p->slot], p->offset); }
VL_INLINE ORD_(rec) ORD_(path_rec)(const ORD_(path) * p) { return ORD_(leaf_get)(&p->leaf->cols, p->slot); }

/* Each positions p and returns false when there is no such record. */
VL_FUNCTION bool ORD_(at_least)(const vl_arena *a, const ORD_NAME *t, ORD_(key) k, ORD_(path) * p) {
    if (!t->root) return false;
    ORD_(descend)(a, t, k, p);
    return p->slot < p->leaf->len || ORD_(to_next_leaf)(a, t, p);
}
VL_FUNCTION bool ORD_(next)(const vl_arena *a, const ORD_NAME *t, ORD_(path) * p) {
    return ++p->slot < p->leaf->len || ORD_(to_next_leaf)(a, t, p);
}
VL_FUNCTION bool ORD_(previous)(const vl_arena *a, const ORD_NAME *t, ORD_(path) * p) {
    if (p->slot == 0) return ORD_(to_previous_leaf)(a, t, p);
    p->slot--;
    return true;
}
VL_FUNCTION bool ORD_(above)(const vl_arena *a, const ORD_NAME *t, ORD_(key) k, ORD_(path) * p) {
    if (!t->root) return false;
    ORD_(descend)(a, t, k, p);
    p->slot += ORD_(holds)(p->leaf, p->slot, k, p->offset);
    return p->slot < p->leaf->len || ORD_(to_next_leaf)(a, t, p);
}
VL_FUNCTION bool ORD_(below)(const vl_arena *a, const ORD_NAME *t, ORD_(key) k, ORD_(path) * p) {
    if (!t->root) return false;
    ORD_(descend)(a, t, k, p);
    return ORD_(previous)(a, t, p);
}
VL_FUNCTION bool ORD_(at_most)(const vl_arena *a, const ORD_NAME *t, ORD_(key) k, ORD_(path) * p) {
    if (!t->root) return false;
    ORD_(descend)(a, t, k, p);
    return ORD_(holds)(p->leaf, p->slot, k, p->offset) || ORD_(previous)(a, t, p);
}
VL_FUNCTION bool ORD_(first)(const vl_arena *a, const ORD_NAME *t, ORD_(path) * p) {
    if (!t->root) return false;
    p->height = t->height;
    ORD_(descend_edge)(a, t, p, 0, false);
    return true;
}
VL_FUNCTION bool ORD_(last)(const vl_arena *a, const ORD_NAME *t, ORD_(path) * p) {
    if (!t->root) return false;
    p->height = t->height;
    ORD_(descend_edge)(a, t, p, 0, true);
    return true;
}

/* ---- reading sums ---- */

/* The record of k; false, and no record, when there is none. */
VL_FUNCTION bool ORD_(get)(const vl_arena *a, const ORD_NAME *t, ORD_(key) k, ORD_(rec) * out) {
    *out = ORD_(none)();
    if (!t->root) return false;
    vl_ref r = t->root;
    ORD_(offset) offset = ORD_BASE(t);
    for (uint32_t l = t->height; l > 0; l--) {
        const ORD_(inner) *x = vl_at(a, r);
        uint32_t i = ORD_(route)(x, k, offset);
        r = x->child[i];
        offset = ORD_BELOW(offset, x, i);
    }
    const ORD_(leaf) *leaf = vl_at(a, r);
    uint32_t slot = ORD_(leaf_slot)(leaf, k, offset);
    if (!ORD_(holds)(leaf, slot, k, offset)) return false;
    *out = ORD_(leaf_get)(&leaf->cols, slot);
    return true;
}

VL_FUNCTION ORD_(rec) ORD_(total)(const vl_arena *a, const ORD_NAME *t) {
    ORD_(rec) r = ORD_(none)();
    if (t->root && t->height) {
        const ORD_(inner) *x = vl_at(a, t->root);
        ORD_(inner_fold)(&x->cols, 0, x->len, &r);
    } else if (t->root) {
        const ORD_(leaf) *x = vl_at(a, t->root);
        ORD_(leaf_fold)(&x->cols, 0, x->len, &r);
    }
    return r;
}

/* Joins into `out` the records of the subtree r, `levels` above its leaves, that lie below k (or at k,
 * with `inclusive`). */
VL_INLINE void ORD_(fold_left_of)(const vl_arena *a, vl_ref r, uint32_t levels, ORD_(offset) offset, ORD_(key) k,
                                  bool inclusive, ORD_(rec) * out) {
    ORD_(rec) part;
    for (; levels > 0; levels--) {
        const ORD_(inner) *x = vl_at(a, r);
        uint32_t i = ORD_(route)(x, k, offset);
        ORD_(inner_fold)(&x->cols, 0, i, &part);
        ORD_(join)(out, &part);
        r = x->child[i];
        offset = ORD_BELOW(offset, x, i);
    }
    const ORD_(leaf) *leaf = vl_at(a, r);
    uint32_t slot = ORD_(leaf_slot)(leaf, k, offset);
    if (inclusive) slot += ORD_(holds)(leaf, slot, k, offset);
    ORD_(leaf_fold)(&leaf->cols, 0, slot, &part);
    ORD_(join)(out, &part);
}

/* The records at or above k in the subtree. */
VL_INLINE void ORD_(fold_right_of)(const vl_arena *a, vl_ref r, uint32_t levels, ORD_(offset) offset,
                                   ORD_(key) k, ORD_(rec) * out) {
    ORD_(rec) part;
    for (; levels > 0; levels--) {
        const ORD_(inner) *x = vl_at(a, r);
        uint32_t i = ORD_(route)(x, k, offset);
        ORD_(inner_fold)(&x->cols, i + 1, x->len, &part);
        ORD_(join)(out, &part);
        r = x->child[i];
        offset = ORD_BELOW(offset, x, i);
    }
    const ORD_(leaf) *leaf = vl_at(a, r);
    ORD_(leaf_fold)(&leaf->cols, ORD_(leaf_slot)(leaf, k, offset), leaf->len, &part);
    ORD_(join)(out, &part);
}

VL_FUNCTION ORD_(rec) ORD_(sum_below)(const vl_arena *a, const ORD_NAME *t, ORD_(key) k) {
    ORD_(rec) out = ORD_(none)();
    if (t->root) ORD_(fold_left_of)(a, t->root, t->height, ORD_BASE(t), k, false, &out);
    return out;
}
VL_FUNCTION ORD_(rec) ORD_(sum_through)(const vl_arena *a, const ORD_NAME *t, ORD_(key) k) {
    ORD_(rec) out = ORD_(none)();
    if (t->root) ORD_(fold_left_of)(a, t->root, t->height, ORD_BASE(t), k, true, &out);
    return out;
}
VL_FUNCTION ORD_(rec) ORD_(sum_from)(const vl_arena *a, const ORD_NAME *t, ORD_(key) k) {
    ORD_(rec) out = ORD_(none)();
    if (t->root) ORD_(fold_right_of)(a, t->root, t->height, ORD_BASE(t), k, &out);
    return out;
}

/* low <= key <= high, joined without subtraction: doubles lose nothing to their neighbours. */
VL_FUNCTION ORD_(rec) ORD_(sum_range)(const vl_arena *a, const ORD_NAME *t, ORD_(key) low, ORD_(key) high) {
    ORD_(rec) out = ORD_(none)(), part;
    if (!t->root || ORD_LESS(high, low)) return out;
    vl_ref r = t->root;
    ORD_(offset) offset = ORD_BASE(t);
    for (uint32_t levels = t->height; levels > 0; levels--) {
        const ORD_(inner) *x = vl_at(a, r);
        uint32_t i = ORD_(route)(x, low, offset), j = ORD_(route)(x, high, offset);
        if (i < j) {
            ORD_(fold_right_of)(a, x->child[i], levels - 1, ORD_BELOW(offset, x, i), low, &out);
            ORD_(inner_fold)(&x->cols, i + 1, j, &part);
            ORD_(join)(&out, &part);
            ORD_(fold_left_of)(a, x->child[j], levels - 1, ORD_BELOW(offset, x, j), high, true, &out);
            return out;
        }
        r = x->child[i];
        offset = ORD_BELOW(offset, x, i);
    }
    const ORD_(leaf) *leaf = vl_at(a, r);
    uint32_t from = ORD_(leaf_slot)(leaf, low, offset), to = ORD_(leaf_slot)(leaf, high, offset);
    to += ORD_(holds)(leaf, to, high, offset);
    ORD_(leaf_fold)(&leaf->cols, from, to, &part);
    ORD_(join)(&out, &part);
    return out;
}

/* ---- nodes as wholes ---- */

VL_INLINE ORD_(rec) ORD_(leaf_total)(const ORD_(leaf) * x) {
    ORD_(rec) r;
    ORD_(leaf_fold)(&x->cols, 0, x->len, &r);
    return r;
}
VL_INLINE ORD_(rec) ORD_(inner_total)(const ORD_(inner) * x) {
    ORD_(rec) r;
    ORD_(inner_fold)(&x->cols, 0, x->len, &r);
    return r;
}

VL_INLINE void ORD_(leaf_insert)(ORD_(leaf) * x, uint32_t slot, ORD_(key) stored, const ORD_(rec) * r) {
    memmove(x->keys + slot + 1, x->keys + slot, (x->len - slot) * sizeof stored);
    x->keys[slot] = stored;
    ORD_(leaf_open)(&x->cols, x->len, slot, r);
    x->len++;
}
VL_INLINE void ORD_(leaf_remove)(ORD_(leaf) * x, uint32_t slot) {
    memmove(x->keys + slot, x->keys + slot + 1, (x->len - slot - 1) * sizeof x->keys[0]);
    ORD_(leaf_close)(&x->cols, x->len, slot);
    x->len--;
    ORD_(pad)(x->keys, x->len, x->len + 1);
}
/* Moves slots [from, len) of x behind the records of `to`; `rebase` is what their stored keys gain. */
VL_FUNCTION void ORD_(leaf_move)(ORD_(leaf) * to, ORD_(leaf) * x, uint32_t from, ORD_(offset) rebase) {
    for (uint32_t i = from; i < x->len; i++) to->keys[to->len + i - from] = ORD_TRUE(x->keys[i], rebase);
    ORD_(leaf_append)(&to->cols, to->len, &x->cols, from, x->len);
    to->len += x->len - from;
    ORD_(pad)(x->keys, from, x->len);
    x->len = from;
}

/* The new child stands right of the child at slot - 1; `separator` divides the two. */
VL_FUNCTION void ORD_(inner_insert)(ORD_(inner) * x, uint32_t slot, ORD_(key) separator, vl_ref child,
                                    ORD_(offset) offset, const ORD_(rec) * r) {
    memmove(x->keys + slot, x->keys + slot - 1, (x->len - slot) * sizeof separator);
    x->keys[slot - 1] = separator;
    memmove(x->child + slot + 1, x->child + slot, (x->len - slot) * sizeof child);
    x->child[slot] = child;
#if ORD_SHIFT
    memmove(x->offset + slot + 1, x->offset + slot, (x->len - slot) * sizeof offset);
    x->offset[slot] = offset;
#endif
    (void)offset;
    ORD_(inner_open)(&x->cols, x->len, slot, r);
    x->len++;
}
/* Takes out the child at slot; of its two separators the left one goes, of the first child the right. */
VL_FUNCTION void ORD_(inner_remove)(ORD_(inner) * x, uint32_t slot) {
    uint32_t gone = slot ? slot - 1 : 0;
    if (x->len > 1) memmove(x->keys + gone, x->keys + gone + 1, (x->len - 2 - gone) * sizeof x->keys[0]);
    memmove(x->child + slot, x->child + slot + 1, (x->len - slot - 1) * sizeof x->child[0]);
#if ORD_SHIFT
    memmove(x->offset + slot, x->offset + slot + 1, (x->len - slot - 1) * sizeof x->offset[0]);
#endif
    ORD_(inner_close)(&x->cols, x->len, slot);
    x->len--;
    ORD_(pad)(x->keys, x->len ? x->len - 1 : 0, x->len ? x->len : 1);
}
/* Moves children [from, len) of x behind those of `to`; `separator` (in the terms of `to`) divides them. */
VL_FUNCTION void ORD_(inner_move)(ORD_(inner) * to, ORD_(inner) * x, uint32_t from, ORD_(key) separator,
                                  ORD_(offset) rebase) {
    if (from == x->len) return;
    if (to->len) to->keys[to->len - 1] = separator;
    for (uint32_t i = from; i + 1 < x->len; i++) to->keys[to->len + i - from] = ORD_TRUE(x->keys[i], rebase);
    memcpy(to->child + to->len, x->child + from, (x->len - from) * sizeof x->child[0]);
#if ORD_SHIFT
    for (uint32_t i = from; i < x->len; i++)
        to->offset[to->len + i - from] = ORD_PLUS(x->offset[i], rebase);
#endif
    ORD_(inner_append)(&to->cols, to->len, &x->cols, from, x->len);
    to->len += x->len - from;
    ORD_(pad)(x->keys, from ? from - 1 : 0, x->len);
    x->len = from;
}

VL_FUNCTION ORD_(leaf) * ORD_(new_leaf)(vl_arena *a, ORD_NAME *t, vl_ref *r) {
    *r = vl_alloc(a, &t->account, sizeof(ORD_(leaf)));
    if (!*r) return NULL;
    ORD_(leaf) *x = vl_at(a, *r);
    memset(x, 0, sizeof *x);
    ORD_(pad)(x->keys, 0, ORD_LEAF);
    return x;
}
VL_FUNCTION ORD_(inner) * ORD_(new_inner)(vl_arena *a, ORD_NAME *t, vl_ref *r) {
    *r = vl_alloc(a, &t->account, sizeof(ORD_(inner)));
    if (!*r) return NULL;
    ORD_(inner) *x = vl_at(a, *r);
    memset(x, 0, sizeof *x);
    ORD_(pad)(x->keys, 0, ORD_INNER);
    return x;
}

/* ---- growing: a full leaf splits, and perhaps its ancestors ---- */

/* All nodes a split needs, taken before anything moves, so that failure leaves the tree as it was. */
typedef struct {
    vl_ref leaf, root, inner[ORD_HEIGHT_MAX];
} ORD_(stock);

VL_COLD bool ORD_(take_stock)(vl_arena *a, ORD_NAME *t, const ORD_(path) * p, ORD_(stock) * s) {
    memset(s, 0, sizeof *s);
    bool ok = ORD_(new_leaf)(a, t, &s->leaf) != NULL;
    uint32_t l = p->height;
    for (; ok && l > 0 && p->level[l - 1].node->len == ORD_INNER; l--)
        ok = ORD_(new_inner)(a, t, &s->inner[l - 1]) != NULL;
    if (ok && l == 0) ok = p->height + 1 < ORD_HEIGHT_MAX && ORD_(new_inner)(a, t, &s->root) != NULL;
    if (ok) return true;
    vl_free(a, &t->account, s->leaf, sizeof(ORD_(leaf)));
    vl_free(a, &t->account, s->root, sizeof(ORD_(inner)));
    for (l = 0; l < p->height; l++) vl_free(a, &t->account, s->inner[l], sizeof(ORD_(inner)));
    a->errors |= VL_E_MEMORY | VL_E_LOST;
    return false;
}

/* Inserts at the path into a full leaf. A record at the very end goes to a leaf of its own: ascending
 * keys leave full leaves behind. */
VL_COLD void ORD_(split)(vl_arena *a, ORD_NAME *t, ORD_(path) * p, ORD_(key) k, const ORD_(rec) * r) {
    ORD_(stock) s;
    if (!ORD_(take_stock)(a, t, p, &s)) return;
    ORD_(leaf) *left = p->leaf, *right = vl_at(a, s.leaf);
    uint32_t cut = p->slot == ORD_LEAF ? ORD_LEAF : ORD_LEAF / 2;
    ORD_(leaf_move)(right, left, cut, (ORD_(offset))0);
    if (p->slot >= cut)
        ORD_(leaf_insert)(right, p->slot - cut, ORD_STORED(k, p->offset), r);
    else
        ORD_(leaf_insert)(left, p->slot, ORD_STORED(k, p->offset), r);
    ORD_(key) separator = ORD_TRUE(left->keys[left->len - 1], p->offset); /* the true key from here on */
    ORD_(rec) left_total = ORD_(leaf_total)(left), right_total = ORD_(leaf_total)(right);
    vl_ref fresh = s.leaf;
    uint32_t l = p->height;
    while (l-- > 0) {
        ORD_(inner) *x = p->level[l].node;
        uint32_t slot = p->level[l].slot;
        ORD_(offset) offset = ORD_(offset_at)(t, p, l);
#if ORD_SHIFT
        ORD_(offset) child_offset = x->offset[slot];
#else
        ORD_(offset) child_offset = 0;
#endif
        ORD_(inner_set)(&x->cols, slot, &left_total);
        if (x->len < ORD_INNER) {
            ORD_(inner_insert)(x, slot + 1, ORD_STORED(separator, offset), fresh, child_offset, &right_total);
            break;
        }
        ORD_(inner) *y = vl_at(a, s.inner[l]);
        cut = slot + 1 == ORD_INNER ? ORD_INNER - 1 : ORD_INNER / 2;
        ORD_(key) middle = ORD_TRUE(x->keys[cut - 1], offset);
        ORD_(inner_move)(y, x, cut, separator, (ORD_(offset))0);
        if (slot >= cut)
            ORD_(inner_insert)(y, slot - cut + 1, ORD_STORED(separator, offset), fresh, child_offset, &right_total);
        else
            ORD_(inner_insert)(x, slot + 1, ORD_STORED(separator, offset), fresh, child_offset, &right_total);
        separator = middle;
        left_total = ORD_(inner_total)(x);
        right_total = ORD_(inner_total)(y);
        fresh = s.inner[l];
    }
    if (s.root) {
        ORD_(inner) *x = vl_at(a, s.root);
        x->child[0] = t->root;
        x->len = 1;
        ORD_(inner_set)(&x->cols, 0, &left_total);
        ORD_(inner_insert)(x, 1, ORD_STORED(separator, ORD_BASE(t)), fresh, (ORD_(offset))0, &right_total);
        t->root = s.root;
        t->height++;
    } else if (!ORD_(all_exact)) {
        for (; l > 0; l--) {
            ORD_(rec) total = ORD_(inner_total)(p->level[l].node);
            if (!ORD_(inner_refresh)(&p->level[l - 1].node->cols, p->level[l - 1].slot, &total)) break;
        }
    }
    t->size++;
    t->shape++;
}

/* ---- shrinking ---- */

/* Joins the child at slot + 1 of x into the child at slot. */
VL_FUNCTION void ORD_(join_children)(vl_arena *a, ORD_NAME *t, ORD_(inner) * x, uint32_t slot, bool leaves) {
    ORD_(rec) total;
#if ORD_SHIFT
    ORD_(offset) rebase = ORD_MINUS(x->offset[slot + 1], x->offset[slot]);
    ORD_(key) separator = ORD_MINUS(x->keys[slot], x->offset[slot]);
#else
    ORD_(offset) rebase = 0;
    ORD_(key) separator = x->keys[slot];
#endif
    vl_ref gone = x->child[slot + 1];
    if (leaves) {
        ORD_(leaf) *left = vl_at(a, x->child[slot]);
        ORD_(leaf_move)(left, vl_at(a, gone), 0, rebase);
        total = ORD_(leaf_total)(left);
        vl_free(a, &t->account, gone, sizeof(ORD_(leaf)));
    } else {
        ORD_(inner) *left = vl_at(a, x->child[slot]);
        ORD_(inner_move)(left, vl_at(a, gone), 0, separator, rebase);
        total = ORD_(inner_total)(left);
        vl_free(a, &t->account, gone, sizeof(ORD_(inner)));
    }
    ORD_(inner_remove)(x, slot + 1);
    ORD_(inner_set)(&x->cols, slot, &total);
}

VL_INLINE uint32_t ORD_(len_at)(const vl_arena *a, vl_ref r, bool leaves) {
    return leaves ? ((const ORD_(leaf) *)vl_at(a, r))->len : ((const ORD_(inner) *)vl_at(a, r))->len;
}

/* Tends the child at slot of x after it lost a record. True when x itself lost a child. */
VL_FUNCTION bool ORD_(tend)(vl_arena *a, ORD_NAME *t, ORD_(inner) * x, uint32_t slot, bool leaves) {
    uint32_t cap = leaves ? ORD_LEAF : ORD_INNER, len = ORD_(len_at)(a, x->child[slot], leaves);
    if (len == 0) {
        vl_free(a, &t->account, x->child[slot], leaves ? sizeof(ORD_(leaf)) : sizeof(ORD_(inner)));
        ORD_(inner_remove)(x, slot);
        return true;
    }
    if (len >= cap / 4) return false;
    uint32_t room = cap * 3 / 4 - len;
    if (slot + 1 < x->len && ORD_(len_at)(a, x->child[slot + 1], leaves) <= room) {
        ORD_(join_children)(a, t, x, slot, leaves);
        return true;
    }
    if (slot > 0 && ORD_(len_at)(a, x->child[slot - 1], leaves) <= room) {
        ORD_(join_children)(a, t, x, slot - 1, leaves);
        return true;
    }
    return false;
}

/* Brings the ancestors of a changed leaf up to date; `lost` tells that the leaf lost a record. */
VL_FUNCTION void ORD_(settle)(vl_arena *a, ORD_NAME *t, ORD_(path) * p, bool lost) {
    for (uint32_t l = p->height; l-- > 0;) {
        ORD_(inner) *x = p->level[l].node;
        uint32_t slot = p->level[l].slot;
        bool leaves = l + 1 == p->height, changed = false;
        if (!ORD_(all_exact) && ORD_(len_at)(a, x->child[slot], leaves)) {
            ORD_(rec) total = leaves ? ORD_(leaf_total)(vl_at(a, x->child[slot]))
                                     : ORD_(inner_total)(vl_at(a, x->child[slot]));
            changed = ORD_(inner_refresh)(&x->cols, slot, &total);
        }
        if (lost) {
            lost = ORD_(tend)(a, t, x, slot, leaves);
            changed |= lost;
        }
        if (!changed && !lost) return;
    }
    while (t->height > 0) {
        ORD_(inner) *x = vl_at(a, t->root);
        if (x->len > 1) return;
        vl_ref old = t->root;
        t->root = x->len ? x->child[0] : 0;
#if ORD_SHIFT
        if (x->len) t->base = ORD_PLUS(t->base, x->offset[0]);
#endif
        t->height = t->root ? t->height - 1 : 0;
        vl_free(a, &t->account, old, sizeof(ORD_(inner)));
    }
    if (t->root && ((ORD_(leaf) *)vl_at(a, t->root))->len == 0) {
        vl_free(a, &t->account, t->root, sizeof(ORD_(leaf)));
        t->root = 0;
    }
}

/* ---- changing ---- */

/* Changes the record of k: sums add, maxima are set. `old`, unless NULL, gets the record as it was
 * (no record: as ORD_(none)). A record whose count and exact sums are zero is dropped. */
VL_FUNCTION void ORD_(add)(vl_arena *a, ORD_NAME *t, ORD_(key) k, const ORD_(rec) * delta, ORD_(rec) * old) {
    if (old) *old = ORD_(none)();
    if (VL_UNLIKELY(!t->root)) {
        if (ORD_(is_empty)(delta)) return;
        if (!ORD_(new_leaf)(a, t, &t->root)) {
            a->errors |= VL_E_LOST;
            return;
        }
    }
    ORD_(path) p;
    vl_ref r = t->root;
    ORD_(offset) offset = ORD_BASE(t);
    p.height = t->height;
    for (uint32_t l = 0; l < p.height; l++) {
        ORD_(inner) *x = vl_at(a, r);
        uint32_t i = ORD_(route)(x, k, offset);
        p.level[l].node = x;
        p.level[l].slot = i;
        r = x->child[i];
        __builtin_prefetch(vl_at(a, r));
        offset = ORD_BELOW(offset, x, i);
        ORD_(inner_add)(&x->cols, i, delta);
    }
    ORD_(leaf) *leaf = vl_at(a, r);
    uint32_t slot = ORD_(leaf_slot)(leaf, k, offset);
    if (ORD_(holds)(leaf, slot, k, offset)) {
        ORD_(rec) now = ORD_(leaf_get)(&leaf->cols, slot);
        if (old) *old = now;
#define F(type, name, kind) now.name = ORD_CHANGE_##kind(now.name, delta->name);
        ORD_ALL(F)
#undef F
        if (ORD_(is_empty)(&now)) {
            ORD_(leaf_remove)(leaf, slot);
            t->size--;
            t->shape++;
            if (!ORD_(all_exact) || leaf->len < ORD_LEAF / 4) ORD_(settle)(a, t, &p, true);
            return;
        }
#if ORD_CUMULATIVE
        ORD_(leaf_add)(&leaf->cols, slot, delta);
#else
        ORD_(leaf_set)(&leaf->cols, slot, &now);
#endif
    } else if (ORD_(is_empty)(delta)) {
        return;
    } else if (VL_LIKELY(leaf->len < ORD_LEAF)) {
        ORD_(leaf_insert)(leaf, slot, ORD_STORED(k, offset), delta);
        t->size++;
        t->shape++;
    } else {
        p.leaf = leaf;
        p.slot = slot;
        p.offset = offset;
        ORD_(split)(a, t, &p, k, delta);
        return;
    }
    if (!ORD_(all_exact)) ORD_(settle)(a, t, &p, false);
}

/* Drops the record of k whatever it holds; `old` gets it. False when there was none. */
VL_FUNCTION bool ORD_(take)(vl_arena *a, ORD_NAME *t, ORD_(key) k, ORD_(rec) * old) {
    if (!ORD_(get)(a, t, k, old)) return false;
    ORD_(rec) minus;
#define F(type, name, kind) minus.name = ORD_MINUS((type)0, old->name);
    ORD_ALL(F)
#undef F
    ORD_(add)(a, t, k, &minus, NULL);
    return true;
}

VL_FUNCTION void ORD_(free_below)(vl_arena *a, ORD_NAME *t, vl_ref r, uint32_t levels) {
    if (levels) {
        ORD_(inner) *x = vl_at(a, r);
        for (uint32_t i = 0; i < x->len; i++) ORD_(free_below)(a, t, x->child[i], levels - 1);
    }
    vl_free(a, &t->account, r, levels ? sizeof(ORD_(inner)) : sizeof(ORD_(leaf)));
}

/* Empties the tree and gives all its memory back. */
VL_FUNCTION void ORD_(clear)(vl_arena *a, ORD_NAME *t) {
    if (t->root) ORD_(free_below)(a, t, t->root, t->height);
    uint32_t shape = t->shape + 1;
    memset(t, 0, sizeof *t);
    t->shape = shape;
}

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
