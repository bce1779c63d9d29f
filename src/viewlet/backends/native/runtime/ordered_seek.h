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
#define ORD_SEEK_JOIN ORD_PASTE(ORD_JOIN, ORD_SEEK_KIND)
#define ORD_BY_FIELD(x) ORD_PASTE(ORD_(x), ORD_SEEK)
#define ORD_SEEK_T __typeof__(((ORD_(rec) *)0)->ORD_SEEK)
#define ORD_PASSES(x) (strict ? (x) > bound : (x) >= bound)

/* How many of a node's slots, from slot `from` on (backward: from the last one), leave the running value
 * within the bound. The answer counts from the search's own end and includes `from`. */
VL_INLINE uint32_t ORD_BY_FIELD(pass)(const ORD_SEEK_T *v, uint32_t len, uint32_t from, ORD_SEEK_T running,
                                      ORD_SEEK_T bound, bool strict, bool backward) {
#if ORD_CUMULATIVE
    uint32_t passed = from;
    ORD_SEEK_T base = backward ? v[len - 1] : from ? v[from - 1] : 0;
    if (backward) {
        for (uint32_t j = 0; j < len; j++)
            passed += !ORD_PASSES(ORD_PLUS(running, ORD_MINUS(base, j ? v[j - 1] : 0)));
    } else {
        for (uint32_t j = from; j < len; j++)
            passed += !ORD_PASSES(ORD_PLUS(running, ORD_MINUS(v[j], base)));
    }
    return passed;
#else
    for (; from < len; from++) {
        running = ORD_SEEK_JOIN(running, v[backward ? len - 1 - from : from]);
        if (ORD_PASSES(running)) break;
    }
    return from;
#endif
}

/* Descends below r, where the value is known to pass. (Double sums may disagree with themselves in the
 * last bit between levels; then the last record of the subtree is the answer.) */
VL_INLINE void ORD_BY_FIELD(seek_below)(const vl_arena *a, vl_ref r, uint32_t levels, ORD_(offset) offset,
                                        ORD_SEEK_T bound, bool strict, bool backward, ORD_(hit) * hit) {
    ORD_(rec) part;
    for (; levels > 0; levels--) {
        const ORD_(inner) *x = vl_at(a, r);
        uint32_t i = ORD_BY_FIELD(pass)(x->cols.ORD_SEEK, x->len, 0, hit->before.ORD_SEEK, bound, strict, backward);
        i = i < x->len ? i : x->len - 1;
        if (backward) i = x->len - 1 - i;
        r = x->child[i];
        __builtin_prefetch(vl_at(a, r));
        offset = ORD_BELOW(offset, x, i);
        ORD_(inner_fold)(&x->cols, backward ? i + 1 : 0, backward ? x->len : i, &part);
        ORD_(join)(&hit->before, &part);
    }
    const ORD_(leaf) *x = vl_at(a, r);
    uint32_t i = ORD_BY_FIELD(pass)(x->cols.ORD_SEEK, x->len, 0, hit->before.ORD_SEEK, bound, strict, backward);
    i = i < x->len ? i : x->len - 1;
    if (backward) i = x->len - 1 - i;
    ORD_(leaf_fold)(&x->cols, backward ? i + 1 : 0, backward ? x->len : i, &part);
    ORD_(join)(&hit->before, &part);
    hit->key = ORD_TRUE(x->keys[i], offset);
    hit->leaf = r;
    hit->slot = i;
}

VL_INLINE bool ORD_BY_FIELD(seek)(const vl_arena *a, const ORD_NAME *t, ORD_SEEK_T bound, bool strict, bool backward,
                                  ORD_(hit) * hit) {
    hit->before = ORD_(none)();
    if (!t->root) return false;
    ORD_SEEK_T all = ORD_(total)(a, t).ORD_SEEK;
    if (!ORD_PASSES(all)) return false;
    ORD_BY_FIELD(seek_below)(a, t->root, t->height, ORD_BASE(t), bound, strict, backward, hit);
    return true;
}

VL_INLINE bool ORD_BY_FIELD(seek_from)(const vl_arena *a, const ORD_NAME *t, ORD_(key) low, ORD_SEEK_T bound,
                                       bool strict, ORD_(hit) * hit) {
    ORD_(rec) part;
    ORD_(path) p;
    hit->before = ORD_(none)();
    if (!t->root) return false;
    ORD_(descend)(a, t, low, &p);
    uint32_t i = ORD_BY_FIELD(pass)(p.leaf->cols.ORD_SEEK, p.leaf->len, p.slot, hit->before.ORD_SEEK, bound, strict, false);
    ORD_(leaf_fold)(&p.leaf->cols, p.slot, i, &part);
    ORD_(join)(&hit->before, &part);
    if (i < p.leaf->len) {
        hit->key = ORD_TRUE(p.leaf->keys[i], p.offset);
        hit->leaf = vl_ref_of(a, p.leaf);
        hit->slot = i;
        return true;
    }
    for (uint32_t l = p.height; l-- > 0;) {
        const ORD_(inner) *x = p.level[l].node;
        uint32_t from = p.level[l].slot + 1;
        i = ORD_BY_FIELD(pass)(x->cols.ORD_SEEK, x->len, from, hit->before.ORD_SEEK, bound, strict, false);
        ORD_(inner_fold)(&x->cols, from, i, &part);
        ORD_(join)(&hit->before, &part);
        if (i < x->len) {
            ORD_(offset) offset = ORD_(offset_at)(t, &p, l);
            ORD_BY_FIELD(seek_below)
            (a, x->child[i], p.height - l - 1, ORD_BELOW(offset, x, i), bound, strict, false, hit);
            return true;
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
#undef ORD_SEEK_T
#undef ORD_BY_FIELD
#undef ORD_SEEK_JOIN
#undef ORD_SEEK_KIND
#undef ORD_SEEK
