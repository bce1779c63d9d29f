/* cursor.h: the boundary of a threshold search, kept between changes; included by ordered_tree.h when
 * ORD_CURSOR names a summed integer field.
 *
 * The cursor stands at the first key whose running sum exceeds the bound. It remembers the sum before
 * that key and the record's place in its leaf; `note` corrects the sum for a change that the tree
 * already has, `settle` walks inside the leaf. A boundary that left the leaf, or is more than
 * ORD_CURSOR_STEPS records away, costs one descent from the root.
 *
 *   cursor_note(c, k, delta)           after each add to the tree
 *   cursor_settle(a, t, c, bound)      false when no running sum exceeds the bound; else c->hit is it
 */
#ifndef ORD_CURSOR_STEPS
#define ORD_CURSOR_STEPS 8
#endif
#if !ORD_CUMULATIVE

typedef struct {
    ORD_(hit) hit;
    uint32_t shape; /* of the tree when the place was right */
    uint32_t known; /* 0: nowhere */
    uint64_t descents;
} ORD_(cursor);

_Static_assert(ORD_(all_exact), "a cursor follows integer sums only: its own sum is kept by differences");
#define ORD_CURSOR_T __typeof__(((ORD_(rec) *)0)->ORD_CURSOR)

VL_INLINE void ORD_(cursor_note)(ORD_(cursor) * c, ORD_(key) k, const ORD_(rec) * delta) {
    if (c->known && ORD_LESS(k, c->hit.key)) ORD_(join)(&c->hit.before, delta);
}

/* Walks from a place that is right; false when the boundary is not near. */
VL_INLINE bool ORD_(cursor_walk)(const vl_arena *a, ORD_(cursor) * c, ORD_CURSOR_T bound) {
    const ORD_(leaf) *x = vl_at(a, c->hit.leaf);
    uint32_t slot = c->hit.slot;
    for (int step = 0; step < ORD_CURSOR_STEPS; step++) {
        ORD_(rec) r;
        if (c->hit.before.ORD_CURSOR > bound) {
            if (slot-- == 0) return false;
            r = ORD_(leaf_get)(&x->cols, slot);
#define F(type, name, kind) c->hit.before.name = ORD_MINUS(c->hit.before.name, r.name);
            ORD_ALL(F)
#undef F
        } else {
            if (ORD_PLUS(c->hit.before.ORD_CURSOR, x->cols.ORD_CURSOR[slot]) > bound) {
                c->hit.slot = slot;
                c->hit.key = x->keys[slot];
                return true;
            }
            r = ORD_(leaf_get)(&x->cols, slot);
            if (++slot == x->len) return false;
            ORD_(join)(&c->hit.before, &r);
        }
    }
    return false;
}

VL_FUNCTION bool ORD_(cursor_settle)(const vl_arena *a, const ORD_NAME *t, ORD_(cursor) * c, ORD_CURSOR_T bound) {
    if (c->known && c->shape == t->shape && ORD_(cursor_walk)(a, c, bound)) return true;
    c->descents++;
    c->shape = t->shape;
    c->known = ORD_PASTE(ORD_(first_over), ORD_CURSOR)(a, t, bound, &c->hit);
    return c->known;
}

#undef ORD_CURSOR_T
#else
#error "a cursor walks plain nodes: leave ORD_CUMULATIVE at 0"
#endif
