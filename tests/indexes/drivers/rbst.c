/* rbst.c: the range tree under the operations of test_native_rbst.py. */
#include "words.h"

#ifndef VALUE
#define VALUE int64_t
#endif
#define RBST_NAME range
#define RBST_VALUE VALUE
#include "rbst.h"

int main(void) {
    read_words();
    open_arena();
    range *t = calloc(1, sizeof *t);
    while (words_left) {
        int64_t op = take_word(), low = take_word(), high = take_word(), x = take_word(), y = take_word(), key = 0;
        VALUE sum = 0, peak = 0;
        switch (op) {
        case 0: give_word(range_insert(&arena, t, low, (VALUE)x, (VALUE)y)); break;
        case 1: give_word(range_remove(&arena, t, low)); break;
        case 2: range_add_range(&arena, t, low, high, (VALUE)x); break;
        case 3: range_raise_range(&arena, t, low, high, (VALUE)x); break;
        case 4:
            give_word(range_get(&arena, t, low, &sum, &peak));
            give_wide((ord_i128)sum);
            give_wide((ord_i128)peak);
            break;
        case 5: {
            bool found = range_read_range(&arena, t, low, high, &sum, &peak);
            give_word(found);
            give_wide((ord_i128)sum);
            give_wide(found ? (ord_i128)peak : 0);
            break;
        }
        case 6: give_word(range_first_peak_over(&arena, t, (VALUE)x, &key)); give_word(key); break;
        case 7: give_wide((ord_i128)range_sum_by_peak(&arena, t, (VALUE)x)); break;
        case 8: give_word(range_size(&arena, t)); give_word((int64_t)(t->account.blocks)); break;
        default: abort();
        }
        if (arena.errors) abort();
    }
    free(t);
    vl_arena_close(&arena);
    return 0;
}
