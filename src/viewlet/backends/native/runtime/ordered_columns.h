/* ordered_columns.h: the record columns of one kind of node; included by ordered_core.h once for leaves
 * and once for inner nodes.
 *
 *   COL(x)   names this kind's functions     CAP   its slots
 *
 * With ORD_CUMULATIVE a column holds running sums inside the node (slot i = records 0..i), otherwise
 * the records themselves. Everything outside this file sees records only.
 */

typedef struct {
#define F(type, name, kind) type name[CAP];
    ORD_ALL(F)
#undef F
} COL(columns);

/* out = join of slots [from, to), from <= to */
VL_INLINE void COL(fold)(const COL(columns) * c, uint32_t from, uint32_t to, ORD_(rec) * out) {
#if ORD_CUMULATIVE
    if (from == to) {
        *out = ORD_(none)();
        return;
    }
#define F(type, name, kind) \
    out->name = from ? ORD_MINUS(c->name[to - 1], c->name[from - 1]) : c->name[to - 1];
#else
#define F(type, name, kind) out->name = ORD_FOLD_##kind(c->name, from, to, CAP);
#endif
    ORD_ALL(F)
#undef F
}

VL_INLINE ORD_(rec) COL(get)(const COL(columns) * c, uint32_t i) {
    ORD_(rec) r;
#if ORD_CUMULATIVE
    COL(fold)(c, i, i + 1, &r);
#else
#define F(type, name, kind) r.name = c->name[i];
    ORD_ALL(F)
#undef F
#endif
    return r;
}

/* Adds the exact fields of d to slot i. */
VL_INLINE void COL(add)(COL(columns) * c, uint32_t i, const ORD_(rec) * d) {
#if ORD_CUMULATIVE
#define F(type, name, kind) ORD_RAMP(c->name, i, d->name, CAP);
#else
#define F(type, name, kind) \
    if (ORD_EXACT_##kind(type)) c->name[i] = ORD_PLUS(c->name[i], d->name);
#endif
    ORD_ALL(F)
#undef F
}

VL_INLINE void COL(set)(COL(columns) * c, uint32_t i, const ORD_(rec) * r) {
#if ORD_CUMULATIVE
    ORD_(rec) d = COL(get)(c, i);
#define F(type, name, kind) d.name = ORD_MINUS(r->name, d.name);
    ORD_ALL(F)
#undef F
    COL(add)(c, i, &d);
#else
#define F(type, name, kind) c->name[i] = r->name;
    ORD_ALL(F)
#undef F
#endif
}

/* Makes room at slot i of len records and puts r there. */
VL_INLINE void COL(open)(COL(columns) * c, uint32_t len, uint32_t i, const ORD_(rec) * r) {
#if ORD_CUMULATIVE
    ORD_(rec) before = ORD_(none)();
    if (i) COL(fold)(c, 0, i, &before);
#define F(type, name, kind)                                                      \
    for (uint32_t j = len; j > i; j--) c->name[j] = ORD_PLUS(c->name[j - 1], r->name); \
    c->name[i] = ORD_PLUS(before.name, r->name);
#else
#define F(type, name, kind)                                             \
    memmove(c->name + i + 1, c->name + i, (len - i) * sizeof c->name[0]); \
    c->name[i] = r->name;
#endif
    ORD_ALL(F)
#undef F
}

VL_INLINE void COL(close)(COL(columns) * c, uint32_t len, uint32_t i) {
#if ORD_CUMULATIVE
    ORD_(rec) gone = COL(get)(c, i);
#define F(type, name, kind) \
    for (uint32_t j = i + 1; j < len; j++) c->name[j - 1] = ORD_MINUS(c->name[j], gone.name);
#else
#define F(type, name, kind) memmove(c->name + i, c->name + i + 1, (len - i - 1) * sizeof c->name[0]);
#endif
    ORD_ALL(F)
#undef F
}

/* Appends slots [from, to) of s behind the len records of c. */
VL_INLINE void COL(append)(COL(columns) * c, uint32_t len, const COL(columns) * s, uint32_t from, uint32_t to) {
    if (from == to) return;
#if ORD_CUMULATIVE
#define F(type, name, kind)                                                              \
    {                                                                                    \
        type base = ORD_MINUS(len ? c->name[len - 1] : (type)0, from ? s->name[from - 1] : (type)0); \
        for (uint32_t j = from; j < to; j++) c->name[len + j - from] = ORD_PLUS(s->name[j], base);   \
    }
#else
#define F(type, name, kind) memcpy(c->name + len, s->name + from, (to - from) * sizeof c->name[0]);
#endif
    ORD_ALL(F)
#undef F
}

/* Takes over the fields of r that are not exact; false when nothing changed. */
VL_INLINE bool COL(refresh)(COL(columns) * c, uint32_t i, const ORD_(rec) * r) {
    bool changed = false;
#define F(type, name, kind)                              \
    if (!ORD_EXACT_##kind(type) && c->name[i] != r->name) { \
        c->name[i] = r->name;                            \
        changed = true;                                  \
    }
    ORD_ALL(F)
#undef F
    return changed;
}

VL_INLINE void COL(join)(const COL(columns) * c, uint32_t i, ORD_(rec) * into) {
    ORD_(rec) r = COL(get)(c, i);
    ORD_(join)(into, &r);
}

#undef COL
#undef CAP
