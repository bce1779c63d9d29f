/* arena.h: one memory-mapped region that holds the whole state of a program.
 *
 * Everything inside refers by offset (vl_ref, 0 = null), never by pointer, so the bytes [0, top) are
 * an image: write them to a file for a checkpoint, map the file to recover, attach it from another
 * process, fork for a snapshot.
 *
 * Address space is reserved up front and committed as the arena grows, so the base never moves while
 * an arena is open: a C pointer into a block stays valid until that block is freed.
 *
 *   vl_arena a;                                           process-local handle
 *   vl_arena_create(&a, limit, hash)                      anonymous, empty
 *   vl_arena_create_file(&a, fd, limit, hash)             file-backed, empty
 *   vl_arena_attach_file(&a, fd, limit, hash)             file-backed, existing
 *   vl_arena_load(&a, fd, limit, hash), vl_arena_save(&a, fd)   an anonymous arena from and to an image
 *   vl_ref r = vl_alloc(&a, &account, bytes);             0 when there is no memory at all
 *   vl_ref r = vl_try_alloc(&a, &account, bytes);         0 also when only the limit is in the way
 *   T *p = vl_at(&a, r);  vl_ref r = vl_ref_of(&a, p);
 *   vl_free(&a, &account, r, bytes);                      the same bytes as at allocation
 *   vl_reserve(&a, bytes)                                 the next `bytes` of growth cannot fail
 *   vl_make_present(&a, bytes)                            nor wait for the system
 *
 * Contracts a structure built on this can rely on:
 *   - A block holds at least `bytes`, rounded up to its size class (at most 12.5 % more; use
 *     vl_block_size to know). Blocks of 512 bytes or more are 64-byte aligned. Smaller blocks are
 *     aligned to the largest power of two that divides their block size, at most 64: so 64, 128, 192,
 *     256, 320, ... are cache-line aligned, and everything is 16-byte aligned.
 *   - The bytes are not cleared (vl_alloc_zeroed and vl_try_alloc_zeroed clear).
 *   - vl_account is exact: a structure's `bytes` is the sum of the block sizes that it holds. Keep the
 *     account inside the arena, in the structure's own header.
 *   - When allocation fails the error bits are set in a.errors; see status.h for what each bit means.
 *     vl_alloc may go above the limit by a slack of 1/16 of it + 4 MiB, setting VL_E_MEMORY and
 *     succeeding, so that the current tuple can be finished; vl_try_alloc never does: use it for growth
 *     that can be put off (a table that may run denser for a while).
 *   - Freed and never-allocated bytes are poisoned under AddressSanitizer.
 *   - One writer at a time. Nothing here locks.
 *
 * An image is trusted: attach checks magic, format version, program hash and sizes, not the contents.
 */
#ifndef VL_ARENA_H
#define VL_ARENA_H

#include "status.h" /* first: it asks the system headers for memory mapping */

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define VL_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define VL_ASAN 1
#endif
#endif
#ifdef VL_ASAN
#include <sanitizer/asan_interface.h>
#define VL_POISON(p, n) __asan_poison_memory_region((p), (n))
#define VL_UNPOISON(p, n) __asan_unpoison_memory_region((p), (n))
#else
#define VL_POISON(p, n) ((void)(p), (void)(n))
#define VL_UNPOISON(p, n) ((void)(p), (void)(n))
#endif

typedef uint64_t vl_ref; /* byte offset from the arena's base; 0 = null */

typedef struct {
    uint64_t bytes;  /* sum of the block sizes held now */
    uint64_t blocks; /* how many */
} vl_account;

enum {
    VL_FORMAT = 1,
    VL_ROOTS = 16,
    VL_CLASSES = 320,
    VL_CLASS_WORDS = VL_CLASSES / 64,
    VL_SMALL = 1024,     /* blocks below this come from slabs */
    VL_SLAB = 16 * 1024, /* a run of small blocks */
    VL_PAGE = 4096,
    VL_GROWTH = 1 << 18, /* commit at least this much at a time */
    VL_PREFETCHED = 1088, /* bytes of a block that are asked for ahead */
};
#define VL_MAGIC UINT64_C(0x0a72614c74576956) /* "ViWtLar\n" read little-endian: also rejects the other byte order */
#define VL_RESERVE_DEFAULT (UINT64_C(1) << 38)
#define VL_RESERVE_LEAST (UINT64_C(1) << 26)
#define VL_SLACK_LEAST (UINT64_C(1) << 22)
#define VL_RELEASE_LEAST (UINT64_C(1) << 23)
#define VL_HUGE_PAGE (UINT64_C(1) << 21)

/* The first bytes of every image. Spark's protocol owns version, dirty and result; nothing in the
 * runtime reads them. */
