/* Digital filters: what they keep between calls is in the difference equation. */

#include "kernels.h"

/* y[m] = sum_j taps[j] * x[m - j * w] over m outputs; x points at the sample of the first output. */
static void convolve(const double *restrict taps, i64 size, const double *restrict x, i64 m, i64 w,
                     double *restrict y) {
    i64 i = 0;
    for (; i + 32 <= m; i += 32) {
        double acc[32] = {0};
        for (i64 j = 0; j < size; j++) {
            const double *p = x + i - j * w;
            double tap = taps[j];
            for (int l = 0; l < 32; l++) acc[l] += tap * p[l];
        }
        memcpy(y + i, acc, sizeof acc);
    }
    for (; i + 8 <= m; i += 8) {
        double acc[8] = {0};
        for (i64 j = 0; j < size; j++) {
            const double *p = x + i - j * w;
            double tap = taps[j];
            for (int l = 0; l < 8; l++) acc[l] += tap * p[l];
        }
        memcpy(y + i, acc, sizeof acc);
    }
    for (; i < m; i++) {
        double acc = 0;
        for (i64 j = 0; j < size; j++) acc += taps[j] * x[i - j * w];
        y[i] = acc;
    }
}

static int all_finite(const double *x, i64 n) {
    double sum = 0;
    for (i64 i = 0; i < n; i++) sum += x[i] * 0.0; /* infinity times zero is not a number */
    return sum == 0;
}

i64 vs_overlap_save(const double *history, i64 keep, const double *x, i64 m, i64 w, i64 n,
                    const double *response, const double *table, double *out); /* in fft.c */

/* FIR: y[n] = sum_j taps[j] x[n - j], missing samples counting as zero. `history` holds the last size - 1
   samples of each group, oldest first; `last` its last tick; `filled` how many ticks without a gap precede.
   With n > 0, runs of at least n / 2 samples go through the spectrum, in blocks of n, unless a sample is
   infinite or not a number: in the spectrum it would be felt before its time. */
i64 vs_fir(i64 runs, const i64 *key, const i64 *first, const i64 *ptr, const double *val, i64 w,
           const double *taps, i64 size, i64 n, const double *response, const double *table, i64 *seen,
           i64 *last, i64 *filled, double *history, double *out, i64 *lead) {
    i64 keep = (size - 1) * w, block = max_i64(4 * size, 1024), longest = 0;
    for (i64 r = 0; r < runs; r++) longest = max_i64(longest, ptr[r + 1] - ptr[r]);
    block = min_i64(block, max_i64(longest, 1));
    double *x = malloc((size_t)(keep + block * w + 1) * sizeof *x);
    i64 failed = x ? 0 : -1;
    for (i64 r = 0; r < runs && !failed; r++) {
        i64 k = key[r], m = ptr[r + 1] - ptr[r], gap = seen[k] ? first[r] - last[k] - 1 : size;
        double *h = history + k * keep, *y = out + ptr[r] * w;
        const double *v = val + ptr[r] * w;
        if (gap > 0) {
            i64 kept = max_i64(0, size - 1 - gap) * w;
            memmove(h, h + keep - kept, (size_t)kept * 8);
            memset(h + kept, 0, (size_t)(keep - kept) * 8);
            filled[k] = 0;
        }
        lead[r] = min_i64(m, max_i64(0, size - 1 - filled[k]));
        if (n && 2 * m >= n && all_finite(h, keep) && all_finite(v, m * w)) {
            failed = vs_overlap_save(h, size - 1, v, m, w, n, response, table, y);
            i64 fresh = min_i64(m * w, keep);
            memmove(h, h + fresh, (size_t)(keep - fresh) * 8);
            memcpy(h + keep - fresh, v + m * w - fresh, (size_t)fresh * 8);
        } else {
            memcpy(x, h, (size_t)keep * 8);
            for (i64 i = 0; i < m; i += block) {
                i64 part = min_i64(block, m - i) * w;
                memcpy(x + keep, v + i * w, (size_t)part * 8);
                convolve(taps, size, x + keep, part, w, y + i * w);
                if (i + block < m) memmove(x, x + part, (size_t)keep * 8);
                else memcpy(h, x + part, (size_t)keep * 8);
            }
        }
        filled[k] = min_i64(size, filled[k] + m);
        last[k] = first[r] + m - 1;
        seen[k] = 1;
    }
    free(x);
    return failed;
}

/* z <- M^gap z through the powers M^(2^j), j = 0..62, of the zero-input transition of a linear filter. */
static void fast_forward(double *z, i64 order, i64 w, i64 gap, const double *powers, double *scratch) {
    for (i64 j = 0; gap; j++, gap >>= 1) {
        if (!(gap & 1)) continue;
        const double *m = powers + j * order * order;
        for (i64 i = 0; i < order; i++)
            for (i64 c = 0; c < w; c++) {
                double sum = 0;
                for (i64 l = 0; l < order; l++) sum += m[i * order + l] * z[l * w + c];
                scratch[i * w + c] = sum;
            }
        memcpy(z, scratch, (size_t)(order * w) * 8);
    }
}

/* A cascade of `sections` rational filters in transposed direct form II, each of `order` delays:
   y[n] = b0 x[n] + z0, z_i <- b_{i+1} x - a_{i+1} y + z_{i+1}. One section of any order is lfilter, several
   of order 2 are sosfilt. State z[group][section][order][w]. */
i64 vs_rational(i64 runs, const i64 *key, const i64 *first, const i64 *ptr, const double *val, i64 w,
                i64 sections, i64 order, const double *b, const double *a, const double *powers, i64 *seen,
                i64 *last, double *z, double *out) {
    i64 total = sections * order;
    double *scratch = malloc((size_t)(total * w + 1) * sizeof *scratch);
    if (!scratch) return -1;
    for (i64 r = 0; r < runs; r++) {
        i64 k = key[r], n = ptr[r + 1] - ptr[r];
        double *state = z + k * total * w;
        if (seen[k] && first[r] > last[k] + 1)
            fast_forward(state, total, w, first[r] - last[k] - 1, powers, scratch);
        for (i64 i = ptr[r]; i < ptr[r + 1]; i++)
            for (i64 c = 0; c < w; c++) {
                double x = val[i * w + c];
                for (i64 s = 0; s < sections; s++) {
                    const double *bs = b + s * (order + 1), *as = a + s * (order + 1);
                    double *d = state + s * order * w + c;
                    double y = bs[0] * x + (order ? d[0] : 0.0);
                    for (i64 l = 0; l < order; l++)
                        d[l * w] = bs[l + 1] * x - as[l + 1] * y + (l + 1 < order ? d[(l + 1) * w] : 0.0);
                    x = y;
                }
                out[i * w + c] = x;
            }
        last[k] = first[r] + n - 1;
        seen[k] = 1;
    }
    free(scratch);
    return 0;
}
