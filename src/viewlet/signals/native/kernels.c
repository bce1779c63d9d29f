/* The kernels of viewlet.signals: all groups of a micro-batch in one call, state carried between calls.

   Conventions. A sample is `w` doubles (1 real, 2 complex, c channels). Keys are dense group numbers and
   index every state array. Runs are gap-free stretches: run r holds ticks first[r] .. first[r] + n - 1 of
   group key[r], n = ptr[r+1] - ptr[r], and its samples start at val + ptr[r] * w. Runs of one group come in
   time order. Every function has a NumPy twin of the same name in ../reference.py, which defines it. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int64_t i64;

static inline i64 min_i64(i64 a, i64 b) { return a < b ? a : b; }
static inline i64 max_i64(i64 a, i64 b) { return a > b ? a : b; }

static inline i64 floor_div(i64 a, i64 b) {
    i64 q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}

static inline i64 ceil_div(i64 a, i64 b) { return -floor_div(-a, b); }

/* Rows ahead whose random accesses are begun early: misses then overlap instead of following each other. */
enum { AHEAD = 24 };

/* ---- grouping ---------------------------------------------------------------------------------- */

static inline i64 slot_of(i64 key, i64 mask) {
    return (i64)(((uint64_t)key * 0x9E3779B97F4A7C15ull) >> 20) & mask;
}

/* Dense numbers for integer keys. `table` holds mask + 1 pairs (key, number + 1), zero meaning empty. Stops
   when the table is half full; returns the rows numbered, and the caller grows the table and goes on. */
i64 vs_encode(const i64 *key, i64 n, i64 *table, i64 mask, i64 *labels, i64 *count, i64 *out) {
    i64 seen = *count, i;
    for (i = 0; i < n; i++) {
        i64 slot = slot_of(key[i], mask);
        if (i + AHEAD < n) __builtin_prefetch(table + 2 * slot_of(key[i + AHEAD], mask));
        while (table[2 * slot + 1] != 0 && table[2 * slot] != key[i]) slot = (slot + 1) & mask;
        if (table[2 * slot + 1] == 0) {
            if (2 * seen >= mask) break;
            table[2 * slot] = key[i];
            labels[seen] = key[i];
            table[2 * slot + 1] = ++seen;
        }
        out[i] = table[2 * slot + 1] - 1;
    }
    *count = seen;
    return i;
}

/* The distinct ids and the boundaries of their groups after a stable counting sort. `count`, for ids below
   `ids`, is all zero on entry, and holds each group's begin on exit. Where most ids occur they come in
   ascending order, so that the state of groups is walked through and not jumped about in; else by first
   appearance, so that the cost follows the batch and not the number of groups ever seen. Returns the number
   of groups, negated when the rows are grouped already. */
i64 vs_count(const i64 *id, i64 n, i64 ids, i64 *count, i64 *keys, i64 *ptr) {
    i64 groups = 0, changes = n > 0;
    for (i64 i = 0; i < n; i++) {
        changes += i > 0 && id[i] != id[i - 1];
        if (count[id[i]]++ == 0) keys[groups++] = id[i];
    }
    int grouped = changes == groups;
    if (!grouped && 4 * groups >= ids)
        for (i64 k = 0, g = 0; g < groups; k++)
            if (count[k]) keys[g++] = k;
    ptr[0] = 0;
    for (i64 g = 0; g < groups; g++) {
        ptr[g + 1] = ptr[g] + count[keys[g]];
        count[keys[g]] = ptr[g];
    }
    return grouped ? -groups : groups;
}

/* After vs_count: the place of each row. The caller clears the counts of the keys. */
void vs_place(const i64 *id, i64 n, i64 *count, i64 *pos) {
    for (i64 i = 0; i < n; i++) pos[i] = count[id[i]]++;
}

