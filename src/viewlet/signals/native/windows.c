/* Samples to windows and back. */

#include "kernels.h"

struct span { i64 tick, n; const double *val; };   /* samples at ticks tick .. tick + n - 1 */

/* Copy what `src` holds of ticks [tick, tick + n) to dst, which starts at `tick`. */
static inline void copy_overlap(double *dst, i64 tick, i64 n, struct span src, i64 w) {
    i64 from = max_i64(tick, src.tick), to = min_i64(tick + n, src.tick + src.n);
    if (from < to)
        memcpy(dst + (from - tick) * w, src.val + (from - src.tick) * w, (size_t)((to - from) * w) * 8);
}

/* Ticks [tick, tick + n) from the carried samples and the new run; zero where neither has a sample. */
static inline void fill(double *dst, i64 tick, i64 n, struct span carried, struct span run, i64 w) {
    if (tick < run.tick || tick + n > run.tick + run.n) {
        memset(dst, 0, (size_t)(n * w) * 8);
        copy_overlap(dst, tick, n, carried, w);
    }
    copy_overlap(dst, tick, n, run, w);
}

/* X[k] = sum_n x[n] exp(-2 pi i k n / size), directly: the seed of the sliding transform. */
static void seed(const double *x, i64 size, i64 bins, const double *c, const double *s, double *re,
                 double *im) {
    for (i64 k = 0; k < bins; k++) {
        double a = 0, b = 0;
        for (i64 n = 0, phase = 0; n < size; n++, phase = (phase + k) % size) {
            a += x[n] * c[phase];
            b -= x[n] * s[phase];
        }
        re[k] = a;
        im[k] = b;
    }
}

/* X'[k] = (X[k] + new - old) exp(2 pi i k / size): the window moves by one sample. */
static void slide(double change, i64 bins, const double *restrict c, const double *restrict s,
                  double *restrict re, double *restrict im) {
    for (i64 k = 0; k < bins; k++) {
        double a = re[k] + change, b = im[k];
        re[k] = a * c[k] - b * s[k];
        im[k] = a * s[k] + b * c[k];
    }
}

/* Hopping windows of `size` samples at starts that are multiples of `hop`. With zeros = 1 every window that
   holds at least one sample fires, missing ones being zero; with zeros = 0 only gap-free windows fire. A run
   of no samples at tick f means that no sample before f will come any more.

   Rows hold `back` samples before the window (the old delta) and then the window. With `bins` > 0 a row is
   instead the spectrum of the window, slid from the previous one (w = 1). `carry` keeps, per group, the
   samples from `next start - hop` on. Stops when `capacity` rows would not suffice; returns rows, and in
   *done the runs consumed. */
i64 vs_window(i64 runs, const i64 *key, const i64 *first, const i64 *ptr, const double *val, i64 w, i64 size,
              i64 hop, i64 zeros, i64 back, i64 capacity, i64 *seen, i64 *next, i64 *last, i64 *origin,
              i64 *solid, i64 *carry_tick, i64 *carry_n, double *carry, i64 bins, i64 reseed,
              const double *cosine, const double *sine, double *re, double *im, i64 *previous, i64 *out_key,
              i64 *out_first, i64 *out_lo, i64 *out_hi, i64 *out_fresh, double *out, i64 *done) {
    i64 rows = 0, room = size + hop, r;
    double *scratch = malloc((size_t)(room * w) * sizeof *scratch);
    if (!scratch) return -1;
    for (r = 0; r < runs; r++) {
        i64 k = key[r], f = first[r], n = ptr[r + 1] - ptr[r];
        if (rows + n / hop + size / hop + 2 > capacity) break;
        if (!seen[k]) {
            if (n == 0) continue;
            seen[k] = 1;
            origin[k] = solid[k] = f;
            next[k] = zeros ? ceil_div(f - size + 1, hop) * hop : ceil_div(f, hop) * hop;
            last[k] = f - 1;
            carry_n[k] = 0;
            carry_tick[k] = f;
            previous[k] = INT64_MIN;
        }
        if (n == 0 && !zeros) continue;
        double *kept = carry + k * room * w;
        struct span carried = {carry_tick[k], carry_n[k], kept}, run = {f, n, val + ptr[r] * w};
        i64 frontier = f + n - 1;
        if (n && f > last[k] + 1) solid[k] = f;
        for (;; next[k] += hop) {
            i64 s = next[k];
            if (s + size - 1 > frontier) break;
            int holds = zeros ? s <= last[k] || (n && s + size > f) : s >= solid[k];
            if (!holds) { /* jump over windows that lie wholly in a gap, or that a gap breaks */
                if (n == 0) break;
                i64 jump = ceil_div(zeros ? f - size + 1 : solid[k], hop) * hop;
                next[k] = max_i64(jump, s + hop) - hop;
                continue;
            }
            out_key[rows] = k;
            out_first[rows] = s;
            out_lo[rows] = max_i64(s, origin[k]);
            out_hi[rows] = min_i64(s + size - 1, n && s + size > f ? frontier : last[k]);
            if (bins > 0) {
                double *x = re + k * bins, *y = im + k * bins, *row = out + rows * 2 * bins;
                if (hop <= size && previous[k] == s - hop && floor_div(s, hop) % reseed != 0) {
                    fill(scratch, s - hop, hop, carried, run, 1);
                    fill(scratch + hop, s + size - hop, hop, carried, run, 1);
                    for (i64 j = 0; j < hop; j++)
                        slide(scratch[hop + j] - scratch[j], bins, cosine, sine, x, y);
                } else {
                    fill(scratch, s, size, carried, run, 1);
                    seed(scratch, size, bins, cosine, sine, x, y);
                }
                for (i64 b = 0; b < bins; b++) { row[2 * b] = x[b]; row[2 * b + 1] = y[b]; }
            } else {
                fill(out + rows * (back + size) * w, s - back, back + size, carried, run, w);
            }
            out_fresh[rows++] = previous[k] != s - hop;
            previous[k] = s;
        }
        if (n) last[k] = frontier;
        i64 from = next[k] - hop, keep = max_i64(0, min_i64(room, last[k] - from + 1));
        fill(scratch, from, keep, carried, run, w);
        memcpy(kept, scratch, (size_t)(keep * w) * 8);
        carry_tick[k] = from;
        carry_n[k] = keep;
    }
    free(scratch);
    *done = r;
    return rows;
}

