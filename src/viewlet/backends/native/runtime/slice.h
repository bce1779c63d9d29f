/* slice.h: for some of a pooled map's key columns, the ids of all records that agree on them.
 * Include once per slice index, after the map.
 *
 * A slice of one record lives in its hash slot; a longer one is a vector of ids with swap-remove. No key
 * is stored: the first record of a slice tells.
 *
 * Before the include, for an index s on map m (m_record has a member uint32_t s_at, owned by the index):
 *
 *   typedef struct { int64_t partkey; } s_key;
 *   VL_INLINE s_key s_of(const m_record *r) { return (s_key){r->key.partkey}; }
 *   VL_INLINE uint64_t s_hash(const s_key *k) { return vl_hash1((uint64_t)k->partkey); }
 *   VL_INLINE bool s_equal(const s_key *x, const s_key *y) { return x->partkey == y->partkey; }
 *   #define VL_SLICE s
 *   #define VL_SLICE_MAP m
 *   #include "slice.h"
 *
 * and afterwards, for VL_MAP_INDEXED:
 *   static void m_attach(vl_arena *a, vl_map_pooled *m, m_record *r) { s_add(a, m, <index of m>, r); }
 *   static void m_detach(vl_arena *a, vl_map_pooled *m, m_record *r) { s_drop(a, m, <index of m>, r); }
 *
 *   bool s_init(a, ix)
 *   vl_slice s_find(a, m, ix, &key)       ids and n; n = 0 when nothing matches
 *   void s_add(a, m, ix, r), s_drop(a, m, ix, r)
 *
 * Loop:  for (vl_slice v = s_find(a, m, ix, &key); v.n-- > 0;) { m_record *r = m_at(a, m, v.ids[v.n]); ... }
 * Other maps, and the value fields of this one, may change during the loop. Inserting into or removing
 * from the same map invalidates v; to remove the records of a slice, take the last one until none is left:
 *   while ((v = s_find(a, m, ix, &key)).n) m_remove(a, m, m_at(a, m, v.ids[v.n - 1]));
 */
#include "map.h"
#include "slice_index.h"

#ifndef VL_SLICE_H
#define VL_SLICE_H

enum { VL_SLICE_BITS = 3, VL_VECTOR_BITS = 2 };

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
            if (!from[i].n) continue;
            uint32_t j = from[i].hash >> (32 - bits);
            while (to[j].n) j = (j + 1) & mask;
            to[j] = from[i];
        }
        vl_free(a, &ix->account, ix->slots, ((uint64_t)ix->mask + 1) * sizeof *from);
    }
    ix->slots = fresh;
    ix->mask = mask;
    ix->shift = 32 - bits;
    ix->grow_at = ((uint64_t)mask + 1) / 8 * 5;
    return true;
}

VL_COLD bool vl_slice_init(vl_arena *a, vl_slice_index *ix) {
    memset(ix, 0, sizeof *ix);
    if (vl_slice_resize(a, ix, VL_SLICE_BITS)) return true;
    a->errors |= VL_E_LOST;
    return false;
}

VL_COLD bool vl_slice_make_room(vl_arena *a, vl_slice_index *ix) {
    if (vl_slice_resize(a, ix, 33 - ix->shift)) return true;
    ix->grow_at = ix->mask - ix->mask / 16;
    return ix->count < ix->grow_at;
}

VL_FUNCTION void vl_slice_close_gap(vl_arena *a, vl_slice_index *ix, vl_slice_slot *slot) {
    vl_slice_slot *slots = vl_at(a, ix->slots);
    uint32_t mask = ix->mask, i = (uint32_t)(slot - slots);
    for (uint32_t j = (i + 1) & mask; slots[j].n; j = (j + 1) & mask) {
        uint32_t home = slots[j].hash >> ix->shift;
        if (((j - home) & mask) >= ((j - i) & mask)) {
            slots[i] = slots[j];
            i = j;
        }
    }
    memset(&slots[i], 0, sizeof slots[i]);
    ix->count--;
    if (VL_UNLIKELY(ix->count < mask / 16) && ix->shift < 32 - VL_SLICE_BITS - 2) {
        vl_errors before = a->errors;
        vl_slice_resize(a, ix, 32 - ix->shift - 2);
        a->errors = before; /* not shrinking is no failure */
    }
}

