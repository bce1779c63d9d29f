/* status.h: how every part of the runtime says that something went wrong.
 *
 * Errors are bits of one sticky word. No function jumps, aborts or returns early past its caller:
 * every function stays total after an error, so a trigger runs to its end and its caller looks at
 * the word at a boundary where state is whole (after a tuple, or after a batch).
 *
 *   arithmetic bits   the operation wrapped modulo its ring, so applying the inverse change undoes
 *                     it exactly; the state is whole.
 *   VL_E_MEMORY       the memory limit was reached; the operation was still completed, inside the
 *                     slack above the limit. The state is whole, but stop and undo at the next
 *                     boundary.
 *   VL_E_LOST         an update could not be stored at all. The image must be thrown away and
 *                     rebuilt (checkpoint and replay, or backfill).
 */
#ifndef VL_STATUS_H
#define VL_STATUS_H

#ifndef _GNU_SOURCE /* memory mapping under -std=c11; include the runtime before any system header */
#define _GNU_SOURCE 1
#endif
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef VL_COMPACT /* a large program, which should compile soon: one copy of what is not tiny */
#define VL_INLINE static inline __attribute__((unused))
#define VL_FUNCTION static __attribute__((noinline, unused))
#else
#define VL_INLINE static inline __attribute__((always_inline, unused))
#define VL_FUNCTION static __attribute__((unused))
#endif
#ifdef VL_LARGE /* so of what takes dozens of instructions and is seldom in a hurry */
#define VL_SHARED static __attribute__((noinline, unused))
#else
#define VL_SHARED VL_INLINE
#endif
#define VL_EXPORT __attribute__((visibility("default"))) /* the few names that a library shows */
#define VL_APART __attribute__((noinline, unused))
#define VL_COLD static __attribute__((noinline, cold, unused))
#define VL_HOT static __attribute__((noinline, hot, unused)) /* else what only cold functions call is cold, too */
/* What is long, or seldom runs: compiled once with the host, which lends it to the programs that it loads. A header
 * declares such functions, and defines them unless VL_HOSTED says that somebody else does. */
#if defined VL_HOSTED /* an emitted program */
#define VL_LENT extern VL_EXPORT
#elif defined VL_HOST /* who loads programs: bridge.c */
#define VL_LENT VL_EXPORT VL_APART
#else
#define VL_LENT static VL_APART
#endif
#define VL_JOIN_(x, y) x##y
#define VL_JOIN(x, y) VL_JOIN_(x, y) /* how the map headers build the names of one map's functions */
#define VL_LIKELY(x) __builtin_expect(!!(x), 1)
#define VL_UNLIKELY(x) __builtin_expect(!!(x), 0)

__extension__ typedef __int128 vl_i128;
__extension__ typedef unsigned __int128 vl_u128;

typedef uint32_t vl_errors; /* a set of the bits below; zero is success */

enum {
    VL_OK = 0,
    VL_E_INTEGER = 1 << 0,  /* INT or BIGINT result out of range */
    VL_E_DECIMAL = 1 << 1,  /* DECIMAL result needs more digits than its type has */
    VL_E_DIVIDE = 1 << 2,   /* division by zero */
    VL_E_DATE = 1 << 3,     /* date out of range */
    VL_E_TEXT = 1 << 4,     /* malformed text: invalid UTF-8, a dangling LIKE escape, an unreadable number */
    VL_E_MEMORY = 1 << 8,   /* over the memory limit; the operation was completed */
    VL_E_LOST = 1 << 9,     /* an update was lost: the image is not usable */
    VL_E_FORMAT = 1 << 10,  /* not an arena, another format version, or another program */
    VL_E_SYSTEM = 1 << 11,  /* the operating system refused: see errno */
};

#endif
