/* multiset.h: declares an ordered multiset that grows with its contents, one per group.
 *
 *   #define MULTI_NAME volumes
 *   #define ORD_KEY_WORDS 1      or ORD_KEY_INT128, as for ordered_tree.h
 *   #include "multiset.h"
 *
 * Up to 4 different values live in the header itself, up to 256 in a sorted vector, more in an ordered
 * tree without sums; it shrinks back with hysteresis. Values with count 0 are not stored; a count may
 * be negative in the middle of a batch. Memory is charged to the account the caller passes.
 */
#ifdef ORD_NAME
#error "multiset.h takes MULTI_NAME; ORD_NAME belongs to ordered_tree.h"
#endif
#define ORD_NAME ORD_PASTE(MULTI_NAME, tree)
#include "ordered_core.h"

#define MULTI_(x) ORD_PASTE(MULTI_NAME, x)
enum { MULTI_(inline) = 4, MULTI_(vector) = 256, MULTI_(is_tree) = UINT16_MAX };

typedef ORD_(key) MULTI_(key);

/* Zero-initialized is empty. */
typedef struct {
    int64_t n;         /* rows: the sum of the counts */
    uint32_t distinct; /* values */
    uint16_t capacity; /* 0: inline, is_tree: tree, else of the vector */
    union {
        struct {
            MULTI_(key) value[MULTI_(inline)];
            int64_t count[MULTI_(inline)];
        } few;
        vl_ref vector; /* values, then counts */
        ORD_NAME tree;
    } as;
} MULTI_NAME;

VL_INLINE MULTI_(key) * MULTI_(values)(const vl_arena *a, const MULTI_NAME *m) {
    return m->capacity ? vl_at(a, m->as.vector) : (MULTI_(key) *)m->as.few.value;
}
VL_INLINE int64_t *MULTI_(counts)(const vl_arena *a, const MULTI_NAME *m) {
    return m->capacity ? (int64_t *)(void *)((MULTI_(key) *)vl_at(a, m->as.vector) + m->capacity)
                       : (int64_t *)m->as.few.count;
}
VL_INLINE uint64_t MULTI_(vector_bytes)(uint64_t capacity) {
    return capacity * (sizeof(MULTI_(key)) + sizeof(int64_t));
}

/* How many of the sorted values are < k. */
VL_INLINE uint32_t MULTI_(slot)(const MULTI_(key) * value, uint32_t len, MULTI_(key) k) {
    const MULTI_(key) *p = value;
    while (len > 0) {
        uint32_t half = (len + 1) / 2;
        p += ORD_LESS(p[half - 1], k) ? half : 0;
        len -= half;
    }
    return (uint32_t)(p - value);
}

/* Moves the few or vector contents into the form with `capacity` slots (0: inline). */
VL_COLD bool MULTI_(resize)(vl_arena *a, vl_account *account, MULTI_NAME *m, uint32_t capacity) {
    MULTI_NAME old = *m;
    vl_ref vector = capacity ? vl_alloc(a, account, MULTI_(vector_bytes)(capacity)) : 0;
    if (capacity && !vector) return false;
    m->capacity = (uint16_t)capacity;
    if (capacity) m->as.vector = vector;
    memcpy(MULTI_(values)(a, m), MULTI_(values)(a, &old), m->distinct * sizeof(MULTI_(key)));
    memcpy(MULTI_(counts)(a, m), MULTI_(counts)(a, &old), m->distinct * sizeof(int64_t));
    if (old.capacity) vl_free(a, account, old.as.vector, MULTI_(vector_bytes)(old.capacity));
    return true;
}

VL_INLINE void MULTI_(add_in_tree)(vl_arena *a, vl_account *account, MULTI_NAME *m, MULTI_(key) k, int64_t weight) {
    ORD_NAME *t = &m->as.tree;
    vl_account before = t->account;
    ORD_(rec) delta = {.n = weight};
    ORD_(add)(a, t, k, &delta, NULL);
    account->bytes += t->account.bytes - before.bytes;
    account->blocks += t->account.blocks - before.blocks;
    m->distinct = (uint32_t)t->size;
}

VL_COLD void MULTI_(to_tree)(vl_arena *a, vl_account *account, MULTI_NAME *m) {
    MULTI_NAME old = *m;
    memset(&m->as, 0, sizeof m->as);
    m->capacity = MULTI_(is_tree);
    for (uint32_t i = 0; i < old.distinct; i++)
        MULTI_(add_in_tree)(a, account, m, MULTI_(values)(a, &old)[i], MULTI_(counts)(a, &old)[i]);
    vl_free(a, account, old.as.vector, MULTI_(vector_bytes)(old.capacity));
}

