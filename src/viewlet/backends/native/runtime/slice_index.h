/* slice_index.h: the index that slice.h keeps; see there. */
#ifndef VL_SLICE_INDEX_H
#define VL_SLICE_INDEX_H

#include "arena.h"

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

#endif
