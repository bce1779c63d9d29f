/* map_pooled.h: a map whose records sit in a pool under stable ids and addresses. Include once per map.
 *
 * For maps with secondary indexes, for records over about 48 bytes, and for maps that a statement
 * changes while it loops over them.
 *
 * Before the include, for a map called m (the pool owns `id`; a slice index owns its `..._at`):
 *
 *   typedef struct { int64_t orderkey, partkey; } m_key;
 *   typedef struct { m_key key; uint32_t id, by_part_at; int64_t count; vl_i128 price; } m_record;
 *   VL_INLINE uint64_t m_hash(const m_key *k);
 *   VL_INLINE bool m_equal(const m_key *x, const m_key *y);
 *   #define VL_MAP m
 *   #define VL_MAP_INDEXED            only with secondary indexes: m_attach and m_detach are then to be
 *   #include "map_pooled.h"           defined after the include; they put a record into its indexes and
 *                                     take it out again
 *
 *   bool m_init(a, m)                     false with VL_E_LOST when there is no memory
 *   m_record *m_find(a, m, &key)          NULL when absent
 *   m_record *m_upsert(a, m, &key)        never NULL; new records are zero but for key and id
 *   m_record *m_at(a, m, id)              of a live id
 *   void m_settle(a, m, r)                call after changing r->count: removes r when it is empty
 *   void m_remove(a, m, r)
 *   m_record *m_next(a, m, r)             loop: for (r = m_next(a, m, NULL); r; r = m_next(a, m, r))
 *   m_record *m_from(a, m, id)            loop that removes: see below
 *   void m_find_batch(a, m, keys, n, out), m_prefetch(a, m, &key), bool m_reserve(a, m, n), m_clear(a, m)
 *
 * A record's address and id stay until it is removed. During a loop over a map the same map may change:
 * a record inserted meanwhile may or may not be met, one removed meanwhile is not met, every other is
 * met exactly once. A loop that may remove the current record steps by id:
 *   for (r = m_from(a, m, 1); r; r = m_from(a, m, id + 1)) { id = r->id; ...; m_settle(a, m, r); }
 *
 * With VL_MAP_HOME defined, m_hash takes some columns of a key alone, m_alike(&x, &y) compares those, and the
 * records that have them are met by
 *   for (m_place at = m_home(a, m, &key); (r = m_along(a, m, &at, &key));)
 *
 * With VL_MAP_MET defined, and m_met_at(&key), some VL_MET_BITS bits of a key, a loop that meets few records over and
 * over again may say m_meet(a, m, met, &key) for m_upsert: `met` has VL_MET places, which are zeros where the loop begins,
 * or is NULL.
 *
 * A record with count zero stays findable until m_settle, so the order of operations between m_upsert
 * and m_settle is free. VL_MAP_EMPTY(r) may replace the test (r)->count == 0.
 */
#include "map.h"

#ifndef VL_MAP_EMPTY
#define VL_MAP_EMPTY(r) ((r)->count == 0)
#endif
#define VL_M(suffix) VL_JOIN(VL_MAP, suffix)
#define VL_M_SIZE sizeof(VL_M(_record))
#define VL_M_ID offsetof(VL_M(_record), id)

#ifdef VL_MAP_INDEXED
static void VL_M(_attach)(vl_arena *a, vl_map_pooled *m, VL_M(_record) * r);
static void VL_M(_detach)(vl_arena *a, vl_map_pooled *m, VL_M(_record) * r);
#endif

VL_INLINE bool VL_M(_init)(vl_arena *a, vl_map_pooled *m) { return vl_map_pooled_init(a, m, VL_M_SIZE); }

VL_INLINE VL_M(_record) * VL_M(_at)(const vl_arena *a, const vl_map_pooled *m, uint32_t id) {
    return vl_pool_at(a, &m->pool, id, VL_M_SIZE);
}

VL_INLINE bool VL_M(_is_large)(const vl_map_pooled *m) { return m->pool.live > VL_LARGE_MAP; }

VL_INLINE void VL_M(_prefetch)(const vl_arena *a, const vl_map_pooled *m, const VL_M(_key) * key) {
    vl_index_prefetch(a, &m->index, vl_hash32(VL_M(_hash)(key)));
}

/* Once the slot is there. */
VL_INLINE void VL_M(_prefetch_record)(const vl_arena *a, const vl_map_pooled *m, const VL_M(_key) * key) {
    vl_map_pooled_prefetch(a, m, vl_hash32(VL_M(_hash)(key)), VL_M_SIZE);
}

