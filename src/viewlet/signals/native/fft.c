/* Fourier transforms of many windows, for lengths n = 2^k >= 32.

   Stockham's self-sorting passes of radix 4 (a last one of radix 2 where k is odd), real and imaginary parts
   in arrays of their own so that every step is a vector. A real window of n samples is a complex
   signal z of m = n / 2, even samples being its real and odd ones its imaginary part:

       X[k] = E[k] + e^(-2 pi i k / n) O[k]
       E[k] = (Z[k] + conj Z[m-k]) / 2,  O[k] = (Z[k] - conj Z[m-k]) / 2i

   Each window is transformed by itself: what one holds, were it not a number or 10^20 times the other, must
   not be felt in another. The inverse transform is the transform with real and imaginary parts exchanged, on
   both sides. Tables hold, for p < n / 4, the cosines and sines of 2 pi p / n, of twice and of three times
   that: six rows. Rows and parts lie SKEW doubles further apart than they are long, since addresses a power
   of two apart would compete for the same lines of the cache. Twins of these functions are in
   ../reference.py. */

#include "kernels.h"

enum { SKEW = 40 };

static inline i64 room(i64 n) { return 4 * (n + SKEW); } /* doubles that a transform works in */

struct parts { double *re, *im; };
struct source { const double *re, *im; };

/* y0 .. y3 from a, b, c, d: the transform of four, the outputs turned by the twiddles c_j - i s_j. */
#define BUTTERFLY(type, C1, S1, C2, S2, C3, S3)                                                             \
    type pr = ar + cr, pi = ai + ci, mr = ar - cr, mi = ai - ci;                                            \
    type qr = br + dr, qi = bi + di, nr = br - dr, ni = bi - di;                                            \
    type y0r = pr + qr, y0i = pi + qi, t2r = pr - qr, t2i = pi - qi;                                        \
    type t1r = mr + ni, t1i = mi - nr, t3r = mr - ni, t3i = mi + nr;                                        \
    type y1r = t1r * (C1) + t1i * (S1), y1i = t1i * (C1) - t1r * (S1);                                      \
    type y2r = t2r * (C2) + t2i * (S2), y2i = t2i * (C2) - t2r * (S2);                                      \
    type y3r = t3r * (C3) + t3i * (S3), y3i = t3i * (C3) - t3r * (S3)

/* A vector of each of y0 .. y3, stored as y0[0] y1[0] y2[0] y3[0] y0[1] ... */
static inline void store_interleaved(double *to, vec y0, vec y1, vec y2, vec y3) {
    vec a = ZIP_LOW(y0, y1), b = ZIP_HIGH(y0, y1), c = ZIP_LOW(y2, y3), d = ZIP_HIGH(y2, y3);
    STORE(to, ZIP_PAIRS_LOW(a, c));
    STORE(to + LANES, ZIP_PAIRS_HIGH(a, c));
    STORE(to + 2 * LANES, ZIP_PAIRS_LOW(b, d));
    STORE(to + 3 * LANES, ZIP_PAIRS_HIGH(b, d));
}

/* The first pass: neighbours lie side by side in the input and four apart in the output. */
#define FIRST_PASS(LOAD_PART)                                                                               \
    i64 m = n / 4, k = m + SKEW;                                                                            \
    for (i64 p = 0; p < m; p += LANES) {                                                                    \
        vec ar, ai, br, bi, cr, ci, dr, di;                                                                  \
        const double *w = table + p;                                                                        \
        LOAD_PART(p, ar, ai);                                                                               \
        LOAD_PART(p + m, br, bi);                                                                           \
        LOAD_PART(p + 2 * m, cr, ci);                                                                       \
        LOAD_PART(p + 3 * m, dr, di);                                                                       \
        BUTTERFLY(vec, LOAD(vec, w), LOAD(vec, w + k), LOAD(vec, w + 2 * k), LOAD(vec, w + 3 * k),               \
                  LOAD(vec, w + 4 * k), LOAD(vec, w + 5 * k));                                                \
        store_interleaved(y.re + 4 * p, y0r, y1r, y2r, y3r);                                                \
        store_interleaved(y.im + 4 * p, y0i, y1i, y2i, y3i);                                                \
    }

/* Complex input is a window among others, the next one `next` doubles on: it is fetched meanwhile, since
   passes jump about in a window and the machine does not foresee where they will go on. */
