/* slice_index.h: the index that slice.h keeps, and what is the same for all of them; see there. */
#ifndef VL_SLICE_INDEX_H
#define VL_SLICE_INDEX_H

#include "pool.h"

/* Where the word decides the key (VL_SLICE_EXACT), a slot answers without a look at any record. */
typedef struct {
    uint64_t word;   /* from the key's columns; its top bits say where the slot belongs */
    uint32_t at[2];  /* {0, 0}: free; {id, VL_ALONE}: one record; else the two halves of a vector's vl_ref:
                        uint32_t[2 + capacity], [0] = log2 of its words, [1] = how many ids */
} vl_slice_slot;

#define VL_ALONE UINT32_C(0xffffffff)

typedef struct {
    vl_account account;
    vl_ref slots;
    uint64_t count; /* distinct keys */
    uint64_t grow_at;
    uint32_t mask, shift; /* 64 - log2(slots) */
} vl_slice_index;

typedef struct {
    const uint32_t *ids;
    uint32_t n;
} vl_slice;

enum { VL_SLICE_BITS = 3, VL_VECTOR_BITS = 2, VL_SLICE_AHEAD = 8 };

VL_INLINE bool vl_slice_is_free(const vl_slice_slot *slot) { return (slot->at[0] | slot->at[1]) == 0; }
VL_INLINE bool vl_slice_is_alone(const vl_slice_slot *slot) { return slot->at[1] == VL_ALONE; }
VL_INLINE vl_ref vl_slice_vector(const vl_slice_slot *slot) { return slot->at[0] | (vl_ref)slot->at[1] << 32; }

/* The ids of a slot that is not free. */
VL_INLINE vl_slice vl_slice_ids(const vl_arena *a, const vl_slice_slot *slot) {
    if (vl_slice_is_alone(slot)) return (vl_slice){.ids = slot->at, .n = 1};
    const uint32_t *vector = vl_at(a, vl_slice_vector(slot));
    return (vl_slice){.ids = vector + 2, .n = vector[1]};
}

/* What entering and leaving need to know of a map's records and a slice's keys. These happen once in the life
 * of a record, so one copy of them serves every slice of a program. */
typedef struct {
    uint64_t size; /* of a record */
    uint64_t at;   /* where a record keeps its place in its slice */
    bool (*same)(const void *record, const void *key); /* NULL: words tell */
} vl_slice_kind;

/* The key's slot, or the free slot where it belongs. */
VL_INLINE vl_slice_slot *vl_slice_seek(const vl_arena *a, const vl_pool *pool, const vl_slice_index *ix,
                                       const vl_slice_kind *kind, const void *key, uint64_t word) {
    vl_slice_slot *slots = vl_at(a, ix->slots);
    for (uint32_t i = (uint32_t)(word >> ix->shift);; i = (i + 1) & ix->mask) {
        vl_slice_slot *slot = &slots[i];
        if (vl_slice_is_free(slot)) return slot;
        if (slot->word != word) continue;
        if (!kind->same || VL_LIKELY(kind->same(vl_pool_at(a, pool, vl_slice_ids(a, slot).ids[0], kind->size), key)))
            return slot;
    }
}

/* The ids of a key; none where there is no record. */
VL_INLINE vl_slice vl_slice_find(const vl_arena *a, const vl_pool *pool, const vl_slice_index *ix,
                                 const vl_slice_kind *kind, const void *key, uint64_t word) {
    const vl_slice_slot *slot = vl_slice_seek(a, pool, ix, kind, key, word);
    return vl_slice_is_free(slot) ? (vl_slice){.ids = NULL, .n = 0} : vl_slice_ids(a, slot);
}

/* The same, for a program with many places that look. */
VL_LENT vl_slice vl_slice_found(const vl_arena *a, const vl_pool *pool, const vl_slice_index *ix,
                                const vl_slice_kind *kind, const void *key, uint64_t word);

VL_LENT bool vl_slice_init(vl_arena *a, vl_slice_index *ix);
VL_LENT void vl_slice_enter(vl_arena *a, const vl_pool *pool, vl_slice_index *ix, const vl_slice_kind *kind,
                            const void *key, uint64_t word, void *record, uint32_t id);
/* Found by its own id, not by its key: no other record is read but the one that takes its place. */
VL_LENT void vl_slice_leave(vl_arena *a, const vl_pool *pool, vl_slice_index *ix, const vl_slice_kind *kind,
                            uint64_t word, void *record, uint32_t id);

