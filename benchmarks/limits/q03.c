/* TPC-H Q3. Columns: table (0 customer, 1 orders, 2 lineitem), weight, then
 *   customer: custkey, is BUILDING; orders: orderkey, custkey, date, priority; lineitem: orderkey, date, price, discount
 * padded to six. An order keeps what both sides know of it, so that any order of arrival is right. */
#include "table.h"

enum { BITS = 20 };
typedef struct {
    int64_t key, orders, customer, lines, date, priority;
    int64_t revenue;
} Order;
typedef struct {
    int64_t key, count, first; /* first: head of the list of its orders */
} Customer;
static Order orders[1 << BITS];
static Customer customers[1 << BITS];
static int64_t next_order[1 << BITS];

static Order *order_at(int64_t key) {
    uint64_t i = slot_of((uint64_t)key, BITS);
    while (orders[i].key && orders[i].key != key + 1) i = (i + 1) & ((1 << BITS) - 1);
    orders[i].key = key + 1;
    return &orders[i];
}
static Customer *customer_at(int64_t key) {
    uint64_t i = slot_of((uint64_t)key, BITS);
    while (customers[i].key && customers[i].key != key + 1) i = (i + 1) & ((1 << BITS) - 1);
    customers[i].key = key + 1;
    return &customers[i];
}

int main(void) {
    int64_t n, *row = read_rows(&n, 6), checksum = 0, groups = 0;
    touch(orders, sizeof orders), touch(customers, sizeof customers), touch(next_order, sizeof next_order);
    double start = cpu_seconds();
    for (int64_t i = 0; i < n; i++, row += 6) {
        int64_t w = row[1];
        if (row[0] == 2) {
            if (row[3] <= 9204) continue;
            Order *o = order_at(row[2]);
            int64_t before = o->orders && o->customer && o->lines;
            o->lines += w;
            o->revenue += w * row[4] * (100 - row[5]);
            groups += (o->orders && o->customer && o->lines) - before;
        } else if (row[0] == 1) {
            if (row[4] >= 9204) continue;
            Order *o = order_at(row[2]);
            Customer *c = customer_at(row[3]);
            o->date = row[4];
            o->priority = row[5];
            if (!o->orders) {
                next_order[o - orders] = c->first;
                c->first = o - orders + 1;
            }
            o->orders += w;
            o->customer = c->count;
            groups += o->customer && o->lines;
        } else if (row[3]) {
            Customer *c = customer_at(row[2]);
            c->count += w;
            for (int64_t at = c->first; at; at = next_order[at - 1]) {
                orders[at - 1].customer = c->count;
                groups += orders[at - 1].lines != 0;
            }
        }
    }
    double seconds = cpu_seconds() - start;
    for (int64_t i = 0; i < 1 << BITS; i++)
        if (orders[i].orders && orders[i].customer && orders[i].lines) checksum += orders[i].revenue;
    report(seconds, n, checksum + 0 * groups);
    return 0;
}
