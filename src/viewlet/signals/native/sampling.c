/* Events of a signal at the beats of a grid. */

#include "kernels.h"

enum { EXACT, CONSTANT, LAST, STEP, LINEAR, SECOND };

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
   changes. With `even`, the distance of points is known to be the period, and `start` holds the first of each
   group only. */
i64 vs_on_grid(i64 groups, const i64 *key, const i64 *ptr, const i64 *start, const double *v, i64 w,
               i64 period, i64 offset, i64 jumps, i64 even, i64 *refs, i64 *ref_time, double *ref_value,
               i64 *beat, i64 *first) {
    for (i64 g = 0; g < groups; g++) {
        i64 low = ptr[g], n = ptr[g + 1] - low, time = start[even ? g : low], stray = 0;
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
        ref_time[2 * k] = (first[g] + n - 1) * period + offset;
        memcpy(ref_value + 2 * k * w, v + last * w, (size_t)w * 8);
    }
    return 1;
}

/* Real points, none or linear interpolation: the common case with all state of a group in registers. How many
   beats lie between two events is a matter of chance, which branches would guess wrong: the first two are
   computed whether there are any or not, and overwritten if not. `val` has room for two more than are asked. */
static i64 sample_points(const struct sampling *s, i64 groups, const i64 *key, const i64 *ptr,
                         const i64 *restrict start, const double *restrict v, i64 *restrict out_key,
                         i64 *restrict out_first, i64 *restrict out_ptr, double *restrict val) {
    i64 runs = 0, n = 0, period = s->period, offset = s->offset;
    i64 window = s->mode != LINEAR ? -1 : s->gap < 0 ? INT64_MAX : s->gap;
    for (i64 g = 0; g < groups; g++) {
        i64 k = key[g], i = ptr[g], begun = n, t0 = s->ref_time[2 * k], first;
        double v0 = s->ref_value[2 * k];
        if (s->refs[k] > 0) first = s->beat[k];
        else {
            first = ceil_div(start[i] - offset, period);
            t0 = start[i];
            v0 = v[i];
        }
        i64 time = first * period + offset;
        for (; i < ptr[g + 1]; i++) {
            i64 a = start[i];
            double x = v[i];
            if (__builtin_expect((a - t0 > window) & (time < a), 0)) { /* a gap: the run ends */
                if (n > begun) {
                    out_key[runs] = k;
                    out_first[runs++] = first;
                    out_ptr[runs] = begun = n;
                }
                first = ceil_div(a - offset, period);
                time = first * period + offset;
            }
            double slope = (x - v0) / (double)(a - t0), at = (double)(time - t0);
            for (int l = 0; l < 2; l++) {
                i64 due = time <= a;
                val[n] = v0 + slope * at;
                if (__builtin_expect(time == a, 0)) val[n] = x;
                n += due;
                time += -due & period;
                at += (double)period;
            }
            for (; time <= a; time += period) val[n++] = time == a ? x : v0 + slope * (double)(time - t0);
            t0 = a;
            v0 = x;
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
