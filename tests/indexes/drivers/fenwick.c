/* fenwick.c: the dense form under the operations of test_native_dense.py. */
#include "words.h"

#define FEN_NAME dense
#define FEN_FIELDS(F) F(int64_t, v, sum) F(ord_i128, w, sum)
#define FEN_SEEK_1 v
#include "fenwick.h"

static void give_rec(dense_rec r) {
    give_word(r.n);
    give_word(r.v);
    give_wide(r.w);
}
static void give_hit(bool found, const dense_hit *hit) {
    give_word(found);
    if (!found) return;
    give_word(hit->key);
    give_rec(hit->before);
}

int main(void) {
    read_words();
    open_arena();
    dense *f = calloc(1, sizeof *f);
    while (words_left) {
        int64_t op = take_word(), k = take_word(), high = take_word();
        dense_rec r, out;
        r.n = take_word();
        r.v = take_word();
        r.w = take_wide();
        dense_hit hit;
        switch (op) {
        case 0: dense_add(&arena, f, k, &r, &out); give_rec(out); break;
        case 1: give_word(dense_get(&arena, f, k, &out)); give_rec(out); break;
        case 2: give_rec(dense_total(&arena, f)); break;
        case 3: give_rec(dense_sum_below(&arena, f, k)); break;
        case 4: give_rec(dense_sum_through(&arena, f, k)); break;
        case 5: give_rec(dense_sum_from(&arena, f, k)); break;
        case 6: give_rec(dense_sum_range(&arena, f, k, high)); break;
        case 7: give_hit(dense_first_over_v(&arena, f, r.v, &hit), &hit); break;
        case 8: give_hit(dense_first_reaching_v(&arena, f, r.v, &hit), &hit); break;
        case 9: give_hit(dense_first_over_n(&arena, f, r.n, &hit), &hit); break;
        case 10: give_word((int64_t)f->size); break;
        case 11: dense_clear(&arena, f); give_word((int64_t)f->account.bytes); break;
        default: abort();
        }
        if (arena.errors) abort();
    }
    free(f);
    vl_arena_close(&arena);
    return 0;
}