enum { SUM, MAXIMUM, MINIMUM, MEAN };

/* Move the first n ticks of a group's accumulator, which starts at `base`, to the output. */
static inline void emit(struct writer *out, double *val, i64 k, i64 base, i64 n, const double *acc,
                        const i64 *covers, i64 how, i64 w) {
    if (n == 0) return;
    double *y = val + put(out, k, base) * w;
    out->n += n - 1;
    out->tick += n - 1;
    out->ptr[out->runs] = out->n;
    memcpy(y, acc, (size_t)(n * w) * 8);
    for (i64 i = 0; how == MEAN && i < n * w; i++) y[i] /= (double)covers[i / w];
}

/* Lay windows back on the time axis and aggregate where they overlap (overlap-and-add with SUM). A tick
   leaves once a window that starts after it has come; `acc` holds the `size` ticks from `base` on. */
i64 vs_unwindow(i64 rows, const i64 *key, const i64 *first, const i64 *lo, const i64 *hi, const double *x,
                i64 size, i64 w, i64 how, i64 *seen, i64 *base, i64 *pending, i64 *final, double *acc,
                i64 *covers, i64 *out_key, i64 *out_first, i64 *out_ptr, double *val) {
    struct writer out = {0, 0, 0, out_key, out_first, out_ptr};
    out_ptr[0] = 0;
    for (i64 r = 0; r < rows; r++) {
        i64 k = key[r], s = first[r], *cover = covers + k * size;
        double *a = acc + k * size * w;
        const double *v = x + r * size * w;
        if (!seen[k]) {
            seen[k] = 1;
            base[k] = lo[r];
            pending[k] = 0;
        }
        i64 leave = min_i64(max_i64(s - base[k], 0), pending[k]);
        emit(&out, val, k, base[k], leave, a, cover, how, w);
        memmove(a, a + leave * w, (size_t)((pending[k] - leave) * w) * 8);
        if (how == MEAN) memmove(cover, cover + leave, (size_t)(pending[k] - leave) * 8);
        pending[k] -= leave;
        base[k] = pending[k] ? base[k] + leave : max_i64(base[k] + leave, s);
        i64 skip = base[k] - s, n = size - skip, old = pending[k] * w;
        v += skip * w;
        switch (how) {
            case MAXIMUM: for (i64 i = 0; i < old; i++) a[i] = v[i] > a[i] ? v[i] : a[i]; break;
            case MINIMUM: for (i64 i = 0; i < old; i++) a[i] = v[i] < a[i] ? v[i] : a[i]; break;
            default: for (i64 i = 0; i < old; i++) a[i] += v[i];
        }
        if (n * w > old) memcpy(a + old, v + old, (size_t)(n * w - old) * 8);
        for (i64 i = 0; how == MEAN && i < n; i++) cover[i] = i < pending[k] ? cover[i] + 1 : 1;
        pending[k] = max_i64(pending[k], n);
        final[k] = hi[r];
    }
    return out.runs;
}
