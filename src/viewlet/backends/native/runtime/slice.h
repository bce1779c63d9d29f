/* slice.h: for some of a pooled map's key columns, the ids of all records that agree on them.
 * Include once per slice index, after the map.
 *
 * A slice of one record lives in its hash slot; a longer one is a vector of ids with swap-remove. A slot keeps
 * a word of the key: with VL_SLICE_EXACT defined, s_hash gives different keys different words (vl_spread of one
 * column does), and the word is the key; else it is a hash, and the first record of a slice tells.
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
 *   void s_prefetch(a, ix, &key), s_prefetch_ids(a, ix, &key), s_prefetch_records(a, m, ix, &key)
 *                                         a dozen keys ahead each of the one before it, and of use
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

VL_COLD bool vl_slice_init(vl_arena *a, vl_slice_index *ix) {
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

VL_INLINE uint32_t *vl_slice_place(void *record, const vl_slice_kind *kind) {
    return (uint32_t *)(void *)((uint8_t *)record + kind->at);
}

static VL_APART void vl_slice_enter(vl_arena *a, const vl_pool *pool, vl_slice_index *ix, const vl_slice_kind *kind,
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

/* Found by its own id, not by its key: no other record is read but the one that takes its place. */
static VL_APART void vl_slice_leave(vl_arena *a, const vl_pool *pool, vl_slice_index *ix, const vl_slice_kind *kind,
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

#define VL_S(suffix) VL_JOIN(VL_SLICE, suffix)
#define VL_SM(suffix) VL_JOIN(VL_SLICE_MAP, suffix)

VL_INLINE bool VL_S(_init)(vl_arena *a, vl_slice_index *ix) { return vl_slice_init(a, ix); }

#ifdef VL_SLICE_EXACT
#define VL_S_SAME NULL
#define VL_S_LOOKED(key) ((void)(key), NULL)
#else
VL_FUNCTION bool VL_S(_same)(const void *record, const void *key) {
    VL_S(_key) own = VL_S(_of)(record);
    return VL_S(_equal)(&own, key);
}
#define VL_S_SAME VL_S(_same)
#define VL_S_LOOKED(key) (key)
#endif

static const vl_slice_kind VL_S(_kind) __attribute__((unused)) = {
    sizeof(VL_SM(_record)), offsetof(VL_SM(_record), VL_S(_at)), VL_S_SAME};

VL_INLINE void VL_S(_prefetch)(const vl_arena *a, const vl_slice_index *ix, const VL_S(_key) * key) {
    vl_slice_prefetch(a, ix, VL_S(_hash)(key));
}

/* Once the slot is there: the ids. Once these are there: the records of the last few, where a loop begins. */
VL_INLINE void VL_S(_prefetch_ids)(const vl_arena *a, const vl_slice_index *ix, const VL_S(_key) * key) {
    vl_slice_prefetch_ids(a, ix, VL_S(_hash)(key));
}
VL_INLINE void VL_S(_prefetch_records)(const vl_arena *a, const vl_map_pooled *m, const vl_slice_index *ix,
                                       const VL_S(_key) * key) {
    vl_slice_prefetch_records(a, &m->pool, ix, VL_S(_hash)(key), sizeof(VL_SM(_record)));
}

/* The kind is constant here: where this is compiled in line, the look at a record is left out if words tell. */
VL_INLINE vl_slice VL_S(_find)(const vl_arena *a, const vl_map_pooled *m, const vl_slice_index *ix,
                               const VL_S(_key) * key) {
    return vl_slice_find(a, &m->pool, ix, &VL_S(_kind), VL_S_LOOKED(key), VL_S(_hash)(key));
}

/* A record that is not in the index yet. VL_E_LOST when it cannot be stored. */
VL_INLINE void VL_S(_add)(vl_arena *a, vl_map_pooled *m, vl_slice_index *ix, VL_SM(_record) * r) {
    VL_S(_key) key = VL_S(_of)(r);
    vl_slice_enter(a, &m->pool, ix, &VL_S(_kind), &key, VL_S(_hash)(&key), r, r->id);
}

VL_INLINE void VL_S(_drop)(vl_arena *a, vl_map_pooled *m, vl_slice_index *ix, VL_SM(_record) * r) {
    VL_S(_key) key = VL_S(_of)(r);
    vl_slice_leave(a, &m->pool, ix, &VL_S(_kind), VL_S(_hash)(&key), r, r->id);
}

#undef VL_S_SAME
#undef VL_S_LOOKED
#undef VL_SLICE_EXACT
#undef VL_S
#undef VL_SM
#undef VL_SLICE
#undef VL_SLICE_MAP
