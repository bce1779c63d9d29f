/* ordered.c: nanoseconds per operation of the ordered structures, one line per figure.
 *
 *   usage: ordered PATTERN SIZE EVENTS      PATTERN: random | clustered
 *
 * Records hold a count and two int64 sums. Keys live on a sparse grid of 2 * SIZE levels, half of them
 * live; an event modifies, deletes or inserts one key, a third each. Random events fall anywhere,
 * clustered ones near a centre that drifts, as in an order book. Events are drawn before the clock
 * (processor time) starts; the best of three passes counts, each pass continuing where the last ended.
 */
#include "arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ORD_NAME plain
#define ORD_FIELDS(F) F(int64_t, v, sum) F(int64_t, pv, sum)
#define ORD_SEEK_1 v
#define ORD_CURSOR v
#include "ordered_tree.h"

#define ORD_NAME cumulative
#define ORD_FIELDS(F) F(int64_t, v, sum) F(int64_t, pv, sum)
#define ORD_SEEK_1 v
#define ORD_CUMULATIVE 1
#include "ordered_tree.h"

#define ORD_NAME broad
#define ORD_FIELDS(F) F(int64_t, v, sum) F(int64_t, pv, sum)
#define ORD_SEEK_1 v
#define ORD_INNER 64
#define ORD_LEAF 64
#include "ordered_tree.h"

#define ORD_NAME exact
#define ORD_FIELDS(F) F(ord_i128, v, sum) F(ord_i128, pv, sum)
#define ORD_SEEK_1 v
#include "ordered_tree.h"

#define ORD_NAME real
#define ORD_FIELDS(F) F(double, v, sum) F(double, pv, sum)
#define ORD_SEEK_1 v
#include "ordered_tree.h"

#define FEN_NAME dense
#define FEN_FIELDS(F) F(int64_t, v, sum) F(int64_t, pv, sum)
#define FEN_SEEK_1 v
#include "fenwick.h"

#define ORD_NAME peaks
#define ORD_FIELDS(F) F(int64_t, m, max)
#define ORD_SEEK_1 m
#define ORD_SEEK_1_KIND max
#include "ordered_tree.h"

#define ORD_NAME shifting
#define ORD_FIELDS(F) F(int64_t, v, sum)
#include "rpai.h"

#define MULTI_NAME bag
#include "multiset.h"

#define RBST_NAME lazy
#define RBST_VALUE int64_t
#include "rbst.h"

typedef struct {
    int64_t key, level, other_key, other_level, n, v, pv;
} event;

static vl_arena arena;
static uint64_t state = 88172645463325252u;
static volatile int64_t sink;

static uint64_t draw(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}
static int64_t key_of(int64_t level) { return level * 16777619 - 5; }

enum { PASSES = 3 };
static int64_t size, levels, events;
static int64_t *live; /* volume per level, 0 = absent */
static event *seed, *stream[PASSES];
static int64_t seeds;
static const char *pattern;

static event change(int64_t level, int64_t n, int64_t v) {
    int64_t other = (int64_t)(draw() % (uint64_t)levels);
    return (event){key_of(level), level, key_of(other), other, n, v, v * (level % 1000)};
}

static void draw_events(void) {
    bool clustered = strcmp(pattern, "clustered") == 0;
    int64_t centre = levels / 2;
    live = calloc((size_t)levels, 8);
    seed = malloc((size_t)size * sizeof *seed);
    int64_t *order = malloc((size_t)levels * 8);
    for (int64_t i = 0; i < levels; i++) order[i] = i;
    for (int64_t i = levels - 1; i > 0; i--) {
        int64_t j = (int64_t)(draw() % (uint64_t)(i + 1)), x = order[i];
        order[i] = order[j];
        order[j] = x;
    }
    for (int64_t i = 0; i < size; i++) {
        live[order[i]] = 1 + (int64_t)(draw() % 100);
        seed[seeds++] = change(order[i], 1, live[order[i]]);
    }
    free(order);
    for (int p = 0; p < PASSES; p++) {
        stream[p] = malloc((size_t)events * sizeof *stream[p]);
        for (int64_t i = 0; i < events;) {
            int64_t level = (int64_t)(draw() % (uint64_t)levels);
            if (clustered) {
                int64_t away = (int64_t)(draw() % 48) * (int64_t)(draw() % 48) / 24;
                centre += (int64_t)(draw() % 3) - 1;
                level = ((centre + (draw() & 1 ? away : -away)) % levels + levels) % levels;
            }
            int64_t v = 1 + (int64_t)(draw() % 100);
            bool coin = draw() & 4;
            if (!live[level] && coin) {
                stream[p][i++] = change(level, 1, v);
                live[level] = v;
            } else if (live[level] && coin) {
                stream[p][i++] = change(level, -1, -live[level]);
                live[level] = 0;
            } else if (live[level]) {
                stream[p][i++] = change(level, 0, v - live[level]);
                live[level] = v;
            }
        }
    }
}

