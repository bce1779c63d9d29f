/* ordered_seek.h: threshold descent on one field of an ordered tree.
 *
 *   ORD_SEEK        the field
 *   ORD_SEEK_KIND   sum (default; no record it passes may be negative) or max (any values)
 *
 * The running value at a key includes the key's own record. `before` gets the join of all records that
 * the search passed: the smaller keys for first_*, the greater ones for last_*.
 *
 *   first_over_F, first_reaching_F     ascending keys, running value > or >= bound
 *   last_over_F, last_reaching_F       descending keys
 *   first_over_from_F, first_reaching_from_F   ascending, the running value starts at the first key >= low
 */
#ifndef ORD_SEEK_KIND
#define ORD_SEEK_KIND sum
#endif
#define ORD_BY_FIELD(x) ORD_PASTE(ORD_(x), ORD_SEEK)
#define ORD_SEEK_T __typeof__(((ORD_(rec) *)0)->ORD_SEEK)
#define ORD_SEEK_JOIN ORD_PASTE(ORD_JOIN, ORD_SEEK_KIND)
#define ORD_PASSES(x) (strict ? (x) > bound : (x) >= bound)

#if ORD_CUMULATIVE
/* How many slots of a column of running sums, from slot `from` on (backward: from the last one), leave the
 * value within the bound. The answer counts from the search's own end and includes `from`. */
VL_INLINE uint32_t ORD_BY_FIELD(pass)(const ORD_SEEK_T *v, uint32_t len, uint32_t from, ORD_SEEK_T running,
                                      ORD_SEEK_T bound, bool strict, bool backward) {
    uint32_t passed = from;
    ORD_SEEK_T base = backward ? v[len - 1] : from ? v[from - 1] : 0;
    for (uint32_t j = backward ? 0 : from; j < len; j++) {
        ORD_SEEK_T part = backward ? ORD_MINUS(base, j ? v[j - 1] : 0) : ORD_MINUS(v[j], base);
        passed += !ORD_PASSES(ORD_PLUS(running, part));
    }
    return passed;
}
#define ORD_PASS_SLOTS(node)                                                                                   \
    uint32_t passed = ORD_BY_FIELD(pass)(c->ORD_SEEK, len, from, before->ORD_SEEK, bound, strict, backward);   \
    ORD_(rec) part;                                                                                            \
    ORD_PASTE(ORD_(node), fold)(c, backward ? len - passed : from, backward ? len : passed, &part);            \
    ORD_(join)(before, &part);                                                                                 \
    return passed;
#else
/* One loop carries all fields: the slots were often just written one by one, and vector loads would wait
 * for those stores. */
#define ORD_PASS_SLOTS(node)                                                         \
    for (; from < len; from++) {                                                     \
        uint32_t j = backward ? len - 1 - from : from;                               \
        ORD_SEEK_T next = ORD_SEEK_JOIN(before->ORD_SEEK, c->ORD_SEEK[j]);           \
        if (ORD_PASSES(next)) break;                                                 \
        ORD_PASTE(ORD_(node), join)(c, j, before);                                   \
    }                                                                                \
    return from;
#endif

/* Passes slots from `from` on (backward: from the last) while the value stays within the bound, joining
 * them into `before`. The answer counts from the search's own end and includes `from`. */
VL_INLINE uint32_t ORD_BY_FIELD(pass_inner)(const ORD_(inner_columns) * c, uint32_t len, uint32_t from,
                                            ORD_(rec) * before, ORD_SEEK_T bound, bool strict, bool backward) {
    ORD_PASS_SLOTS(inner)
}
VL_INLINE uint32_t ORD_BY_FIELD(pass_leaf)(const ORD_(leaf_columns) * c, uint32_t len, uint32_t from,
                                           ORD_(rec) * before, ORD_SEEK_T bound, bool strict, bool backward) {
    ORD_PASS_SLOTS(leaf)
}

/* Descends below r; false when nothing there passes, which only the first node needs to tell. (Double sums
 * may disagree with themselves in the last bit between levels: a node that a parent sent us to may hold
 * nothing that passes. The search then goes on in its last child, and ends at the last record.) */
