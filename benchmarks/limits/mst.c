/* MST: per broker, asks' turnover minus its own, over pairs in both top quarters.
 * Columns: side (0 bids, 1 asks), weight, broker, price, volume. */
#include "book.h"

enum { BROKERS = 64 };

int main(int count, char **arguments) {
    int64_t n, *row = read_rows(&n, 5), domain = 1, from[2] = {0}, to[2] = {0}, checksum = 0, result[BROKERS] = {0};
    for (int64_t i = 0; i < n; i++) domain = row[5 * i + 3] > domain ? row[5 * i + 3] : domain;
    static Book sides[2], own[BROKERS];
    Level asks = {0, 0, 0};
    int64_t brokers = 0;
    for (int i = 0; i < 2; i++) book_init(&sides[i], domain);
    for (int64_t i = 0; i < n; i++) brokers = row[5 * i + 2] >= brokers ? row[5 * i + 2] + 1 : brokers;
    if (brokers > BROKERS) return 4;
    for (int64_t i = 0; i < brokers; i++) book_init(&own[i], domain);
    int64_t untimed = count > 1 ? atoll(arguments[1]) : 0;
    double start = cpu_seconds();
    for (int64_t i = 0; i < n; i++, row += 5) {
        if (i == untimed) start = cpu_seconds();
        Level d = {row[1], row[1] * row[4], row[1] * row[3] * row[4]};
        int side = (int)row[0];
        book_add(&sides[side], row[3], d);
        if (side == 0) book_add(&own[row[2]], row[3], d);
        Level top = book_top_quarter(&sides[side], &from[side], &to[side]);
        if (side == 1) asks = top;
        for (int64_t b = 0; b < brokers; b++) {
            Level bids = {0, 0, 0};
            if (from[0] < to[0]) {
                Level low = book_below(&own[b], from[0]), high = book_below(&own[b], to[0]);
                bids = (Level){high.n - low.n, 0, high.turnover - low.turnover};
            }
            result[b] = asks.turnover * bids.n - bids.turnover * asks.n;
        }
        __asm__ volatile("" : : "r"(result) : "memory");
    }
    double seconds = cpu_seconds() - start;
    for (int64_t b = 0; b < brokers; b++) checksum += result[b];
    report(seconds, n - untimed, checksum);
    return 0;
}