static void report(const char *structure, const char *operation, double best) {
    printf("%s;%lld;%s;%s;%.1f\n", pattern, (long long)size, structure, operation, best);
    fflush(stdout);
}

/* Runs the body for each event e of each pass on a freshly seeded structure t and reports the best pass. */
#define MEASURE(type, key_field, T, structure, operation, ...)                                   \
    {                                                                                            \
        type *t = calloc(1, sizeof *t);                                                          \
        for (int64_t s = 0; s < seeds; s++) {                                                    \
            type##_rec r = {.n = seed[s].n, .v = (T)seed[s].v, .pv = (T)seed[s].pv};             \
            type##_add(&arena, t, seed[s].key_field, &r, NULL);                                  \
        }                                                                                        \
        double best = 1e300;                                                                     \
        for (int p = 0; p < PASSES; p++) {                                                       \
            double start = now();                                                                \
            for (int64_t i = 0; i < events; i++) {                                               \
                const event *e = &stream[p][i];                                                  \
                type##_rec r = {.n = e->n, .v = (T)e->v, .pv = (T)e->pv};                        \
                type##_hit hit;                                                                  \
                (void)r, (void)hit;                                                              \
                __VA_ARGS__                                                                      \
            }                                                                                    \
            double took = (now() - start) / (double)events;                                      \
            if (took < best) best = took;                                                        \
        }                                                                                        \
        report(structure, operation, best);                                                      \
        type##_clear(&arena, t);                                                                 \
        free(t);                                                                                 \
    }

#define TIMED(structure, operation, ...)                             \
    {                                                                \
        double best = 1e300;                                         \
        for (int p = 0; p < PASSES; p++) {                           \
            double start = now();                                    \
            for (int64_t i = 0; i < events; i++) {                   \
                const event *e = &stream[p][i];                      \
                __VA_ARGS__                                          \
            }                                                        \
            double took = (now() - start) / (double)events;          \
            if (took < best) best = took;                            \
        }                                                            \
        report(structure, operation, best);                          \
    }

