/* ahead.h: what the rows of a batch are going to look up, asked for some rows ahead.
 *
 * A program of many maps says so in a table, which one function goes through, instead of in code for each of them:
 * to compile that takes a tenth to a quarter of the time of the whole program. A step of the table stands for one
 * of the functions of map_pooled.h and slice.h with the same name, for a key of one whole-number column without NULL:
 *
 *   VL_ASK_SLOT, VL_ASK_RECORD              m_prefetch, m_prefetch_record
 *   VL_ASK_SLICE, VL_ASK_IDS, VL_ASK_SLICED s_prefetch, s_prefetch_ids, s_prefetch_records
 *
 *   const void *const starts[] = {columns[2].data, ...};
 *   vl_asked asked[steps];
 *   uint32_t asks = vl_plan_ahead(state, starts, table, steps, asked);    once for some rows: maps may grow
 *   if (asks) vl_ask_ahead(a, asked, asks, base, j, n, chosen);           before row j of n
 *
 * These are hints: whatever the table says, nothing changes but what lies in the cache.
 */
#ifndef VL_AHEAD_H
#define VL_AHEAD_H

#include "map.h"
#include "slice_index.h"

enum { VL_ASK_SLOT, VL_ASK_RECORD, VL_ASK_SLICE, VL_ASK_IDS, VL_ASK_SLICED };

typedef struct {
    uint8_t what;     /* VL_ASK_... */
    uint8_t rows;     /* so many ahead */
    uint8_t start;    /* the column, by its place among the starts */
    bool wide, narrow; /* are its values of 64 bits? Is the key of 32? */
    uint32_t size;    /* of a record */
    uint32_t map;     /* where in the state */
    uint32_t index;   /* likewise, for slices */
} vl_step_ahead;

/* A step whose map is too large for the cache, with what it speaks of. */
typedef struct {
    const vl_step_ahead *step;
    const void *start;
    const vl_map_pooled *map;
    const vl_slice_index *index;
} vl_asked;

VL_LENT uint32_t vl_plan_ahead(const void *state, const void *const *starts, const vl_step_ahead *steps, uint32_t n,
                               vl_asked *asked);
/* Row j counts as number j from `base` on, or, where not all rows count, is base + chosen[j]. */
VL_LENT void vl_ask_ahead(const vl_arena *a, const vl_asked *asked, uint32_t asks, int64_t base, int64_t j, int64_t n,
                          const uint8_t *chosen);

#ifndef VL_HOSTED

VL_LENT uint32_t vl_plan_ahead(const void *state, const void *const *starts, const vl_step_ahead *steps, uint32_t n,
                               vl_asked *asked) {
    uint32_t found = 0;
    for (const vl_step_ahead *step = steps; step < steps + n; step++) {
        const void *map = (const uint8_t *)state + step->map, *index = (const uint8_t *)state + step->index;
        if (((const vl_map_pooled *)map)->pool.live > VL_LARGE_MAP)
            asked[found++] = (vl_asked){step, starts[step->start], map, index};
    }
    return found;
}

VL_INLINE void vl_ask(const vl_arena *a, const vl_asked *ask, uint64_t key) {
    switch (ask->step->what) {
    case VL_ASK_SLOT: vl_index_prefetch(a, &ask->map->index, vl_hash32(vl_hash1(key))); return;
    case VL_ASK_RECORD: vl_map_pooled_prefetch(a, ask->map, vl_hash32(vl_hash1(key)), ask->step->size); return;
    case VL_ASK_SLICE: vl_slice_prefetch(a, ask->index, vl_spread(key)); return;
    case VL_ASK_IDS: vl_slice_prefetch_ids(a, ask->index, vl_spread(key)); return;
    case VL_ASK_SLICED: vl_slice_prefetch_records(a, &ask->map->pool, ask->index, vl_spread(key), ask->step->size);
    }
}

VL_LENT void vl_ask_ahead(const vl_arena *a, const vl_asked *asked, uint32_t asks, int64_t base, int64_t j, int64_t n,
                          const uint8_t *chosen) {
    for (const vl_asked *ask = asked; ask < asked + asks; ask++) {
        const int64_t at = j + ask->step->rows;
        if ((uint64_t)at >= (uint64_t)n) continue;
        const int64_t i = base + (chosen ? chosen[at] : at);
        uint64_t key = ask->step->wide ? ((const uint64_t *)ask->start)[i]
                                       : (uint64_t)(int64_t)((const int32_t *)ask->start)[i];
        if (ask->step->narrow) key = (uint32_t)key;
        vl_ask(a, ask, key);
    }
}

#endif

#endif