VL_INLINE bool ORD_BY_FIELD(seek_below)(const vl_arena *a, vl_ref r, uint32_t levels, ORD_(offset) offset,
                                        ORD_SEEK_T bound, bool strict, bool backward, ORD_(hit) * hit) {
    ORD_(rec) before = hit->before, whole = before;
    bool alone = levels == 0;
    for (bool first = true; levels > 0; levels--, first = false) {
        const ORD_(inner) *x = vl_at(a, r);
        uint32_t len = x->len;
        uint32_t i = ORD_BY_FIELD(pass_inner)(&x->cols, len, 0, &before, bound, strict, backward);
        if (VL_UNLIKELY(i == len)) {
            if (first) return false;
            before = whole;
            for (i = 0; i + 1 < len; i++) ORD_(inner_join)(&x->cols, backward ? len - 1 - i : i, &before);
        }
        if (backward) i = len - 1 - i;
        r = x->child[i];
        __builtin_prefetch(vl_at(a, r));
        offset = ORD_BELOW(offset, x, i);
        whole = before;
    }
    const ORD_(leaf) *x = vl_at(a, r);
    uint32_t len = x->len;
    uint32_t i = ORD_BY_FIELD(pass_leaf)(&x->cols, len, 0, &before, bound, strict, backward);
    if (VL_UNLIKELY(i == len)) {
        if (alone) return false;
        before = whole;
        for (i = 0; i + 1 < len; i++) ORD_(leaf_join)(&x->cols, backward ? len - 1 - i : i, &before);
    }
    if (backward) i = len - 1 - i;
    hit->before = before;
    hit->key = ORD_TRUE(x->keys[i], offset);
    hit->leaf = r;
    hit->slot = i;
    return true;
}

VL_INLINE bool ORD_BY_FIELD(seek)(const vl_arena *a, const ORD_NAME *t, ORD_SEEK_T bound, bool strict, bool backward,
                                  ORD_(hit) * hit) {
    hit->before = ORD_(none)();
    return t->root &&
           ORD_BY_FIELD(seek_below)(a, t->root, t->height, ORD_BASE(t), bound, strict, backward, hit);
}

VL_INLINE bool ORD_BY_FIELD(seek_from)(const vl_arena *a, const ORD_NAME *t, ORD_(key) low, ORD_SEEK_T bound,
                                       bool strict, ORD_(hit) * hit) {
    ORD_(path) p;
    hit->before = ORD_(none)();
    if (!t->root) return false;
    ORD_(descend)(a, t, low, &p);
    uint32_t len = p.leaf->len;
    uint32_t i = ORD_BY_FIELD(pass_leaf)(&p.leaf->cols, len, p.slot, &hit->before, bound, strict, false);
    if (i < len) {
        hit->key = ORD_TRUE(p.leaf->keys[i], p.offset);
        hit->leaf = vl_ref_of(a, p.leaf);
        hit->slot = i;
        return true;
    }
    for (uint32_t l = p.height; l-- > 0;) {
        const ORD_(inner) *x = p.level[l].node;
        len = x->len;
        i = ORD_BY_FIELD(pass_inner)(&x->cols, len, p.level[l].slot + 1, &hit->before, bound, strict, false);
        if (i < len) {
            ORD_(offset) offset = ORD_(offset_at)(t, &p, l);
            bool found = ORD_BY_FIELD(seek_below)(a, x->child[i], p.height - l - 1, ORD_BELOW(offset, x, i), bound,
                                                  strict, false, hit);
            if (found) return true;
            /* the last bit of a double again: what passed above does not below, so look on */
            ORD_(inner_join)(&x->cols, i, &hit->before);
            p.level[l++].slot = i;
        }
    }
    return false;
}

VL_FUNCTION bool ORD_BY_FIELD(first_over)(const vl_arena *a, const ORD_NAME *t, ORD_SEEK_T bound, ORD_(hit) * hit) {
    return ORD_BY_FIELD(seek)(a, t, bound, true, false, hit);
}
VL_FUNCTION bool ORD_BY_FIELD(first_reaching)(const vl_arena *a, const ORD_NAME *t, ORD_SEEK_T bound, ORD_(hit) * hit) {
    return ORD_BY_FIELD(seek)(a, t, bound, false, false, hit);
}
VL_FUNCTION bool ORD_BY_FIELD(last_over)(const vl_arena *a, const ORD_NAME *t, ORD_SEEK_T bound, ORD_(hit) * hit) {
    return ORD_BY_FIELD(seek)(a, t, bound, true, true, hit);
}
VL_FUNCTION bool ORD_BY_FIELD(last_reaching)(const vl_arena *a, const ORD_NAME *t, ORD_SEEK_T bound, ORD_(hit) * hit) {
    return ORD_BY_FIELD(seek)(a, t, bound, false, true, hit);
}
VL_FUNCTION bool ORD_BY_FIELD(first_over_from)(const vl_arena *a, const ORD_NAME *t, ORD_(key) low, ORD_SEEK_T bound,
                                               ORD_(hit) * hit) {
    return ORD_BY_FIELD(seek_from)(a, t, low, bound, true, hit);
}
VL_FUNCTION bool ORD_BY_FIELD(first_reaching_from)(const vl_arena *a, const ORD_NAME *t, ORD_(key) low,
                                                   ORD_SEEK_T bound, ORD_(hit) * hit) {
    return ORD_BY_FIELD(seek_from)(a, t, low, bound, false, hit);
}

#undef ORD_PASSES
#undef ORD_PASS_SLOTS
#undef ORD_SEEK_JOIN
#undef ORD_SEEK_T
#undef ORD_BY_FIELD
#undef ORD_SEEK_KIND
#undef ORD_SEEK
