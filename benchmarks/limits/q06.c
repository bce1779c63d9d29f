/* TPC-H Q6. Columns: weight, shipdate, discount, quantity, extendedprice (hundredths). */
#include "table.h"

int main(void) {
    int64_t n, *row = read_rows(&n, 5);
    __int128 revenue = 0;
    double start = cpu_seconds();
    for (int64_t i = 0; i < n; i++, row += 5) {
        if (row[1] >= 8766 && row[1] < 9131 && row[2] >= 5 && row[2] <= 7 && row[3] < 2400)
            revenue += (__int128)(row[4] * row[2]) * row[0];
        __asm__ volatile("" : : "r"(&revenue) : "memory"); /* the result is readable after every event */
    }
    report(cpu_seconds() - start, n, (int64_t)revenue);
    return 0;
}
