/* text.h: what SQL does with UTF-8 text: LIKE, SUBSTRING, length, order.
 *
 * A character is a code point. Bytes that are not valid UTF-8 count as one character each, so every
 * function is total. Order is byte order, which is code point order for valid UTF-8.
 */
#ifndef VL_TEXT_H
#define VL_TEXT_H

#include "status.h"

typedef struct {
    const uint8_t *bytes;
    uint64_t length; /* in bytes */
} vl_text;

/* Bytes of the character at p[0], n >= 1 bytes left: 1..4. */
VL_INLINE uint64_t vl_utf8_step(const uint8_t *p, uint64_t n) {
    if (VL_LIKELY(p[0] < 0x80)) return 1;
    uint64_t size = p[0] >= 0xf0 && p[0] < 0xf5 ? 4 : p[0] >= 0xe0 && p[0] < 0xf0 ? 3 : p[0] >= 0xc2 && p[0] < 0xe0 ? 2 : 1;
    if (size > n) return 1;
    for (uint64_t i = 1; i < size; i++)
        if ((p[i] & 0xc0) != 0x80) return 1;
    if (size == 3 && ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f))) return 1;
    if (size == 4 && ((p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))) return 1;
    return size;
}

VL_FUNCTION bool vl_utf8_valid(vl_text t) {
    for (uint64_t i = 0; i < t.length;) {
        uint64_t step = vl_utf8_step(t.bytes + i, t.length - i);
        if (step == 1 && t.bytes[i] >= 0x80) return false;
        i += step;
    }
    return true;
}

/* CHAR_LENGTH */
VL_LENT int64_t vl_text_length(vl_text t);
/* Negative, zero or positive, by bytes; a prefix comes first. */
VL_LENT int vl_text_compare(vl_text x, vl_text y);
/* SUBSTRING(t, position, length) as Spark reads it: positions count from 1, 0 means 1, negative ones
 * count from the end; characters before the start are cut off the length. */
VL_LENT vl_text vl_text_substring(vl_text t, int64_t position, int64_t length);
/* Where `part` first lies in t, as a byte offset from `from`; t.length + 1 when nowhere. */
VL_LENT uint64_t vl_text_find(vl_text t, vl_text part, uint64_t from);
/* t LIKE pattern ESCAPE escape. `%` is any run, `_` one character. Two cursors and one place to come
 * back to: after a later `%` an earlier one never needs to be tried again. */
VL_LENT bool vl_like(vl_text t, vl_text pattern, int escape);

/* The byte offset of character number `characters`, at most the length. */
VL_INLINE uint64_t vl_text_offset(vl_text t, int64_t characters) {
    uint64_t i = 0;
    for (; characters > 0 && i < t.length; characters--) i += vl_utf8_step(t.bytes + i, t.length - i);
    return i;
}

/* VL_E_TEXT when the pattern's escape (a byte below 0x80, or -1 for none) is not followed by %, _ or
 * itself: Spark refuses such a pattern, so check it when the view is created. */
VL_FUNCTION vl_errors vl_like_check(vl_text pattern, int escape) {
    for (uint64_t i = 0; i < pattern.length; i++) {
        if (pattern.bytes[i] != escape) continue;
        if (++i == pattern.length) return VL_E_TEXT;
        uint8_t next = pattern.bytes[i];
        if (next != '%' && next != '_' && next != escape) return VL_E_TEXT;
    }
    return VL_OK;
}

#ifndef VL_HOSTED

VL_LENT int64_t vl_text_length(vl_text t) {
    int64_t n = 0;
    for (uint64_t i = 0; i < t.length; n++) i += vl_utf8_step(t.bytes + i, t.length - i);
    return n;
}

VL_LENT int vl_text_compare(vl_text x, vl_text y) {
    uint64_t n = x.length < y.length ? x.length : y.length;
    int order = n ? memcmp(x.bytes, y.bytes, n) : 0;
    return order ? order : (x.length > y.length) - (x.length < y.length);
}

VL_LENT vl_text vl_text_substring(vl_text t, int64_t position, int64_t length) {
    int64_t start = position > 0 ? position - 1 : position < 0 ? vl_text_length(t) + position : 0, end;
    if (length <= 0) return (vl_text){t.bytes, 0};
    if (__builtin_add_overflow(start, length, &end)) end = INT64_MAX;
    if (end <= 0) return (vl_text){t.bytes, 0};
    uint64_t from = vl_text_offset(t, start);
    vl_text rest = {t.bytes + from, t.length - from};
    return (vl_text){rest.bytes, vl_text_offset(rest, end - (start > 0 ? start : 0))};
}

VL_LENT uint64_t vl_text_find(vl_text t, vl_text part, uint64_t from) {
    if (part.length == 0) return from;
    while (part.length <= t.length && from <= t.length - part.length) {
        const uint8_t *hit = memchr(t.bytes + from, part.bytes[0], t.length - part.length - from + 1);
        if (!hit) break;
        if (memcmp(hit, part.bytes, part.length) == 0) return (uint64_t)(hit - t.bytes);
        from = (uint64_t)(hit - t.bytes) + 1;
    }
    return t.length + 1;
}

VL_LENT bool vl_like(vl_text t, vl_text pattern, int escape) {
    const uint8_t *s = t.bytes, *p = pattern.bytes;
    uint64_t i = 0, j = 0, n = t.length, m = pattern.length, retry_i = 0, retry_j = m + 1;
    for (;;) {
        bool matched = false;
        if (j < m && p[j] == '%' && p[j] != escape) {
            retry_j = ++j;
            retry_i = i;
            continue;
        }
        if (j == m) {
            if (i == n) return true;
        } else if (i < n) {
            if (p[j] == '_' && p[j] != escape) {
                i += vl_utf8_step(s + i, n - i);
                j++;
                matched = true;
            } else {
                uint64_t literal = p[j] == escape && j + 1 < m ? j + 1 : j;
                if (s[i] == p[literal]) {
                    i++;
                    j = literal + 1;
                    matched = true;
                }
            }
        }
        if (matched) continue;
        if (retry_j > m || retry_i >= n) return false;
        retry_i += vl_utf8_step(s + retry_i, n - retry_i);
        i = retry_i;
        j = retry_j;
    }
}

#endif

#endif
