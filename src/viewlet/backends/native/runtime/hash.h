/* hash.h: hash functions of key columns, and the {hash, id} index shared by pooled maps and strings.
 *
 * A key is hashed column by column. Every column becomes one 64-bit word first:
 *   integers, dates, booleans, string ids   the value itself
 *   DOUBLE                                  vl_f64_key(x): one word for 0.0 and -0.0, one for every NaN
 *   DECIMAL                                 its two halves, as two words
 *   NULL                                    the value word is 0, and the column's bit is set in `nulls`,
 *                                           a word of the key (an array of words beyond 32 columns), so that
 *                                           NULL is a key of its own
 * vl_hash1, vl_hash2, vl_hash3 and nesting of vl_hash2 cover any width. Bits are taken from the top.
 */
#ifndef VL_HASH_H
#define VL_HASH_H

#include "arena.h"

#define VL_SEED0 UINT64_C(0x9e3779b97f4a7c15)
#define VL_SEED1 UINT64_C(0xd6e8feb86659fd93)
#define VL_SEED2 UINT64_C(0xa0761d6478bd642f)

/* Both halves of the 128-bit product: the multiplication spreads upwards, the fold brings it back. */
VL_INLINE uint64_t vl_fold(uint64_t x, uint64_t y) {
    vl_u128 p = (vl_u128)x * y;
    return (uint64_t)p ^ (uint64_t)(p >> 64);
}
VL_INLINE uint64_t vl_hash1(uint64_t x) { return vl_fold(x ^ VL_SEED2, VL_SEED0); }
VL_INLINE uint64_t vl_hash2(uint64_t x, uint64_t y) { return vl_fold(vl_fold(x ^ VL_SEED2, VL_SEED0) ^ y, VL_SEED1); }
VL_INLINE uint64_t vl_hash3(uint64_t x, uint64_t y, uint64_t z) { return vl_fold(vl_hash2(x, y) ^ z, VL_SEED2); }

/* Different words stay different. */
VL_INLINE uint64_t vl_spread(uint64_t x) {
    x = (x ^ x >> 32) * VL_SEED0;
    return x ^ x >> 32;
}

/* The key word of a DOUBLE: SQL groups 0.0 with -0.0 and NaN with NaN. */
VL_INLINE uint64_t vl_f64_key(double x) {
    uint64_t word;
    if (x != x) return UINT64_C(0x7ff8000000000000);
    if (x == 0) x = 0.0;
    memcpy(&word, &x, 8);
    return word;
}
VL_INLINE double vl_f64_of_key(uint64_t word) {
    double x;
    memcpy(&x, &word, 8);
    return x;
}

VL_INLINE uint64_t vl_load64(const uint8_t *p) {
    uint64_t x;
    memcpy(&x, p, 8);
    return x;
}

VL_INLINE uint64_t vl_load32(const uint8_t *p) {
    uint32_t x;
    memcpy(&x, p, 4);
    return x;
}

/* Reads whole words; the last one overlaps its neighbour rather than run past the end. */
VL_FUNCTION uint64_t vl_hash_bytes(const uint8_t *p, uint64_t n) {
    uint64_t h = n * VL_SEED0, tail = 0;
    if (n >= 8) {
        const uint8_t *last = p + n - 8;
        for (; p < last; p += 8) h = vl_fold(h ^ vl_load64(p), VL_SEED1);
        tail = vl_load64(last);
    } else if (n >= 4) {
        tail = vl_load32(p) | vl_load32(p + n - 4) << 32;
    } else if (n > 0) {
        tail = p[0] | (uint64_t)p[n >> 1] << 8 | (uint64_t)p[n - 1] << 16;
    }
    return vl_fold(h ^ tail, VL_SEED2);
}

