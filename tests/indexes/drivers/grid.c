/* grid.c: amounts of DOUBLE, as two words of bits each, in units of grids; see test_native_grid.py. */
#include "grid.h"
#include "words.h"

static vl_pair take_pair(void) {
    int64_t bits[2] = {take_word(), take_word()};
    vl_pair x;
    memcpy(&x, bits, sizeof x);
    return x;
}
static void give_double(double x) {
    int64_t bits;
    memcpy(&bits, &x, sizeof bits);
    give_word(bits);
}

int main(void) {
    read_words();
    open_arena();
    vl_grid grid = {0};
    vl_extent extent = {0};
    vl_pair known = {0, 0};
    vl_i128 sum = 0;
    while (words_left) {
        int64_t op = take_word();
        vl_pair x = take_pair();
        vl_i128 units;
        switch (op) {
        case 0: vl_extent_take_pair(&extent, x); break;
        case 1: /* a grid over what was taken since the last */
            give_word(vl_grid_over(extent, &grid));
            give_word(grid.exponent);
            extent = (vl_extent){0};
            sum = 0;
            break;
        case 2:
            give_word(vl_grid_holds_pair(&grid, x, &units));
            give_wide(units);
            break;
        case 3: /* the amount that is known becomes x */
            units = vl_grid_moved(&grid, known, x);
            known = x;
            sum += units;
            give_wide(units);
            give_word((int64_t)grid.outside);
            give_double(vl_grid_value(&grid, sum));
            x = vl_grid_pair(&grid, sum);
            give_double(x.high);
            give_double(x.low);
            break;
        default: abort();
        }
    }
    return 0;
}