/* After vs_count: two columns of eight-byte words put in their places. */
void vs_place_pair(const i64 *id, i64 n, i64 *count, const i64 *a, const i64 *b, i64 *to_a, i64 *to_b) {
    for (i64 i = 0; i < n; i++) {
        if (i + AHEAD < n) {
            i64 next = count[id[i + AHEAD]];
            __builtin_prefetch(to_a + next, 1);
            __builtin_prefetch(to_b + next, 1);
        }
        i64 p = count[id[i]]++;
        to_a[p] = a[i];
        to_b[p] = b[i];
    }
}

struct row { i64 id, a, b; };

/* The same for so many groups that the lines they write to outgrow the cache: of each `block` rows, those of
   neighbouring ids, which differ below `shift` bits, are placed together. `rows` holds a block, `cursor` a
   word for each of `parts` neighbourhoods. */
void vs_place_far(const i64 *id, i64 n, i64 *count, const i64 *a, const i64 *b, struct row *rows, i64 block,
                  i64 *cursor, i64 parts, i64 shift, i64 *to_a, i64 *to_b) {
    for (i64 base = 0; base < n; base += block) {
        i64 m = min_i64(block, n - base), begin = 0;
        memset(cursor, 0, (size_t)parts * sizeof *cursor);
        for (i64 i = base; i < base + m; i++) cursor[id[i] >> shift]++;
        for (i64 p = 0; p < parts; p++) {
            i64 size = cursor[p];
            cursor[p] = begin;
            begin += size;
        }
        for (i64 i = base; i < base + m; i++) rows[cursor[id[i] >> shift]++] = (struct row){id[i], a[i], b[i]};
        for (i64 i = 0; i < m; i++) {
            i64 p = count[rows[i].id]++;
            to_a[p] = rows[i].a;
            to_b[p] = rows[i].b;
        }
    }
}

/* dst[pos[i]] = src[i] for rows of w eight-byte words. */
void vs_scatter(const i64 *src, const i64 *pos, i64 n, i64 w, i64 *dst) {
    if (w == 1)
        for (i64 i = 0; i < n; i++) dst[pos[i]] = src[i];
    else
        for (i64 i = 0; i < n; i++) memcpy(dst + pos[i] * w, src + i * w, (size_t)w * 8);
}

/* The first row that starts before its predecessor of the same group starts (overlap = 0) or ends
   (overlap = 1), or -1. `bound` holds that limit per group; nothing is changed. *stride is the distance of
   successive starts if it is the same throughout and positive, 0 if no group has two, else -1. */
i64 vs_disorder(i64 groups, const i64 *key, const i64 *ptr, const i64 *start, const i64 *end, i64 overlap,
                const i64 *bound, i64 *stride) {
    *stride = end ? -1 : 0;
    for (i64 g = 0; g < groups; g++) {
        i64 low = ptr[g], high = ptr[g + 1], early = low < high && start[low] < bound[key[g]], stray = 0;
        if (early) return low;
        if (*stride == 0 && high - low > 1)
            *stride = start[low + 1] > start[low] ? start[low + 1] - start[low] : -1;
        if (*stride > 0) {
            for (i64 i = low, due = start[low]; i < high; i++, due += *stride) stray |= start[i] ^ due;
            if (!stray) continue;
            *stride = -1;
        }
        if (overlap && end)
            for (i64 i = low + 1; i < high; i++) early |= start[i] < end[i - 1];
        else
            for (i64 i = low + 1; i < high; i++) early |= start[i] < start[i - 1] + overlap;
        for (i64 i = low + 1; early && i < high; i++)
            if (start[i] < (overlap ? (end ? end[i - 1] : start[i - 1] + 1) : start[i - 1])) return i;
    }
    return -1;
}

/* Key and time columns of runs, for output: time = (first + i) * period + offset. */
void vs_expand(i64 runs, const i64 *key, const i64 *first, const i64 *ptr, const i64 *labels, i64 period,
               i64 offset, i64 *out_key, i64 *out_time) {
    for (i64 r = 0; r < runs; r++) {
        i64 label = labels[key[r]], time = first[r] * period + offset;
        for (i64 i = ptr[r]; i < ptr[r + 1]; i++, time += period) {
            out_key[i] = label;
            out_time[i] = time;
        }
    }
}