/* ---- vl_index: open addressing over {hash32, id32}; ids are 1.. and 0 marks a free slot ----
 *
 * Linear probing with backward shift, at most half full: denser, the length of a probe is hard to foresee, and
 * a misprediction costs more than the memory. The hash travels with the id, so growing and removing never
 * touch the records. The owner of the ids decides equality:
 *
 *   uint32_t h = vl_hash32(hash), id;
 *   for (vl_probe p = vl_index_probe(a, ix, h); (id = vl_index_match(&p)) != 0;) if (equal(id)) break;
 */
typedef struct {
    uint32_t hash, id;
} vl_index_slot;

typedef struct {
    vl_account account;
    vl_ref slots;
    uint64_t count;
    uint64_t grow_at;
    uint32_t mask;  /* slots - 1 */
    uint32_t shift; /* 32 - log2(slots) */
} vl_index;

typedef struct {
    const vl_index_slot *slots;
    uint32_t i, mask, hash;
} vl_probe;

enum { VL_INDEX_BITS = 6 }; /* few groups seldom share a slot then: a collision costs a misprediction each time */

/* Where a table that cannot grow asks again for every new key, which brings VL_E_MEMORY: what is left of it is
 * for the other keys of a change that is refused, and is undone from a state that is whole. */
VL_INLINE uint64_t vl_last_mark(uint64_t dense) { return dense - dense / 32 - 2; }

VL_INLINE uint32_t vl_hash32(uint64_t hash) { return (uint32_t)(hash >> 32); }

VL_INLINE vl_probe vl_index_probe(const vl_arena *a, const vl_index *ix, uint32_t hash) {
    return (vl_probe){.slots = vl_at(a, ix->slots), .i = hash >> ix->shift, .mask = ix->mask, .hash = hash};
}

/* The next id whose hash is the probe's, or 0. */
VL_INLINE uint32_t vl_index_match(vl_probe *p) {
    for (;;) {
        vl_index_slot s = p->slots[p->i];
        p->i = (p->i + 1) & p->mask;
        if (s.id == 0 || s.hash == p->hash) return s.id;
    }
}

VL_SHARED void vl_index_prefetch(const vl_arena *a, const vl_index *ix, uint32_t hash) {
    __builtin_prefetch((const vl_index_slot *)vl_at(a, ix->slots) + (hash >> ix->shift));
}

/* False (with VL_E_LOST) when there is no memory for the first table. */
VL_LENT bool vl_index_init(vl_arena *a, vl_index *ix);
/* Forgets all ids. A table much larger than they needed becomes smaller: what was in it came once. */
VL_LENT void vl_index_clear(vl_arena *a, vl_index *ix);
/* Makes room for one more id. When the limit is in the way the table runs denser instead, up to its last mark;
 * only a table that is 15/16 full and cannot grow refuses. */
VL_LENT bool vl_index_make_room(vl_arena *a, vl_index *ix);
/* Tables that lost most of their ids shrink, so that scans and images stay in proportion. */
VL_LENT void vl_index_shrink(vl_arena *a, vl_index *ix);
/* Room for n more ids without any further growth. False leaves the index as it was. */
VL_LENT bool vl_index_reserve(vl_arena *a, vl_index *ix, uint64_t n);

VL_INLINE void vl_index_place(vl_index_slot *slots, uint32_t mask, uint32_t shift, vl_index_slot s) {
    uint32_t i = s.hash >> shift;
    while (slots[i].id) i = (i + 1) & mask;
    slots[i] = s;
}

/* Adds an id that is not in the index. False when it cannot be stored. */
VL_INLINE bool vl_index_insert(vl_arena *a, vl_index *ix, uint32_t hash, uint32_t id) {
    if (VL_UNLIKELY(ix->count >= ix->grow_at) && !vl_index_make_room(a, ix)) return false;
    vl_index_place(vl_at(a, ix->slots), ix->mask, ix->shift, (vl_index_slot){hash, id});
    ix->count++;
    return true;
}

