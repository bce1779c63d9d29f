/* TPC-H Q18. Columns: table (0 customer, 1 orders, 2 lineitem), weight, then
 *   customer: custkey, number of its name; orders: orderkey, custkey, date, price; lineitem: orderkey, quantity
 * padded to six. An order keeps what both sides know of it, so that any order of arrival is right. */
#include "table.h"

enum { BITS = 20, LARGE = 30000 };
typedef struct {
    int64_t key, orders, customer, date, price;
    int64_t quantity;
} Order;
typedef struct {
    int64_t key, count, name, first; /* first: head of the list of its orders */
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
static int64_t is_row(const Order *o) { return o->orders && o->customer && o->quantity > LARGE; }

int main(void) {
    int64_t n, *row = read_rows(&n, 6), checksum = 0, rows = 0;
    touch(orders, sizeof orders), touch(customers, sizeof customers), touch(next_order, sizeof next_order);
    double start = cpu_seconds();
    for (int64_t i = 0; i < n; i++, row += 6) {
        int64_t w = row[1];
        if (row[0] == 2) {
            Order *o = order_at(row[2]);
            int64_t before = is_row(o);
            o->quantity += w * row[3];
            rows += is_row(o) - before;
        } else if (row[0] == 1) {
            Order *o = order_at(row[2]);
            Customer *c = customer_at(row[3]);
            int64_t before = is_row(o);
            o->date = row[4];
            o->price = row[5];
            if (!o->orders) {
                next_order[o - orders] = c->first;
                c->first = o - orders + 1;
            }
            o->orders += w;
            o->customer = c->count;
            rows += is_row(o) - before;
        } else {
            Customer *c = customer_at(row[2]);
            c->count += w;
            c->name = row[3];
            for (int64_t at = c->first; at; at = next_order[at - 1]) {
                int64_t before = is_row(&orders[at - 1]);
                orders[at - 1].customer = c->count;
                rows += is_row(&orders[at - 1]) - before;
            }
        }
    }
    double seconds = cpu_seconds() - start;
    for (int64_t i = 0; i < 1 << BITS; i++)
        if (is_row(&orders[i])) checksum += orders[i].quantity;
    report(seconds, n, checksum + 0 * rows);
    return 0;
}
