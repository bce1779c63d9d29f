/* arena_blocks.h: blocks of an arena by size class, and the memory under them; see arena.h. */
#ifndef VL_ARENA_BLOCKS_H
#define VL_ARENA_BLOCKS_H

#include "arena.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

/* ---- commit: make [0, size) usable ---- */

VL_COLD bool vl_commit_map(vl_arena *a, uint64_t size) {
    uint64_t old = a->committed;
    if (a->fd < 0) {
        if (mprotect(a->base + old, size - old, PROT_READ | PROT_WRITE) != 0) return false;
    } else {
        void *p = mmap(a->base + old, size - old, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, a->fd,
                       (off_t)old);
        if (p == MAP_FAILED) return false;
    }
    a->committed = size;
    return true;
}

/* Grows the backing to at least `need` bytes. A file is really allocated, so that a full disk is an
 * error here and not a signal at the first touch. */
VL_COLD bool vl_commit(vl_arena *a, uint64_t need) {
    uint64_t least = a->committed + a->committed / 8;
    if (least < a->committed + VL_GROWTH) least = a->committed + VL_GROWTH;
    uint64_t size = vl_round_up(need > least ? need : least, VL_PAGE * 16);
    if (size > a->reserved) size = a->reserved;
    if (size < need) return false;
    if (a->fd >= 0) {
        int refused = posix_fallocate(a->fd, (off_t)a->committed, (off_t)(size - a->committed));
        if (refused != 0) {
            size = vl_round_up(need, VL_PAGE); /* perhaps the bare need still fits */
            refused = posix_fallocate(a->fd, (off_t)a->committed, (off_t)(size - a->committed));
        }
        if (refused != 0) {
            errno = refused;
            return false;
        }
    }
    /* Without a file nothing is taken before it is touched. Past the first two megabytes pages are huge:
     * a fifth of the faults' time, and lookups all over a large table miss far fewer translations. */
    if (a->fd < 0 && size > VL_HUGE_PAGE) size = vl_round_up(size, VL_HUGE_PAGE);
    if (size > a->reserved) size = a->reserved;
    uint64_t from = a->committed;
    if (!vl_commit_map(a, size)) return false;
#ifdef MADV_HUGEPAGE
    uint64_t huge = from > VL_HUGE_PAGE ? from : VL_HUGE_PAGE;
    if (a->fd < 0 && size > huge) madvise(a->base + huge, size - huge, MADV_HUGEPAGE); /* or not: no matter */
#endif
    vl_head(a)->size = size;
    VL_POISON(a->base + from, size - from);
    return true;
}

/* ---- free lists ---- */

VL_INLINE void vl_list_push(vl_arena *a, uint32_t c, vl_ref r) {
    vl_header *h = vl_head(a);
    VL_UNPOISON(a->base + r, 8);
    *(vl_ref *)vl_at(a, r) = h->freed[c];
    VL_POISON(a->base + r, vl_class_size(c));
    h->freed[c] = r;
    h->nonempty[c >> 6] |= UINT64_C(1) << (c & 63);
}

VL_INLINE vl_ref vl_list_pop(vl_arena *a, uint32_t c) {
    vl_header *h = vl_head(a);
    vl_ref r = h->freed[c];
    if (r == 0) return 0;
    VL_UNPOISON(a->base + r, vl_class_size(c));
    h->freed[c] = *(vl_ref *)vl_at(a, r);
    if (h->freed[c] == 0) h->nonempty[c >> 6] &= ~(UINT64_C(1) << (c & 63));
    return r;
}

/* Gives [from, to) to the free lists as the largest well-aligned blocks that fit. */
VL_FUNCTION void vl_scatter(vl_arena *a, vl_ref from, vl_ref to) {
    while (from < to) {
        uint64_t left = to - from;
        uint32_t c = vl_class_of(left);
        if (vl_class_size(c) > left) c--;
        while (from & (vl_block_alignment(vl_class_size(c)) - 1)) c--;
        vl_list_push(a, c, from);
        from += vl_class_size(c);
    }
}

/* The first non-empty class at or after c, or VL_CLASSES. */
VL_FUNCTION uint32_t vl_class_nonempty(const vl_arena *a, uint32_t c) {
    const uint64_t *bits = vl_head(a)->nonempty;
    uint32_t w = c >> 6;
    if (w >= VL_CLASS_WORDS) return VL_CLASSES;
    uint64_t word = bits[w] & (~UINT64_C(0) << (c & 63));
    while (word == 0) {
        if (++w == VL_CLASS_WORDS) return VL_CLASSES;
        word = bits[w];
    }
    return w * 64 + (uint32_t)__builtin_ctzll(word);
}

/* ---- allocation ---- */

VL_INLINE uint64_t vl_hard_limit(const vl_arena *a) {
    if (a->limit == 0) return a->reserved;
    uint64_t hard = a->limit + a->limit / 16 + VL_SLACK_LEAST;
    return hard < a->reserved ? hard : a->reserved;
}

/* Extends top by `size` bytes. Above the limit it succeeds within the slack and sets VL_E_MEMORY,
 * unless the caller can do without. */
VL_COLD vl_ref vl_extend(vl_arena *a, uint64_t size, bool can_do_without) {
    vl_header *h = vl_head(a);
    vl_ref r = vl_round_up(h->top, 64);
    uint64_t end = r + size;
    uint64_t soft = a->limit ? a->limit : a->reserved;
    if (end > soft) {
        a->errors |= VL_E_MEMORY;
        if (can_do_without || end > vl_hard_limit(a)) return 0;
    }
    if (end > a->committed && !vl_commit(a, end)) {
        a->errors |= VL_E_MEMORY;
        return 0;
    }
    h->top = end;
    return r;
}

