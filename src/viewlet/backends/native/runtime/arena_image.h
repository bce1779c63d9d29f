/* arena_image.h: an arena made, opened, checked and closed; its image written and read. See arena.h. */
#ifndef VL_ARENA_IMAGE_H
#define VL_ARENA_IMAGE_H

#include "arena_blocks.h"

#include <sys/stat.h>
#include <unistd.h>

/* ---- audit: every byte below top is the header, live, or idle ---- */

/* Bytes on free lists and left in the slab: live + idle = top, exactly. */
VL_FUNCTION uint64_t vl_arena_idle(const vl_arena *a) {
    const vl_header *h = vl_head(a);
    uint64_t idle = h->slab_end - h->slab_next;
    for (uint32_t c = 0; c < VL_CLASSES; c++)
        for (vl_ref r = h->freed[c], next; r; r = next) {
            VL_UNPOISON(a->base + r, 8);
            next = *(vl_ref *)vl_at(a, r);
            VL_POISON(a->base + r, vl_class_size(c));
            idle += vl_class_size(c);
        }
    VL_POISON(a->base + h->slab_next, h->slab_end - h->slab_next);
    return idle;
}

/* Under AddressSanitizer an image is read or written whole: lift the poison, then lay it again. */
VL_INLINE void vl_arena_unpoison(vl_arena *a) { VL_UNPOISON(a->base, a->committed); }
VL_INLINE void vl_arena_poison(vl_arena *a) {
#ifdef VL_ASAN
    VL_POISON(a->base + vl_head(a)->top, a->committed - vl_head(a)->top);
    vl_arena_idle(a);
#else
    (void)a;
#endif
}

/* ---- opening and closing ---- */

VL_FUNCTION vl_errors vl_arena_reserve(vl_arena *a, int fd, uint64_t limit, uint64_t least) {
    uint64_t want = limit ? vl_round_up(limit + limit / 8 + 2 * VL_SLACK_LEAST, VL_PAGE) : VL_RESERVE_DEFAULT;
    if (want < VL_RESERVE_LEAST) want = VL_RESERVE_LEAST;
    if (want < least) want = vl_round_up(least, VL_PAGE);
    void *p = MAP_FAILED;
    for (; want >= VL_RESERVE_LEAST && want >= least; want /= 2) {
        want = vl_round_up(want, VL_PAGE);
        p = mmap(NULL, want + VL_HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p != MAP_FAILED) break;
    }
    *a = (vl_arena){.base = NULL, .reserved = 0, .committed = 0, .limit = limit, .fd = fd, .errors = 0};
    if (p == MAP_FAILED) return a->errors = VL_E_SYSTEM;
    uint64_t skipped = -(uintptr_t)p & (VL_HUGE_PAGE - 1); /* the base begins a huge page; the rest goes back */
    if (skipped) munmap(p, skipped);
    a->base = (uint8_t *)p + skipped;
    munmap(a->base + want, VL_HUGE_PAGE - skipped);
    a->reserved = want;
    return VL_OK;
}

VL_FUNCTION void vl_arena_close(vl_arena *a) {
    if (!a->base) return;
    vl_arena_unpoison(a);
    munmap(a->base, a->reserved);
    a->base = NULL;
    a->reserved = a->committed = 0;
}

VL_FUNCTION vl_errors vl_arena_fail(vl_arena *a, vl_errors why) {
    vl_arena_close(a);
    return a->errors = why;
}

VL_FUNCTION vl_errors vl_arena_format(vl_arena *a, const uint8_t program[32]) {
    uint64_t first = vl_round_up(sizeof(vl_header), 64);
    if (!vl_commit(a, first)) return vl_arena_fail(a, VL_E_SYSTEM);
    vl_header *h = vl_head(a);
    VL_UNPOISON(h, sizeof *h);
    memset(h, 0, sizeof *h);
    h->magic = VL_MAGIC;
    h->format = VL_FORMAT;
    h->header_bytes = sizeof(vl_header);
    memcpy(h->program, program, 32);
    h->size = a->committed;
    h->top = h->live = first;
    return VL_OK;
}

/* An empty arena in this process's memory. `limit` bounds its bytes; 0 = no limit but the machine's. */
VL_FUNCTION vl_errors vl_arena_create(vl_arena *a, uint64_t limit, const uint8_t program[32]) {
    if (vl_arena_reserve(a, -1, limit, 0)) return a->errors;
    return vl_arena_format(a, program);
}

