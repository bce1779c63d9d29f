/* The same updates to a map in place and to a pooled map with two slice indexes.
 * Key: (x BIGINT nullable, y DOUBLE, s INT). Record: count, 128-bit total.
 * Operations: 0 x null y s weight value = update; 1 x null y s = get; 2 = every record; 3 s = slice by s;
 * 4 x null = slice by x; 5 = clear; 6 n = reserve; 7 s = remove the slice by s; 8 = remove while looping;
 * 9 n (x null y s)* = batch lookup; 10 = bytes; 11 = errors.
 * First word: memory limit. */
#include "driver.h"
#include "hash.h"

typedef struct {
    int64_t x;
    uint64_t y;
    int32_t s;
    uint32_t nulls;
} flat_key;
typedef flat_key full_key;
typedef struct {
    flat_key key;
    int64_t count;
    vl_i128 total;
} flat_record;
typedef struct {
    full_key key;
    uint32_t id, by_s_at, by_x_at;
    int64_t count;
    vl_i128 total;
} full_record;

VL_INLINE uint64_t flat_hash(const flat_key *k) {
    return vl_hash2(vl_hash3((uint64_t)k->x, k->y, (uint64_t)k->s), k->nulls);
}
VL_INLINE bool flat_equal(const flat_key *p, const flat_key *q) {
    return p->x == q->x && p->y == q->y && p->s == q->s && p->nulls == q->nulls;
}
/* A poor hash on purpose: clusters, wraps and equal hashes of unequal keys are the interesting cases. */
VL_INLINE uint64_t full_hash(const full_key *k) { return flat_hash(k) & UINT64_C(0xff80000000000000); }
VL_INLINE bool full_equal(const full_key *p, const full_key *q) { return flat_equal(p, q); }

#define VL_MAP flat
#include "map_inplace.h"
VL_INLINE uint64_t full_met_at(const full_key *k) { return (uint64_t)k->s & 3; } /* few places, for many keys */
#define VL_MAP full
#define VL_MAP_INDEXED
#define VL_MAP_MET
#include "map_pooled.h"

typedef struct {
    int32_t s;
} by_s_key;
VL_INLINE by_s_key by_s_of(const full_record *r) { return (by_s_key){r->key.s}; }
VL_INLINE uint64_t by_s_hash(const by_s_key *k) { return vl_spread((uint32_t)k->s); }
#define VL_SLICE_EXACT
#define VL_SLICE by_s
#define VL_SLICE_MAP full
#include "slice.h"

typedef struct {
    int64_t x;
    uint32_t nulls;
} by_x_key;
VL_INLINE by_x_key by_x_of(const full_record *r) { return (by_x_key){r->key.x, r->key.nulls}; }
VL_INLINE uint64_t by_x_hash(const by_x_key *k) { return vl_hash2((uint64_t)k->x, k->nulls); }
VL_INLINE bool by_x_equal(const by_x_key *p, const by_x_key *q) { return p->x == q->x && p->nulls == q->nulls; }
#define VL_SLICE by_x
#define VL_SLICE_MAP full
#include "slice.h"

typedef struct {
    vl_map_inplace flat;
    vl_map_pooled full;
    vl_slice_index by_s, by_x;
} state;

static state *root(vl_arena *a) { return vl_at(a, vl_head(a)->roots[0]); }
static void full_attach(vl_arena *a, vl_map_pooled *m, full_record *r) {
    by_s_add(a, m, &root(a)->by_s, r);
    by_x_add(a, m, &root(a)->by_x, r);
}
static void full_detach(vl_arena *a, vl_map_pooled *m, full_record *r) {
    by_s_drop(a, m, &root(a)->by_s, r);
    by_x_drop(a, m, &root(a)->by_x, r);
}

static flat_key take_key(input *in) {
    flat_key k = {0, 0, 0, 0};
    k.x = take(in);
    k.nulls = (uint32_t)take(in);
    k.y = vl_f64_key(take_double(in));
    k.s = (int32_t)take(in);
    return k;
}

static void give_record(const flat_key *k, int64_t count, vl_i128 total) {
    give(k->x);
    give(k->nulls);
    give_double(vl_f64_of_key(k->y));
    give(k->s);
    give(count);
    give((int64_t)total);
}

static void update(vl_arena *a, state *s, input *in) {
    flat_key k = take_key(in);
    int64_t weight = take(in), value = take(in);
    flat_record *r = flat_upsert(a, &s->flat, &k);
    r->count += weight;
    r->total += (vl_i128)weight * value;
    flat_settle(a, &s->flat, r);
    static full_met met[VL_MET];
    full_record *q = full_meet(a, &s->full, met, &k);
    q->count += weight;
    q->total += (vl_i128)weight * value;
    full_settle(a, &s->full, q);
}

