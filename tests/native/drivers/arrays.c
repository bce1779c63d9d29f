/* Maps that are arrays while their keys are dense: of a whole key (x), and of a key (x, s) with its home at x.
 * Operations: 0 x s weight = update; 1 x s = get, and the s along the home x; 2 = every record; 3 = clear;
 * 4 = are they arrays, their bytes, what is not accounted for, errors.
 * First word: memory limit. */
#include "driver.h"
#include "hash.h"

typedef struct {
    int64_t x;
} one_key;
typedef struct {
    one_key key;
    int64_t count;
} one_record;
VL_INLINE uint64_t one_hash(const one_key *k) { return vl_hash1((uint64_t)k->x); }
VL_INLINE bool one_equal(const one_key *p, const one_key *q) { return p->x == q->x; }
#define VL_MAP one
#define VL_MAP_COLUMN(key) ((key)->x)
#include "map_inplace.h"

typedef struct {
    int32_t x, s;
} two_key;
typedef struct {
    two_key key;
    int64_t count;
} two_record;
VL_INLINE uint64_t two_hash(const two_key *k) { return vl_hash1((uint32_t)k->x); }
VL_INLINE bool two_equal(const two_key *p, const two_key *q) { return p->x == q->x && p->s == q->s; }
VL_INLINE bool two_alike(const two_key *p, const two_key *q) { return p->x == q->x; }
#define VL_MAP two
#define VL_MAP_HOME
#define VL_MAP_COLUMN(key) ((key)->x)
#include "map_inplace.h"

typedef struct {
    vl_map_inplace one, two;
} state;

static void update(vl_arena *a, state *s, const one_key *k, const two_key *l, int64_t weight) {
    one_record *r = one_upsert(a, &s->one, k);
    r->count += weight;
    one_settle(a, &s->one, r);
    two_record *q = two_upsert(a, &s->two, l);
    q->count += weight;
    two_settle(a, &s->two, q);
}

static void get(vl_arena *a, state *s, const one_key *k, const two_key *l) {
    one_prefetch(a, &s->one, k);
    two_prefetch(a, &s->two, l);
    const one_record *r = one_find(a, &s->one, k);
    const two_record *q = two_find(a, &s->two, l);
    give(r ? r->count : 0);
    give(q ? q->count : 0);
    int64_t n = 0, sum = 0;
    two_place at = two_home(a, &s->two, l);
    for (const two_record *e; (e = two_along(a, &s->two, &at, l)) != NULL; n++) sum += e->key.s;
    give(n);
    give(sum);
}

static void every(vl_arena *a, state *s) {
    give((int64_t)s->one.count);
    for (one_record *r = one_next(a, &s->one, NULL); r; r = one_next(a, &s->one, r)) {
        give(r->key.x);
        give(r->count);
    }
    give((int64_t)s->two.count);
    for (two_record *r = two_next(a, &s->two, NULL); r; r = two_next(a, &s->two, r)) {
        give(r->key.x);
        give(r->key.s);
        give(r->count);
    }
}

int main(void) {
    input in = read_input();
    vl_arena a;
    vl_account own = {0, 0};
    require(vl_arena_create(&a, (uint64_t)take(&in), PROGRAM) == VL_OK, "create");
    vl_ref at = vl_alloc_zeroed(&a, &own, sizeof(state));
    state *s = vl_at(&a, at);
    require(one_init(&a, &s->one) && two_init(&a, &s->two), "initialize");
    while (more(&in)) {
        int64_t what = take(&in);
        if (what <= 1) {
            one_key k = {take(&in)};
            two_key l = {(int32_t)k.x, (int32_t)take(&in)};
            if (what == 0) {
                update(&a, s, &k, &l, take(&in));
            } else {
                get(&a, s, &k, &l);
            }
        } else if (what == 2) {
            every(&a, s);
        } else if (what == 3) {
            one_clear(&a, &s->one);
            two_clear(&a, &s->two);
        } else {
            require(what == 4, "unknown operation");
            give(s->one.reach != 0);
            give(s->two.reach != 0);
            give((int64_t)vl_map_inplace_bytes(&s->one));
            give((int64_t)vl_map_inplace_bytes(&s->two));
            give((int64_t)(vl_head(&a)->top - vl_head(&a)->live - vl_arena_idle(&a)));
            give(a.errors);
        }
    }
    vl_arena_close(&a);
    free(in.words);
    return 0;
}