VL_COLD void MULTI_(to_vector)(vl_arena *a, vl_account *account, MULTI_NAME *m) {
    vl_ref vector = vl_try_alloc(a, account, MULTI_(vector_bytes)(MULTI_(vector)));
    if (!vector) return; /* a small tree serves as well */
    ORD_NAME t = m->as.tree;
    ORD_(path) p;
    m->capacity = MULTI_(vector);
    m->as.vector = vector;
    uint32_t i = 0;
    for (bool more = ORD_(first)(a, &t, &p); more; more = ORD_(next)(a, &t, &p), i++) {
        MULTI_(values)(a, m)[i] = ORD_(path_key)(&p);
        MULTI_(counts)(a, m)[i] = ORD_(path_rec)(&p).n;
    }
    account->bytes -= t.account.bytes;
    account->blocks -= t.account.blocks;
    ORD_(clear)(a, &t);
}

/* Makes room for one more value outside a tree; afterwards the form may have changed. */
VL_COLD bool MULTI_(grow)(vl_arena *a, vl_account *account, MULTI_NAME *m) {
    if (m->capacity == MULTI_(vector)) {
        MULTI_(to_tree)(a, account, m);
        return true;
    }
    return MULTI_(resize)(a, account, m, m->capacity ? 2u * m->capacity : 2 * MULTI_(inline));
}

VL_FUNCTION void MULTI_(shrink)(vl_arena *a, vl_account *account, MULTI_NAME *m) {
    if (m->capacity == MULTI_(is_tree)) {
        if (m->distinct <= MULTI_(vector) / 2) MULTI_(to_vector)(a, account, m);
    } else if (m->capacity && m->distinct <= MULTI_(inline) / 2) {
        MULTI_(resize)(a, account, m, 0);
    } else if (m->capacity > 2 * MULTI_(inline) && m->distinct < m->capacity / 4u) {
        MULTI_(resize)(a, account, m, m->capacity / 2u);
    }
}

/* Inserts k weight times; a negative weight deletes. */
VL_FUNCTION void MULTI_(add)(vl_arena *a, vl_account *account, MULTI_NAME *m, MULTI_(key) k, int64_t weight) {
    if (weight == 0) return;
    m->n = ord_plus_i64(m->n, weight);
    if (m->capacity != MULTI_(is_tree)) {
        MULTI_(key) *value = MULTI_(values)(a, m);
        int64_t *count = MULTI_(counts)(a, m);
        uint32_t i = MULTI_(slot)(value, m->distinct, k), behind = m->distinct - i;
        if (behind && ORD_EQUAL(value[i], k)) {
            count[i] = ord_plus_i64(count[i], weight);
            if (count[i] != 0) return;
            memmove(value + i, value + i + 1, (behind - 1) * sizeof *value);
            memmove(count + i, count + i + 1, (behind - 1) * sizeof *count);
            m->distinct--;
            MULTI_(shrink)(a, account, m);
            return;
        }
        if (m->distinct == (m->capacity ? m->capacity : (uint32_t)MULTI_(inline))) {
            if (!MULTI_(grow)(a, account, m)) {
                a->errors |= VL_E_LOST;
                return;
            }
            value = MULTI_(values)(a, m);
            count = MULTI_(counts)(a, m);
        }
        if (m->capacity != MULTI_(is_tree)) {
            memmove(value + i + 1, value + i, behind * sizeof *value);
            memmove(count + i + 1, count + i, behind * sizeof *count);
            value[i] = k;
            count[i] = weight;
            m->distinct++;
            return;
        }
    }
    MULTI_(add_in_tree)(a, account, m, k, weight);
    MULTI_(shrink)(a, account, m);
}

/* Each gives a value and its count; false when there is none. */

VL_INLINE bool MULTI_(tell)(bool found, const ORD_(path) * p, MULTI_(key) * k, int64_t *count) {
    if (!found) return false;
    *k = ORD_(path_key)(p);
    *count = ORD_(path_rec)(p).n;
    return true;
}

