/* sums.c: sums that are dense or not, under the operations of test_native_sums.py. */
#include "words.h"

#define SUMS_NAME sums
#ifdef MARKS
#define SUMS_FIELDS(F) F(int64_t, v, sum) F(ord_i128, w, sum) F(int64_t, thrice, sum) /* four sums: added at once */
#define SUMS_MARKS
#else
#define SUMS_FIELDS(F) F(int64_t, v, sum) F(ord_i128, w, sum)
#endif
#include "ordered_sums.h"

static void give_rec(sums_rec r) {
#ifdef MARKS
    if (r.thrice != 3 * r.v) abort();
#endif
    give_word(r.n);
    give_word(r.v);
    give_wide(r.w);
}

int main(void) {
    read_words();
    open_arena();
    sums *t = calloc(1, sizeof *t);
    const uint64_t others = vl_head(&arena)->live;
    while (words_left) {
        int64_t op = take_word(), k = take_word();
        sums_rec r, found = sums_none();
        int64_t next;
        r.n = take_word();
        r.v = take_word();
        r.w = take_wide();
#ifdef MARKS
        r.thrice = 3 * r.v;
#endif
        switch (op) {
        case 0:
            sums_add(&arena, t, k, &r, &found);
            give_rec(found);
            break;
        case 1: give_rec(sums_total(&arena, t)); break;
        case 2: give_rec(sums_sum_below(&arena, t, k)); break;
        case 3: give_rec(sums_sum_through(&arena, t, k)); break;
        case 4: give_word((int64_t)sums_size(t)); break;
        case 5: give_word(t->is_dense); break;
        case 6: give_word(vl_head(&arena)->live - others == sums_bytes(t)); break;
        case 7:
            give_word(sums_get(&arena, t, k, &found));
            give_rec(found);
            break;
        case 8:
            if (!sums_following(&arena, t, &k, &next, &found)) next = k;
            give_word(next);
            give_rec(found);
            break;
        default: abort();
        }
        if (arena.errors) abort();
    }
    free(t);
    vl_arena_close(&arena);
    return 0;
}