/* Hints alone: the first slot with this word, whosever it is. NULL: none. */
VL_INLINE const vl_slice_slot *vl_slice_hint(const vl_arena *a, const vl_slice_index *ix, uint64_t word) {
    const vl_slice_slot *slots = vl_at(a, ix->slots);
    for (uint32_t i = (uint32_t)(word >> ix->shift); !vl_slice_is_free(&slots[i]); i = (i + 1) & ix->mask)
        if (slots[i].word == word) return &slots[i];
    return NULL;
}
VL_SHARED void vl_slice_prefetch(const vl_arena *a, const vl_slice_index *ix, uint64_t word) {
    __builtin_prefetch((const vl_slice_slot *)vl_at(a, ix->slots) + (word >> ix->shift));
}
VL_FUNCTION void vl_slice_prefetch_ids(const vl_arena *a, const vl_slice_index *ix, uint64_t word) {
    const vl_slice_slot *slot = vl_slice_hint(a, ix, word);
    if (slot && !vl_slice_is_alone(slot)) __builtin_prefetch(vl_at(a, vl_slice_vector(slot)));
}
VL_FUNCTION void vl_slice_prefetch_records(const vl_arena *a, const vl_pool *pool, const vl_slice_index *ix,
                                           uint64_t word, uint64_t size) {
    const vl_slice_slot *slot = vl_slice_hint(a, ix, word);
    if (!slot) return;
    vl_slice own = vl_slice_ids(a, slot);
    for (uint32_t i = 0; i < own.n && i < VL_SLICE_AHEAD; i++)
        __builtin_prefetch(vl_pool_at(a, pool, own.ids[own.n - 1 - i], size));
}

#ifndef VL_HOSTED

VL_COLD bool vl_slice_resize(vl_arena *a, vl_slice_index *ix, uint32_t bits) {
    uint64_t bytes = sizeof(vl_slice_slot) << bits;
    if (bits > 31) {
        a->errors |= VL_E_MEMORY;
        return false;
    }
    vl_ref fresh = vl_try_alloc_zeroed(a, &ix->account, bytes);
    if (!fresh) return false;
    vl_slice_slot *to = vl_at(a, fresh);
    uint32_t mask = (uint32_t)((UINT64_C(1) << bits) - 1);
    if (ix->slots) {
        const vl_slice_slot *from = vl_at(a, ix->slots);
        for (uint64_t i = 0; i <= ix->mask; i++) {
            if (vl_slice_is_free(&from[i])) continue;
            uint32_t j = (uint32_t)(from[i].word >> (64 - bits));
            while (!vl_slice_is_free(&to[j])) j = (j + 1) & mask;
            to[j] = from[i];
        }
        vl_free(a, &ix->account, ix->slots, ((uint64_t)ix->mask + 1) * sizeof *from);
    }
    ix->slots = fresh;
    ix->mask = mask;
    ix->shift = 64 - bits;
    ix->grow_at = ((uint64_t)mask + 1) / 8 * 5;
    return true;
}

VL_LENT bool vl_slice_init(vl_arena *a, vl_slice_index *ix) {
    memset(ix, 0, sizeof *ix);
    if (vl_slice_resize(a, ix, VL_SLICE_BITS)) return true;
    a->errors |= VL_E_LOST;
    return false;
}

VL_COLD bool vl_slice_make_room(vl_arena *a, vl_slice_index *ix) {
    if (vl_slice_resize(a, ix, 65 - ix->shift)) return true;
    ix->grow_at = ix->mask - ix->mask / 16;
    return ix->count < ix->grow_at;
}

VL_FUNCTION void vl_slice_close_gap(vl_arena *a, vl_slice_index *ix, vl_slice_slot *slot) {
    vl_slice_slot *slots = vl_at(a, ix->slots);
    uint32_t mask = ix->mask, i = (uint32_t)(slot - slots);
    for (uint32_t j = (i + 1) & mask; !vl_slice_is_free(&slots[j]); j = (j + 1) & mask) {
        uint32_t home = (uint32_t)(slots[j].word >> ix->shift);
        if (((j - home) & mask) >= ((j - i) & mask)) {
            slots[i] = slots[j];
            i = j;
        }
    }
    memset(&slots[i], 0, sizeof slots[i]);
    ix->count--;
    if (VL_UNLIKELY(ix->count < mask / 16) && ix->shift < 64 - VL_SLICE_BITS - 2) {
        vl_errors before = a->errors;
        vl_slice_resize(a, ix, 64 - ix->shift - 2);
        a->errors = before; /* not shrinking is no failure */
    }
}

