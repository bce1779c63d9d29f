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

/* ---- what arena_blocks.h defines ---- */

/* A block, or 0 with VL_E_MEMORY when even the slack above the limit is used up. */
VL_LENT vl_ref vl_alloc(vl_arena *a, vl_account *account, uint64_t bytes);
VL_LENT vl_ref vl_alloc_zeroed(vl_arena *a, vl_account *account, uint64_t bytes);
/* A block within the limit, or 0 with VL_E_MEMORY: for growth that can be put off. */
VL_LENT vl_ref vl_try_alloc(vl_arena *a, vl_account *account, uint64_t bytes);
VL_LENT vl_ref vl_try_alloc_zeroed(vl_arena *a, vl_account *account, uint64_t bytes);
/* Returns a block. Large blocks of an anonymous arena give their pages back to the system. */
VL_LENT void vl_free(vl_arena *a, vl_account *account, vl_ref r, uint64_t bytes);

#ifndef VL_HOSTED
#include "arena_blocks.h"

#include "arena_image.h"
#endif

#endif
