/* What the kernels of viewlet.signals share. Each handles all groups of a micro-batch in one call, and carries
   its state between calls.

   Conventions. A sample is `w` doubles (1 real, 2 complex, c channels). Keys are dense group numbers and
   index every state array. Runs are gap-free stretches: run r holds ticks first[r] .. first[r] + n - 1 of
   group key[r], n = ptr[r+1] - ptr[r], and its samples start at val + ptr[r] * w. Runs of one group come in
   time order. Every function has a NumPy twin of the same name in ../reference.py, which defines it. */

#ifndef VIEWLET_SIGNALS_KERNELS_H
#define VIEWLET_SIGNALS_KERNELS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "vectors.h"

typedef int64_t i64;

static inline i64 min_i64(i64 a, i64 b) { return a < b ? a : b; }
static inline i64 max_i64(i64 a, i64 b) { return a > b ? a : b; }

static inline i64 floor_div(i64 a, i64 b) {
    i64 q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}

static inline i64 ceil_div(i64 a, i64 b) { return -floor_div(-a, b); }

/* Runs in the making. */
struct writer { i64 runs, n, tick; i64 *key, *first, *ptr; };

/* Make room for one sample of `key` at `tick`, opening a run where it does not continue the last one. */
static inline i64 put(struct writer *out, i64 key, i64 tick) {
    if (out->runs == 0 || out->key[out->runs - 1] != key || out->tick != tick) {
        out->key[out->runs] = key;
        out->first[out->runs++] = tick;
    }
    out->tick = tick + 1;
    out->ptr[out->runs] = ++out->n;
    return out->n - 1;
}

/* ---- transforms of real windows (fft.c), for kernels that hold no array of them --------------------- */

enum { BATCH = 8 }; /* windows that are transformed together */

/* Scratch that transforms of windows of n samples work in, to be freed; NULL where there is no memory. */
double *room_for_windows(i64 n);

/* Half spectra of up to BATCH windows of n samples, n + 2 doubles each, side by side. */
void half_spectra(i64 rows, const double *const *x, i64 n, const double *table, const double *turn,
                  double *work, double *out);

/* Windows of n samples from half spectra. */
void real_windows(i64 rows, const double *x, i64 n, const double *table, const double *turn, double *work,
                  double *out);

#endif