/* ---- sampling ---------------------------------------------------------------------------------- */

enum { EXACT, CONSTANT, LAST, STEP, LINEAR, SECOND };

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

/* The quadratic through (t0, v0), (t1, v1), (t2, v2) at t, in Newton's form. */
static inline double quadratic(double t, double t0, double v0, double t1, double v1, double t2, double v2) {
    double d01 = (v1 - v0) / (t1 - t0), d12 = (v2 - v1) / (t2 - t1);
    return v0 + (t - t0) * (d01 + (t - t1) * (d12 - d01) / (t2 - t0));
}

struct sampling {
    i64 w, period, offset, mode, gap;
    const double *constant;
    i64 *refs, *ref_time, *beat;
    double *ref_value;
};

/* Beats between the last reference point and an event that starts at `a` with value v. */
static inline void between(const struct sampling *s, struct writer *out, double *val, i64 k, i64 a,
                           const double *v, i64 w) {
    i64 depth = s->mode == SECOND ? 2 : 1, beat = s->beat[k], time = beat * s->period + s->offset;
    const i64 *t = s->ref_time + 2 * k;                 /* newest first */
    const double *u = s->ref_value + 2 * k * w;
    int full = s->refs[k] >= depth && (s->gap < 0 || a - t[depth - 1] <= s->gap);
    i64 limit = s->mode == LAST && s->refs[k] > 0 && s->gap >= 0 ? min_i64(a, t[0] + s->gap + 1) : a;
    if (s->mode == LAST ? s->refs[k] > 0 : full && s->mode != EXACT) {
        double inverse = 1.0 / (double)(a - t[0]);
        for (; time < limit; time += s->period, beat++) {
            double *y = val + put(out, k, beat) * w;
            for (i64 c = 0; c < w; c++) switch (s->mode) {
                case CONSTANT: y[c] = s->constant[c]; break;
                case LINEAR: y[c] = u[c] + (v[c] - u[c]) * ((double)(time - t[0]) * inverse); break;
                case SECOND:
                    y[c] = quadratic((double)(time - t[0]), (double)(t[1] - t[0]), u[w + c], 0.0, u[c],
                                     (double)(a - t[0]), v[c]);
                    break;
                default: y[c] = u[c];
            }
        }
    }
    if (time < a) beat = ceil_div(a - s->offset, s->period);
    s->beat[k] = beat;
}

static inline void remember(const struct sampling *s, i64 k, i64 time, const double *v, i64 w) {
    i64 *t = s->ref_time + 2 * k;
    double *u = s->ref_value + 2 * k * w;
    if (s->mode == SECOND) {
        t[1] = t[0];
        memcpy(u + w, u, (size_t)w * 8);
    }
    t[0] = time;
    for (i64 c = 0; c < w; c++) u[c] = v[c];
    if (s->refs[k] < 2) s->refs[k]++;
}

static inline __attribute__((always_inline)) void sample_groups(const struct sampling *s, i64 groups,
        const i64 *key, const i64 *ptr, const i64 *start, const i64 *end, const double *v,
        struct writer *out, double *val, i64 w) {
    for (i64 g = 0; g < groups; g++) {
        i64 k = key[g];
        for (i64 i = ptr[g]; i < ptr[g + 1]; i++) {
            i64 a = start[i], b = end ? end[i] - 1 : a;
            const double *x = v + i * w;
            if (s->refs[k] == 0) s->beat[k] = ceil_div(a - s->offset, s->period);
            else if (s->beat[k] * s->period + s->offset < a) between(s, out, val, k, a, x, w);
            remember(s, k, a, x, w);
            i64 time = s->beat[k] * s->period + s->offset, inner = a;
            for (; time <= b; time += s->period) {
                double *y = val + put(out, k, s->beat[k]++) * w;
                for (i64 c = 0; c < w; c++) y[c] = x[c];
                inner = time;
            }
            if (inner > a && inner < b) remember(s, k, inner, x, w);
            if (b > a) remember(s, k, b, x, w);
        }
    }
}

