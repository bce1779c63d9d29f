/* map.h: the two layouts of a materialized map.
 *
 *   map_inplace.h   records in the hash table: small records, no secondary index; one cache miss
 *   map_pooled.h    records in a pool under stable ids, found through a {hash, id} index: secondary
 *                   indexes (slice.h, ordered structures), large records, loops that change their own map
 *
 * Both are included once per map and generate functions named after it. These are the types they share.
 */
#ifndef VL_MAP_H
#define VL_MAP_H

#include "hash.h"
#include "pool.h"

typedef struct {
    vl_account account;
    vl_ref slots;
    uint64_t count;
    uint64_t grow_at;
    uint64_t size; /* slots, any number */
    uint64_t reach; /* of an array (VL_MAP_COLUMN): its slots; of a hash table 0 */
    uint64_t first; /* the key of slot 0 of an array */
    uint64_t record_size;
    vl_ref scratch; /* one record that absorbs writes after memory ran out */
} vl_map_inplace;

typedef struct {
    vl_pool pool;
    vl_index index;
} vl_map_pooled;

enum {
    VL_INPLACE_LEAST = 8, /* slots of the smallest table */
    VL_INPLACE_ROOMY = 4096, /* up to here tables double and are at most half full: they fit into the cache */
    VL_LARGE_MAP = 4096, /* entries from which a table leaves the cache, and prefetching pays */
    VL_AHEAD = 12,       /* how many lookups ahead a batch prefetches */
    VL_FEW = 16,         /* entries up to which a loop over rows remembers those that it met */
    VL_MET_BITS = 6,     /* in so many places: two groups in one cost a misprediction each time */
    VL_MET = 1 << VL_MET_BITS,
};

VL_LENT bool vl_map_pooled_init(vl_arena *a, vl_map_pooled *m, uint64_t size);
/* A cleared record that the index knows under a hash; id 0, the scratch record, after memory ran out. */
VL_LENT void *vl_map_pooled_take(vl_arena *a, vl_map_pooled *m, uint32_t hash, uint64_t size, uint64_t id_at);
VL_LENT void vl_map_pooled_give(vl_arena *a, vl_map_pooled *m, void *r, uint32_t hash, uint64_t size, uint64_t id_at);

/* What differs between the pooled maps of a program that has many (VL_COMPACT): they share the code below, at the
 * cost of a call to compare keys. */
typedef struct {
    uint64_t size, key_size; /* of a record, and of the key that it begins with */
    uint64_t id_at;
    bool (*same)(const void *key, const void *other);
    void (*attach)(vl_arena *a, vl_map_pooled *m, void *r); /* to secondary indexes; NULL: there are none */
    void (*detach)(vl_arena *a, vl_map_pooled *m, void *r);
} vl_map_kind;

/* The record of a key, or NULL. */
VL_LENT void *vl_map_look(const vl_arena *a, const vl_map_pooled *m, const void *key, uint32_t hash, const vl_map_kind *kind);
/* The same, made if there is none. */
VL_LENT void *vl_map_touch(vl_arena *a, vl_map_pooled *m, const void *key, uint32_t hash, const vl_map_kind *kind);
VL_LENT void vl_map_drop(vl_arena *a, vl_map_pooled *m, void *r, uint32_t hash, const vl_map_kind *kind);

/* A hint alone: the first record with this hash. */
VL_SHARED void vl_map_pooled_prefetch(const vl_arena *a, const vl_map_pooled *m, uint32_t hash, uint64_t size) {
    vl_probe p = vl_index_probe(a, &m->index, hash);
    uint32_t id = vl_index_match(&p);
    if (!id) return;
    const uint8_t *r = vl_pool_at(a, &m->pool, id, size);
    __builtin_prefetch(r);
    if (64 % size) __builtin_prefetch(r + size - 1); /* it may lie on two lines */
}

/* May a table of `count` records be an array of `span` + 1? The few slots beside are for small tables; what is
 * wider than four times its records when it grows stays a hash table. */
VL_INLINE bool vl_is_dense(uint64_t span, uint64_t count) { return span < 4 * count + 64; }

/* Where a hash goes in a table: its share of the whole range, by the upper half of a product. */
VL_INLINE uint64_t vl_slot_of(uint64_t hash, uint64_t size) { return (uint64_t)((vl_u128)hash * size >> 64); }

VL_INLINE uint64_t vl_inplace_more(uint64_t size) { return size < VL_INPLACE_ROOMY ? 2 * size : size + size / 2; }
VL_INLINE uint64_t vl_inplace_room(uint64_t size) { return size <= VL_INPLACE_ROOMY ? size / 2 : size / 3 * 2; }

VL_INLINE uint64_t vl_map_inplace_bytes(const vl_map_inplace *m) { return m->account.bytes; }
VL_INLINE uint64_t vl_map_pooled_bytes(const vl_map_pooled *m) { return m->pool.account.bytes + m->index.account.bytes; }

#ifndef VL_HOSTED

VL_LENT bool vl_map_pooled_init(vl_arena *a, vl_map_pooled *m, uint64_t size) {
    return vl_pool_init(a, &m->pool, size) && vl_index_init(a, &m->index);
}

VL_LENT void *vl_map_pooled_take(vl_arena *a, vl_map_pooled *m, uint32_t hash, uint64_t size, uint64_t id_at) {
    void *r = vl_pool_take(a, &m->pool, size, id_at);
    uint32_t id = *vl_pool_word(r, id_at);
    if (VL_LIKELY(id == 0 || vl_index_insert(a, &m->index, hash, id))) return r;
    a->errors |= VL_E_LOST;
    vl_pool_release(a, &m->pool, r, size, id_at);
    r = vl_pool_at(a, &m->pool, 0, size);
    memset(r, 0, size);
    return r;
}

VL_LENT void vl_map_pooled_give(vl_arena *a, vl_map_pooled *m, void *r, uint32_t hash, uint64_t size, uint64_t id_at) {
    vl_index_remove(a, &m->index, hash, *vl_pool_word(r, id_at));
    vl_pool_release(a, &m->pool, r, size, id_at);
}

VL_LENT void *vl_map_look(const vl_arena *a, const vl_map_pooled *m, const void *key, uint32_t hash, const vl_map_kind *kind) {
    uint32_t id;
    for (vl_probe p = vl_index_probe(a, &m->index, hash); (id = vl_index_match(&p)) != 0;) {
        void *r = vl_pool_at(a, &m->pool, id, kind->size);
        if (VL_LIKELY(kind->same(r, key))) return r;
    }
    return NULL;
}

VL_LENT void *vl_map_touch(vl_arena *a, vl_map_pooled *m, const void *key, uint32_t hash, const vl_map_kind *kind) {
    void *r = vl_map_look(a, m, key, hash, kind);
    if (r) return r;
    r = vl_map_pooled_take(a, m, hash, kind->size, kind->id_at);
    memcpy(r, key, kind->key_size);
    if (kind->attach && VL_LIKELY(*vl_pool_word(r, kind->id_at) != 0)) kind->attach(a, m, r);
    return r;
}

VL_LENT void vl_map_drop(vl_arena *a, vl_map_pooled *m, void *r, uint32_t hash, const vl_map_kind *kind) {
    if (VL_UNLIKELY(*vl_pool_word(r, kind->id_at) == 0)) return;
    if (kind->detach) kind->detach(a, m, r);
    vl_map_pooled_give(a, m, r, hash, kind->size, kind->id_at);
}

#endif

#endif