#define LOAD_SPLIT(at, to_re, to_im) to_re = LOAD(vec, x.re + (at)), to_im = LOAD(vec, x.im + (at))
#define LOAD_COMPLEX(at, to_re, to_im) do {                                                                 \
        vec low = LOAD(vec, x + 2 * (at)), high = LOAD(vec, x + 2 * (at) + LANES);                          \
        to_re = EVENS(low, high), to_im = ODDS(low, high);                                                  \
        __builtin_prefetch(x + 2 * (at) + next);                                                            \
        if (LANES == 8) __builtin_prefetch(x + 2 * (at) + 8 + next);                                        \
    } while (0)

static void first_pass(i64 n, const double *table, struct source x, struct parts y) { FIRST_PASS(LOAD_SPLIT) }

static void first_pass_of_complex(i64 n, const double *table, const double *x, i64 next, struct parts y) {
    FIRST_PASS(LOAD_COMPLEX)
}

/* A later pass: y[q + s (4 p + j)] from x[q + s (p + j m)], the q being vectors. */
#define PASS(name, type, lanes)                                                                             \
    static void name(i64 n, i64 s, const double *table, struct parts x, struct parts y) {                   \
        i64 m = n / (4 * s), k = n / 4 + SKEW;                                                              \
        for (i64 p = 0; p < m; p++) {                                                                       \
            const double *w = table + p * s;                                                                \
            double c1 = w[0], s1 = w[k], c2 = w[2 * k], s2 = w[3 * k], c3 = w[4 * k], s3 = w[5 * k];        \
            for (i64 q = 0; q < s; q += lanes) {                                                            \
                const double *re = x.re + q + s * p, *im = x.im + q + s * p;                                \
                double *to_re = y.re + q + 4 * s * p, *to_im = y.im + q + 4 * s * p;                        \
                type ar = LOAD(type, re), br = LOAD(type, re + s * m), cr = LOAD(type, re + 2 * s * m);     \
                type ai = LOAD(type, im), bi = LOAD(type, im + s * m), ci = LOAD(type, im + 2 * s * m);     \
                type dr = LOAD(type, re + 3 * s * m), di = LOAD(type, im + 3 * s * m);                      \
                BUTTERFLY(type, c1, s1, c2, s2, c3, s3);                                                    \
                STORE(to_re, y0r); STORE(to_re + s, y1r);                                                   \
                STORE(to_re + 2 * s, y2r); STORE(to_re + 3 * s, y3r);                                       \
                STORE(to_im, y0i); STORE(to_im + s, y1i);                                                   \
                STORE(to_im + 2 * s, y2i); STORE(to_im + 3 * s, y3i);                                       \
            }                                                                                               \
        }                                                                                                   \
    }

PASS(pass_of_four, v4, 4)
PASS(pass, vec, LANES)

/* The last pass where log2 n is odd: sums and differences of the halves. */
static void halves(i64 n, struct parts x, struct parts y) {
    for (i64 q = 0, h = n / 2; q < h; q += LANES) {
        vec ar = LOAD(vec, x.re + q), br = LOAD(vec, x.re + q + h);
        vec ai = LOAD(vec, x.im + q), bi = LOAD(vec, x.im + q + h);
        STORE(y.re + q, ar + br); STORE(y.re + q + h, ar - br);
        STORE(y.im + q, ai + bi); STORE(y.im + q + h, ai - bi);
    }
}

static inline struct parts lower(i64 n, double *work) { return (struct parts){work, work + n + SKEW}; }

static inline struct parts upper(i64 n, double *work) { return lower(n, work + 2 * (n + SKEW)); }

/* The passes after the first, which left its results in the lower half; where the last leaves them. */
static struct parts later_passes(i64 n, const double *table, double *work) {
    struct parts from = lower(n, work), to = upper(n, work), swap;
    i64 s = 4;
    for (; 4 * s <= n; s *= 4) {
        if (s == 4) pass_of_four(n, s, table, from, to);
        else pass(n, s, table, from, to);
        swap = from; from = to; to = swap;
    }
    if (s < n) {
        halves(n, from, to);
        from = to;
    }
    return from;
}

/* The transform of x, in one of the two halves of `work`; x may be the upper half. */
static struct parts transform(i64 n, const double *table, struct source x, double *work) {
    first_pass(n, table, x, lower(n, work));
    return later_passes(n, table, work);
}

/* The same of n complex numbers, real and imaginary parts side by side. */
static struct parts transform_complex(i64 n, const double *table, const double *x, i64 next, double *work) {
    first_pass_of_complex(n, table, x, next, lower(n, work));
    return later_passes(n, table, work);
}