static void get(vl_arena *a, state *s, input *in) {
    flat_key k = take_key(in);
    flat_record *r = flat_find(a, &s->flat, &k);
    full_record *q = full_find(a, &s->full, &k);
    give(r ? r->count : 0);
    give(r ? (int64_t)r->total : 0);
    give(q ? q->count : 0);
    give(q ? (int64_t)q->total : 0);
}

static void give_slice(vl_arena *a, state *s, vl_slice v) {
    give(v.n);
    while (v.n-- > 0) {
        full_record *r = full_at(a, &s->full, v.ids[v.n]);
        give_record(&r->key, r->count, r->total);
    }
}

static void every(vl_arena *a, state *s) {
    give((int64_t)s->flat.count);
    for (flat_record *r = flat_next(a, &s->flat, NULL); r; r = flat_next(a, &s->flat, r))
        give_record(&r->key, r->count, r->total);
    give(s->full.pool.live);
    for (full_record *r = full_next(a, &s->full, NULL); r; r = full_next(a, &s->full, r))
        give_record(&r->key, r->count, r->total);
}

static void remove_flat(vl_arena *a, state *s, const full_record *q) {
    flat_record *r = flat_find(a, &s->flat, &q->key);
    r->count = 0;
    flat_settle(a, &s->flat, r);
}

static void remove_slice(vl_arena *a, state *s, by_s_key key) {
    vl_slice v;
    while ((v = by_s_find(a, &s->full, &s->by_s, &key)).n) {
        full_record *q = full_at(a, &s->full, v.ids[v.n - 1]);
        remove_flat(a, s, q);
        full_remove(a, &s->full, q);
    }
}

/* Every record with an odd s goes, and each survivor inserts a far key, during one loop. */
static void remove_in_loop(vl_arena *a, state *s) {
    uint32_t end = s->full.pool.end, id;
    for (full_record *q = full_from(a, &s->full, 1); q && q->id < end; q = full_from(a, &s->full, id + 1)) {
        id = q->id;
        if (q->key.s & 1) {
            remove_flat(a, s, q);
            q->count = 0;
            full_settle(a, &s->full, q);
        }
    }
}

static void batch(vl_arena *a, state *s, input *in) {
    uint64_t n = (uint64_t)take(in);
    flat_key *keys = malloc(n * sizeof *keys + 1);
    flat_record **r = malloc(n * sizeof *r + 1);
    full_record **q = malloc(n * sizeof *q + 1);
    for (uint64_t i = 0; i < n; i++) keys[i] = take_key(in);
    flat_find_batch(a, &s->flat, keys, n, r);
    full_find_batch(a, &s->full, keys, n, q);
    for (uint64_t i = 0; i < n; i++) {
        give(r[i] ? r[i]->count : 0);
        give(q[i] ? q[i]->count : 0);
    }
    free(keys);
    free(r);
    free(q);
}

static void step(vl_arena *a, state *s, input *in) {
    switch (take(in)) {
    case 0: update(a, s, in); break;
    case 1: get(a, s, in); break;
    case 2: every(a, s); break;
    case 3: {
        by_s_key k = {(int32_t)take(in)};
        give_slice(a, s, by_s_find(a, &s->full, &s->by_s, &k));
        break;
    }
    case 4: {
        by_x_key k = {0, 0};
        k.x = take(in);
        k.nulls = (uint32_t)take(in);
        give_slice(a, s, by_x_find(a, &s->full, &s->by_x, &k));
        break;
    }
    case 5:
        flat_clear(a, &s->flat);
        full_clear(a, &s->full);
        break;
    case 6: {
        uint64_t n = (uint64_t)take(in);
        give(flat_reserve(a, &s->flat, n) && full_reserve(a, &s->full, n));
        break;
    }
    case 7: remove_slice(a, s, (by_s_key){(int32_t)take(in)}); break;
    case 8: remove_in_loop(a, s); break;
    case 9: batch(a, s, in); break;
    case 10:
        give((int64_t)vl_map_inplace_bytes(&s->flat));
        give((int64_t)vl_map_pooled_bytes(&s->full));
        give((int64_t)(s->by_s.account.bytes + s->by_x.account.bytes));
        give((int64_t)(vl_head(a)->top - vl_head(a)->live - vl_arena_idle(a)));
        break;
    case 11:
        give(a->errors);
        a->errors = 0;
        break;
    default: require(false, "unknown operation");
    }
}

int main(void) {
    input in = read_input();
    vl_arena a;
    vl_account own = {0, 0};
    require(vl_arena_create(&a, (uint64_t)take(&in), PROGRAM) == VL_OK, "create");
    vl_head(&a)->roots[0] = vl_alloc_zeroed(&a, &own, sizeof(state));
    state *s = root(&a);
    require(flat_init(&a, &s->flat) && full_init(&a, &s->full) && by_s_init(&a, &s->by_s) && by_x_init(&a, &s->by_x),
            "initialize");
    while (more(&in)) step(&a, s, &in);
    vl_arena_close(&a);
    free(in.words);
    return 0;
}
