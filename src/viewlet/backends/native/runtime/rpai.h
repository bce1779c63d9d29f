/* rpai.h: declares one relative partial aggregate index: an ordered tree whose keys shift by ranges.
 *
 * Parameters as for ordered_tree.h, with an int64 or int128 key. On top of its functions (sum_through is
 * the index's getSum):
 *
 *   put(a, t, k, r)       replaces the record of k; an empty record removes it
 *   shift(a, t, k, d)     every key > k moves by d; records that meet add up
 *   shift_from(a, t, k, d)   every key >= k
 *
 * A shift that keeps the order costs one path. Otherwise only the m keys in (k, p - d], p the greatest
 * key <= k, land at or below p: they are taken out before and put back after, O(m log n). When a
 * non-negative row is deleted, at most one pair of keys meets: m <= 1.
 *
 * A shift that would carry a key out of its type changes nothing and sets VL_E_INTEGER and VL_E_LOST.
 */
#undef ORD_SHIFT
#define ORD_SHIFT 1
#include "ordered_core.h"

#define ORD_KEY_MIN (-ORD_KEY_MAX - 1)

VL_FUNCTION void ORD_(put)(vl_arena *a, ORD_NAME *t, ORD_(key) k, const ORD_(rec) * r) {
    ORD_(rec) old;
    ORD_(take)(a, t, k, &old);
    ORD_(add)(a, t, k, r, NULL);
}

/* Moves the keys > k by d along the path to k, a key of the tree, when the least of them stays above k.
 * A separator may stand where no key does: the one right of the path is kept at or above k. The one left
 * of it is below k, hence below whatever lands. */
VL_FUNCTION void ORD_(shift_path)(vl_arena *a, ORD_NAME *t, ORD_(key) k, ORD_(key) d) {
    vl_ref r = t->root;
    ORD_(key) offset = t->base;
    for (uint32_t l = 0; l < t->height; l++) {
        ORD_(inner) *x = vl_at(a, r);
        uint32_t i = ORD_(route)(a, x, k, offset), last = x->len - 1;
        if (i < last) {
            ORD_(key) separator = ORD_PLUS(x->keys[i], offset);
            ORD_(key) moved = d < 0 && separator < ORD_KEY_MIN - d ? ORD_KEY_MIN : ORD_PLUS(separator, d);
            x->keys[i] = ORD_MINUS(moved < k ? k : moved, offset);
        }
        for (uint32_t j = i + 1; j < last; j++) x->keys[j] = ORD_PLUS(x->keys[j], d);
        for (uint32_t j = i + 1; j <= last; j++) x->offset[j] = ORD_PLUS(x->offset[j], d);
        r = x->child[i];
        offset = ORD_PLUS(offset, x->offset[i]);
    }
    ORD_(leaf) *x = vl_at(a, r);
    uint32_t slot = ORD_(leaf_slot)(a, x, k, offset);
    slot += ORD_(holds)(x, slot, k, offset);
    for (uint32_t j = slot; j < x->len; j++) x->keys[j] = ORD_PLUS(x->keys[j], d);
    t->shape++;
}

typedef struct {
    ORD_(key) key;
    ORD_(rec) rec;
} ORD_(pair);

/* Shifts when m >= 1 keys from the path p on land at or below pred, the key before them. */
VL_COLD void ORD_(shift_crossing)(vl_arena *a, ORD_NAME *t, ORD_(key) pred, ORD_(key) d, const ORD_(path) * p) {
    uint64_t m = 0;
    ORD_(path) q = *p;
    do m++;
    while (ORD_(next)(a, t, &q) && ORD_PLUS(ORD_(path_key)(&q), d) <= pred);
    vl_ref scratch = vl_alloc(a, &t->account, m * sizeof(ORD_(pair)));
    if (!scratch) {
        a->errors |= VL_E_LOST;
        return;
    }
    ORD_(pair) *moved = vl_at(a, scratch);
    q = *p;
    for (uint64_t i = 0; i < m; i++) {
        moved[i].key = ORD_(path_key)(&q);
        moved[i].rec = ORD_(path_rec)(&q);
        ORD_(next)(a, t, &q);
    }
    for (uint64_t i = 0; i < m; i++) ORD_(take)(a, t, moved[i].key, &moved[i].rec);
    if (ORD_(above)(a, t, pred, &q)) ORD_(shift_path)(a, t, pred, d);
    for (uint64_t i = 0; i < m; i++) ORD_(add)(a, t, ORD_PLUS(moved[i].key, d), &moved[i].rec, NULL);
    vl_free(a, &t->account, scratch, m * sizeof(ORD_(pair)));
}

VL_INLINE ORD_(key) ORD_(greatest_key)(const vl_arena *a, const ORD_NAME *t) {
    vl_ref r = t->root;
    ORD_(key) offset = t->base;
    for (uint32_t l = t->height; l > 0; l--) {
        const ORD_(inner) *x = vl_at(a, r);
        offset = ORD_PLUS(offset, x->offset[x->len - 1]);
        r = x->child[x->len - 1];
    }
    const ORD_(leaf) *x = vl_at(a, r);
    return ORD_PLUS(x->keys[x->len - 1], offset);
}

/* Moves the record at the path p and all after it by d. */
VL_INLINE void ORD_(shift_at)(vl_arena *a, ORD_NAME *t, ORD_(path) * p, ORD_(key) d) {
    ORD_(key) least = ORD_(path_key)(p), landing;
    if (__builtin_add_overflow(d > 0 ? ORD_(greatest_key)(a, t) : least, d, &landing)) {
        a->errors |= VL_E_INTEGER | VL_E_LOST;
        return;
    }
    landing = ORD_PLUS(least, d);
    ORD_(key) pred;
    if (p->slot > 0) {
        pred = ORD_TRUE(p->leaf->keys[p->slot - 1], p->offset);
    } else {
        ORD_(path) q = *p;
        if (!ORD_(previous)(a, t, &q)) {
            t->base = ORD_PLUS(t->base, d); /* everything moves */
            t->shape++;
            return;
        }
        pred = ORD_(path_key)(&q);
    }
    if (landing > pred)
        ORD_(shift_path)(a, t, pred, d);
    else
        ORD_(shift_crossing)(a, t, pred, d, p);
}

VL_FUNCTION void ORD_(shift)(vl_arena *a, ORD_NAME *t, ORD_(key) k, ORD_(key) d) {
    ORD_(path) p;
    if (d != 0 && ORD_(above)(a, t, k, &p)) ORD_(shift_at)(a, t, &p, d);
}

VL_FUNCTION void ORD_(shift_from)(vl_arena *a, ORD_NAME *t, ORD_(key) k, ORD_(key) d) {
    ORD_(path) p;
    if (d != 0 && ORD_(at_least)(a, t, k, &p)) ORD_(shift_at)(a, t, &p, d);
}

#undef ORD_KEY_MIN
#ifdef ORD_CHECK
#include "ordered_check.h"
#endif
#include "ordered_end.h"