static inline void store_complex(double *to, vec re, vec im) {
    STORE(to, ZIP_LOW(re, im));
    STORE(to + LANES, ZIP_HIGH(re, im));
}

/* Frequencies 0 .. m of a real signal from the transform of its m pairs; `turn` holds the cosines, then the
   sines, of 2 pi k / n for k = 0 .. m. The next spectrum goes `next` doubles on. */
static void unpack(i64 m, const double *turn, struct parts z, double *x, i64 next) {
    x[0] = z.re[0] + z.im[0];
    x[1] = 0;
    z.re[m] = z.re[0]; /* Z[m] = Z[0]; the skew leaves room for it */
    z.im[m] = z.im[0];
    for (i64 k = 1; k <= m; k += LANES) {
        i64 from = m - k + 1 - LANES; /* to m - k */
        vec zr = LOAD(vec, z.re + k), yr = LOAD(vec, z.re + from), c = LOAD(vec, turn + k);
        vec zi = LOAD(vec, z.im + k), yi = LOAD(vec, z.im + from), s = LOAD(vec, turn + m + 1 + k);
        yr = BACK(yr);
        yi = BACK(yi);
        vec or = zi + yi, oi = yr - zr;
        __builtin_prefetch(x + 2 * k + next, 1);
        if (LANES == 8) __builtin_prefetch(x + 2 * k + 8 + next, 1);
        store_complex(x + 2 * k, 0.5 * (zr + yr + c * or + s * oi), 0.5 * (zi - yi + c * oi - s * or));
    }
    x[2 * m + 1] = 0;
}

/* X[n - k] = conj X[k]: the other half of the spectrum of a real signal. */
static void mirror(i64 n, double *x) {
    for (i64 k = 1; k < n / 2; k++) {
        x[2 * (n - k)] = x[2 * k];
        x[2 * (n - k) + 1] = -x[2 * k + 1];
    }
}

/* ---- short windows ------------------------------------------------------------------------------- */

/* Windows of 16 and 32 real samples are too short to fill vectors by themselves: LANES of them are transformed
   side by side, item i of all being one vector. They still do not feel each other. */
enum { LONGEST_OF_LANES = 16 }; /* complex items */

struct lanes { vec re[LONGEST_OF_LANES + 1], im[LONGEST_OF_LANES + 1]; };

static inline __attribute__((always_inline)) void transform_lanes(i64 m, const double *table, struct lanes *z) {
    struct lanes y;
    i64 quarter = m / 4, k = quarter + SKEW;
    for (i64 p = 0; p < quarter; p++) {
        const double *w = table + p;
        vec ar = z->re[p], br = z->re[p + quarter], cr = z->re[p + 2 * quarter], dr = z->re[p + 3 * quarter];
        vec ai = z->im[p], bi = z->im[p + quarter], ci = z->im[p + 2 * quarter], di = z->im[p + 3 * quarter];
        BUTTERFLY(vec, w[0], w[k], w[2 * k], w[3 * k], w[4 * k], w[5 * k]);
        y.re[4 * p] = y0r; y.re[4 * p + 1] = y1r; y.re[4 * p + 2] = y2r; y.re[4 * p + 3] = y3r;
        y.im[4 * p] = y0i; y.im[4 * p + 1] = y1i; y.im[4 * p + 2] = y2i; y.im[4 * p + 3] = y3i;
    }
    for (i64 q = 0; q < 4; q++) { /* what is left are transforms of four or two, without twiddles */
        if (m == 8) {
            z->re[q] = y.re[q] + y.re[q + 4]; z->re[q + 4] = y.re[q] - y.re[q + 4];
            z->im[q] = y.im[q] + y.im[q + 4]; z->im[q + 4] = y.im[q] - y.im[q + 4];
            continue;
        }
        vec ar = y.re[q], br = y.re[q + 4], cr = y.re[q + 8], dr = y.re[q + 12];
        vec ai = y.im[q], bi = y.im[q + 4], ci = y.im[q + 8], di = y.im[q + 12];
        vec pr = ar + cr, pi = ai + ci, mr = ar - cr, mi = ai - ci;
        vec qr = br + dr, qi = bi + di, nr = br - dr, ni = bi - di;
        z->re[q] = pr + qr; z->re[q + 4] = mr + ni; z->re[q + 8] = pr - qr; z->re[q + 12] = mr - ni;
        z->im[q] = pi + qi; z->im[q + 4] = mi - nr; z->im[q + 8] = pi - qi; z->im[q + 12] = mi + nr;
    }
}

