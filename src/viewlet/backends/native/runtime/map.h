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
    uint64_t mask;  /* slots - 1 */
    uint32_t shift; /* 64 - log2(slots) */
    uint32_t record_size;
    vl_ref scratch; /* one record that absorbs writes after memory ran out */
} vl_map_inplace;

typedef struct {
    vl_pool pool;
    vl_index index;
} vl_map_pooled;

enum {
    VL_INPLACE_BITS = 3, /* log2 of the smallest table */
    VL_LARGE_MAP = 10000, /* entries from which a table leaves the cache, and prefetching pays */
    VL_AHEAD = 12,       /* how many lookups ahead a batch prefetches */
};

VL_COLD bool vl_map_pooled_init(vl_arena *a, vl_map_pooled *m, uint64_t size) {
    return vl_pool_init(a, &m->pool, size) && vl_index_init(a, &m->index);
}

VL_INLINE uint64_t vl_map_inplace_bytes(const vl_map_inplace *m) { return m->account.bytes; }
VL_INLINE uint64_t vl_map_pooled_bytes(const vl_map_pooled *m) { return m->pool.account.bytes + m->index.account.bytes; }

#endif
