/* ordered_read.h: positions, neighbours and sums of an ordered tree; included by ordered_core.h. */

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
        uint32_t i = ORD_(route)(a, x, k, offset);
        p->level[l].node = x;
        p->level[l].slot = i;
        r = x->child[i];
        offset = ORD_BELOW(offset, x, i);
    }
    p->leaf = vl_at(a, r);
    p->offset = offset;
    p->slot = ORD_(leaf_slot)(a, p->leaf, k, offset);
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

/* The first record, or the first above k; false when there is none. */
VL_FUNCTION bool ORD_(following)(const vl_arena *a, const ORD_NAME *t, const ORD_(key) * k, ORD_(key) * key, ORD_(rec) * out) {
    ORD_(path) p;
    if (!(k ? ORD_(above)(a, t, *k, &p) : ORD_(first)(a, t, &p))) return false;
    *key = ORD_(path_key)(&p);
    *out = ORD_(path_rec)(&p);
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
        uint32_t i = ORD_(route)(a, x, k, offset);
        r = x->child[i];
        offset = ORD_BELOW(offset, x, i);
    }
    const ORD_(leaf) *leaf = vl_at(a, r);
    uint32_t slot = ORD_(leaf_slot)(a, leaf, k, offset);
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
        uint32_t i = ORD_(route)(a, x, k, offset);
        ORD_(inner_fold)(&x->cols, 0, i, &part);
        ORD_(join)(out, &part);
        r = x->child[i];
        offset = ORD_BELOW(offset, x, i);
    }
    const ORD_(leaf) *leaf = vl_at(a, r);
    uint32_t slot = ORD_(leaf_slot)(a, leaf, k, offset);
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
        uint32_t i = ORD_(route)(a, x, k, offset);
        ORD_(inner_fold)(&x->cols, i + 1, x->len, &part);
        ORD_(join)(out, &part);
        r = x->child[i];
        offset = ORD_BELOW(offset, x, i);
    }
    const ORD_(leaf) *leaf = vl_at(a, r);
    ORD_(leaf_fold)(&leaf->cols, ORD_(leaf_slot)(a, leaf, k, offset), leaf->len, &part);
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
        uint32_t i = ORD_(route)(a, x, low, offset), j = ORD_(route)(a, x, high, offset);
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
    uint32_t from = ORD_(leaf_slot)(a, leaf, low, offset), to = ORD_(leaf_slot)(a, leaf, high, offset);
    to += ORD_(holds)(leaf, to, high, offset);
    ORD_(leaf_fold)(&leaf->cols, from, to, &part);
    ORD_(join)(&out, &part);
    return out;
}