/* Half spectra of up to LANES windows of 2 m samples, each wherever it lies. */
static inline __attribute__((always_inline)) void spectra_of_lanes(i64 m, i64 rows, const double *const *x,
        const double *table, const double *turn, i64 width, double *out) {
    struct lanes z;
    for (i64 b = 0; b < m; b += LANES / 2) {
        vec t[LANES];
        for (i64 l = 0; l < LANES; l++) t[l] = LOAD(vec, x[min_i64(l, rows - 1)] + 2 * b);
        transpose(t);
        for (int i = 0; i < LANES / 2; i++) { z.re[b + i] = t[2 * i]; z.im[b + i] = t[2 * i + 1]; }
    }
    transform_lanes(m, table, &z);
    z.re[m] = z.re[0] - z.im[0];
    z.re[0] = z.re[0] + z.im[0];
    z.im[0] = (vec){0};
    for (i64 k = 1, j = m - 1; k <= j; k++, j--) { /* X[k] = E + T and X[m-k] = conj (E - T), T being turned O */
        double c = 0.5 * turn[k], s = 0.5 * turn[m + 1 + k];
        vec or = z.im[k] + z.im[j], oi = z.re[j] - z.re[k], er = 0.5 * (z.re[k] + z.re[j]);
        vec tr = c * or + s * oi, ti = c * oi - s * or, ei = 0.5 * (z.im[k] - z.im[j]);
        z.re[j] = er - tr; z.im[j] = ti - ei;
        z.re[k] = er + tr; z.im[k] = ei + ti;
    }
    for (i64 b = 0; b < m; b += LANES / 2) {
        vec t[LANES];
        for (int i = 0; i < LANES / 2; i++) { t[2 * i] = z.re[b + i]; t[2 * i + 1] = z.im[b + i]; }
        transpose(t);
        for (i64 l = 0; l < rows; l++) STORE(out + l * width + 2 * b, t[l]);
    }
    for (i64 l = 0; l < rows; l++) {
        out[l * width + 2 * m] = z.re[m][l];
        out[l * width + 2 * m + 1] = 0;
    }
}

/* Up to LANES windows of 2 m samples from their half spectra. */
static inline __attribute__((always_inline)) void windows_of_lanes(i64 m, i64 rows, const double *x,
        const double *table, const double *turn, double *out) {
    struct lanes z;
    double scale = 0.5 / (double)m;
    for (i64 b = 0; b < m; b += LANES / 2) {
        vec t[LANES];
        for (i64 l = 0; l < LANES; l++) t[l] = LOAD(vec, x + min_i64(l, rows - 1) * 2 * (m + 1) + 2 * b);
        transpose(t);
        for (int i = 0; i < LANES / 2; i++) { z.re[b + i] = t[2 * i]; z.im[b + i] = t[2 * i + 1]; }
    }
    for (i64 l = 0; l < LANES; l++) z.re[m][l] = x[min_i64(l, rows - 1) * 2 * (m + 1) + 2 * m];
    z.im[0] = z.re[0] + z.re[m]; /* parts exchanged: the inverse transform is the transform between exchanges */
    z.re[0] = z.re[0] - z.re[m];
    for (i64 k = 1, j = m - 1; k <= j; k++, j--) {
        double c = turn[k], s = turn[m + 1 + k];
        vec dr = z.re[k] - z.re[j], di = z.im[k] + z.im[j], er = z.re[k] + z.re[j], ei = z.im[k] - z.im[j];
        vec tr = dr * s + di * c, ti = dr * c - di * s;
        z.im[j] = er + tr; z.re[j] = ti - ei;
        z.im[k] = er - tr; z.re[k] = ti + ei;
    }
    transform_lanes(m, table, &z);
    for (i64 b = 0; b < m; b += LANES / 2) {
        vec t[LANES];
        for (int i = 0; i < LANES / 2; i++) { t[2 * i] = scale * z.im[b + i]; t[2 * i + 1] = scale * z.re[b + i]; }
        transpose(t);
        for (i64 l = 0; l < rows; l++) STORE(out + l * 2 * m + 2 * b, t[l]);
    }
}

static void short_spectra(i64 rows, const double *const *x, i64 n, i64 width, const double *table,
                          const double *turn, double *out) {
    for (i64 r = 0; r < rows; r += LANES) {
        i64 few = min_i64(LANES, rows - r);
        if (n == 16) spectra_of_lanes(8, few, x + r, table, turn, width, out + r * width);
        else spectra_of_lanes(16, few, x + r, table, turn, width, out + r * width);
    }
}