/* Removes an id that is in the index. */
VL_FUNCTION void vl_index_remove(vl_arena *a, vl_index *ix, uint32_t hash, uint32_t id) {
    vl_index_slot *slots = vl_at(a, ix->slots);
    uint32_t mask = ix->mask, i = hash >> ix->shift;
    while (slots[i].id != id) i = (i + 1) & mask;
    for (uint32_t j = (i + 1) & mask; slots[j].id; j = (j + 1) & mask) {
        uint32_t home = slots[j].hash >> ix->shift;
        if (((j - home) & mask) >= ((j - i) & mask)) {
            slots[i] = slots[j];
            i = j;
        }
    }
    slots[i] = (vl_index_slot){0, 0};
    ix->count--;
    if (VL_UNLIKELY(ix->count < mask / 16) && ix->shift < 32 - VL_INDEX_BITS - 2) vl_index_shrink(a, ix);
}

VL_FUNCTION void vl_index_release(vl_arena *a, vl_index *ix) {
    vl_free(a, &ix->account, ix->slots, ((uint64_t)ix->mask + 1) * sizeof(vl_index_slot));
    ix->slots = 0;
}

#ifndef VL_HOSTED

/* Moves to 2^bits slots. False leaves the index as it was. */
VL_COLD bool vl_index_resize(vl_arena *a, vl_index *ix, uint32_t bits) {
    uint64_t bytes = sizeof(vl_index_slot) << bits, old_bytes = ((uint64_t)ix->mask + 1) * sizeof(vl_index_slot);
    if (bits > 31) {
        a->errors |= VL_E_MEMORY;
        return false;
    }
    vl_ref fresh = vl_try_alloc_zeroed(a, &ix->account, bytes);
    if (!fresh) return false;
    vl_index_slot *to = vl_at(a, fresh);
    uint32_t mask = (uint32_t)((UINT64_C(1) << bits) - 1);
    if (ix->slots) {
        const vl_index_slot *from = vl_at(a, ix->slots);
        for (uint64_t i = 0; i <= ix->mask; i++)
            if (from[i].id) vl_index_place(to, mask, 32 - bits, from[i]);
        vl_free(a, &ix->account, ix->slots, old_bytes);
    }
    ix->slots = fresh;
    ix->mask = mask;
    ix->shift = 32 - bits;
    ix->grow_at = ((uint64_t)mask + 1) / 2;
    return true;
}

VL_LENT bool vl_index_init(vl_arena *a, vl_index *ix) {
    memset(ix, 0, sizeof *ix);
    if (vl_index_resize(a, ix, VL_INDEX_BITS)) return true;
    a->errors |= VL_E_LOST;
    return false;
}

VL_LENT void vl_index_clear(vl_arena *a, vl_index *ix) {
    uint32_t bits = 32 - ix->shift, fewer = bits;
    while (fewer > VL_INDEX_BITS && UINT64_C(1) << fewer > 8 * (uint64_t)ix->count) fewer--;
    memset(vl_at(a, ix->slots), 0, sizeof(vl_index_slot) << bits);
    ix->count = 0;
    if (fewer == bits) return;
    vl_errors before = a->errors;
    vl_index_resize(a, ix, fewer);
    a->errors = before; /* not shrinking is no failure */
}

VL_LENT bool vl_index_make_room(vl_arena *a, vl_index *ix) {
    uint64_t dense = ((uint64_t)ix->mask + 1) / 16 * 15;
    if (vl_index_resize(a, ix, 33 - ix->shift)) return true;
    ix->grow_at = vl_last_mark(dense);
    return ix->count < dense;
}

VL_LENT void vl_index_shrink(vl_arena *a, vl_index *ix) {
    vl_errors before = a->errors;
    vl_index_resize(a, ix, 32 - ix->shift - 2);
    a->errors = before; /* not shrinking is no failure */
}

VL_LENT bool vl_index_reserve(vl_arena *a, vl_index *ix, uint64_t n) {
    uint32_t bits = 32 - ix->shift;
    while (bits < 32 && ix->count + n > (UINT64_C(1) << bits) / 2) bits++;
    return bits == 32 - ix->shift || vl_index_resize(a, ix, bits);
}

#endif

#endif
