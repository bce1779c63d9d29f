/* book.h: what the limit programs of the order book share: prefix sums over dense prices, and over any.
 *
 * A level holds the sums of its orders. Both structures answer the two questions that the queries ask: the
 * sums over all prices below one, and the first price at which the volume from below exceeds a bound.
 * With -DTREE the levels are kept in a wide-node tree (ordered_tree.h with 64-bit sums), else in a Fenwick
 * array over the prices that occur, which are 1 to `domain`.
 */
#ifndef LIMITS_BOOK_H
#define LIMITS_BOOK_H

#include "table.h"

typedef struct {
    int64_t n, volume, turnover;
} Level;

#ifdef TREE

#include "arena.h"
#define ORD_NAME levels
#define ORD_FIELDS(F) F(int64_t, volume, sum) F(int64_t, turnover, sum)
#define ORD_SEEK_1 volume
#include "ordered_tree.h"

static vl_arena arena;
typedef levels Book;

static inline void book_init(Book *b, int64_t domain) {
    (void)domain;
    static const uint8_t program[32];
    if (!arena.base && vl_arena_create(&arena, 0, program)) exit(3);
    memset(b, 0, sizeof *b);
}
static inline void book_add(Book *b, int64_t price, Level d) {
    levels_rec delta = {.n = d.n, .volume = d.volume, .turnover = d.turnover};
    levels_add(&arena, b, price, &delta, NULL);
}
static inline Level level_of(levels_rec r) { return (Level){r.n, r.volume, r.turnover}; }
static inline Level book_below(const Book *b, int64_t price) { return level_of(levels_sum_below(&arena, b, price)); }
static inline Level book_total(const Book *b) { return level_of(levels_total(&arena, b)); }
static inline int64_t book_first_over(const Book *b, int64_t bound, Level *before) {
    levels_hit hit;
    if (!levels_first_over_volume(&arena, b, bound, &hit)) return INT64_MAX;
    *before = level_of(hit.before);
    return hit.key;
}
static inline int64_t book_last(const Book *b, Level *own) {
    levels_path p;
    if (!levels_last(&arena, b, &p)) return INT64_MIN;
    *own = level_of(levels_path_rec(&p));
    return levels_path_key(&p);
}

#else

typedef struct {
    Level *sums, *own, total;
    int64_t size, last; /* a power of two; the greatest price with orders */
} Book;

static inline void book_init(Book *b, int64_t domain) {
    b->size = 1;
    while (b->size <= domain) b->size *= 2;
    size_t bytes = (size_t)(b->size + 1) * sizeof(Level);
    b->sums = calloc(1, bytes);
    b->own = calloc(1, bytes);
    if (!b->sums || !b->own) exit(3);
    touch(b->sums, bytes);
    touch(b->own, bytes);
    b->total = (Level){0, 0, 0};
    b->last = 0;
}
static inline void level_add(Level *x, Level d) {
    x->n += d.n;
    x->volume += d.volume;
    x->turnover += d.turnover;
}
static inline void book_add(Book *b, int64_t price, Level d) {
    level_add(&b->total, d);
    level_add(&b->own[price], d);
    for (int64_t i = price; i <= b->size; i += i & -i) level_add(&b->sums[i], d);
    if (price > b->last) b->last = price;
    while (b->last > 0 && b->own[b->last].n == 0) b->last--;
}
static inline Level book_below(const Book *b, int64_t price) {
    Level s = {0, 0, 0};
    if (price > b->size) return b->total;
    for (int64_t i = price - 1; i > 0; i -= i & -i) level_add(&s, b->sums[i]);
    return s;
}
static inline Level book_total(const Book *b) { return b->total; }
static inline int64_t book_first_over(const Book *b, int64_t bound, Level *before) {
    Level s = {0, 0, 0};
    int64_t at = 0;
    if (b->total.volume <= bound) return INT64_MAX;
    for (int64_t step = b->size; step > 0; step /= 2)
        if (at + step <= b->size && s.volume + b->sums[at + step].volume <= bound) {
            at += step;
            level_add(&s, b->sums[at]);
        }
    *before = s;
    return at + 1;
}
static inline int64_t book_last(const Book *b, Level *own) {
    *own = b->own[b->last];
    return b->last ? b->last : INT64_MIN;
}

#endif

/* VWAP's prices: those for which 0.25 of the volume exceeds the volume above, which must not be empty.
 * `from` is the least of them, `to` the greatest price (itself not among them); sums are those in between. */
static inline Level book_top_quarter(const Book *b, int64_t *from, int64_t *to) {
    Level all = book_total(b), before = {0, 0, 0}, last = {0, 0, 0};
    *to = book_last(b, &last);
    /* total / 4 > total - through   <=>   4 through > 3 total   <=>   through > floor(3 total / 4) */
    *from = book_first_over(b, all.volume * 3 / 4, &before);
    if (*from >= *to) return (Level){0, 0, 0};
    return (Level){all.n - before.n - last.n, all.volume - before.volume - last.volume,
                   all.turnover - before.turnover - last.turnover};
}

#endif
