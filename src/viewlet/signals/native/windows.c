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
    int ends = tick + n <= run.tick + run.n, joined = carried.tick + carried.n == run.tick;
    if (tick < run.tick || !ends) {
        if (tick < carried.tick || !joined || !ends) memset(dst, 0, (size_t)(n * w) * 8);
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

/* What a row of the output is: the samples of a window, or the half spectrum of it. */
enum { SAMPLES, SLIDING, ANEW };

struct frames {
    i64 rule, rows, bins, reseed;
    double *out;
    const double *cosine, *sine;   /* SLIDING: of 2 pi k / size; ANEW: the tables of fft.c */
    double *re, *im;               /* SLIDING: the last spectrum of each group */
    const double *window[BATCH];   /* ANEW: where the windows of this batch lie, */
    double *slots, *work;          /* and room for those that no run holds entirely */
};

/* Slide the spectrum of group k from the window before to the one at s, or seed it. */
static void slide_to(const struct frames *to, i64 k, i64 s, i64 size, i64 hop, int seeded, struct span carried,
                     struct span run, double *scratch) {
    double *x = to->re + k * to->bins, *y = to->im + k * to->bins, *row = to->out + to->rows * 2 * to->bins;
    if (hop <= size && !seeded && floor_div(s, hop) % to->reseed != 0) {
        fill(scratch, s - hop, hop, carried, run, 1);
        fill(scratch + hop, s + size - hop, hop, carried, run, 1);
        for (i64 j = 0; j < hop; j++)
            slide(scratch[hop + j] - scratch[j], to->bins, to->cosine, to->sine, x, y);
    } else {
        fill(scratch, s, size, carried, run, 1);
        seed(scratch, size, to->bins, to->cosine, to->sine, x, y);
    }
    for (i64 b = 0; b < to->bins; b++) { row[2 * b] = x[b]; row[2 * b + 1] = y[b]; }
}

/* Transform the last `count` windows, which lie in runs or slots. */
static void transform_last(const struct frames *to, i64 size, i64 count) {
    if (count)
        half_spectra(count, to->window, size, to->cosine, to->sine, to->work,
                     to->out + (to->rows - count) * 2 * to->bins);
}

/* Note where the window at s lies: in the run, or put together in a slot. */
static inline void note_window(struct frames *to, i64 s, i64 size, struct span carried, struct span run) {
    i64 slot = to->rows % BATCH;
    double *own = to->slots + slot * size;
    int inside = s >= run.tick && s + size <= run.tick + run.n;
    if (!inside) fill(own, s, size, carried, run, 1);
    to->window[slot] = inside ? run.val + (s - run.tick) : own;
}

/* Hopping windows of `size` samples at starts that are multiples of `hop`. With zeros = 1 every window that
   holds at least one sample fires, missing ones being zero; with zeros = 0 only gap-free windows fire. A run
   of no samples at tick f means that no sample before f will come any more.

   Rows hold `back` samples before the window (the old delta) and then the window; or, with a rule other than
   SAMPLES (w = 1), the first `bins` frequencies of its spectrum. `carry` keeps, per group, the samples from
   `next start - before` on, where `before` is `back`, or `hop` where a spectrum slides. `about` has five
   columns of `capacity`: each row's group, start, first and last tick with a sample, and whether it is not one
   hop after the row before. Stops when `capacity` rows would not suffice; returns rows, and in *done the runs
   consumed. */
i64 vs_window(i64 runs, const i64 *key, const i64 *first, const i64 *ptr, const double *val, i64 w, i64 size,
              i64 hop, i64 zeros, i64 back, i64 capacity, i64 *seen, i64 *next, i64 *last, i64 *origin,
              i64 *solid, i64 *carry_tick, i64 *carry_n, double *carry, i64 rule, i64 bins, i64 reseed,
              const double *cosine, const double *sine, double *re, double *im, i64 *previous, i64 *about,
              double *out, i64 *done) {
    i64 *out_key = about, *out_first = about + capacity, *out_lo = about + 2 * capacity;
    i64 *out_hi = about + 3 * capacity, *out_fresh = about + 4 * capacity, r;
    i64 before = rule == SLIDING ? hop : back, room = size + before;
    double *scratch = malloc((size_t)(room * w + BATCH * size) * sizeof *scratch);
    double *work = rule == ANEW ? room_for_windows(size) : NULL;
    struct frames to = {rule, 0, bins, reseed, out, cosine, sine, re, im, {0}, scratch + room * w, work};
    if (!scratch || (rule == ANEW && !work)) {
        free(scratch);
        free(work);
        return -1;
    }
    for (r = 0; r < runs; r++) {
        i64 k = key[r], f = first[r], n = ptr[r + 1] - ptr[r];
        if (to.rows + n / hop + size / hop + 2 > capacity) break;
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
            int fresh = previous[k] != s - hop;
            out_key[to.rows] = k;
            out_first[to.rows] = s;
            out_lo[to.rows] = max_i64(s, origin[k]);
            out_hi[to.rows] = min_i64(s + size - 1, n && s + size > f ? frontier : last[k]);
            out_fresh[to.rows] = fresh;
            if (rule == ANEW) note_window(&to, s, size, carried, run);
            else if (rule == SLIDING) slide_to(&to, k, s, size, hop, fresh, carried, run, scratch);
            else fill(out + to.rows * (back + size) * w, s - back, back + size, carried, run, w);
            previous[k] = s;
            if (++to.rows % BATCH == 0 && rule == ANEW) transform_last(&to, size, BATCH);
        }
        if (n) last[k] = frontier;
        i64 from = next[k] - before, keep = max_i64(0, min_i64(room, last[k] - from + 1));
        if (from >= f && n) memcpy(kept, run.val + (from - f) * w, (size_t)(keep * w) * 8);
        else {
            fill(scratch, from, keep, carried, run, w);
            memcpy(kept, scratch, (size_t)(keep * w) * 8);
        }
        carry_tick[k] = from;
        carry_n[k] = keep;
    }
    if (rule == ANEW) transform_last(&to, size, to.rows % BATCH);
    free(scratch);
    free(work);
    *done = r;
    return to.rows;
}