#define FAMILY(type, key_field, T, structure)                                                                \
    MEASURE(type, key_field, T, structure, "add", type##_add(&arena, t, e->key_field, &r, NULL);)            \
    MEASURE(type, key_field, T, structure, "add+descent", type##_add(&arena, t, e->key_field, &r, NULL);     \
            T bound = type##_total(&arena, t).v / 4 * 3;                                                     \
            if (type##_first_over_v(&arena, t, bound, &hit)) sink = (int64_t)hit.before.pv;)                 \
    MEASURE(type, key_field, T, structure, "add+range", type##_add(&arena, t, e->key_field, &r, NULL);       \
            int64_t from = e->key_field, to = e->other_##key_field;                                          \
            sink = (int64_t)type##_sum_range(&arena, t, from < to ? from : to, from < to ? to : from).pv;)

/* A bound below `total` that the event decides. */
static inline int64_t somewhere(const event *e, int64_t total) {
    return (int64_t)((uint64_t)e->other_key * 2654435761u % (uint64_t)total);
}

static void measure_reads(void) {
    MEASURE(plain, key, int64_t, "B16/32 plain", "prefix", sink = plain_sum_below(&arena, t, e->other_key).pv;)
    MEASURE(cumulative, key, int64_t, "B16/32 cumulative", "prefix",
            sink = cumulative_sum_below(&arena, t, e->other_key).pv;)
    MEASURE(plain, key, int64_t, "B16/32 plain", "random descent",
            if (plain_first_over_v(&arena, t, somewhere(e, plain_total(&arena, t).v), &hit)) sink = hit.before.pv;)
    MEASURE(cumulative, key, int64_t, "B16/32 cumulative", "random descent",
            if (cumulative_first_over_v(&arena, t, somewhere(e, cumulative_total(&arena, t).v), &hit)) sink =
                hit.before.pv;)
    MEASURE(plain, key, int64_t, "B16/32 plain", "successor", plain_path p;
            if (plain_above(&arena, t, e->other_key, &p)) sink = plain_path_key(&p);)
    MEASURE(plain, key, int64_t, "B16/32 plain", "k-th", int64_t n = plain_total(&arena, t).n;
            if (plain_first_over_n(&arena, t, (int64_t)((uint64_t)e->other_key % (uint64_t)n), &hit)) sink = hit.key;)
}

/* One event with the volume up to each price as a key of its own, under which the price's turnover lies: the keys of
 * this price and all above shift by the volume. A price that goes leaves before its key meets the one below. */
static void shift_level(plain *prices, shifting *upto, const event *e) {
    plain_rec own, change = {.n = e->n, .v = e->v, .pv = e->pv};
    plain_get(&arena, prices, e->key, &own);
    int64_t below = plain_sum_below(&arena, prices, e->key).v;
    shifting_rec turnover = {.n = e->n, .v = e->pv};
    if (e->n < 0) shifting_add(&arena, upto, below + own.v, &turnover, NULL);
    shifting_shift(&arena, upto, below, e->v);
    if (e->n >= 0) shifting_add(&arena, upto, below + own.v + e->v, &turnover, NULL);
    plain_add(&arena, prices, e->key, &change, NULL);
}

/* VWAP: the sum of price * volume above three quarters of the volume, after every event. */
static void measure_vwap(void) {
    int64_t descents = 0, shifts = 0;
    MEASURE(plain, key, int64_t, "B16/32 plain", "VWAP descent", plain_add(&arena, t, e->key, &r, NULL);
            plain_rec all = plain_total(&arena, t);
            sink = plain_first_over_v(&arena, t, all.v * 3 / 4, &hit) ? all.pv - hit.before.pv : 0;
            descents += sink;)
    plain *prices = calloc(1, sizeof *prices);
    shifting *upto = calloc(1, sizeof *upto);
    for (int64_t s = 0; s < seeds; s++) shift_level(prices, upto, &seed[s]);
    TIMED("B16/32 plain + RPAI B16/32", "VWAP key shift", shift_level(prices, upto, e);
          int64_t bound = plain_total(&arena, prices).v * 3 / 4;
          sink = shifting_total(&arena, upto).v - shifting_sum_through(&arena, upto, bound).v; shifts += sink;)
    if (descents != shifts) exit(3);
    plain_clear(&arena, prices);
    shifting_clear(&arena, upto);
    plain_cursor cursor;
    memset(&cursor, 0, sizeof cursor);
    plain_rec all = {0};
    for (int64_t s = 0; s < seeds; s++) all.v += seed[s].v, all.pv += seed[s].pv;
    MEASURE(plain, key, int64_t, "B16/32 plain", "VWAP cursor", plain_add(&arena, t, e->key, &r, NULL);
            plain_cursor_note(&cursor, e->key, &r); all.v += r.v; all.pv += r.pv;
            sink = plain_cursor_settle(&arena, t, &cursor, all.v * 3 / 4) ? all.pv - cursor.hit.before.pv : 0;)
    memset(&cursor, 0, sizeof cursor);
    memset(&all, 0, sizeof all);
    for (int64_t s = 0; s < seeds; s++) all.v += seed[s].v, all.pv += seed[s].pv;
    MEASURE(plain, key, int64_t, "B16/32 plain", "VWAP cursor, boundary crosses all",
            plain_add(&arena, t, e->key, &r, NULL);
            plain_cursor_note(&cursor, e->key, &r); all.v += r.v; all.pv += r.pv;
            int64_t bound = all.v / 10 * (i & 1 ? 1 : 9);
            sink = plain_cursor_settle(&arena, t, &cursor, bound) ? all.pv - cursor.hit.before.pv : 0;)
    MEASURE(dense, level, int64_t, "Fenwick", "VWAP descent", dense_add(&arena, t, e->level, &r, NULL);
            dense_rec sum = dense_total(&arena, t);
            sink = dense_first_over_v(&arena, t, sum.v * 3 / 4, &hit) ? sum.pv - hit.before.pv : 0;)
}

static void measure_rpai(void) {
    shifting *t = calloc(1, sizeof *t);
    for (int64_t s = 0; s < seeds; s++) {
        shifting_rec r = {.n = 1, .v = seed[s].v};
        shifting_add(&arena, t, seed[s].key, &r, NULL);
    }
    TIMED("RPAI B16/32", "getSum", sink = shifting_sum_through(&arena, t, e->other_key).v;)
    TIMED("RPAI B16/32", "add", shifting_rec r = {.n = 1}; r.v = e->v; shifting_add(&arena, t, e->key, &r, NULL);)
    TIMED("RPAI B16/32", "shift+ and shift-, each", shifting_shift(&arena, t, e->other_key, i & 1 ? -1 : 1);)
    report("RPAI B16/32", "bytes per key", (double)t->account.bytes / (double)t->size);
    shifting_clear(&arena, t);
    free(t);
}

static void measure_maxima(void) {
    peaks *t = calloc(1, sizeof *t);
    for (int64_t s = 0; s < seeds; s++) {
        peaks_rec r = {.n = 1, .m = seed[s].v};
        peaks_add(&arena, t, seed[s].key, &r, NULL);
    }
    TIMED("subtree max B16/32", "update", peaks_rec r = {.n = e->n}; r.m = e->v;
          peaks_add(&arena, t, e->key, &r, NULL);)
    peaks_hit hit;
    TIMED("subtree max B16/32", "first over", sink = peaks_first_over_m(&arena, t, 90 + e->other_key % 10, &hit);)
    peaks_clear(&arena, t);
    free(t);
    lazy *l = calloc(1, sizeof *l);
    for (int64_t s = 0; s < seeds; s++) lazy_insert(&arena, l, seed[s].key, seed[s].v, seed[s].v);
    int64_t last = key_of(levels);
    TIMED("range tree (treap)", "add_range", lazy_add_range(&arena, l, e->other_key, last, e->v);)
    TIMED("range tree (treap)", "raise_range", lazy_raise_range(&arena, l, e->other_key, last, e->v);)
    free(l);
}

/* Replace one value of a group, then read its least and greatest; `size` values in all. */
static void measure_multisets(int64_t per_group, const char *operation) {
    int64_t groups = size / per_group ? size / per_group : 1;
    bag *group = calloc((size_t)groups, sizeof *group);
    int64_t *value = malloc((size_t)(groups * per_group) * 8);
    vl_account account = {0};
    for (int64_t i = 0; i < groups * per_group; i++) {
        value[i] = (int64_t)(draw() >> 2);
        bag_add(&arena, &account, &group[i % groups], value[i], 1);
    }
    TIMED("multiset", operation, uint64_t at = (uint64_t)e->other_level % (uint64_t)(groups * per_group);
          bag *m = &group[at % (uint64_t)groups]; int64_t least = 0, greatest = 0, count;
          bag_add(&arena, &account, m, value[at], -1); value[at] ^= e->v; bag_add(&arena, &account, m, value[at], 1);
          bag_least(&arena, m, &least, &count); bag_greatest(&arena, m, &greatest, &count); sink = least + greatest;)
    for (int64_t i = 0; i < groups; i++) bag_clear(&arena, &account, &group[i]);
    free(group);
    free(value);
}

int main(int argc, char **argv) {
    static const uint8_t program[32] = {1};
    if (argc != 4 || vl_arena_create(&arena, 0, program)) return 2;
    pattern = argv[1];
    size = atoll(argv[2]);
    events = atoll(argv[3]);
    levels = 2 * size;
    draw_events();
    FAMILY(plain, key, int64_t, "B16/32 plain")
    FAMILY(cumulative, key, int64_t, "B16/32 cumulative")
    FAMILY(broad, key, int64_t, "B64/64 plain")
    FAMILY(exact, key, ord_i128, "B16/32 plain, int128")
    FAMILY(real, key, double, "B16/32 plain, double")
    FAMILY(dense, level, int64_t, "Fenwick")
    measure_reads();
    measure_vwap();
    measure_rpai();
    measure_maxima();
    measure_multisets(5, "replace+min+max, groups of 5");
    measure_multisets(100, "replace+min+max, groups of 100");
    measure_multisets(size, "replace+min+max, one group");
    return arena.errors != 0;
}
