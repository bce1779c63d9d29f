/* Runs of samples cut, and two uniform signals sample by sample. */

#include "kernels.h"

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