/* Moves the ids of a slot into a vector of 2^bits words, which has room for them. */
VL_FUNCTION bool vl_slice_revector(vl_arena *a, vl_slice_index *ix, vl_slice_slot *slot, uint32_t bits) {
    vl_ref fresh = vl_alloc(a, &ix->account, sizeof(uint32_t) << bits);
    if (!fresh) return false;
    uint32_t *to = vl_at(a, fresh);
    vl_slice own = vl_slice_ids(a, slot);
    to[0] = bits;
    to[1] = own.n;
    memcpy(to + 2, own.ids, own.n * sizeof(uint32_t));
    if (!vl_slice_is_alone(slot)) vl_free(a, &ix->account, vl_slice_vector(slot), sizeof(uint32_t) << own.ids[-2]);
    slot->at[0] = (uint32_t)fresh;
    slot->at[1] = (uint32_t)(fresh >> 32);
    return true;
}

/* Appends to a slot that is not free; answers the place of the id among its own. */
VL_INLINE uint32_t vl_slice_append(vl_arena *a, vl_slice_index *ix, vl_slice_slot *slot, uint32_t id) {
    uint32_t *v = vl_slice_is_alone(slot) ? NULL : vl_at(a, vl_slice_vector(slot));
    if (!v || VL_UNLIKELY(v[1] + 2 == UINT32_C(1) << v[0])) {
        if (!vl_slice_revector(a, ix, slot, v ? v[0] + 1 : VL_VECTOR_BITS)) {
            a->errors |= VL_E_LOST;
            return 0;
        }
        v = vl_at(a, vl_slice_vector(slot));
    }
    v[2 + v[1]] = id;
    return v[1]++;
}

/* After a vector lost an id: back into the slot at one, half the vector at a quarter. */
VL_INLINE void vl_slice_tighten(vl_arena *a, vl_slice_index *ix, vl_slice_slot *slot, uint32_t *v) {
    uint32_t bits = v[0];
    if (v[1] == 1) {
        uint32_t id = v[2];
        vl_free(a, &ix->account, vl_slice_vector(slot), sizeof(uint32_t) << bits);
        slot->at[0] = id;
        slot->at[1] = VL_ALONE;
    } else if (bits > VL_VECTOR_BITS && VL_UNLIKELY(v[1] + 1 < UINT32_C(1) << (bits - 2))) {
        vl_errors before = a->errors;
        vl_slice_revector(a, ix, slot, bits - 1);
        a->errors = before; /* not shrinking is no failure */
    }
}

VL_LENT vl_slice vl_slice_found(const vl_arena *a, const vl_pool *pool, const vl_slice_index *ix,
                                const vl_slice_kind *kind, const void *key, uint64_t word) {
    return vl_slice_find(a, pool, ix, kind, key, word);
}

VL_INLINE uint32_t *vl_slice_place(void *record, const vl_slice_kind *kind) {
    return (uint32_t *)(void *)((uint8_t *)record + kind->at);
}

VL_LENT void vl_slice_enter(vl_arena *a, const vl_pool *pool, vl_slice_index *ix, const vl_slice_kind *kind,
                            const void *key, uint64_t word, void *record, uint32_t id) {
    vl_slice_slot *slot = vl_slice_seek(a, pool, ix, kind, key, word);
    if (!vl_slice_is_free(slot)) {
        *vl_slice_place(record, kind) = vl_slice_append(a, ix, slot, id);
        return;
    }
    if (VL_UNLIKELY(ix->count >= ix->grow_at)) {
        if (!vl_slice_make_room(a, ix)) {
            a->errors |= VL_E_LOST;
            return;
        }
        slot = vl_slice_seek(a, pool, ix, kind, key, word);
    }
    *slot = (vl_slice_slot){.word = word, .at = {id, VL_ALONE}};
    *vl_slice_place(record, kind) = 0;
    ix->count++;
}

VL_LENT void vl_slice_leave(vl_arena *a, const vl_pool *pool, vl_slice_index *ix, const vl_slice_kind *kind,
                            uint64_t word, void *record, uint32_t id) {
    uint32_t at = *vl_slice_place(record, kind);
    vl_slice_slot *slots = vl_at(a, ix->slots);
    for (uint32_t i = (uint32_t)(word >> ix->shift); !vl_slice_is_free(&slots[i]); i = (i + 1) & ix->mask) {
        vl_slice_slot *slot = &slots[i];
        if (slot->word != word) continue;
        vl_slice own = vl_slice_ids(a, slot);
        if (at >= own.n || own.ids[at] != id) continue;
        if (vl_slice_is_alone(slot)) {
            vl_slice_close_gap(a, ix, slot);
            return;
        }
        uint32_t *v = vl_at(a, vl_slice_vector(slot)), last = v[1 + v[1]];
        v[1]--;
        v[2 + at] = last;
        *vl_slice_place(vl_pool_at(a, pool, last, kind->size), kind) = at;
        vl_slice_tighten(a, ix, slot, v);
        return;
    }
}

#endif

#endif
