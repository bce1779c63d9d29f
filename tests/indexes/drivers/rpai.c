/* rpai.c: the shifting index under the operations of test_native_rpai.py. */
#include "words.h"

#define ORD_NAME aggr
#define ORD_FIELDS(F) F(int64_t, v, sum)
#ifdef WIDE
#define ORD_KEY_INT128
#define take_key take_wide
#define give_key give_wide
#else
#define take_key take_word
#define give_key give_word
#endif
#define ORD_CHECK
#include "rpai.h"

static void give_rec(aggr_rec r) {
    give_word(r.n);
    give_word(r.v);
}

int main(void) {
    read_words();
    open_arena();
    aggr *t = calloc(1, sizeof *t);
    while (words_left) {
        int64_t op = take_word();
        aggr_key k = take_key(), d = take_key();
        aggr_rec r = {0}, out;
        r.n = take_word();
        r.v = take_word();
        aggr_path p;
        switch (op) {
        case 0: aggr_add(&arena, t, k, &r, &out); break;
        case 1: aggr_put(&arena, t, k, &r); break;
        case 2: aggr_shift(&arena, t, k, d); break;
        case 3: aggr_shift_from(&arena, t, k, d); break;
        case 4: aggr_get(&arena, t, k, &out); give_rec(out); break;
        case 5: give_rec(aggr_sum_through(&arena, t, k)); break;
        case 6: give_rec(aggr_total(&arena, t)); break;
        case 7:
            give_word(aggr_check(&arena, t));
            give_word((int64_t)t->size);
            for (bool more = aggr_first(&arena, t, &p); more; more = aggr_next(&arena, t, &p)) {
                give_key(aggr_path_key(&p));
                give_rec(aggr_path_rec(&p));
            }
            break;
        case 8: give_word(arena.errors); break;
        default: abort();
        }
        if (op < 4) give_word(aggr_check(&arena, t));
    }
    free(t);
    vl_arena_close(&arena);
    return 0;
}
