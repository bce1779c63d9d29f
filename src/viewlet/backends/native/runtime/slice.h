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
#ifdef VL_COMPACT
    return vl_slice_found(a, &m->pool, ix, &VL_S(_kind), VL_S_LOOKED(key), VL_S(_hash)(key));
#else
    return vl_slice_find(a, &m->pool, ix, &VL_S(_kind), VL_S_LOOKED(key), VL_S(_hash)(key));
#endif
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