/* Moves the ids of a slot with n > 1 into a vector of 2^bits words; from an inline id when there is none. */
VL_FUNCTION bool vl_slice_revector(vl_arena *a, vl_slice_index *ix, vl_slice_slot *slot, uint32_t bits) {
    vl_ref fresh = vl_alloc(a, &ix->account, sizeof(uint32_t) << bits);
    if (!fresh) return false;
    uint32_t *to = vl_at(a, fresh);
    to[0] = bits;
    if (slot->n == 1) {
        to[1] = slot->at.id;
    } else {
        const uint32_t *from = vl_at(a, slot->at.vector);
        memcpy(to + 1, from + 1, slot->n * sizeof(uint32_t));
        vl_free(a, &ix->account, slot->at.vector, sizeof(uint32_t) << from[0]);
    }
    slot->at.vector = fresh;
    return true;
}

/* Appends to a slot that holds n >= 1 ids already. */
VL_INLINE bool vl_slice_append(vl_arena *a, vl_slice_index *ix, vl_slice_slot *slot, uint32_t id) {
    if (slot->n == 1) {
        if (!vl_slice_revector(a, ix, slot, VL_VECTOR_BITS)) return false;
    } else {
        uint32_t bits = *(const uint32_t *)vl_at(a, slot->at.vector);
        if (VL_UNLIKELY(slot->n + 1 == UINT32_C(1) << bits) && !vl_slice_revector(a, ix, slot, bits + 1)) return false;
    }
    ((uint32_t *)vl_at(a, slot->at.vector))[++slot->n] = id;
    return true;
}

/* After n went down: back into the slot at one, half the vector at a quarter. */
VL_INLINE void vl_slice_tighten(vl_arena *a, vl_slice_index *ix, vl_slice_slot *slot) {
    uint32_t *v = vl_at(a, slot->at.vector), bits = v[0];
    if (slot->n == 1) {
        uint32_t id = v[1];
        vl_free(a, &ix->account, slot->at.vector, sizeof(uint32_t) << bits);
        slot->at.vector = 0;
        slot->at.id = id;
    } else if (bits > VL_VECTOR_BITS && VL_UNLIKELY(slot->n < UINT32_C(1) << (bits - 2))) {
        vl_errors before = a->errors;
        vl_slice_revector(a, ix, slot, bits - 1);
        a->errors = before; /* not shrinking is no failure */
    }
}
/* What entering and leaving need to know of a map's records and a slice's keys. These happen once in the life
 * of a record, so one copy of them serves every slice of a program. */
typedef struct {
    uint64_t size; /* of a record */
    uint64_t at;   /* where a record keeps its place in its slice */
    bool (*same)(const void *record, const void *key);
} vl_slice_kind;

/* The key's slot, or the free slot where it belongs. */
VL_FUNCTION vl_slice_slot *vl_slice_seek(const vl_arena *a, const vl_pool *pool, const vl_slice_index *ix,
                                         const vl_slice_kind *kind, const void *key, uint32_t hash) {
    vl_slice_slot *slots = vl_at(a, ix->slots);
    for (uint32_t i = hash >> ix->shift;; i = (i + 1) & ix->mask) {
        vl_slice_slot *slot = &slots[i];
        if (slot->n == 0) return slot;
        if (slot->hash != hash) continue;
        uint32_t first = slot->n == 1 ? slot->at.id : ((const uint32_t *)vl_at(a, slot->at.vector))[1];
        if (VL_LIKELY(kind->same(vl_pool_at(a, pool, first, kind->size), key))) return slot;
    }
}

VL_INLINE uint32_t *vl_slice_place(void *record, const vl_slice_kind *kind) {
    return (uint32_t *)(void *)((uint8_t *)record + kind->at);
}

static VL_APART void vl_slice_enter(vl_arena *a, const vl_pool *pool, vl_slice_index *ix, const vl_slice_kind *kind,
                                    const void *key, uint32_t hash, void *record, uint32_t id) {
    vl_slice_slot *slot = vl_slice_seek(a, pool, ix, kind, key, hash);
    if (slot->n) {
        *vl_slice_place(record, kind) = slot->n;
        if (VL_UNLIKELY(!vl_slice_append(a, ix, slot, id))) a->errors |= VL_E_LOST;
        return;
    }
    if (VL_UNLIKELY(ix->count >= ix->grow_at)) {
        if (!vl_slice_make_room(a, ix)) {
            a->errors |= VL_E_LOST;
            return;
        }
        slot = vl_slice_seek(a, pool, ix, kind, key, hash);
    }
    *slot = (vl_slice_slot){.hash = hash, .n = 1, .at = {.id = id}};
    *vl_slice_place(record, kind) = 0;
    ix->count++;
}

