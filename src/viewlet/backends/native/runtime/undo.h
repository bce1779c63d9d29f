/* undo.h: how entries were before a batch, for programs whose sums round.
 *
 * Exact sums form a ring: the opposite batch leads back. Sums of DOUBLE do not: small parts are lost beside large
 * ones, and beyond 1.8e308 everything is. So a program that keeps such sums notes every entry of its maps before
 * the first change in a batch, and goes back by writing the notes over the entries, the last one first. So does one
 * that visits the rows which a threshold has crossed: out of range, a threshold does not come back the way it went.
 *
 *   vl_undo_begin(u)                                 a batch begins; notes of those before go, unless they are held
 *   vl_undo_remember(u, record, entry, stamp, size)  an entry is about to change; the stamp in it tells the first time
 *   vl_undo_back(x, records, from)                   (records.h) write back what was noted since `from`
 *
 * A stamp is the number of the batch that changed the entry last. Numbers start anywhere among 2^64, so that stamps
 * in a state that another process has written are those of no batch here. Notes hold ids of strings, so strings are
 * not swept while notes are held.
 */
#ifndef VL_UNDO_H
#define VL_UNDO_H

#include "hash.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

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
} vl_undo;

VL_INLINE void vl_undo_forget(vl_undo *u) {
    u->used = u->last = 0;
    u->failed = false;
}

VL_LENT uint64_t vl_undo_number(const vl_undo *u);

/* Answers where notes of this batch begin. */
VL_INLINE uint64_t vl_undo_begin(vl_undo *u) {
    if (!u->held) vl_undo_forget(u);
    if (VL_UNLIKELY(u->batch == 0)) u->batch = vl_undo_number(u);
    u->batch++;
    return u->used;
}

VL_LENT void vl_undo_note(vl_undo *u, uint32_t record, const void *entry, uint32_t size);

VL_INLINE void vl_undo_remember(vl_undo *u, uint32_t record, const void *entry, uint64_t *stamp, uint32_t size) {
    if (VL_LIKELY(*stamp == u->batch)) return;
    vl_undo_note(u, record, entry, size);
    *stamp = u->batch;
}

#ifndef VL_HOSTED

VL_LENT uint64_t vl_undo_number(const vl_undo *u) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t process = (uint64_t)getpid() << 32 ^ (uint64_t)(uintptr_t)u;
    return vl_hash2((uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec, process);
}

VL_LENT void vl_undo_note(vl_undo *u, uint32_t record, const void *entry, uint32_t size) {
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
    u->last = u->used;
    u->used = end;
}

#endif

#endif