/* An empty arena in the file `fd`, which is truncated first. The caller keeps owning fd and closes it
 * after the arena. */
VL_FUNCTION vl_errors vl_arena_create_file(vl_arena *a, int fd, uint64_t limit, const uint8_t program[32]) {
    if (vl_arena_reserve(a, fd, limit, 0)) return a->errors;
    if (ftruncate(fd, 0) != 0) return vl_arena_fail(a, VL_E_SYSTEM);
    return vl_arena_format(a, program);
}

VL_FUNCTION bool vl_header_fits(const vl_header *h, uint64_t file_size, const uint8_t program[32]) {
    return h->magic == VL_MAGIC && h->format == VL_FORMAT && h->header_bytes == sizeof(vl_header) &&
           h->top >= sizeof(vl_header) && h->top <= file_size && memcmp(h->program, program, 32) == 0;
}

/* Maps what another process has added to the file since this one looked; call it at the start of a
 * turn. The base does not move. */
VL_FUNCTION vl_errors vl_arena_refresh(vl_arena *a) {
    struct stat s;
    if (a->fd < 0) return VL_OK;
    if (fstat(a->fd, &s) != 0) return a->errors |= VL_E_SYSTEM;
    uint64_t size = (uint64_t)s.st_size & ~(uint64_t)(VL_PAGE - 1);
    if (size <= a->committed) return VL_OK;
    if (size > a->reserved || !vl_commit_map(a, size)) return a->errors |= VL_E_SYSTEM;
    return VL_OK;
}

/* The arena that an earlier process left in the file `fd`. VL_E_FORMAT when it is none, or holds
 * another program. */
VL_FUNCTION vl_errors vl_arena_attach_file(vl_arena *a, int fd, uint64_t limit, const uint8_t program[32]) {
    struct stat s;
    vl_header h;
    *a = (vl_arena){.fd = fd};
    if (fstat(fd, &s) != 0) return a->errors = VL_E_SYSTEM;
    if (pread(fd, &h, sizeof h, 0) != (ssize_t)sizeof h || !vl_header_fits(&h, (uint64_t)s.st_size, program))
        return a->errors = VL_E_FORMAT;
    if (vl_arena_reserve(a, fd, limit, (uint64_t)s.st_size + VL_PAGE)) return a->errors;
    if (ftruncate(fd, (off_t)vl_round_up((uint64_t)s.st_size, VL_PAGE)) != 0 || vl_arena_refresh(a))
        return vl_arena_fail(a, VL_E_SYSTEM);
    vl_head(a)->size = a->committed;
    vl_arena_poison(a);
    return VL_OK;
}

/* Writes the image to fd from its start. The image can be loaded, or attached in place. */
VL_FUNCTION vl_errors vl_arena_save(vl_arena *a, int fd) {
    uint64_t done = 0, top = vl_head(a)->top;
    vl_arena_unpoison(a);
    while (done < top) {
        ssize_t n = pwrite(fd, a->base + done, top - done, (off_t)done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        done += (uint64_t)n;
    }
    vl_arena_poison(a);
    return done == top && ftruncate(fd, (off_t)top) == 0 ? VL_OK : VL_E_SYSTEM;
}

/* An anonymous arena with the contents of the image in fd. */
VL_FUNCTION vl_errors vl_arena_load(vl_arena *a, int fd, uint64_t limit, const uint8_t program[32]) {
    struct stat s;
    vl_header h;
    *a = (vl_arena){.fd = -1};
    if (fstat(fd, &s) != 0) return a->errors = VL_E_SYSTEM;
    if (pread(fd, &h, sizeof h, 0) != (ssize_t)sizeof h || !vl_header_fits(&h, (uint64_t)s.st_size, program))
        return a->errors = VL_E_FORMAT;
    if (vl_arena_reserve(a, -1, limit, h.top + VL_PAGE)) return a->errors;
    if (!vl_commit_map(a, vl_round_up(h.top, VL_PAGE))) return vl_arena_fail(a, VL_E_SYSTEM);
    for (uint64_t done = 0; done < h.top;) {
        ssize_t n = pread(fd, a->base + done, h.top - done, (off_t)done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return vl_arena_fail(a, VL_E_SYSTEM);
        done += (uint64_t)n;
    }
    vl_head(a)->size = a->committed;
    vl_arena_poison(a);
    return VL_OK;
}

#endif
