/* interned.h: interned strings: equal strings have equal 32-bit ids, so keys are compared as integers.
 *
 *   bool vl_strings_init(a, s)
 *   uint32_t vl_intern(a, s, text)         the id, new if need be; 0 with VL_E_LOST without memory
 *   uint32_t vl_string_find(a, s, text)    the id, or 0 when it was never interned
 *   vl_text vl_string_at(a, s, id)         valid until the string is swept
 *   int vl_string_compare(a, s, x, y)      byte order
 *
 * An id is stable. Nothing is counted on the hot path; instead memory is reclaimed between batches by
 * mark and sweep, for instance whenever s->index.count has doubled since the last sweep:
 *   vl_strings_mark(s); for every string column of every live record: vl_string_keep(a, s, id);
 *   vl_strings_sweep(a, s);
 * Ids of constants in the program are pinned once with vl_string_pin. Sweeping may hand out an id again,
 * so it starts a new generation and every memo forgets.
 *
 * Memo: the answer of a function of one string (LIKE, SUBSTRING, a cast), computed once per id:
 *   uint32_t y = vl_memo_get(a, memo, s, id);
 *   if (y == VL_UNKNOWN) vl_memo_put(a, memo, s, id, y = like(...));
 * A memo holds any uint32_t but VL_UNKNOWN; use vl_memo8 for answers below 255 (a quarter of the memory).
 */
#ifndef VL_INTERNED_H
#define VL_INTERNED_H

#include "hash.h"
#include "pool.h"
#include "text.h"

typedef struct {
    vl_ref bytes;
    uint32_t length;
    uint32_t id;
    uint32_t hash;
    uint32_t mark; /* the round of marking that last reached it; VL_PINNED = always reached */
} vl_string;

typedef struct {
    vl_pool pool;
    vl_index index;
    vl_account account; /* of the bytes */
    uint32_t round;
    uint32_t generation; /* changes when ids may have changed meaning */
} vl_strings;

#define VL_PINNED UINT32_MAX
#define VL_UNKNOWN UINT32_MAX

VL_LENT bool vl_strings_init(vl_arena *a, vl_strings *s);
VL_LENT uint32_t vl_intern(vl_arena *a, vl_strings *s, vl_text t);

/* The strings of a program, with which its state begins. */
VL_INLINE vl_strings *vl_strings_of(const vl_arena *a) { return vl_at(a, vl_head(a)->roots[0]); }

VL_INLINE vl_string *vl_string_record(const vl_arena *a, const vl_strings *s, uint32_t id) {
    return vl_pool_at(a, &s->pool, id, sizeof(vl_string));
}

VL_INLINE vl_text vl_string_at(const vl_arena *a, const vl_strings *s, uint32_t id) {
    const vl_string *r = vl_string_record(a, s, id);
    return (vl_text){vl_at(a, r->bytes), r->length};
}

VL_INLINE uint32_t vl_string_lookup(const vl_arena *a, const vl_strings *s, vl_text t, uint32_t hash) {
    uint32_t id;
    for (vl_probe p = vl_index_probe(a, &s->index, hash); (id = vl_index_match(&p)) != 0;) {
        vl_text other = vl_string_at(a, s, id);
        if (other.length == t.length && (t.length == 0 || memcmp(other.bytes, t.bytes, t.length) == 0)) return id;
    }
    return 0;
}

VL_FUNCTION uint32_t vl_string_find(const vl_arena *a, const vl_strings *s, vl_text t) {
    return vl_string_lookup(a, s, t, vl_hash32(vl_hash_bytes(t.bytes, t.length)));
}

VL_INLINE int vl_string_compare(const vl_arena *a, const vl_strings *s, uint32_t x, uint32_t y) {
    return x == y ? 0 : vl_text_compare(vl_string_at(a, s, x), vl_string_at(a, s, y));
}

/* ---- reclaiming ---- */

VL_INLINE void vl_string_pin(vl_arena *a, vl_strings *s, uint32_t id) { vl_string_record(a, s, id)->mark = VL_PINNED; }

VL_INLINE void vl_strings_mark(vl_strings *s) { s->round = s->round == VL_PINNED - 1 ? 1 : s->round + 1; }

VL_INLINE void vl_string_keep(vl_arena *a, vl_strings *s, uint32_t id) {
    vl_string *r = vl_string_record(a, s, id);
    if (r->mark != VL_PINNED) r->mark = s->round;
}

/* Releases every string that was not kept since vl_strings_mark; says how many. */
VL_FUNCTION uint64_t vl_strings_sweep(vl_arena *a, vl_strings *s) {
    uint64_t swept = 0;
    vl_string *r;
    for (uint32_t id = 1; (r = vl_pool_from(a, &s->pool, id, sizeof *r, offsetof(vl_string, id))) != NULL; id++) {
        id = r->id;
        if (r->mark == s->round || r->mark == VL_PINNED) continue;
        vl_index_remove(a, &s->index, r->hash, id);
        vl_free(a, &s->account, r->bytes, r->length);
        vl_pool_release(a, &s->pool, r, sizeof *r, offsetof(vl_string, id));
        swept++;
    }
    if (swept) s->generation++;
    return swept;
}

