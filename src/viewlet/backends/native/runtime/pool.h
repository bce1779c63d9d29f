/* pool.h: records of one size with stable 32-bit ids and stable addresses.
 *
 * Records live in chunks of 2^VL_CHUNK_SHIFT; a directory maps chunk numbers to offsets. Growing adds a
 * chunk and moves nothing: a pointer to a record stays valid until that record is released.
 *
 * Every record begins its life cleared, except for one uint32_t that the pool owns: the record's id
 * while it is live, and VL_POOL_FREE | next free id afterwards. The functions take where it lies
 * (`id_at`, a compile-time constant) next to the record's size.
 *
 * Id 0 is never handed out: it is a scratch record that absorbs writes after memory ran out.
 */
#ifndef VL_POOL_H
#define VL_POOL_H

#include "arena.h"

enum { VL_CHUNK_SHIFT = 8, VL_CHUNK = 1 << VL_CHUNK_SHIFT };
#define VL_POOL_FREE UINT32_C(0x80000000)

typedef struct {
    vl_account account;
    vl_ref directory; /* vl_ref[directory_size] */
    uint32_t directory_size;
    uint32_t chunks;
    uint32_t end;  /* ids in [1, end) have been used */
    uint32_t free; /* last released id, 0 = none */
    uint32_t live;
    uint32_t removals; /* changes with each, and is never 0: who keeps a record's address looks here first */
} vl_pool;

VL_INLINE void *vl_pool_at(const vl_arena *a, const vl_pool *p, uint32_t id, uint64_t size) {
    const vl_ref *directory = vl_at(a, p->directory);
    return a->base + directory[id >> VL_CHUNK_SHIFT] + (id & (VL_CHUNK - 1)) * size;
}

VL_INLINE uint32_t *vl_pool_word(void *record, uint64_t id_at) { return (uint32_t *)(void *)((uint8_t *)record + id_at); }

/* False (with VL_E_LOST) when there is no memory for the first chunk. */
VL_LENT bool vl_pool_init(vl_arena *a, vl_pool *p, uint64_t size);
VL_LENT bool vl_pool_add_chunk(vl_arena *a, vl_pool *p, uint64_t size);
/* Forgets everything but the first chunk. */
VL_LENT void vl_pool_clear(vl_arena *a, vl_pool *p, uint64_t size);
/* Room for n more records without any further growth. */
VL_LENT bool vl_pool_reserve(vl_arena *a, vl_pool *p, uint64_t n, uint64_t size);

/* A cleared record with its id set, or the scratch record, cleared, with VL_E_LOST. */
VL_INLINE void *vl_pool_take(vl_arena *a, vl_pool *p, uint64_t size, uint64_t id_at) {
    uint32_t id = p->free;
    void *record;
    if (id) {
        record = vl_pool_at(a, p, id, size);
        p->free = *vl_pool_word(record, id_at) & ~VL_POOL_FREE;
    } else {
        if (VL_UNLIKELY(p->end >> VL_CHUNK_SHIFT == p->chunks) && !vl_pool_add_chunk(a, p, size)) {
            a->errors |= VL_E_LOST;
            record = vl_pool_at(a, p, 0, size);
            memset(record, 0, size);
            return record;
        }
        id = p->end++;
        record = vl_pool_at(a, p, id, size);
    }
    *vl_pool_word(record, id_at) = id;
    p->live++;
    return record;
}

/* Clears a live record and keeps its id for reuse. A pool that runs empty starts over. */
VL_INLINE void vl_pool_release(vl_arena *a, vl_pool *p, void *record, uint64_t size, uint64_t id_at) {
    uint32_t *word = vl_pool_word(record, id_at), id = *word;
    memset(record, 0, size);
    *word = VL_POOL_FREE | p->free;
    p->free = id;
    p->removals += 2;
    if (VL_UNLIKELY(--p->live == 0)) vl_pool_clear(a, p, size);
}

/* The first live record with an id of `id` or more, or NULL. */
VL_INLINE void *vl_pool_from(const vl_arena *a, const vl_pool *p, uint32_t id, uint64_t size, uint64_t id_at) {
    for (; id < p->end; id++) {
        void *record = vl_pool_at(a, p, id, size);
        if (!(*vl_pool_word(record, id_at) & VL_POOL_FREE)) return record;
    }
    return NULL;
}

/* Gives every block back; the pool must be initialized again before use. */
VL_FUNCTION void vl_pool_drop(vl_arena *a, vl_pool *p, uint64_t size) {
    vl_pool_clear(a, p, size);
    vl_free(a, &p->account, ((vl_ref *)vl_at(a, p->directory))[0], size << VL_CHUNK_SHIFT);
    vl_free(a, &p->account, p->directory, p->directory_size * sizeof(vl_ref));
    p->chunks = p->directory_size = 0;
    p->directory = 0;
}

#ifndef VL_HOSTED

VL_COLD bool vl_pool_grow_directory(vl_arena *a, vl_pool *p) {
    uint32_t wider = p->directory_size ? p->directory_size * 2 : 2;
    vl_ref fresh = vl_alloc(a, &p->account, wider * sizeof(vl_ref));
    if (!fresh) return false;
    if (p->directory_size) {
        memcpy(vl_at(a, fresh), vl_at(a, p->directory), p->directory_size * sizeof(vl_ref));
        vl_free(a, &p->account, p->directory, p->directory_size * sizeof(vl_ref));
    }
    p->directory = fresh;
    p->directory_size = wider;
    return true;
}

VL_LENT bool vl_pool_add_chunk(vl_arena *a, vl_pool *p, uint64_t size) {
    if (p->chunks == VL_POOL_FREE >> VL_CHUNK_SHIFT) return false;
    if (p->chunks == p->directory_size && !vl_pool_grow_directory(a, p)) return false;
    vl_ref chunk = vl_alloc_zeroed(a, &p->account, size << VL_CHUNK_SHIFT);
    if (!chunk) return false;
    ((vl_ref *)vl_at(a, p->directory))[p->chunks++] = chunk;
    return true;
}

VL_LENT bool vl_pool_init(vl_arena *a, vl_pool *p, uint64_t size) {
    memset(p, 0, sizeof *p);
    p->end = p->removals = 1;
    if (vl_pool_add_chunk(a, p, size)) return true;
    a->errors |= VL_E_LOST;
    return false;
}

VL_LENT void vl_pool_clear(vl_arena *a, vl_pool *p, uint64_t size) {
    vl_ref *directory = vl_at(a, p->directory);
    while (p->chunks > 1) vl_free(a, &p->account, directory[--p->chunks], size << VL_CHUNK_SHIFT);
    uint64_t used = p->end < VL_CHUNK ? p->end : VL_CHUNK;
    memset(vl_at(a, directory[0]), 0, used * size);
    p->end = 1;
    p->free = p->live = 0;
    p->removals += 2;
}

VL_LENT bool vl_pool_reserve(vl_arena *a, vl_pool *p, uint64_t n, uint64_t size) {
    while (((uint64_t)p->chunks << VL_CHUNK_SHIFT) < p->end + n)
        if (!vl_pool_add_chunk(a, p, size)) return false;
    return true;
}

#endif

#endif
