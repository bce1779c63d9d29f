/* tree.c: an ordered tree under the operations of test_native_tree.py. The build says the shape:
 * V and W are the types of two sums, M adds a maximum, PAIR and TRIPLE choose composite keys, REAL keys
 * that are doubles. */
#include "words.h"

#ifndef V
#define V int64_t
#endif
#ifndef W
#define W ord_i128
#endif

#define ORD_NAME tree
#ifdef M
#define ORD_FIELDS(F) F(V, v, sum) F(W, w, sum) F(int64_t, m, max)
#define ORD_SEEK_2 m
#define ORD_SEEK_2_KIND max
#else
#define ORD_FIELDS(F) F(V, v, sum) F(W, w, sum)
#endif
#ifdef PAIR
#define ORD_KEY_INT128
#endif
#ifdef TRIPLE
#define ORD_KEY_WORDS 3
#endif
#ifdef CURSOR
#define ORD_CURSOR v
#endif
#define ORD_SEEK_1 v
#define ORD_CHECK
#include "ordered_tree.h"

static tree_key take_key(void) {
    int64_t a = take_word(), b = take_word(), c = take_word();
#if defined PAIR
    (void)c;
    return ord_key_of_pair(a, b);
#elif defined TRIPLE
    return (tree_key){{a, b, c}};
#elif defined REAL
    double x;
    (void)b, (void)c;
    memcpy(&x, &a, 8);
    return ord_key_of_double(x);
#else
    (void)b, (void)c;
    return a;
#endif
}

static void give_key(tree_key k) {
#if defined PAIR
    give_word(ord_pair_slice(k)), give_word(ord_pair_key(k)), give_word(0);
#elif defined TRIPLE
    give_word(k.word[0]), give_word(k.word[1]), give_word(k.word[2]);
#elif defined REAL
    double x = ord_double_of_key(k);
    int64_t bits;
    memcpy(&bits, &x, 8);
    give_word(bits), give_word(0), give_word(0);
#else
    give_word(k), give_word(0), give_word(0);
#endif
}

/* Double sums travel as integers: the tests use integral values that doubles hold exactly. */
static tree_rec take_rec(void) {
    tree_rec r;
    r.n = take_word();
    r.v = (V)take_wide();
    r.w = (W)take_wide();
    int64_t m = take_word();
    (void)m;
#ifdef M
    r.m = m;
#endif
    return r;
}
static void give_rec(tree_rec r) {
    give_word(r.n);
    give_wide((ord_i128)r.v);
    give_wide((ord_i128)r.w);
#ifdef M
    give_word(r.m);
#else
    give_word(INT64_MIN);
#endif
}

static void give_hit(bool found, const tree_hit *hit) {
    give_word(found);
    if (!found) return;
    give_key(hit->key);
    give_rec(hit->before);
}
static void give_path(bool found, const tree_path *p) {
    give_word(found);
    if (!found) return;
    give_key(tree_path_key(p));
    give_rec(tree_path_rec(p));
}

int main(void) {
    read_words();
    open_arena();
    tree *t = calloc(1, sizeof *t);
#ifdef CURSOR
    tree_cursor cursor = {0};
#endif
    while (words_left) {
        int64_t op = take_word();
        tree_key k = take_key(), high = take_key();
        tree_rec r = take_rec(), old;
        V bound = r.v;
        tree_hit hit;
        tree_path p;
        switch (op) {
        case 0:
            tree_add(&arena, t, k, &r, &old);
            give_rec(old);
#ifdef CURSOR
            tree_cursor_note(&cursor, k, &r);
#endif
            break;
        case 1: give_word(tree_get(&arena, t, k, &old)); give_rec(old); break;
        case 2: give_rec(tree_total(&arena, t)); break;
        case 3: give_rec(tree_sum_below(&arena, t, k)); break;
        case 4: give_rec(tree_sum_through(&arena, t, k)); break;
        case 5: give_rec(tree_sum_from(&arena, t, k)); break;
        case 6: give_rec(tree_sum_range(&arena, t, k, high)); break;
        case 7: give_hit(tree_first_over_v(&arena, t, bound, &hit), &hit); break;
        case 8: give_hit(tree_first_reaching_v(&arena, t, bound, &hit), &hit); break;
        case 9: give_hit(tree_last_over_v(&arena, t, bound, &hit), &hit); break;
        case 10: give_hit(tree_last_reaching_v(&arena, t, bound, &hit), &hit); break;
        case 11: give_hit(tree_first_over_from_v(&arena, t, k, bound, &hit), &hit); break;
        case 12: give_hit(tree_first_over_n(&arena, t, r.n, &hit), &hit); break;
        case 13: give_path(tree_at_least(&arena, t, k, &p), &p); break;
        case 14: give_path(tree_above(&arena, t, k, &p), &p); break;
        case 15: give_path(tree_at_most(&arena, t, k, &p), &p); break;
        case 16: give_path(tree_below(&arena, t, k, &p), &p); break;
        case 17: give_path(tree_first(&arena, t, &p), &p); break;
        case 18: give_path(tree_last(&arena, t, &p), &p); break;
        case 19: /* everything, in order, and back */
            give_word((int64_t)t->size);
            for (bool more = tree_first(&arena, t, &p); more; more = tree_next(&arena, t, &p)) give_path(true, &p);
            for (bool more = tree_last(&arena, t, &p); more; more = tree_previous(&arena, t, &p))
                give_key(tree_path_key(&p));
            break;
        case 20: give_word(tree_check(&arena, t)); break;
        case 21: give_word(tree_take(&arena, t, k, &old)); give_rec(old); break;
        case 22:
            tree_clear(&arena, t);
            give_word((int64_t)t->account.bytes);
#ifdef CURSOR
            cursor.known = 0;
#endif
            break;
#ifdef M
        case 23: give_hit(tree_first_over_m(&arena, t, r.m, &hit), &hit); break;
        case 24: give_hit(tree_first_over_from_m(&arena, t, k, r.m, &hit), &hit); break;
#endif
#ifdef CURSOR
        case 25: give_hit(tree_cursor_settle(&arena, t, &cursor, bound), &cursor.hit); break;
        case 26: give_word((int64_t)cursor.descents); break;
#endif
        case 27: give_word(arena.errors); break;
        default: abort();
        }
        if (arena.errors && !LIMIT) abort();
    }
    free(t);
    vl_arena_close(&arena);
    return 0;
}
