/* PSP: sum of ask price minus bid price over pairs of orders each above 1/10000 of its side's volume.
 * Columns: side (0 bids, 1 asks), weight, price, volume. Levels are volumes here, and turnover sums prices. */
#include "book.h"

int main(int count, char **arguments) {
    int64_t n, *row = read_rows(&n, 4), domain = 1, checksum = 0;
    for (int64_t i = 0; i < n; i++) domain = row[4 * i + 3] > domain ? row[4 * i + 3] : domain;
    static Book sides[2];
    int64_t volume[2] = {0, 0};
    Level above[2] = {{0, 0, 0}, {0, 0, 0}};
    for (int i = 0; i < 2; i++) book_init(&sides[i], domain);
    int64_t untimed = count > 1 ? atoll(arguments[1]) : 0;
    double start = cpu_seconds();
    for (int64_t i = 0; i < n; i++, row += 4) {
        if (i == untimed) start = cpu_seconds();
        int side = (int)row[0];
        book_add(&sides[side], row[3], (Level){row[1], 0, row[1] * row[2]});
        volume[side] += row[1] * row[3];
        Level all = book_total(&sides[side]), low = book_below(&sides[side], volume[side] / 10000 + 1);
        above[side] = (Level){all.n - low.n, 0, all.turnover - low.turnover};
        checksum = above[1].turnover * above[0].n - above[0].turnover * above[1].n;
        __asm__ volatile("" : : "r"(checksum));
    }
    report(cpu_seconds() - start, n - untimed, checksum);
    return 0;
}