#ifdef VL_MAP_HOME
typedef vl_probe VL_M(_place);

VL_INLINE VL_M(_place) VL_M(_home)(const vl_arena *a, const vl_map_pooled *m, const VL_M(_key) * key) {
    return vl_index_probe(a, &m->index, vl_hash32(VL_M(_hash)(key)));
}

VL_INLINE VL_M(_record) * VL_M(_along)(const vl_arena *a, const vl_map_pooled *m, VL_M(_place) * at, const VL_M(_key) * key) {
    uint32_t id;
    while ((id = vl_index_match(at)) != 0) {
        VL_M(_record) *r = VL_M(_at)(a, m, id);
        if (VL_LIKELY(VL_M(_alike)(&r->key, key))) return r;
    }
    return NULL;
}
#endif

#ifdef VL_COMPACT /* one copy of the code for all maps of the program: map.h has it */
VL_FUNCTION bool VL_M(_same)(const void *key, const void *other) { return VL_M(_equal)(key, other); }
#ifdef VL_MAP_INDEXED
VL_FUNCTION void VL_M(_enter)(vl_arena *a, vl_map_pooled *m, void *r) { VL_M(_attach)(a, m, r); }
VL_FUNCTION void VL_M(_exit)(vl_arena *a, vl_map_pooled *m, void *r) { VL_M(_detach)(a, m, r); }
#define VL_M_INDEXES VL_M(_enter), VL_M(_exit)
#else
#define VL_M_INDEXES NULL, NULL
#endif
static const vl_map_kind VL_M(_kind) __attribute__((unused)) = {VL_M_SIZE, sizeof(VL_M(_key)), VL_M_ID, VL_M(_same),
                                                                 VL_M_INDEXES};
#undef VL_M_INDEXES

VL_INLINE VL_M(_record) * VL_M(_find)(const vl_arena *a, const vl_map_pooled *m, const VL_M(_key) * key) {
    return vl_map_look(a, m, key, vl_hash32(VL_M(_hash)(key)), &VL_M(_kind));
}

VL_INLINE VL_M(_record) * VL_M(_upsert)(vl_arena *a, vl_map_pooled *m, const VL_M(_key) * key) {
    return vl_map_touch(a, m, key, vl_hash32(VL_M(_hash)(key)), &VL_M(_kind));
}

VL_INLINE void VL_M(_remove)(vl_arena *a, vl_map_pooled *m, VL_M(_record) * r) {
    vl_map_drop(a, m, r, vl_hash32(VL_M(_hash)(&r->key)), &VL_M(_kind));
}
#else
VL_INLINE VL_M(_record) * VL_M(_find_hashed)(const vl_arena *a, const vl_map_pooled *m, const VL_M(_key) * key,
                                             uint32_t hash) {
    uint32_t id;
    for (vl_probe p = vl_index_probe(a, &m->index, hash); (id = vl_index_match(&p)) != 0;) {
        VL_M(_record) *r = VL_M(_at)(a, m, id);
        if (VL_LIKELY(VL_M(_equal)(&r->key, key))) return r;
    }
    return NULL;
}

VL_INLINE VL_M(_record) * VL_M(_find)(const vl_arena *a, const vl_map_pooled *m, const VL_M(_key) * key) {
    return VL_M(_find_hashed)(a, m, key, vl_hash32(VL_M(_hash)(key)));
}

VL_FUNCTION VL_M(_record) * VL_M(_insert)(vl_arena *a, vl_map_pooled *m, const VL_M(_key) * key, uint32_t hash) {
    VL_M(_record) *r = vl_map_pooled_take(a, m, hash, VL_M_SIZE, VL_M_ID);
    r->key = *key;
#ifdef VL_MAP_INDEXED
    if (VL_LIKELY(r->id != 0)) VL_M(_attach)(a, m, r);
#endif
    return r;
}

VL_INLINE VL_M(_record) * VL_M(_upsert)(vl_arena *a, vl_map_pooled *m, const VL_M(_key) * key) {
    uint32_t hash = vl_hash32(VL_M(_hash)(key));
    VL_M(_record) *r = VL_M(_find_hashed)(a, m, key, hash);
    return r ? r : VL_M(_insert)(a, m, key, hash);
}

VL_FUNCTION void VL_M(_remove)(vl_arena *a, vl_map_pooled *m, VL_M(_record) * r) {
    if (VL_UNLIKELY(r->id == 0)) return;
#ifdef VL_MAP_INDEXED
    VL_M(_detach)(a, m, r);
#endif
    vl_map_pooled_give(a, m, r, vl_hash32(VL_M(_hash)(&r->key)), VL_M_SIZE, VL_M_ID);
}
#endif

