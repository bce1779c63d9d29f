/* feed.h: what a batch changes in the rows of a view, from the entries that it touches.
 *
 * A view that shows the entries of one record has, under each key, rows that depend on entries of that key only.
 * While somebody follows it, a trigger that is about to change such an entry says so: at the first time in a
 * batch the rows under the key are noted, to be taken away, and at the end those under all touched keys are noted
 * as they are then. So the cost is that of the entries touched, whatever the view holds.
 *
 *   vl_feed_first(x, f, key, size, hash, same)   true at the first time that a key is touched
 *   vl_feed_row(sink, row, weight)               a vl_emit into a feed: `sign` says whether rows come or go
 *   vl_feed_clear(f), vl_feed_free(f)
 *
 * Strings are not swept meanwhile, so the ids in noted rows keep their meaning.
 */
#ifndef VL_FEED_H
#define VL_FEED_H

typedef struct {
    uint8_t *keys; /* touched, one after the other */
    uint64_t *hashes;
    uint32_t *slots; /* 1 + the number of a key; 0 is free. There are twice as many as there is room for keys */
    uint64_t count, room;
    uint32_t key_size;
    uint32_t columns;
    int64_t sign;
    vl_cell *cells; /* `columns` for every row */
    int64_t *weights;
    uint64_t rows, row_room;
    bool failed;
} vl_feed;

VL_LENT bool vl_feed_first(vl_feed *f, const void *key, uint32_t size, uint64_t hash,
                           bool (*same)(const void *, const void *));
VL_LENT void vl_feed_row(void *sink, const vl_cell *row, int64_t weight);
/* Large memory is given back: most batches are small. */
VL_LENT void vl_feed_free(vl_feed *f);
VL_LENT void vl_feed_clear(vl_feed *f);

#ifndef VL_HOSTED

VL_COLD void *vl_feed_grown(vl_feed *f, void *memory, uint64_t count, uint64_t size) {
    void *more = realloc(memory, count * size);
    if (!more) f->failed = true;
    return more ? more : memory;
}

VL_COLD void vl_feed_place(vl_feed *f, uint64_t number) {
    const uint64_t mask = 2 * f->room - 1;
    uint64_t at = f->hashes[number] & mask;
    while (f->slots[at]) at = (at + 1) & mask;
    f->slots[at] = (uint32_t)number + 1;
}

/* Room for twice as many keys; false without memory. */
VL_COLD bool vl_feed_grow(vl_feed *f) {
    const uint64_t room = f->room ? 2 * f->room : 64;
    if (room > UINT32_MAX / 2) f->failed = true;
    if (f->failed) return false;
    f->keys = vl_feed_grown(f, f->keys, room, f->key_size);
    f->hashes = vl_feed_grown(f, f->hashes, room, sizeof *f->hashes);
    f->slots = vl_feed_grown(f, f->slots, 2 * room, sizeof *f->slots);
    if (f->failed) return false;
    f->room = room;
    memset(f->slots, 0, 2 * room * sizeof *f->slots);
    for (uint64_t i = 0; i < f->count; i++) vl_feed_place(f, i);
    return true;
}

VL_LENT bool vl_feed_first(vl_feed *f, const void *key, uint32_t size, uint64_t hash, bool (*same)(const void *, const void *)) {
    f->key_size = size;
    if (f->room) {
        const uint64_t mask = 2 * f->room - 1;
        for (uint64_t at = hash & mask; f->slots[at]; at = (at + 1) & mask) {
            const uint64_t number = f->slots[at] - 1;
            if (f->hashes[number] == hash && same(f->keys + number * size, key)) return false;
        }
    }
    if (f->count == f->room && !vl_feed_grow(f)) return false;
    memcpy(f->keys + f->count * size, key, size);
    f->hashes[f->count] = hash;
    vl_feed_place(f, f->count++);
    return true;
}

VL_LENT void vl_feed_row(void *sink, const vl_cell *row, int64_t weight) {
    vl_feed *f = sink;
    if (f->rows == f->row_room && !f->failed) {
        const uint64_t room = f->row_room ? 2 * f->row_room : 64;
        f->cells = vl_feed_grown(f, f->cells, room * (f->columns + 1), sizeof *f->cells);
        f->weights = vl_feed_grown(f, f->weights, room, sizeof *f->weights);
        if (!f->failed) f->row_room = room;
    }
    if (f->failed) return;
    memcpy(f->cells + f->rows * f->columns, row, f->columns * sizeof *row);
    f->weights[f->rows++] = f->sign * weight;
}

VL_LENT void vl_feed_free(vl_feed *f) {
    free(f->keys), free(f->hashes), free(f->slots), free(f->cells), free(f->weights);
    memset(f, 0, sizeof *f);
}

VL_LENT void vl_feed_clear(vl_feed *f) {
    if (f->failed || f->room > 4096 || f->row_room > 4096) vl_feed_free(f);
    if (f->room) memset(f->slots, 0, 2 * f->room * sizeof *f->slots);
    f->count = f->rows = 0;
}

#endif

#endif