VL_FUNCTION bool MULTI_(least)(const vl_arena *a, const MULTI_NAME *m, MULTI_(key) * k, int64_t *count) {
    if (m->distinct == 0) return false;
    if (m->capacity == MULTI_(is_tree)) {
        ORD_(path) p;
        return MULTI_(tell)(ORD_(first)(a, &m->as.tree, &p), &p, k, count);
    }
    *k = MULTI_(values)(a, m)[0];
    *count = MULTI_(counts)(a, m)[0];
    return true;
}
VL_FUNCTION bool MULTI_(greatest)(const vl_arena *a, const MULTI_NAME *m, MULTI_(key) * k, int64_t *count) {
    if (m->distinct == 0) return false;
    if (m->capacity == MULTI_(is_tree)) {
        ORD_(path) p;
        return MULTI_(tell)(ORD_(last)(a, &m->as.tree, &p), &p, k, count);
    }
    *k = MULTI_(values)(a, m)[m->distinct - 1];
    *count = MULTI_(counts)(a, m)[m->distinct - 1];
    return true;
}
/* The nearest value above (below) k: repeated from the least (greatest) it walks bottom-k (top-k). */
VL_FUNCTION bool MULTI_(above)(const vl_arena *a, const MULTI_NAME *m, MULTI_(key) k, MULTI_(key) * out,
                               int64_t *count) {
    if (m->capacity == MULTI_(is_tree)) {
        ORD_(path) p;
        return MULTI_(tell)(ORD_(above)(a, &m->as.tree, k, &p), &p, out, count);
    }
    const MULTI_(key) *value = MULTI_(values)(a, m);
    uint32_t i = MULTI_(slot)(value, m->distinct, k);
    i += i < m->distinct && ORD_EQUAL(value[i], k);
    if (i == m->distinct) return false;
    *out = value[i];
    *count = MULTI_(counts)(a, m)[i];
    return true;
}
VL_FUNCTION bool MULTI_(below)(const vl_arena *a, const MULTI_NAME *m, MULTI_(key) k, MULTI_(key) * out,
                               int64_t *count) {
    if (m->capacity == MULTI_(is_tree)) {
        ORD_(path) p;
        return MULTI_(tell)(ORD_(below)(a, &m->as.tree, k, &p), &p, out, count);
    }
    uint32_t i = MULTI_(slot)(MULTI_(values)(a, m), m->distinct, k);
    if (i == 0) return false;
    *out = MULTI_(values)(a, m)[i - 1];
    *count = MULTI_(counts)(a, m)[i - 1];
    return true;
}
VL_FUNCTION int64_t MULTI_(count)(const vl_arena *a, const MULTI_NAME *m, MULTI_(key) k) {
    if (m->capacity == MULTI_(is_tree)) {
        ORD_(rec) r;
        ORD_(get)(a, &m->as.tree, k, &r);
        return r.n;
    }
    const MULTI_(key) *value = MULTI_(values)(a, m);
    uint32_t i = MULTI_(slot)(value, m->distinct, k);
    return i < m->distinct && ORD_EQUAL(value[i], k) ? MULTI_(counts)(a, m)[i] : 0;
}
/* The k-th least row from 0, duplicates counted; needs counts >= 0. */
VL_FUNCTION bool MULTI_(kth)(const vl_arena *a, const MULTI_NAME *m, int64_t k, MULTI_(key) * out) {
    if (k < 0 || k >= m->n) return false;
    if (m->capacity == MULTI_(is_tree)) {
        ORD_(hit) hit;
        if (!ORD_PASTE(ORD_(first_over), n)(a, &m->as.tree, k, &hit)) return false;
        *out = hit.key;
        return true;
    }
    const int64_t *count = MULTI_(counts)(a, m);
    for (uint32_t i = 0; i < m->distinct; i++) {
        if (k < count[i]) {
            *out = MULTI_(values)(a, m)[i];
            return true;
        }
        k -= count[i];
    }
    return false;
}
/* Empties it and gives its memory back. */
VL_FUNCTION void MULTI_(clear)(vl_arena *a, vl_account *account, MULTI_NAME *m) {
    if (m->capacity == MULTI_(is_tree)) {
        account->bytes -= m->as.tree.account.bytes;
        account->blocks -= m->as.tree.account.blocks;
        ORD_(clear)(a, &m->as.tree);
    } else if (m->capacity) {
        vl_free(a, account, m->as.vector, MULTI_(vector_bytes)(m->capacity));
    }
    memset(m, 0, sizeof *m);
}

#ifdef ORD_CHECK
#include "ordered_check.h"
#endif
#include "ordered_end.h"
#undef MULTI_
#undef MULTI_NAME