/* The same where the record most likely has this id, not 0. */
VL_INLINE VL_M(_record) * VL_M(_guess)(vl_arena *a, vl_map_pooled *m, uint32_t id, const VL_M(_key) * key) {
    if (VL_LIKELY(id < m->pool.end)) {
        VL_M(_record) *r = VL_M(_at)(a, m, id);
        if (VL_LIKELY(r->id == id && VL_M(_equal)(&r->key, key))) return r;
    }
    return VL_M(_upsert)(a, m, key);
}

#ifdef VL_MAP_MET
/* Where a loop met the records of few groups, by the bits that m_met_at has of a key: there again they are found
 * without a hash table. What was noted before a removal counts no more. A loop begins with cleared places. */
typedef struct {
    VL_M(_record) * at;
    uint32_t removals;
} VL_M(_met);

VL_INLINE bool VL_M(_is_few)(const vl_map_pooled *m) { return m->pool.live <= VL_FEW; }

VL_INLINE VL_M(_record) * VL_M(_meet)(vl_arena *a, vl_map_pooled *m, VL_M(_met) * met, const VL_M(_key) * key) {
    if (met) {
        met += VL_M(_met_at)(key);
        if (VL_LIKELY(met->removals == m->pool.removals && VL_M(_equal)(&met->at->key, key))) return met->at;
    }
    VL_M(_record) *r = VL_M(_upsert)(a, m, key);
    if (met && VL_LIKELY(r->id != 0)) *met = (VL_M(_met)){r, m->pool.removals};
    return r;
}
#endif

VL_INLINE void VL_M(_settle)(vl_arena *a, vl_map_pooled *m, VL_M(_record) * r) {
    if (VL_MAP_EMPTY(r)) VL_M(_remove)(a, m, r);
}

VL_INLINE VL_M(_record) * VL_M(_from)(const vl_arena *a, const vl_map_pooled *m, uint32_t id) {
    return vl_pool_from(a, &m->pool, id, VL_M_SIZE, VL_M_ID);
}

VL_INLINE VL_M(_record) * VL_M(_next)(const vl_arena *a, const vl_map_pooled *m, const VL_M(_record) * r) {
    return VL_M(_from)(a, m, r ? r->id + 1 : 1);
}

/* Two stages: index slots a dozen keys ahead, records half a dozen ahead. */
VL_FUNCTION void VL_M(_find_batch)(const vl_arena *a, const vl_map_pooled *m, const VL_M(_key) * keys, uint64_t n,
                                   VL_M(_record) * *out) {
    uint32_t id;
    for (uint64_t i = 0; i < n + VL_AHEAD; i++) {
        if (i < n) VL_M(_prefetch)(a, m, &keys[i]);
        if (i >= VL_AHEAD / 2 && i - VL_AHEAD / 2 < n) {
            vl_probe p = vl_index_probe(a, &m->index, vl_hash32(VL_M(_hash)(&keys[i - VL_AHEAD / 2])));
            if ((id = vl_index_match(&p)) != 0) __builtin_prefetch(VL_M(_at)(a, m, id));
        }
        if (i >= VL_AHEAD) out[i - VL_AHEAD] = VL_M(_find)(a, m, &keys[i - VL_AHEAD]);
    }
}

VL_FUNCTION bool VL_M(_reserve)(vl_arena *a, vl_map_pooled *m, uint64_t n) {
    return vl_pool_reserve(a, &m->pool, n, VL_M_SIZE) && vl_index_reserve(a, &m->index, n);
}

/* Removes every record, from the secondary indexes too. */
VL_FUNCTION void VL_M(_clear)(vl_arena *a, vl_map_pooled *m) {
#ifdef VL_MAP_INDEXED
    VL_M(_record) * r;
    for (uint32_t id = 1; (r = VL_M(_from)(a, m, id)) != NULL; id++) {
        id = r->id;
        VL_M(_remove)(a, m, r);
    }
#else
    if (!m->pool.live) return;
    vl_pool_clear(a, &m->pool, VL_M_SIZE);
    vl_index_clear(a, &m->index);
#endif
}

#undef VL_M
#undef VL_M_SIZE
#undef VL_M_ID
#undef VL_MAP
#undef VL_MAP_EMPTY
#undef VL_MAP_HOME
#undef VL_MAP_MET
#undef VL_MAP_INDEXED
