/* Vectors of doubles as wide as the machine has them, and the ways in which kernels shuffle two of them.
   Wider ones would be taken apart by the compiler, their shuffles item by item. */

#ifndef VIEWLET_SIGNALS_VECTORS_H
#define VIEWLET_SIGNALS_VECTORS_H

#include <string.h>

typedef double v4 __attribute__((vector_size(32)));

#define LOAD(type, p) ({ type loaded; memcpy(&loaded, (p), sizeof loaded); loaded; })
#define STORE(p, v) do { __typeof__(v) stored = (v); memcpy((p), &stored, sizeof stored); } while (0)

#ifdef __AVX512F__

enum { LANES = 8 };
typedef double vec __attribute__((vector_size(64)));

#define EVENS(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define ODDS(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#define EVENS_BACK(a, b) __builtin_shufflevector(a, b, 14, 12, 10, 8, 6, 4, 2, 0)
#define ODDS_BACK(a, b) __builtin_shufflevector(a, b, 15, 13, 11, 9, 7, 5, 3, 1)
#define ZIP_LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define ZIP_PAIRS_LOW(a, b) __builtin_shufflevector(a, b, 0, 1, 8, 9, 2, 3, 10, 11)
#define ZIP_PAIRS_HIGH(a, b) __builtin_shufflevector(a, b, 4, 5, 12, 13, 6, 7, 14, 15)
#define BACK(a) __builtin_shufflevector(a, a, 7, 6, 5, 4, 3, 2, 1, 0)

/* Item j of x[i] and item i of x[j] change places. */
static inline void transpose(vec x[LANES]) {
    vec a[8], b[8];
    for (int i = 0; i < 8; i += 2) {
        a[i] = __builtin_shufflevector(x[i], x[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
        a[i + 1] = __builtin_shufflevector(x[i], x[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    }
    for (int i = 0; i < 8; i += 4)
        for (int l = 0; l < 2; l++) {
            b[i + l] = __builtin_shufflevector(a[i + l], a[i + l + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            b[i + l + 2] = __builtin_shufflevector(a[i + l], a[i + l + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    for (int i = 0; i < 4; i++) {
        x[i] = __builtin_shufflevector(b[i], b[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        x[i + 4] = __builtin_shufflevector(b[i], b[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

#else

enum { LANES = 4 };
typedef v4 vec;

#define EVENS(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define ODDS(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7)
#define EVENS_BACK(a, b) __builtin_shufflevector(a, b, 6, 4, 2, 0)
#define ODDS_BACK(a, b) __builtin_shufflevector(a, b, 7, 5, 3, 1)
#define ZIP_LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define ZIP_PAIRS_LOW(a, b) __builtin_shufflevector(a, b, 0, 1, 4, 5)
#define ZIP_PAIRS_HIGH(a, b) __builtin_shufflevector(a, b, 2, 3, 6, 7)
#define BACK(a) __builtin_shufflevector(a, a, 3, 2, 1, 0)

static inline void transpose(vec x[LANES]) {
    vec a[4];
    for (int i = 0; i < 4; i += 2) {
        a[i] = __builtin_shufflevector(x[i], x[i + 1], 0, 4, 2, 6);
        a[i + 1] = __builtin_shufflevector(x[i], x[i + 1], 1, 5, 3, 7);
    }
    for (int i = 0; i < 2; i++) {
        x[i] = __builtin_shufflevector(a[i], a[i + 2], 0, 1, 4, 5);
        x[i + 2] = __builtin_shufflevector(a[i], a[i + 2], 2, 3, 6, 7);
    }
}

#endif

#endif
