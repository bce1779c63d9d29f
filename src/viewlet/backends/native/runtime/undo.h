/* undo.h: how entries were before a batch, for programs whose sums round.
 *
 * Exact sums form a ring: the opposite batch leads back. Sums of DOUBLE do not: small parts are lost beside large
 * ones, and beyond 1.8e308 everything is. So a program that keeps such sums notes every entry of its maps before
 * the first change in a batch, and goes back by writing the notes over the entries, the last one first.
 *
 *   vl_undo_begin(u)                               a batch begins: notes from here on, unless those before are held
 *   vl_remember(x, record, entry, size, key)       an entry is about to change; the key is its first `key` bytes
 *   vl_undo_back(x, records, from)                 (records.h) write back what was noted since `from`
 *
 * An entry is noted again if `recent` has forgotten it: that costs memory, and the first note is written last.
 * Notes hold ids of strings, so strings are not swept while notes are held.
 */
#ifndef VL_UNDO_H
#define VL_UNDO_H

enum { VL_RECENT_BITS = 8 };

typedef struct {
    uint64_t before; /* the note before this one */
    uint32_t record, size;
    uint8_t entry[] __attribute__((aligned(16)));
} vl_note;

typedef struct {
    uint8_t *bytes;
    uint64_t used, room, last; /* `last` is the newest note */
    uint64_t batch;            /* number of the present batch */
    bool held, failed;         /* keep notes from batch to batch; no memory for a note */
    struct {
        uint64_t batch, note;
    } recent[1 << VL_RECENT_BITS];
} vl_undo;

VL_INLINE void vl_undo_forget(vl_undo *u) {
    u->used = u->last = 0;
    u->failed = false;
}

/* Answers where notes of this batch begin. */
VL_INLINE uint64_t vl_undo_begin(vl_undo *u) {
    if (!u->held) vl_undo_forget(u);
    u->batch++;
    return u->used;
}

VL_COLD void vl_undo_note(vl_undo *u, uint64_t recent, uint32_t record, const void *entry, uint32_t size) {
    uint64_t end = u->used + ((sizeof(vl_note) + size + 15) & ~UINT64_C(15));
    if (end > u->room) {
        uint64_t room = 2 * end > 4096 ? 2 * end : 4096;
        uint8_t *bytes = realloc(u->bytes, room);
        if (!bytes) {
            u->failed = true;
            return;
        }
        u->bytes = bytes;
        u->room = room;
    }
    vl_note *note = (void *)(u->bytes + u->used);
    note->before = u->last;
    note->record = record;
    note->size = size;
    memcpy(note->entry, entry, size);
    u->recent[recent].batch = u->batch;
    u->recent[recent].note = u->last = u->used;
    u->used = end;
}

VL_INLINE void vl_undo_remember(vl_undo *u, uint32_t record, const void *entry, uint32_t size, uint32_t key) {
    uint64_t recent = ((uint64_t)(uintptr_t)entry >> 3) * VL_SEED0 >> (64 - VL_RECENT_BITS);
    if (VL_LIKELY(u->recent[recent].batch == u->batch)) {
        const vl_note *note = (const void *)(u->bytes + u->recent[recent].note);
        if (VL_LIKELY(note->record == record && memcmp(note->entry, entry, key) == 0)) return;
    }
    vl_undo_note(u, recent, record, entry, size);
}

#endif