typedef struct {
    uint64_t magic;
    uint32_t format;
    uint32_t header_bytes;
    uint8_t program[32]; /* content hash of the program whose layout this is */
    uint64_t size;       /* bytes backed by memory or file */
    uint64_t top;        /* bytes handed out so far: the image is [0, top) */
    uint64_t live;       /* sum of the sizes of the blocks in use */
    uint64_t version;    /* of the last batch applied */
    uint64_t dirty;      /* non-zero while a batch is being applied */
    vl_ref result;       /* what the last batch answered, for a caller that asks again */
    vl_ref roots[VL_ROOTS];
    vl_ref slab_next, slab_end;
    uint64_t nonempty[VL_CLASS_WORDS]; /* which free lists have blocks */
    vl_ref freed[VL_CLASSES];
} vl_header;

typedef struct {
    uint8_t *base;
    uint64_t reserved;  /* address space */
    uint64_t committed; /* readable and writable here */
    uint64_t limit;     /* of top; 0 = none */
    int fd;             /* -1 when anonymous */
    vl_errors errors;
} vl_arena;

VL_INLINE vl_header *vl_head(const vl_arena *a) { return (vl_header *)(void *)a->base; }
VL_INLINE void *vl_at(const vl_arena *a, vl_ref r) { return a->base + r; }
VL_INLINE vl_ref vl_ref_of(const vl_arena *a, const void *p) { return (vl_ref)((const uint8_t *)p - a->base); }

/* The lines of a block that will be read soon. */
VL_INLINE void vl_prefetch_node(const vl_arena *a, vl_ref r, uint64_t bytes) {
    for (uint64_t i = 0; i < bytes && i < VL_PREFETCHED; i += 64) __builtin_prefetch(a->base + r + i);
}
VL_INLINE bool vl_failed(const vl_arena *a) { return VL_UNLIKELY(a->errors != 0); }

/* ---- size classes: 1..8 units of 16 bytes, then eight steps per doubling ---- */

VL_INLINE uint32_t vl_class_of(uint64_t bytes) {
    uint64_t units = (bytes + 15) >> 4;
    if (units <= 8) return units ? (uint32_t)units - 1 : 0;
    uint32_t m = 63u - (uint32_t)__builtin_clzll(units - 1);
    return 8 + (m - 3) * 8 + (uint32_t)((units - 1) >> (m - 3)) - 8;
}

VL_INLINE uint64_t vl_class_size(uint32_t c) {
    if (c < 8) return (uint64_t)(c + 1) << 4;
    return (uint64_t)((c & 7) + 9) << ((c >> 3) - 1 + 4);
}

/* What vl_alloc(bytes) really hands out, and what the account is charged. */
VL_INLINE uint64_t vl_block_size(uint64_t bytes) { return vl_class_size(vl_class_of(bytes)); }

VL_INLINE uint64_t vl_lowest_bit(uint64_t x) { return x & (~x + 1); }

VL_INLINE uint64_t vl_block_alignment(uint64_t size) {
    uint64_t low = vl_lowest_bit(size);
    return low < 64 ? low : 64;
}

VL_INLINE uint64_t vl_round_up(uint64_t x, uint64_t power_of_two) {
    return (x + power_of_two - 1) & ~(power_of_two - 1);
}

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

/* A block, or 0 with VL_E_MEMORY when even the slack above the limit is used up. */
VL_FUNCTION vl_ref vl_alloc(vl_arena *a, vl_account *account, uint64_t bytes) {
    return vl_alloc_class(a, account, bytes, false);
}

/* A block within the limit, or 0 with VL_E_MEMORY: for growth that can be put off. */
VL_FUNCTION vl_ref vl_try_alloc(vl_arena *a, vl_account *account, uint64_t bytes) {
    return vl_alloc_class(a, account, bytes, true);
}

/* A block that begins at or past the former top has never been used: the system gave it as zeros, and leaves
 * it so until it is touched. A file may have been there before. */
VL_INLINE vl_ref vl_zeroed(vl_arena *a, vl_ref r, uint64_t bytes, uint64_t former_top) {
    if (r && (r < former_top || a->fd >= 0)) memset(vl_at(a, r), 0, vl_block_size(bytes));
    return r;
}
VL_FUNCTION vl_ref vl_alloc_zeroed(vl_arena *a, vl_account *account, uint64_t bytes) {
    uint64_t top = vl_head(a)->top;
    return vl_zeroed(a, vl_alloc(a, account, bytes), bytes, top);
}
VL_FUNCTION vl_ref vl_try_alloc_zeroed(vl_arena *a, vl_account *account, uint64_t bytes) {
    uint64_t top = vl_head(a)->top;
    return vl_zeroed(a, vl_try_alloc(a, account, bytes), bytes, top);
}

/* Returns a block. Large blocks of an anonymous arena give their pages back to the system. */
VL_FUNCTION void vl_free(vl_arena *a, vl_account *account, vl_ref r, uint64_t bytes) {
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
