/* ahead.c: does a table ask for the same memory as the functions that it stands for?
 *
 * in:  records, then their columns x and y in turn; rows (at most ROWS), then theirs; one in how many rows counts
 * out: steps of maps that are large, addresses asked for by the table, and whether they were the expected ones
 */
#include <stdbool.h>
#include <stdint.h>

enum { NOTES = 1 << 20, ROWS = 128 };
static const void *notes[2][NOTES];
static int64_t noted[2], side;
static void note(const void *address) {
    if (noted[side] < NOTES) notes[side][noted[side]++] = address;
}
#define __builtin_prefetch(address) note(address)
#include "ahead.h"
#include "driver.h"

typedef struct { int64_t x; } one_key;
typedef struct { one_key key; uint32_t id; int64_t count; } one_record;
VL_INLINE uint64_t one_hash(const one_key *k) { return vl_hash1((uint64_t)k->x); }
VL_INLINE bool one_equal(const one_key *p, const one_key *q) { return p->x == q->x; }
#define VL_MAP one
#include "map_pooled.h"

typedef struct { int64_t x; int32_t y; } two_key;
typedef struct { two_key key; uint32_t id, by_x_at, by_y_at; int64_t count; } two_record;
VL_INLINE uint64_t two_hash(const two_key *k) { return vl_hash2((uint64_t)k->x, (uint32_t)k->y); }
VL_INLINE bool two_equal(const two_key *p, const two_key *q) { return p->x == q->x && p->y == q->y; }
#define VL_MAP two
#define VL_MAP_INDEXED
#include "map_pooled.h"

typedef struct { int64_t x; } by_x_key;
VL_INLINE by_x_key by_x_of(const two_record *r) { return (by_x_key){r->key.x}; }
VL_INLINE uint64_t by_x_hash(const by_x_key *k) { return vl_spread((uint64_t)k->x); }
#define VL_SLICE_EXACT
#define VL_SLICE by_x
#define VL_SLICE_MAP two
#include "slice.h"

typedef struct { int32_t y; } by_y_key;
VL_INLINE by_y_key by_y_of(const two_record *r) { return (by_y_key){r->key.y}; }
VL_INLINE uint64_t by_y_hash(const by_y_key *k) { return vl_spread((uint32_t)k->y); }
#define VL_SLICE_EXACT
#define VL_SLICE by_y
#define VL_SLICE_MAP two
#include "slice.h"

typedef struct {
    vl_map_pooled one, two;
    vl_slice_index by_x, by_y;
} state;
static state s;

static void two_attach(vl_arena *a, vl_map_pooled *m, two_record *r) {
    by_x_add(a, m, &s.by_x, r);
    by_y_add(a, m, &s.by_y, r);
}
static void two_detach(vl_arena *a, vl_map_pooled *m, two_record *r) {
    by_x_drop(a, m, &s.by_x, r);
    by_y_drop(a, m, &s.by_y, r);
}

#define ONE sizeof(one_record), offsetof(state, one), 0
#define TWO(index) sizeof(two_record), offsetof(state, two), offsetof(state, index)
static const vl_step_ahead steps[] = {
    {VL_ASK_SLOT, 5, 0, true, false, ONE},          {VL_ASK_RECORD, 3, 0, true, false, ONE},
    {VL_ASK_SLICE, 7, 0, true, false, TWO(by_x)},   {VL_ASK_IDS, 5, 0, true, false, TWO(by_x)},
    {VL_ASK_SLICED, 3, 0, true, false, TWO(by_x)},  {VL_ASK_SLICE, 7, 1, false, true, TWO(by_y)},
    {VL_ASK_IDS, 5, 1, false, true, TWO(by_y)},     {VL_ASK_SLICED, 3, 1, false, true, TWO(by_y)},
    {VL_ASK_SLICED, 3, 2, true, true, TWO(by_y)},
};
enum { STEPS = sizeof steps / sizeof *steps };

/* What the functions of the maps ask for, one step for one row. */
static void expected(const vl_arena *a, const vl_step_ahead *step, int64_t x, int32_t y) {
    const one_key one = {x};
    const by_x_key by_x = {x};
    const by_y_key by_y = {y};
    const bool is_x = step->index == offsetof(state, by_x);
    switch (step->what) {
    case VL_ASK_SLOT: one_prefetch(a, &s.one, &one); return;
    case VL_ASK_RECORD: one_prefetch_record(a, &s.one, &one); return;
    case VL_ASK_SLICE: is_x ? by_x_prefetch(a, &s.by_x, &by_x) : by_y_prefetch(a, &s.by_y, &by_y); return;
    case VL_ASK_IDS: is_x ? by_x_prefetch_ids(a, &s.by_x, &by_x) : by_y_prefetch_ids(a, &s.by_y, &by_y); return;
    default:
        is_x ? by_x_prefetch_records(a, &s.two, &s.by_x, &by_x) : by_y_prefetch_records(a, &s.two, &s.by_y, &by_y);
    }
}

static void fill(vl_arena *a, input *in) {
    for (int64_t n = take(in); n > 0; n--) {
        const int64_t x = take(in);
        const int32_t y = (int32_t)take(in);
        one_upsert(a, &s.one, &(one_key){x})->count++;
        two_upsert(a, &s.two, &(two_key){x, y})->count++;
    }
}

int main(void) {
    input in = read_input();
    vl_arena a;
    require(vl_arena_create(&a, UINT64_C(1) << 30, PROGRAM) == VL_OK, "create");
    require(one_init(&a, &s.one) && two_init(&a, &s.two), "initialize maps");
    require(by_x_init(&a, &s.by_x) && by_y_init(&a, &s.by_y), "initialize slices");
    fill(&a, &in);
    int64_t xs[ROWS], wide[ROWS], n = 0, rows = take(&in);
    int32_t ys[ROWS];
    uint8_t chosen[ROWS];
    for (int64_t i = 0; i < rows; i++) {
        xs[i] = take(&in);
        wide[i] = ys[i] = (int32_t)take(&in);
    }
    const int64_t every = take(&in);
    for (int64_t i = 0; i < rows; i += every) chosen[n++] = (uint8_t)i;
    const void *const starts[] = {xs, ys, wide};
    vl_asked asked[STEPS];
    const uint32_t asks = vl_plan_ahead(&s, starts, steps, STEPS, asked);
    for (int64_t j = -8; j < n; j++) {
        side = 0;
        vl_ask_ahead(&a, asked, asks, 0, j, n, every > 1 ? chosen : NULL);
        side = 1;
        for (const vl_step_ahead *step = steps; asks && step < steps + STEPS; step++) {
            const int64_t at = j + step->rows;
            if (at >= 0 && at < n) expected(&a, step, xs[chosen[at]], ys[chosen[at]]);
        }
    }
    give(asks);
    give(noted[0]);
    give(noted[0] == noted[1] && !memcmp(notes[0], notes[1], (size_t)noted[0] * sizeof *notes[0]));
    vl_arena_close(&a);
    free(in.words);
    return 0;
}