/* A block of VL_SMALL bytes or more: exact class, else the front of a larger free block, else new. */
VL_COLD vl_ref vl_alloc_large(vl_arena *a, uint32_t c, bool can_do_without) {
    vl_ref r = vl_list_pop(a, c);
    if (r) return r;
    uint64_t size = vl_class_size(c);
    uint32_t larger = vl_class_nonempty(a, c + 1);
    if (larger < VL_CLASSES) {
        r = vl_list_pop(a, larger);
        vl_scatter(a, r + size, r + vl_class_size(larger));
        return r;
    }
    r = vl_extend(a, size, can_do_without);
    if (r) VL_UNPOISON(a->base + r, size);
    return r;
}

VL_COLD vl_ref vl_alloc_small(vl_arena *a, uint32_t c, bool can_do_without) {
    vl_header *h = vl_head(a);
    uint64_t size = vl_class_size(c), align = vl_block_alignment(size);
    vl_ref r = vl_round_up(h->slab_next, align);
    if (r + size > h->slab_end) {
        vl_ref slab = vl_alloc_large(a, vl_class_of(VL_SLAB), can_do_without);
        if (slab == 0) return 0;
        vl_scatter(a, h->slab_next, h->slab_end);
        VL_POISON(a->base + slab, VL_SLAB);
        h->slab_next = r = slab;
        h->slab_end = slab + VL_SLAB;
    }
    vl_scatter(a, h->slab_next, r);
    h->slab_next = r + size;
    VL_UNPOISON(a->base + r, size);
    return r;
}

VL_INLINE vl_ref vl_alloc_class(vl_arena *a, vl_account *account, uint64_t bytes, bool can_do_without) {
    if (VL_UNLIKELY(bytes > a->reserved)) {
        a->errors |= VL_E_MEMORY;
        return 0;
    }
    uint32_t c = vl_class_of(bytes);
    uint64_t size = vl_class_size(c);
    vl_ref r = vl_list_pop(a, c);
    if (!r) r = size < VL_SMALL ? vl_alloc_small(a, c, can_do_without) : vl_alloc_large(a, c, can_do_without);
    if (VL_UNLIKELY(!r)) return 0;
    account->bytes += size;
    account->blocks += 1;
    vl_head(a)->live += size;
    return r;
}

VL_LENT vl_ref vl_alloc(vl_arena *a, vl_account *account, uint64_t bytes) {
    return vl_alloc_class(a, account, bytes, false);
}

VL_LENT vl_ref vl_try_alloc(vl_arena *a, vl_account *account, uint64_t bytes) {
    return vl_alloc_class(a, account, bytes, true);
}

/* A block that begins at or past the former top has never been used: the system gave it as zeros, and leaves
 * it so until it is touched. A file may have been there before. */
VL_INLINE vl_ref vl_zeroed(vl_arena *a, vl_ref r, uint64_t bytes, uint64_t former_top) {
    if (r && (r < former_top || a->fd >= 0)) memset(vl_at(a, r), 0, vl_block_size(bytes));
    return r;
}
VL_LENT vl_ref vl_alloc_zeroed(vl_arena *a, vl_account *account, uint64_t bytes) {
    uint64_t top = vl_head(a)->top;
    return vl_zeroed(a, vl_alloc(a, account, bytes), bytes, top);
}
VL_LENT vl_ref vl_try_alloc_zeroed(vl_arena *a, vl_account *account, uint64_t bytes) {
    uint64_t top = vl_head(a)->top;
    return vl_zeroed(a, vl_try_alloc(a, account, bytes), bytes, top);
}

VL_LENT void vl_free(vl_arena *a, vl_account *account, vl_ref r, uint64_t bytes) {
    if (r == 0) return;
    uint32_t c = vl_class_of(bytes);
    uint64_t size = vl_class_size(c);
    account->bytes -= size;
    account->blocks -= 1;
    vl_head(a)->live -= size;
    if (size >= VL_RELEASE_LEAST && a->fd < 0) {
        vl_ref from = vl_round_up(r + 8, VL_PAGE), to = (r + size) & ~(uint64_t)(VL_PAGE - 1);
        madvise(a->base + from, to - from, MADV_DONTNEED);
    }
    vl_list_push(a, c, r);
}

/* Makes sure that the next `bytes` of growth cannot fail for want of address space, limit, disk or
 * mapping. False (with VL_E_MEMORY) leaves everything as it was. */
VL_FUNCTION bool vl_reserve(vl_arena *a, uint64_t bytes) {
    uint64_t end = vl_round_up(vl_head(a)->top, 64) + bytes;
    uint64_t soft = a->limit ? a->limit : a->reserved;
    if (end < bytes || end > soft || end > a->reserved || (end > a->committed && !vl_commit(a, end))) {
        a->errors |= VL_E_MEMORY;
        return false;
    }
    return true;
}

/* The same, and the memory is taken from the system now: what grows into it meets no page that must be made
 * and cleared first. */
VL_FUNCTION bool vl_make_present(vl_arena *a, uint64_t bytes) {
    if (!vl_reserve(a, bytes)) return false;
    uint64_t from = vl_round_up(vl_head(a)->top, VL_PAGE), to = from + bytes < a->committed ? from + bytes : a->committed;
    if (to <= from) return true;
    VL_UNPOISON(a->base + from, to - from);
    for (uint64_t at = from; at < to; at += VL_PAGE) ((volatile uint8_t *)a->base)[at] = 0;
    VL_POISON(a->base + from, to - from);
    return true;
}

#endif
