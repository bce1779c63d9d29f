/* slice_index.h: the index that slice.h keeps; see there. */
#ifndef VL_SLICE_INDEX_H
#define VL_SLICE_INDEX_H

#include "arena.h"

typedef struct {
    uint32_t hash, n; /* n = 0: a free slot */
    union {
        uint32_t id;    /* n = 1 */
        vl_ref vector;  /* n > 1: uint32_t[capacity + 1], [0] = log2(capacity + 1) */
    } at;
} vl_slice_slot;

typedef struct {
    vl_account account;
    vl_ref slots;
    uint64_t count; /* distinct keys */
    uint64_t grow_at;
    uint32_t mask, shift; /* 32 - log2(slots) */
} vl_slice_index;

typedef struct {
    const uint32_t *ids;
    uint32_t n;
} vl_slice;

#endif
