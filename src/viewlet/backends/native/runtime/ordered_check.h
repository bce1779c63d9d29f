/* ordered_check.h: the invariants of an ordered tree, for tests. 0 when they hold, else a line number. */

VL_FUNCTION bool ORD_(same)(const ORD_(rec) * x, const ORD_(rec) * y) {
    bool same = true;
#define F(type, name, kind) same &= x->name == y->name;
    ORD_ALL(F)
#undef F
    return same;
}

/* All keys below r must lie in (*low, *high]; NULL is unbounded. Adds the records to *size. */
VL_FUNCTION int ORD_(check_below)(const vl_arena *a, vl_ref r, uint32_t levels, ORD_(offset) offset,
                                  const ORD_(key) * low, const ORD_(key) * high, ORD_(rec) * total, uint64_t *size) {
    if (levels == 0) {
        const ORD_(leaf) *x = vl_at(a, r);
        if (x->len == 0 || x->len > ORD_LEAF) return __LINE__;
        for (uint32_t i = 0; i < x->len; i++) {
            ORD_(key) k = ORD_TRUE(x->keys[i], offset);
            ORD_(key) before = i ? ORD_TRUE(x->keys[i - 1], offset) : k;
            if (i && !ORD_LESS(before, k)) return __LINE__;
            if (low && !ORD_LESS(*low, k)) return __LINE__;
            if (high && ORD_LESS(*high, k)) return __LINE__;
            ORD_(rec) one = ORD_(leaf_get)(&x->cols, i);
            if (ORD_(is_empty)(&one)) return __LINE__;
        }
#if defined ORD_KEY_MAX && !ORD_SHIFT
        for (uint32_t i = x->len; i < ORD_LEAF; i++)
            if (x->keys[i] != ORD_KEY_MAX) return __LINE__;
#endif
        *total = ORD_(leaf_total)(x);
        *size += x->len;
        return 0;
    }
    const ORD_(inner) *x = vl_at(a, r);
    if (x->len == 0 || x->len > ORD_INNER) return __LINE__;
#if defined ORD_KEY_MAX && !ORD_SHIFT
    for (uint32_t i = x->len - 1; i < ORD_INNER; i++)
        if (x->keys[i] != ORD_KEY_MAX) return __LINE__;
#endif
    for (uint32_t i = 0; i < x->len; i++) {
        ORD_(key) from = i ? ORD_TRUE(x->keys[i - 1], offset) : x->keys[0];
        ORD_(key) to = i + 1 < x->len ? ORD_TRUE(x->keys[i], offset) : x->keys[0];
        ORD_(rec) below, kept = ORD_(inner_get)(&x->cols, i);
        int line = ORD_(check_below)(a, x->child[i], levels - 1, ORD_BELOW(offset, x, i), i ? &from : low,
                                     i + 1 < x->len ? &to : high, &below, size);
        if (line) return line;
        if (!ORD_(same)(&below, &kept)) return __LINE__;
    }
    *total = ORD_(inner_total)(x);
    return 0;
}

VL_FUNCTION int ORD_(check)(const vl_arena *a, const ORD_NAME *t) {
    ORD_(rec) total;
    uint64_t size = 0;
    if (!t->root) return t->size == 0 && t->height == 0 && t->account.bytes == 0 ? 0 : __LINE__;
    int line = ORD_(check_below)(a, t->root, t->height, ORD_BASE(t), NULL, NULL, &total, &size);
    return line ? line : size == t->size ? 0 : __LINE__;
}
