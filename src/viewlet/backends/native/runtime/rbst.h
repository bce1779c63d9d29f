/* rbst.h: declares a search tree with lazy range updates of a sum and a peak per key.
 *
 *   #define RBST_NAME by_price
 *   #define RBST_VALUE int64_t          or ord_i128, or double
 *   #include "rbst.h"
 *
 * A subtree inside an updated range only notes what it owes its children: x + addend on sums,
 * max(x, floor) on peaks; it is handed down when the subtree is entered. A treap: a search tree on keys
 * and a heap on pseudo-random priorities, everything by split and merge. A raised peak cannot be
 * lowered by undoing; for maxima under deletion use a max field of ordered_tree.h.
 */
#include "ordered_types.h"

#define RBST_(x) ORD_PASTE(RBST_NAME, x)
#define RBST_MAX(a, b) ((a) > (b) ? (a) : (b))
typedef RBST_VALUE RBST_(value);

typedef struct {
    int64_t key;
    uint64_t priority;
    vl_ref left, right;
    int64_t size;
    RBST_(value) sum, total;     /* of the key, of the subtree */
    RBST_(value) peak, greatest; /* likewise */
    RBST_(value) addend, floor;  /* owed to both children */
} RBST_(node);

/* Zero-initialized is empty. */
typedef struct {
    vl_ref root;
    uint64_t serial; /* priorities drawn so far */
    vl_account account;
} RBST_NAME;

VL_INLINE RBST_(node) * RBST_(at)(const vl_arena *a, vl_ref r) { return vl_at(a, r); }

VL_INLINE void RBST_(owe)(const vl_arena *a, vl_ref r, RBST_(value) addend, RBST_(value) floor) {
    if (!r) return;
    RBST_(node) *x = vl_at(a, r);
    x->sum = ORD_PLUS(x->sum, addend);
    x->total = ORD_PLUS(x->total, ORD_BY_TYPE(addend, ord_times)(addend, x->size));
    x->addend = ORD_PLUS(x->addend, addend);
    x->peak = RBST_MAX(x->peak, floor);
    x->greatest = RBST_MAX(x->greatest, floor);
    x->floor = RBST_MAX(x->floor, floor);
}

VL_INLINE void RBST_(push)(const vl_arena *a, RBST_(node) * x) {
    RBST_(value) none = ORD_NONE_max(RBST_(value));
    if (x->addend == 0 && x->floor == none) return;
    RBST_(owe)(a, x->left, x->addend, x->floor);
    RBST_(owe)(a, x->right, x->addend, x->floor);
    x->addend = 0;
    x->floor = none;
}

VL_INLINE void RBST_(pull)(const vl_arena *a, RBST_(node) * x) {
    x->size = 1;
    x->total = x->sum;
    x->greatest = x->peak;
    vl_ref children[2] = {x->left, x->right};
    for (int i = 0; i < 2; i++) {
        if (!children[i]) continue;
        const RBST_(node) *c = vl_at(a, children[i]);
        x->size += c->size;
        x->total = ORD_PLUS(x->total, c->total);
        x->greatest = RBST_MAX(x->greatest, c->greatest);
    }
}

/* Cuts into keys < k and keys >= k (with `after`: <= k and > k). */
VL_FUNCTION void RBST_(split)(const vl_arena *a, vl_ref r, int64_t k, bool after, vl_ref *below, vl_ref *above) {
    if (!r) {
        *below = *above = 0;
        return;
    }
    RBST_(node) *x = vl_at(a, r);
    RBST_(push)(a, x);
    if (after ? x->key <= k : x->key < k) {
        RBST_(split)(a, x->right, k, after, &x->right, above);
        *below = r;
    } else {
        RBST_(split)(a, x->left, k, after, below, &x->left);
        *above = r;
    }
    RBST_(pull)(a, x);
}

VL_FUNCTION vl_ref RBST_(merge)(const vl_arena *a, vl_ref below, vl_ref above) {
    if (!below || !above) return below ? below : above;
    RBST_(node) *x = vl_at(a, below), *y = vl_at(a, above);
    if (x->priority > y->priority) {
        RBST_(push)(a, x);
        x->right = RBST_(merge)(a, x->right, above);
        RBST_(pull)(a, x);
        return below;
    }
    RBST_(push)(a, y);
    y->left = RBST_(merge)(a, below, y->left);
    RBST_(pull)(a, y);
    return above;
}

VL_INLINE void RBST_(cut)(const vl_arena *a, RBST_NAME *t, int64_t low, int64_t high, vl_ref part[3]) {
    vl_ref rest;
    RBST_(split)(a, t->root, low, false, &part[0], &rest);
    RBST_(split)(a, rest, high, true, &part[1], &part[2]);
}
VL_INLINE void RBST_(glue)(const vl_arena *a, RBST_NAME *t, const vl_ref part[3]) {
    t->root = RBST_(merge)(a, RBST_(merge)(a, part[0], part[1]), part[2]);
}

