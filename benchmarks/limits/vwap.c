/* VWAP: turnover of the top quarter of bids by volume. Columns: weight, price, volume. */
#include "book.h"

int main(int count, char **arguments) {
    int64_t n, *row = read_rows(&n, 3), domain = 1, from, to, checksum = 0;
    for (int64_t i = 0; i < n; i++) domain = row[3 * i + 1] > domain ? row[3 * i + 1] : domain;
    Book bids;
    book_init(&bids, domain);
    int64_t untimed = count > 1 ? atoll(arguments[1]) : 0;
    double start = cpu_seconds();
    for (int64_t i = 0; i < n; i++, row += 3) {
        if (i == untimed) start = cpu_seconds();
        book_add(&bids, row[1], (Level){row[0], row[0] * row[2], row[0] * row[1] * row[2]});
        checksum = book_top_quarter(&bids, &from, &to).turnover;
        __asm__ volatile("" : : "r"(checksum));
    }
    report(cpu_seconds() - start, n - untimed, checksum);
    return 0;
}