/* ---- memos ---- */

typedef struct {
    vl_account account;
    vl_ref answers;
    uint32_t capacity;
    uint32_t generation;
} vl_memo;

/* Room for answers about every id of today; unknown until put. Without memory the memo stays as it is
 * and simply remembers less. */
VL_LENT void vl_memo_widen(vl_arena *a, vl_memo *memo, const vl_strings *s, uint64_t width);

VL_INLINE bool vl_memo_covers(const vl_memo *memo, const vl_strings *s, uint32_t id) {
    return VL_LIKELY(id < memo->capacity && memo->generation == s->generation);
}

VL_INLINE uint32_t vl_memo_get(const vl_arena *a, const vl_memo *memo, const vl_strings *s, uint32_t id) {
    return vl_memo_covers(memo, s, id) ? ((const uint32_t *)vl_at(a, memo->answers))[id] : VL_UNKNOWN;
}

VL_INLINE void vl_memo_put(vl_arena *a, vl_memo *memo, const vl_strings *s, uint32_t id, uint32_t answer) {
    if (!vl_memo_covers(memo, s, id)) vl_memo_widen(a, memo, s, sizeof(uint32_t));
    if (vl_memo_covers(memo, s, id)) ((uint32_t *)vl_at(a, memo->answers))[id] = answer;
}

VL_INLINE uint32_t vl_memo8_get(const vl_arena *a, const vl_memo *memo, const vl_strings *s, uint32_t id) {
    if (!vl_memo_covers(memo, s, id)) return VL_UNKNOWN;
    uint8_t answer = ((const uint8_t *)vl_at(a, memo->answers))[id];
    return answer == UINT8_MAX ? VL_UNKNOWN : answer;
}

VL_INLINE void vl_memo8_put(vl_arena *a, vl_memo *memo, const vl_strings *s, uint32_t id, uint8_t answer) {
    if (!vl_memo_covers(memo, s, id)) vl_memo_widen(a, memo, s, sizeof(uint8_t));
    if (vl_memo_covers(memo, s, id)) ((uint8_t *)vl_at(a, memo->answers))[id] = answer;
}

#ifndef VL_HOSTED

VL_LENT bool vl_strings_init(vl_arena *a, vl_strings *s) {
    memset(s, 0, sizeof *s);
    s->generation = s->round = 1;
    return vl_pool_init(a, &s->pool, sizeof(vl_string)) && vl_index_init(a, &s->index);
}

VL_COLD uint32_t vl_string_lost(vl_arena *a) {
    a->errors |= VL_E_LOST;
    return 0;
}

VL_FUNCTION uint32_t vl_string_new(vl_arena *a, vl_strings *s, vl_text t, uint32_t hash) {
    if (t.length > UINT32_MAX) return vl_string_lost(a);
    vl_ref bytes = vl_alloc(a, &s->account, t.length);
    if (!bytes) return vl_string_lost(a);
    vl_string *r = vl_pool_take(a, &s->pool, sizeof *r, offsetof(vl_string, id));
    if (r->id == 0 || !vl_index_insert(a, &s->index, hash, r->id)) {
        if (r->id) vl_pool_release(a, &s->pool, r, sizeof *r, offsetof(vl_string, id));
        vl_free(a, &s->account, bytes, t.length);
        return vl_string_lost(a);
    }
    if (t.length) memcpy(vl_at(a, bytes), t.bytes, t.length);
    r->bytes = bytes;
    r->length = (uint32_t)t.length;
    r->hash = hash;
    r->mark = s->round;
    return r->id;
}

VL_LENT uint32_t vl_intern(vl_arena *a, vl_strings *s, vl_text t) {
    uint32_t hash = vl_hash32(vl_hash_bytes(t.bytes, t.length));
    uint32_t id = vl_string_lookup(a, s, t, hash);
    return id ? id : vl_string_new(a, s, t, hash);
}

VL_LENT void vl_memo_widen(vl_arena *a, vl_memo *memo, const vl_strings *s, uint64_t width) {
    vl_errors before = a->errors;
    uint64_t wanted = vl_round_up(s->pool.end + s->pool.end / 2, 64);
    bool stale = memo->generation != s->generation;
    if (wanted > memo->capacity && wanted <= UINT32_MAX) {
        vl_ref fresh = vl_try_alloc(a, &memo->account, wanted * width);
        if (fresh) {
            memset(vl_at(a, fresh), 0xff, wanted * width);
            if (memo->capacity) {
                if (!stale) memcpy(vl_at(a, fresh), vl_at(a, memo->answers), memo->capacity * width);
                vl_free(a, &memo->account, memo->answers, memo->capacity * width);
            }
            memo->answers = fresh;
            memo->capacity = (uint32_t)wanted;
            stale = false;
        }
    }
    if (stale && memo->capacity) memset(vl_at(a, memo->answers), 0xff, memo->capacity * width);
    memo->generation = s->generation;
    a->errors = before; /* forgetting is no failure */
}

#endif

#endif