/* Do the points of every group lie on successive beats, going on where the group stopped (or, with
   jumps = 1, anywhere later)? Then their values are the samples and nothing need be copied: `first` gets the
   tick of each group's first point, the state goes on behind the last, and the result is 1. Else nothing
   changes. `even` says that the distance of points is known to be the period. */
i64 vs_on_grid(i64 groups, const i64 *key, const i64 *ptr, const i64 *start, const double *v, i64 w,
               i64 period, i64 offset, i64 jumps, i64 even, i64 *refs, i64 *ref_time, double *ref_value,
               i64 *beat, i64 *first) {
    for (i64 g = 0; g < groups; g++) {
        i64 low = ptr[g], n = ptr[g + 1] - low, time = start[low], stray = 0;
        first[g] = floor_div(time - offset, period);
        if (first[g] * period + offset != time) return 0;
        if (refs[key[g]] && !jumps && beat[key[g]] != first[g]) return 0;
        for (i64 i = 0; i < n && !even; i++) stray |= start[low + i] ^ (time + i * period);
        if (stray) return 0;
    }
    for (i64 g = 0; g < groups; g++) {
        i64 k = key[g], n = ptr[g + 1] - ptr[g], last = ptr[g + 1] - 1;
        beat[k] = first[g] + n;
        refs[k] = min_i64(2, refs[k] + n);
        ref_time[2 * k] = start[last];
        memcpy(ref_value + 2 * k * w, v + last * w, (size_t)w * 8);
    }
    return 1;
}

/* Real points, none or linear interpolation: the common case with all state of a group in registers. */
static i64 sample_points(const struct sampling *s, i64 groups, const i64 *key, const i64 *ptr,
                         const i64 *restrict start, const double *restrict v, i64 *restrict out_key,
                         i64 *restrict out_first, i64 *restrict out_ptr, double *restrict val) {
    i64 runs = 0, n = 0, period = s->period, offset = s->offset;
    for (i64 g = 0; g < groups; g++) {
        i64 k = key[g], seen = s->refs[k] > 0, t0 = s->ref_time[2 * k], begun = n;
        double v0 = s->ref_value[2 * k];
        i64 beat = seen ? s->beat[k] : ceil_div(start[ptr[g]] - offset, period);
        i64 time = beat * period + offset, first = beat;
        for (i64 i = ptr[g]; i < ptr[g + 1]; i++) {
            i64 a = start[i];
            double x = v[i];
            if (time < a && s->mode == LINEAR && seen && (s->gap < 0 || a - t0 <= s->gap)) {
                double slope = (x - v0) / (double)(a - t0);
                for (; time < a; time += period) val[n++] = v0 + slope * (double)(time - t0);
            } else if (time < a) {
                if (n > begun) {
                    out_key[runs] = k;
                    out_first[runs++] = first;
                    out_ptr[runs] = begun = n;
                }
                first = ceil_div(a - offset, period);
                time = first * period + offset;
            }
            if (time == a) {
                val[n++] = x;
                time += period;
            }
            t0 = a;
            v0 = x;
            seen = 1;
        }
        if (n > begun) {
            out_key[runs] = k;
            out_first[runs++] = first;
            out_ptr[runs] = n;
        }
        s->refs[k] = min_i64(2, s->refs[k] + ptr[g + 1] - ptr[g]);
        s->ref_time[2 * k] = t0;
        s->ref_value[2 * k] = v0;
        s->beat[k] = (time - offset) / period;
    }
    return runs;
}

