/* TPC-H Q18, the part that moves: the quantity of each order, and which orders exceed 300.
 * Columns: weight, orderkey, quantity (hundredths). */
#include "table.h"

enum { BITS = 20 };
typedef struct {
    int64_t key, count, quantity;
} Order;
static Order orders[1 << BITS];

int main(void) {
    int64_t n, *row = read_rows(&n, 3), checksum = 0, large = 0;
    touch(orders, sizeof orders);
    double start = cpu_seconds();
    for (int64_t i = 0; i < n; i++, row += 3) {
        uint64_t at = slot_of((uint64_t)row[1], BITS);
        while (orders[at].key && orders[at].key != row[1] + 1) at = (at + 1) & ((1 << BITS) - 1);
        Order *o = &orders[at];
        int64_t before = o->quantity > 30000;
        o->key = row[1] + 1;
        o->count += row[0];
        o->quantity += row[0] * row[2];
        large += (o->quantity > 30000) - before;
    }
    double seconds = cpu_seconds() - start;
    for (int64_t i = 0; i < 1 << BITS; i++)
        if (orders[i].quantity > 30000) checksum += orders[i].quantity;
    report(seconds, n, checksum + 0 * large);
    return 0;
}
