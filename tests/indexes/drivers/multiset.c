/* multiset.c: several groups under the operations of test_native_multiset.py. */
#include "words.h"

#define MULTI_NAME bag
#ifdef PAIR
#define ORD_KEY_INT128
#define take_key take_wide
#define give_key give_wide
#else
#define take_key take_word
#define give_key give_word
#endif
#define ORD_CHECK
#include "multiset.h"

enum { GROUPS = 4 };

int main(void) {
    read_words();
    open_arena();
    bag group[GROUPS] = {0};
    vl_account account = {0};
    while (words_left) {
        int64_t op = take_word();
        bag *m = &group[take_word()];
        bag_key k = take_key(), out = 0;
        int64_t weight = take_word(), count = 0;
        bool found = false;
        switch (op) {
        case 0: bag_add(&arena, &account, m, k, weight); break;
        case 1: found = bag_least(&arena, m, &out, &count); break;
        case 2: found = bag_greatest(&arena, m, &out, &count); break;
        case 3: found = bag_above(&arena, m, k, &out, &count); break;
        case 4: found = bag_below(&arena, m, k, &out, &count); break;
        case 5: count = bag_count(&arena, m, k); break;
        case 6: found = bag_kth(&arena, m, weight, &out); break;
        case 7: count = m->n, found = m->distinct != 0; break;
        case 8: bag_clear(&arena, &account, m); break;
        case 9: give_word((int64_t)account.bytes); continue;
        case 10: give_word(m->capacity); continue;
        default: abort();
        }
        if (m->capacity == bag_is_tree && bag_tree_check(&arena, &m->as.tree)) abort();
        give_word(found);
        give_key(found && op != 7 ? out : 0);
        give_word(count);
        if (arena.errors) abort();
    }
    vl_arena_close(&arena);
    return 0;
}
