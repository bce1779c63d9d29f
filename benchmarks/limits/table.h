/* table.h: what the limit programs share: a fixed open-addressing table and the clock.
 *
 * A limit program is what an expert would write for one query by hand: no NULL, no generality, just the
 * sums. Input comes as columns in memory; after every event the result could be read. Usage:
 *   program < columns     with int64 words: n, then n rows of the program's columns, row by row
 * and one line out: nanoseconds of CPU per event, and a checksum of the result.
 */
#ifndef LIMITS_TABLE_H
#define LIMITS_TABLE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Reads all of the input: the number of rows, then the rows. */
static inline int64_t *read_rows(int64_t *rows, int width) {
    if (fread(rows, 8, 1, stdin) != 1) exit(2);
    int64_t *data = malloc((size_t)(*rows * width) * 8 + 8);
    if (!data || fread(data, 8, (size_t)(*rows * width), stdin) != (size_t)(*rows * width)) exit(2);
    return data;
}

/* Makes memory present before the clock starts. */
static inline void touch(void *memory, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 4096) ((volatile char *)memory)[i] = 0;
}

static inline void report(double seconds, int64_t events, int64_t checksum) {
    printf("%.3f %lld\n", seconds / (double)events * 1e9, (long long)checksum);
}

/* A slot for a key in a table of 2^bits entries; entries begin with their key, key -1 is free. */
static inline uint64_t slot_of(uint64_t key, int bits) { return key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - bits); }

#endif