VL_FUNCTION bool RBST_(get)(const vl_arena *a, const RBST_NAME *t, int64_t k, RBST_(value) * sum, RBST_(value) * peak) {
    RBST_(value) addend = 0, floor = ORD_NONE_max(RBST_(value));
    for (vl_ref r = t->root; r;) {
        const RBST_(node) *x = vl_at(a, r);
        if (x->key == k) {
            *sum = ORD_PLUS(x->sum, addend);
            *peak = RBST_MAX(x->peak, floor);
            return true;
        }
        addend = ORD_PLUS(addend, x->addend);
        floor = RBST_MAX(floor, x->floor);
        r = k < x->key ? x->left : x->right;
    }
    return false;
}

/* Adds a new key, free of earlier range updates; false when it is there already or memory ran out. */
VL_FUNCTION bool RBST_(insert)(vl_arena *a, RBST_NAME *t, int64_t k, RBST_(value) sum, RBST_(value) peak) {
    RBST_(value) s, p;
    if (RBST_(get)(a, t, k, &s, &p)) return false;
    vl_ref r = vl_alloc(a, &t->account, sizeof(RBST_(node)));
    if (!r) {
        a->errors |= VL_E_LOST;
        return false;
    }
    uint64_t mixed = ++t->serial * UINT64_C(0x9E3779B97F4A7C15);
    mixed = (mixed ^ mixed >> 32) * UINT64_C(0xD6E8FEB86659FD93);
    *RBST_(at)(a, r) = (RBST_(node)){.key = k,
                                     .priority = mixed ^ mixed >> 32,
                                     .size = 1,
                                     .sum = sum,
                                     .total = sum,
                                     .peak = peak,
                                     .greatest = peak,
                                     .floor = ORD_NONE_max(RBST_(value))};
    vl_ref below, above;
    RBST_(split)(a, t->root, k, false, &below, &above);
    t->root = RBST_(merge)(a, RBST_(merge)(a, below, r), above);
    return true;
}

VL_FUNCTION bool RBST_(remove)(vl_arena *a, RBST_NAME *t, int64_t k) {
    vl_ref part[3];
    RBST_(cut)(a, t, k, k, part);
    t->root = RBST_(merge)(a, part[0], part[2]);
    vl_free(a, &t->account, part[1], sizeof(RBST_(node)));
    return part[1] != 0;
}

/* sum += addend and peak = max(peak, floor) for low <= key <= high. */
VL_INLINE void RBST_(update)(const vl_arena *a, RBST_NAME *t, int64_t low, int64_t high, RBST_(value) addend,
                             RBST_(value) floor) {
    if (low > high) return;
    vl_ref part[3];
    RBST_(cut)(a, t, low, high, part);
    RBST_(owe)(a, part[1], addend, floor);
    RBST_(glue)(a, t, part);
}
VL_FUNCTION void RBST_(add_range)(const vl_arena *a, RBST_NAME *t, int64_t low, int64_t high, RBST_(value) addend) {
    RBST_(update)(a, t, low, high, addend, ORD_NONE_max(RBST_(value)));
}
VL_FUNCTION void RBST_(raise_range)(const vl_arena *a, RBST_NAME *t, int64_t low, int64_t high, RBST_(value) floor) {
    RBST_(update)(a, t, low, high, 0, floor);
}

/* The total of the sums and the greatest peak with low <= key <= high; false when there is no such key. */
VL_FUNCTION bool RBST_(read_range)(const vl_arena *a, RBST_NAME *t, int64_t low, int64_t high, RBST_(value) * total,
                                   RBST_(value) * greatest) {
    *total = 0;
    *greatest = ORD_NONE_max(RBST_(value));
    if (low > high) return false;
    vl_ref part[3];
    RBST_(cut)(a, t, low, high, part);
    if (part[1]) {
        *total = RBST_(at)(a, part[1])->total;
        *greatest = RBST_(at)(a, part[1])->greatest;
    }
    RBST_(glue)(a, t, part);
    return part[1] != 0;
}

/* The least key whose peak is > bound; false when there is none. */
VL_FUNCTION bool RBST_(first_peak_over)(const vl_arena *a, const RBST_NAME *t, RBST_(value) bound, int64_t *key) {
    vl_ref r = t->root;
    while (r && RBST_(at)(a, r)->greatest > bound) {
        RBST_(node) *x = vl_at(a, r);
        RBST_(push)(a, x);
        if (x->left && RBST_(at)(a, x->left)->greatest > bound) {
            r = x->left;
        } else if (x->peak > bound) {
            *key = x->key;
            return true;
        } else {
            r = x->right;
        }
    }
    return false;
}

/* The total of the sums from the first key whose peak is > bound to the end. */
VL_FUNCTION RBST_(value) RBST_(sum_by_peak)(const vl_arena *a, RBST_NAME *t, RBST_(value) bound) {
    int64_t key;
    RBST_(value) total = 0, greatest;
    if (RBST_(first_peak_over)(a, t, bound, &key)) RBST_(read_range)(a, t, key, INT64_MAX, &total, &greatest);
    return total;
}

VL_FUNCTION int64_t RBST_(size)(const vl_arena *a, const RBST_NAME *t) {
    return t->root ? RBST_(at)(a, t->root)->size : 0;
}

#undef RBST_
#undef RBST_MAX
#undef RBST_NAME
#undef RBST_VALUE