/* Found by its own id, not by its key: no other record is read but the one that takes its place. */
static VL_APART void vl_slice_leave(vl_arena *a, const vl_pool *pool, vl_slice_index *ix, const vl_slice_kind *kind,
                                    uint32_t hash, void *record, uint32_t id) {
    uint32_t at = *vl_slice_place(record, kind);
    vl_slice_slot *slots = vl_at(a, ix->slots);
    for (uint32_t i = hash >> ix->shift; slots[i].n; i = (i + 1) & ix->mask) {
        vl_slice_slot *slot = &slots[i];
        if (slot->hash != hash || at >= slot->n) continue;
        if (slot->n == 1) {
            if (slot->at.id != id) continue;
            vl_slice_close_gap(a, ix, slot);
            return;
        }
        uint32_t *ids = (uint32_t *)vl_at(a, slot->at.vector) + 1;
        if (ids[at] != id) continue;
        uint32_t last = ids[--slot->n];
        ids[at] = last;
        *vl_slice_place(vl_pool_at(a, pool, last, kind->size), kind) = at;
        vl_slice_tighten(a, ix, slot);
        return;
    }
}
#endif

#define VL_S(suffix) VL_JOIN(VL_SLICE, suffix)
#define VL_SM(suffix) VL_JOIN(VL_SLICE_MAP, suffix)

VL_INLINE bool VL_S(_init)(vl_arena *a, vl_slice_index *ix) { return vl_slice_init(a, ix); }

VL_FUNCTION bool VL_S(_same)(const void *record, const void *key) {
    VL_S(_key) own = VL_S(_of)(record);
    return VL_S(_equal)(&own, key);
}

static const vl_slice_kind VL_S(_kind) __attribute__((unused)) = {
    sizeof(VL_SM(_record)), offsetof(VL_SM(_record), VL_S(_at)), VL_S(_same)};

VL_INLINE bool VL_S(_is_large)(const vl_slice_index *ix) { return ix->count > VL_LARGE_MAP; }

VL_INLINE void VL_S(_prefetch)(const vl_arena *a, const vl_slice_index *ix, const VL_S(_key) * key) {
    __builtin_prefetch((const vl_slice_slot *)vl_at(a, ix->slots) + (vl_hash32(VL_S(_hash)(key)) >> ix->shift));
}

/* Where a program is large, one copy of the search serves all; else each slice has its own. */
VL_INLINE vl_slice VL_S(_find)(const vl_arena *a, const vl_map_pooled *m, const vl_slice_index *ix,
                               const VL_S(_key) * key) {
    uint32_t hash = vl_hash32(VL_S(_hash)(key));
#ifdef VL_COMPACT
    const vl_slice_slot *slot = vl_slice_seek(a, &m->pool, ix, &VL_S(_kind), key, hash);
#else
    const vl_slice_slot *slots = vl_at(a, ix->slots), *slot;
    for (uint32_t i = hash >> ix->shift;; i = (i + 1) & ix->mask) {
        slot = &slots[i];
        if (slot->n == 0) break;
        if (slot->hash != hash) continue;
        uint32_t first = slot->n == 1 ? slot->at.id : ((const uint32_t *)vl_at(a, slot->at.vector))[1];
        VL_S(_key) other = VL_S(_of)(VL_SM(_at)(a, m, first));
        if (VL_LIKELY(VL_S(_equal)(&other, key))) break;
    }
#endif
    const uint32_t *ids = slot->n > 1 ? (const uint32_t *)vl_at(a, slot->at.vector) + 1 : &slot->at.id;
    return (vl_slice){.ids = ids, .n = slot->n};
}

/* A record that is not in the index yet. VL_E_LOST when it cannot be stored. */
VL_INLINE void VL_S(_add)(vl_arena *a, vl_map_pooled *m, vl_slice_index *ix, VL_SM(_record) * r) {
    VL_S(_key) key = VL_S(_of)(r);
    vl_slice_enter(a, &m->pool, ix, &VL_S(_kind), &key, vl_hash32(VL_S(_hash)(&key)), r, r->id);
}

VL_INLINE void VL_S(_drop)(vl_arena *a, vl_map_pooled *m, vl_slice_index *ix, VL_SM(_record) * r) {
    VL_S(_key) key = VL_S(_of)(r);
    vl_slice_leave(a, &m->pool, ix, &VL_S(_kind), vl_hash32(VL_S(_hash)(&key)), r, r->id);
}

#undef VL_S
#undef VL_SM
#undef VL_SLICE
#undef VL_SLICE_MAP