static void short_windows(i64 rows, const double *x, i64 n, const double *table, const double *turn,
                          double *out) {
    for (i64 r = 0; r < rows; r += LANES) {
        i64 few = min_i64(LANES, rows - r);
        if (n == 16) windows_of_lanes(8, few, x + r * (n + 2), table, turn, out + r * n);
        else windows_of_lanes(16, few, x + r * (n + 2), table, turn, out + r * n);
    }
}

/* ---- many windows -------------------------------------------------------------------------------- */

double *room_for_windows(i64 n) { return malloc((size_t)room(max_i64(n / 2, 32)) * sizeof(double)); }

/* The half spectrum of one window of more than 32 samples; the next window and spectrum are fetched. */
static void half_spectrum(const double *x, i64 pitch, i64 n, i64 width, const double *table,
                          const double *turn, double *work, double *out) {
    struct parts z = transform_complex(n / 2, table, x, pitch, work);
    for (i64 i = 0; n <= 256 && i < n; i += 8) /* a short window is over before its fetches are */
        __builtin_prefetch(x + pitch + i);
    unpack(n / 2, turn, z, out, width);
}

void half_spectra(i64 rows, const double *const *x, i64 n, const double *table, const double *turn,
                  double *work, double *out) {
    if (n / 2 <= LONGEST_OF_LANES) short_spectra(rows, x, n, n + 2, table, turn, out);
    else
        for (i64 r = 0; r < rows; r++) half_spectrum(x[r], 0, n, n + 2, table, turn, work, out + r * (n + 2));
}

/* Spectra of `rows` real windows that begin `pitch` doubles apart: n / 2 + 1 bins each, or all n of them.
   `table` is that of n / 2. */
i64 vs_rfft(i64 rows, i64 pitch, const double *x, i64 n, i64 all, const double *table, const double *turn,
            double *out) {
    i64 width = 2 * (all ? n : n / 2 + 1);
    double *work = room_for_windows(n);
    if (!work) return -1;
    i64 step = n / 2 <= LONGEST_OF_LANES ? BATCH : 1;
    for (i64 r = 0; r < rows; r += step) {
        i64 few = min_i64(step, rows - r);
        if (step > 1) {
            const double *at[BATCH];
            for (i64 l = 0; l < BATCH; l++) at[l] = x + min_i64(r + l, rows - 1) * pitch;
            short_spectra(few, at, n, width, table, turn, out + r * width);
        } else half_spectrum(x + r * pitch, pitch, n, width, table, turn, work, out + r * width);
        for (i64 l = r; all && l < r + few; l++) mirror(n, out + l * width);
    }
    free(work);
    return 0;
}

/* One window of more than 32 samples from its half spectrum. */
static void real_window(const double *x, i64 n, const double *table, const double *turn, double *work,
                        double *out) {
    i64 m = n / 2;
    double scale = 1.0 / (double)n;
    struct parts z = upper(m, work);
    const double *cosine = turn, *sine = turn + m + 1;
    for (i64 k = 0; k < m; k += LANES) { /* twice E and O, which `scale` makes up for */
        const double *end = x + 2 * (m - k + 1);
        vec a = LOAD(vec, x + 2 * k), b = LOAD(vec, x + 2 * k + LANES), c = LOAD(vec, cosine + k);
        vec d = LOAD(vec, end - 2 * LANES), e = LOAD(vec, end - LANES), s = LOAD(vec, sine + k);
        vec ar = EVENS(a, b), ai = ODDS(a, b), br = EVENS_BACK(d, e), bi = -ODDS_BACK(d, e);
        vec dr = ar - br, di = ai - bi;
        STORE(z.re + k, ar + br - (dr * s + di * c));
        STORE(z.im + k, ai + bi + (dr * c - di * s));
    }
    z.re[0] = x[0] + x[2 * m];
    z.im[0] = x[0] - x[2 * m];
    struct parts y = transform(m, table, (struct source){z.im, z.re}, work);
    for (i64 i = 0; i < m; i += LANES)
        store_complex(out + 2 * i, scale * LOAD(vec, y.im + i), scale * LOAD(vec, y.re + i));
}

void real_windows(i64 rows, const double *x, i64 n, const double *table, const double *turn, double *work,
                  double *out) {
    if (n / 2 <= LONGEST_OF_LANES)
        for (i64 r = 0; r < rows; r += BATCH)
            short_windows(min_i64(BATCH, rows - r), x + r * (n + 2), n, table, turn, out + r * n);
    else
        for (i64 r = 0; r < rows; r++) real_window(x + r * (n + 2), n, table, turn, work, out + r * n);
}

