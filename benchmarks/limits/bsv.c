/* BSV: per broker, half the square of the sum of volume * price. Columns: weight, broker, volume, price. */
#include "table.h"

typedef struct {
    int64_t count, sum;
    __int128 square;
} Broker;

int main(void) {
    int64_t n, *row = read_rows(&n, 4), checksum = 0;
    static Broker brokers[1 << 10];
    double start = cpu_seconds();
    for (int64_t i = 0; i < n; i++, row += 4) {
        Broker *b = &brokers[row[1] & 1023];
        int64_t x = row[0] * row[2] * row[3];
        b->square += (__int128)2 * x * b->sum + (__int128)x * x;
        b->sum += x;
        b->count += row[0];
    }
    double seconds = cpu_seconds() - start;
    for (int i = 0; i < 1024; i++) checksum += (int64_t)(brokers[i].square / 2);
    report(seconds, n, checksum);
    return 0;
}