/* Samples at the beats beat * period + offset: the value of an active event, else interpolation between the
   reference points around the beat (thesis 7.4.2). gap < 0: no interpolation window. Returns the runs. */
i64 vs_sample(i64 groups, const i64 *key, const i64 *ptr, const i64 *start, const i64 *end, const double *v,
              i64 w, i64 period, i64 offset, i64 mode, i64 gap, const double *constant, i64 *refs,
              i64 *ref_time, double *ref_value, i64 *beat, i64 *out_key, i64 *out_first, i64 *out_ptr,
              double *val) {
    struct sampling s = {w, period, offset, mode, gap, constant, refs, ref_time, beat, ref_value};
    struct writer out = {0, 0, 0, out_key, out_first, out_ptr};
    out_ptr[0] = 0;
    if (w == 1 && !end && (mode == LINEAR || mode == EXACT))
        return sample_points(&s, groups, key, ptr, start, v, out_key, out_first, out_ptr, val);
    if (w == 1) sample_groups(&s, groups, key, ptr, start, end, v, &out, val, 1);
    else sample_groups(&s, groups, key, ptr, start, end, v, &out, val, w);
    return out.runs;
}

/* ---- arithmetic of two uniform signals ------------------------------------------------------------ */

/* Inner join of runs on (group, tick). `lo` and `ro` order the runs by group, then time. With op 0, 1, 2 the
   samples are added, subtracted, multiplied (w doubles each); with op -1 only their positions are reported. */
i64 vs_combine(i64 op, i64 w, i64 nl, const i64 *lo, const i64 *lkey, const i64 *lfirst, const i64 *lptr,
               const double *lval, i64 nr, const i64 *ro, const i64 *rkey, const i64 *rfirst, const i64 *rptr,
               const double *rval, i64 *out_key, i64 *out_first, i64 *out_ptr, double *val, i64 *li, i64 *ri) {
    i64 runs = 0, n = 0;
    out_ptr[0] = 0;
    for (i64 i = 0, j = 0; i < nl && j < nr;) {
        i64 a = lo[i], b = ro[j];
        if (lkey[a] != rkey[b]) {
            if (lkey[a] < rkey[b]) i++; else j++;
            continue;
        }
        i64 lend = lfirst[a] + lptr[a + 1] - lptr[a], rend = rfirst[b] + rptr[b + 1] - rptr[b];
        i64 from = max_i64(lfirst[a], rfirst[b]), to = min_i64(lend, rend);
        if (from < to) {
            i64 x = lptr[a] + from - lfirst[a], y = rptr[b] + from - rfirst[b], m = (to - from) * w;
            const double *p = lval + x * w, *q = rval + y * w;
            double *z = val + n * w;
            switch (op) {
                case 0: for (i64 t = 0; t < m; t++) z[t] = p[t] + q[t]; break;
                case 1: for (i64 t = 0; t < m; t++) z[t] = p[t] - q[t]; break;
                case 2: for (i64 t = 0; t < m; t++) z[t] = p[t] * q[t]; break;
                default: for (i64 t = 0; t < to - from; t++) { li[n + t] = x + t; ri[n + t] = y + t; }
            }
            out_key[runs] = lkey[a];
            out_first[runs++] = from;
            out_ptr[runs] = n += to - from;
        }
        if (lend <= rend) i++;
        if (rend <= lend) j++;
    }
    return runs;
}

/* Samples from[r] .. of each run side by side, as ptr says. */
void vs_trim(i64 runs, const i64 *from, const i64 *ptr, i64 w, const double *val, double *out) {
    for (i64 r = 0; r < runs; r++)
        memcpy(out + ptr[r] * w, val + from[r] * w, (size_t)((ptr[r + 1] - ptr[r]) * w) * 8);
}

/* ---- digital filters ---------------------------------------------------------------------------- */

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

/* ---- windows --------------------------------------------------------------------------------- */

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

/* ---- unwindowing ------------------------------------------------------------------------------- */

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