/* Real windows from half spectra; the imaginary parts of the first and the last bin count as zero. */
i64 vs_irfft(i64 rows, const double *x, i64 n, const double *table, const double *turn, double *out) {
    double *work = room_for_windows(n);
    if (!work) return -1;
    real_windows(rows, x, n, table, turn, work, out);
    free(work);
    return 0;
}

/* Spectra of complex windows, or with inverse = 1 the windows of spectra. */
i64 vs_fft(i64 rows, i64 pitch, const double *x, i64 n, i64 inverse, const double *table, double *out) {
    double *work = malloc((size_t)room(n) * sizeof *work), scale = 1.0 / (double)n;
    if (!work) return -1;
    struct parts z = upper(n, work);
    for (i64 r = 0; r < rows; r++) {
        const double *from = x + 2 * r * pitch;
        double *to = out + 2 * r * n;
        if (!inverse) {
            struct parts y = transform_complex(n, table, from, 2 * pitch, work);
            for (i64 i = 0; i < n; i += LANES) store_complex(to + 2 * i, LOAD(vec, y.re + i), LOAD(vec, y.im + i));
            continue;
        }
        for (i64 i = 0; i < n; i++) { z.re[i] = from[2 * i]; z.im[i] = from[2 * i + 1]; }
        struct parts y = transform(n, table, (struct source){z.im, z.re}, work);
        for (i64 i = 0; i < n; i += LANES)
            store_complex(to + 2 * i, scale * LOAD(vec, y.im + i), scale * LOAD(vec, y.re + i));
    }
    free(work);
    return 0;
}

/* Samples i .. i + n - 1 of component c, where the `keep` samples before x are the history; zero after m. */
static void gather(const double *history, i64 keep, const double *x, i64 m, i64 w, i64 c, i64 i, i64 n,
                   double *to) {
    i64 j = 0;
    for (; j < n && i + j < keep; j++) to[j] = history[(i + j) * w + c];
    i64 stop = i + n <= keep + m ? n : keep + m - i;
    const double *from = x + (i - keep) * w + c;
    if (w == 1 && j < stop) memcpy(to + j, from + j, (size_t)(stop - j) * 8);
    else for (i64 l = j; l < stop; l++) to[l] = from[l * w];
    j = stop > j ? stop : j;
    if (j < n) memset(to + j, 0, (size_t)(n - j) * 8);
}

/* y[i] = sum_j taps[j] x[i - j] for m samples of w components by overlap-save. A cyclic convolution of n
   samples gives n - keep good outputs, keep being one less than the taps. Two blocks of the signal, a + i b,
   share a transform: the taps being real, the parts stay apart. All samples must be finite.
   `response` is the spectrum of the taps over n, divided by n, real parts before imaginary ones. */
i64 vs_overlap_save(const double *history, i64 keep, const double *x, i64 m, i64 w, i64 n,
                    const double *response, const double *table, double *out) {
    i64 step = n - keep;
    double *work = malloc((size_t)room(n) * sizeof *work);
    if (!work) return -1;
    struct parts z = upper(n, work);
    for (i64 c = 0; c < w; c++)
        for (i64 i = 0; i < m; i += 2 * step) {
            gather(history, keep, x, m, w, c, i, n, z.re);
            gather(history, keep, x, m, w, c, i + step, n, z.im);
            struct parts y = transform(n, table, (struct source){z.re, z.im}, work);
            const double *hr = response, *hi = response + n;
            for (i64 k = 0; k < n; k += LANES) { /* y may be where z is: each item is read before it is written */
                vec re = LOAD(vec, y.re + k), cr = LOAD(vec, hr + k);
                vec im = LOAD(vec, y.im + k), ci = LOAD(vec, hi + k);
                STORE(z.re + k, re * cr - im * ci);
                STORE(z.im + k, re * ci + im * cr);
            }
            y = transform(n, table, (struct source){z.im, z.re}, work);
            i64 first = m - i < step ? m - i : step, second = m - i - step < step ? m - i - step : step;
            double *to = out + i * w + c;
            for (i64 j = 0; j < first; j++) to[j * w] = y.im[keep + j];
            for (i64 j = 0; j < second; j++) to[(step + j) * w] = y.re[keep + j];
        }
    free(work);
    return 0;
}
