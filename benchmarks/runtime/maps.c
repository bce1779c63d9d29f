/* Nanoseconds of CPU time per map operation: 24-byte records (key, count, sum), uniform keys.
 * Prints: layout groups upsert churn chained batched bytes_per_record. */
#include "hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct {
    int64_t k;
} flat_key;
typedef flat_key full_key;
typedef struct {
    flat_key key;
    int64_t count, sum;
} flat_record;
typedef struct {
    full_key key;
    int64_t count, sum;
    uint32_t id, by_group_at;
} full_record;
VL_INLINE uint64_t flat_hash(const flat_key *k) { return vl_hash1((uint64_t)k->k); }
VL_INLINE bool flat_equal(const flat_key *x, const flat_key *y) { return x->k == y->k; }
VL_INLINE uint64_t full_hash(const full_key *k) { return vl_hash1((uint64_t)k->k); }
VL_INLINE bool full_equal(const full_key *x, const full_key *y) { return x->k == y->k; }
#define VL_MAP flat
#include "map_inplace.h"
#define VL_MAP full
#include "map_pooled.h"

typedef struct {
    int64_t group;
} by_group_key;
VL_INLINE by_group_key by_group_of(const full_record *r) { return (by_group_key){r->sum}; }
VL_INLINE uint64_t by_group_hash(const by_group_key *k) { return vl_hash1((uint64_t)k->group); }
VL_INLINE bool by_group_equal(const by_group_key *x, const by_group_key *y) { return x->group == y->group; }
#define VL_SLICE by_group
#define VL_SLICE_MAP full
#include "slice.h"

static uint64_t random_state = 88172645463325252u;
static uint64_t draw(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}
/* Keys spread over 64 bits, reproducible from their number. */
static int64_t key_of(uint64_t i) { return (int64_t)(i * 0x2545f4914f6cdd1dULL); }

#define BENCH(map, type, bytes_of)                                                                          \
    static void bench_##map(uint64_t groups, uint64_t events, const uint64_t *picks, const uint64_t *moves) { \
        vl_arena a;                                                                                         \
        uint8_t program[32] = {0};                                                                          \
        if (vl_arena_create(&a, 0, program)) abort();                                                       \
        vl_account own = {0, 0};                                                                            \
        type *m = vl_at(&a, vl_alloc_zeroed(&a, &own, sizeof(type)));                                       \
        map##_init(&a, m);                                                                                  \
        for (uint64_t i = 0; i < groups; i++) {                                                             \
            map##_record *r = map##_upsert(&a, m, &(map##_key){key_of(i)});                                 \
            r->count = 1;                                                                                   \
            r->sum = (int64_t)i;                                                                            \
        }                                                                                                   \
        double t0 = now();                                                                                  \
        for (uint64_t i = 0; i < events; i++) {                                                             \
            map##_record *r = map##_upsert(&a, m, &(map##_key){key_of(picks[i])});                          \
            r->count += 1;                                                                                  \
            r->sum += 3;                                                                                    \
            map##_settle(&a, m, r);                                                                         \
        }                                                                                                   \
        double upsert = (now() - t0) / (double)events;                                                      \
        map##_key *keys = malloc(events * sizeof *keys);                                                    \
        map##_record **found = malloc(events * sizeof *found);                                              \
        for (uint64_t i = 0; i < events; i++) keys[i].k = key_of(picks[i]);                                 \
        t0 = now();                                                                                         \
        map##_find_batch(&a, m, keys, events, found);                                                       \
        double batched = (now() - t0) / (double)events;                                                     \
        uint64_t at = 0;                                                                                    \
        t0 = now();                                                                                         \
        for (uint64_t i = 0; i < events; i++) {                                                             \
            map##_record *r = map##_find(&a, m, &(map##_key){key_of(at)});                                  \
            at = (uint64_t)(((vl_u128)vl_hash2(at + i, (uint64_t)r->count) * groups) >> 64);                \
        }                                                                                                   \
        double chained = (now() - t0) / (double)events;                                                     \
        double bytes = (double)bytes_of(m) / (double)groups;                                                \
        t0 = now();                                                                                         \
        for (uint64_t i = 0; i < events; i++) { /* deletes a present key or inserts an absent one */        \
            map##_record *r = map##_upsert(&a, m, &(map##_key){key_of(moves[i])});                          \
            r->count = r->count ? 0 : 1;                                                                    \
            map##_settle(&a, m, r);                                                                         \
        }                                                                                                   \
        double churn = (now() - t0) / (double)events;                                                       \
        printf("%s %llu %.1f %.1f %.1f %.1f %.1f\n", #map, (unsigned long long)groups, upsert, churn, chained, \
               batched, bytes);                                                                             \
        free(keys);                                                                                         \
        free(found);                                                                                        \
        vl_arena_close(&a);                                                                                 \
    }
BENCH(flat, vl_map_inplace, vl_map_inplace_bytes)
BENCH(full, vl_map_pooled, vl_map_pooled_bytes)

/* Prints: slice length scan move bytes, per record. */
static void bench_slices(uint64_t records, int64_t length, uint64_t events) {
    vl_arena a;
    uint8_t program[32] = {0};
    if (vl_arena_create(&a, 0, program)) abort();
    vl_account own = {0, 0};
    vl_map_pooled *m = vl_at(&a, vl_alloc_zeroed(&a, &own, sizeof *m));
    vl_slice_index *ix = vl_at(&a, vl_alloc_zeroed(&a, &own, sizeof *ix));
    full_init(&a, m);
    by_group_init(&a, ix);
    int64_t groups = (int64_t)records / length;
    for (uint64_t i = 0; i < records; i++) {
        full_record *r = full_upsert(&a, m, &(full_key){key_of(i)});
        r->count = 1;
        r->sum = (int64_t)(draw() % (uint64_t)groups);
        by_group_add(&a, m, ix, r);
    }
    double bytes = (double)ix->account.bytes / (double)records;
    uint64_t seen = 0;
    int64_t total = 0;
    double t0 = now();
    while (seen < events) {
        by_group_key k = {(int64_t)(draw() % (uint64_t)groups)};
        for (vl_slice v = by_group_find(&a, m, ix, &k); v.n-- > 0; seen++) total += full_at(&a, m, v.ids[v.n])->count;
    }
    double scan = (now() - t0) / (double)seen;
    t0 = now();
    for (uint64_t i = 0; i < events; i++) {
        full_record *r = full_at(&a, m, (uint32_t)(draw() % records) + 1);
        by_group_drop(&a, m, ix, r);
        r->sum = (int64_t)(draw() % (uint64_t)groups);
        by_group_add(&a, m, ix, r);
    }
    double move = (now() - t0) / (double)events;
    printf("slice %lld %.1f %.1f %.1f %d\n", (long long)length, scan, move, bytes, total == 0);
    vl_arena_close(&a);
}

int main(int argc, char **argv) {
    uint64_t events = argc > 1 ? strtoull(argv[1], NULL, 10) : 2000000;
    static const uint64_t sizes[] = {1000, 11000, 90000, 730000};
    uint64_t *picks = malloc(events * 8), *moves = malloc(events * 8);
    for (int i = 0; i < 4; i++) {
        for (uint64_t j = 0; j < events; j++) {
            picks[j] = draw() % sizes[i];
            moves[j] = draw() % (2 * sizes[i]);
        }
        bench_flat(sizes[i], events, picks, moves);
        bench_full(sizes[i], events, picks, moves);
    }
    for (int64_t length = 10; length <= 1000; length *= 10) bench_slices(1000000, length, events);
    return 0;
}
