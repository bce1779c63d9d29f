/* TPC-H Q1. Columns: weight, shipdate, flag, status, quantity, extendedprice, discount, tax. */
#include "table.h"

typedef struct {
    int64_t count;
    __int128 quantity, price, discounted, charged, discount;
} Group;

int main(void) {
    int64_t n, *row = read_rows(&n, 8), checksum = 0;
    static Group groups[64];
    double start = cpu_seconds();
    for (int64_t i = 0; i < n; i++, row += 8) {
        if (row[1] > 10471) continue;
        Group *g = &groups[(row[2] * 8 + row[3]) & 63];
        int64_t w = row[0], less = row[5] * (100 - row[6]);
        g->count += w;
        g->quantity += w * row[4];
        g->price += w * row[5];
        g->discounted += w * less;
        g->charged += (__int128)less * (100 + row[7]) * w;
        g->discount += w * row[6];
    }
    double seconds = cpu_seconds() - start;
    for (int i = 0; i < 64; i++) checksum += (int64_t)groups[i].charged + groups[i].count;
    report(seconds, n, checksum);
    return 0;
}