enum { SUM, MAXIMUM, MINIMUM, MEAN };

/* Aggregate v into the ticks that hold something already, and copy it to those after them. */
static inline void lay(double *restrict a, const double *restrict v, i64 old, i64 n, i64 how) {
    switch (how) {
        case MAXIMUM: for (i64 i = 0; i < old; i++) a[i] = v[i] > a[i] ? v[i] : a[i]; break;
        case MINIMUM: for (i64 i = 0; i < old; i++) a[i] = v[i] < a[i] ? v[i] : a[i]; break;
        default: for (i64 i = 0; i < old; i++) a[i] += v[i];
    }
    for (i64 i = old; i < n; i++) a[i] = v[i];
}

/* Lay windows back on the time axis and aggregate where they overlap (overlap-and-add with SUM). A tick
   leaves once a window that starts after it has come. While rows of one group follow each other the output
   itself accumulates them; between calls `acc` holds the `size` ticks from `base` on, and `covers`, for MEAN,
   how many windows each has seen, as `counts` does in the output. With a `turn`, rows are half spectra of
   real windows (w = 1), transformed BATCH at a time: no array of windows exists. */
i64 vs_unwindow(i64 rows, const i64 *key, const i64 *first, const i64 *lo, const i64 *hi, const double *x,
                i64 size, i64 w, i64 how, const double *table, const double *turn, i64 *seen, i64 *base,
                i64 *pending, i64 *final, double *acc, i64 *covers, i64 *out_key, i64 *out_first,
                i64 *out_ptr, double *val, i64 *counts) {
    struct writer out = {0, 0, 0, out_key, out_first, out_ptr};
    double *windows = turn ? malloc((size_t)(BATCH * size) * sizeof *windows) : NULL;
    double *work = turn ? room_for_windows(size) : NULL;
    i64 failed = turn && (!windows || !work);
    out_ptr[0] = 0;
    for (i64 r = 0; r < rows && !failed; r++) {
        i64 k = key[r], s = first[r], opens = r == 0 || key[r - 1] != k;
        if (turn && r % BATCH == 0)
            real_windows(min_i64(BATCH, rows - r), x + r * (size + 2), size, table, turn, work, windows);
        if (!seen[k]) {
            seen[k] = 1;
            base[k] = lo[r];
            pending[k] = 0;
        }
        if (opens) {
            memcpy(val + out.n * w, acc + k * size * w, (size_t)(pending[k] * w) * 8);
            if (how == MEAN) memcpy(counts + out.n, covers + k * size, (size_t)pending[k] * 8);
        }
        i64 leave = min_i64(max_i64(s - base[k], 0), pending[k]);
        if (leave) {
            put(&out, k, base[k]);
            out.n += leave - 1;
            out.tick += leave - 1;
            out.ptr[out.runs] = out.n;
        }
        pending[k] -= leave;
        base[k] = pending[k] ? base[k] + leave : max_i64(base[k] + leave, s);
        i64 skip = base[k] - s, n = size - skip;
        lay(val + out.n * w, (turn ? windows + r % BATCH * size : x + r * size * w) + skip * w,
            pending[k] * w, n * w, how);
        for (i64 i = 0, *cover = counts + out.n; how == MEAN && i < n; i++)
            cover[i] = i < pending[k] ? cover[i] + 1 : 1;
        pending[k] = max_i64(pending[k], n);
        final[k] = hi[r];
        if (r + 1 == rows || key[r + 1] != k) {
            memcpy(acc + k * size * w, val + out.n * w, (size_t)(pending[k] * w) * 8);
            if (how == MEAN) memcpy(covers + k * size, counts + out.n, (size_t)pending[k] * 8);
        }
    }
    for (i64 i = 0; how == MEAN && i < out.n * w; i++) val[i] /= (double)counts[i / w];
    free(windows);
    free(work);
    return failed ? -1 : out.runs;
}
