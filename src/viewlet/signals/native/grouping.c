/* Rows of a batch brought together by key, checked for order, and written out again. */

#include "kernels.h"

/* Rows ahead whose random accesses are begun early: misses then overlap instead of following each other. */
enum { AHEAD = 24 };

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

/* The same for keys in [0, size): `direct` holds number + 1 of each, zero where it was not seen yet. Stops at a
   key that lies elsewhere, or when there are `room` numbers. */
i64 vs_encode_direct(const i64 *key, i64 n, int32_t *direct, i64 size, i64 room, i64 *labels, i64 *count,
                     i64 *out) {
    i64 seen = *count, i;
    for (i = 0; i < n && (uint64_t)key[i] < (uint64_t)size; i++) {
        i64 number = direct[key[i]];
        if (number == 0) {
            if (seen == room) break;
            labels[seen] = key[i];
            number = direct[key[i]] = (int32_t)++seen;
        }
        out[i] = number - 1;
    }
    *count = seen;
    return i;
}

/* How many keys take turns: the g after which the first key comes again, if every key is that of g rows
   before, and there are at least two rounds; else 0. */
i64 vs_rounds(const i64 *key, i64 n) {
    i64 g = 1;
    while (g < n && key[g] != key[0]) g++;
    if (n < 2 * g) return 0;
    for (i64 base = g; base < n; base += 1024) {
        i64 stray = 0;
        for (i64 i = base; i < min_i64(base + 1024, n); i++) stray |= key[i] ^ key[i - g];
        if (stray) return 0;
    }
    return g;
}

static inline i64 distance(i64 from, i64 to) { return (i64)((uint64_t)to - (uint64_t)from); } /* may wrap */

/* The distance in time of a row from the row g before it, if it is the same throughout and positive; else -1. */
i64 vs_beat(const i64 *start, i64 n, i64 g) {
    i64 stride = distance(start[0], start[g]);
    if (stride <= 0) return -1;
    for (i64 base = g; base < n; base += 1024) {
        i64 stray = 0;
        for (i64 i = base; i < min_i64(base + 1024, n); i++) stray |= distance(start[i - g], start[i]) ^ stride;
        if (stray) return -1;
    }
    return stride;
}

/* Rows that come in rounds of g keys, put one key after the other: words of eight bytes. */
void vs_turn(const i64 *src, i64 n, i64 g, i64 *dst) {
    i64 rounds = n / g, rest = n % g, r = 0;
    for (; r + LANES <= rounds; r += LANES) {
        const i64 *from = src + r * g;
        i64 j = 0;
        for (; j + LANES <= g; j += LANES) {
            vec x[LANES];
            for (int l = 0; l < LANES; l++) x[l] = LOAD(vec, from + l * g + j);
            transpose(x);
            for (int l = 0; l < LANES; l++) STORE(dst + (j + l) * rounds + min_i64(j + l, rest) + r, x[l]);
        }
        for (; j < g; j++)
            for (int l = 0; l < LANES; l++) dst[j * rounds + min_i64(j, rest) + r + l] = from[l * g + j];
    }
    for (; r * g < n; r++)
        for (i64 j = 0; j < min_i64(g, n - r * g); j++) dst[j * rounds + min_i64(j, rest) + r] = src[r * g + j];
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

/* The same for so many groups that the lines they write to outgrow the cache: rows of neighbouring ids, which
   differ below `shift` bits, are brought together first. `rows` holds them all, `cursor` a word for each of
   `parts` neighbourhoods. */
void vs_place_far(const i64 *id, i64 n, i64 *count, const i64 *a, const i64 *b, struct row *rows, i64 *cursor,
                  i64 parts, i64 shift, i64 *to_a, i64 *to_b) {
    i64 begin = 0;
    memset(cursor, 0, (size_t)parts * sizeof *cursor);
    for (i64 i = 0; i < n; i++) cursor[id[i] >> shift]++;
    for (i64 p = 0; p < parts; p++) {
        i64 size = cursor[p];
        cursor[p] = begin;
        begin += size;
    }
    for (i64 i = 0; i < n; i++) rows[cursor[id[i] >> shift]++] = (struct row){id[i], a[i], b[i]};
    for (i64 i = 0; i < n; i++) {
        if (i + AHEAD < n) {
            i64 next = count[rows[i + AHEAD].id];
            __builtin_prefetch(to_a + next, 1);
            __builtin_prefetch(to_b + next, 1);
        }
        i64 p = count[rows[i].id]++;
        to_a[p] = rows[i].a;
        to_b[p] = rows[i].b;
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
