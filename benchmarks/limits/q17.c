/* TPC-H Q17. Columns: table (0 part, 1 lineitem), weight, partkey, then
 *   part: is of the brand and container; lineitem: quantity, extendedprice (hundredths)
 * padded to five. Quantities are 1 to 50: a part keeps the prices by quantity and sums those below the edge. */
#include "table.h"

enum { BITS = 18, QUANTITIES = 51 };
typedef struct {
    int64_t key, chosen, count, quantity, below; /* below: prices of lines under a fifth of the average */
    int64_t prices[QUANTITIES];
} Part;
static Part parts[1 << BITS];

static Part *part_at(int64_t key) {
    uint64_t i = slot_of((uint64_t)key, BITS);
    while (parts[i].key && parts[i].key != key + 1) i = (i + 1) & ((1 << BITS) - 1);
    parts[i].key = key + 1;
    return &parts[i];
}

int main(void) {
    int64_t n, *row = read_rows(&n, 5), result = 0;
    touch(parts, sizeof parts);
    double start = cpu_seconds();
    for (int64_t i = 0; i < n; i++, row += 5) {
        Part *p = part_at(row[2]);
        if (row[0] == 0) {
            if (!row[3]) continue;
            p->chosen += row[1];
            result += row[1] * p->below;
            continue;
        }
        int64_t quantity = row[3] / 100, below = 0;
        p->count += row[1];
        p->quantity += row[1] * quantity;
        p->prices[quantity] += row[1] * row[4];
        for (int64_t q = 1; q < QUANTITIES && 5 * q * p->count < p->quantity; q++) below += p->prices[q];
        result += p->chosen * (below - p->below);
        p->below = below;
        __asm__ volatile("" : : "r"(&result) : "memory"); /* the result is readable after every event */
    }
    report(cpu_seconds() - start, n, result);
    return 0;
}
