/* What every test driver shares: int64 words in on stdin, int64 words out on stdout. */
#ifndef DRIVER_H
#define DRIVER_H

#include "arena.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct {
    int64_t *words;
    size_t n, at;
} input;

static inline input read_input(void) {
    input in = {malloc(1 << 16), 0, 0};
    size_t room = (1 << 16) / 8, got;
    while ((got = fread(in.words + in.n, 8, room - in.n, stdin)) > 0) {
        in.n += got;
        if (in.n == room) in.words = realloc(in.words, (room *= 2) * 8);
    }
    return in;
}

static inline bool more(const input *in) { return in->at < in->n; }
static inline int64_t take(input *in) {
    if (in->at >= in->n) abort();
    return in->words[in->at++];
}
static inline double take_double(input *in) {
    int64_t word = take(in);
    double x;
    memcpy(&x, &word, 8);
    return x;
}
static inline void give(int64_t word) { fwrite(&word, 8, 1, stdout); }
static inline void give_double(double x) { fwrite(&x, 8, 1, stdout); }

static const uint8_t PROGRAM[32] = "test program";

static inline void require(bool ok, const char *what) {
    if (ok) return;
    fprintf(stderr, "driver: %s\n", what);
    exit(3);
}

#endif
