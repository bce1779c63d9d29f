/* program.h: what a compiled program shows to whoever runs it.
 *
 * A program is a shared library with one symbol, `vl_program`: tables, records and views by number, each
 * with the functions that serve it. No name and no text of a user is in it. The same description serves the
 * Python bridge (bridge.c) and any other host.
 *
 *   cell      one value on its way in or out, in its widest form
 *   instance  a program with its state: an arena, and what belongs to this process only
 *
 * Errors are bits of instance->arena.errors (status.h). After an error the host undoes the events since the
 * last boundary by the opposite events, in opposite order: every function is total and exact sums form a ring, so
 * that restores the state exactly. Where sums round, entries are written back instead (undo.h).
 */
#ifndef VL_PROGRAM_H
#define VL_PROGRAM_H

#include "ahead.h"
#include "amount.h"
#include "calendar.h"
#include "interned.h"
#include "undo.h"

#include <stdlib.h>

enum { VL_PROGRAM_ABI = 5, VL_SHORT_TEXTS = 256, VL_ROWS = 128 };
enum { VL_E_ROWS = 1 << 5, VL_E_DOUBLE = 1 << 6, VL_E_CALL = 1 << 7 }; /* several rows; not finite; host's error */

typedef enum { VL_BOOLEAN, VL_INT32, VL_INT64, VL_DECIMAL, VL_DOUBLE, VL_TEXT } vl_kind;

typedef struct {
    union {
        int64_t i;     /* VL_BOOLEAN, VL_INT32, VL_INT64 */
        vl_i128 wide;  /* VL_DECIMAL */
        double number; /* VL_DOUBLE */
        vl_pair sum;   /* VL_DOUBLE, as the field of a record */
        uint32_t text; /* VL_TEXT: the id of an interned string */
    } as;
    bool null;
} vl_cell;

/* A column of an Arrow batch. `data` holds int32, int64, 128-bit decimals, doubles, bits, or bytes of text
 * under `offsets`; `valid` is a bitmap, or NULL where no value is. Positions count from `from`. */
typedef struct {
    const void *data;
    const uint8_t *valid;
    const void *offsets;
    bool large; /* 64-bit offsets */
    int64_t from;
} vl_column;

#include "feed.h"

typedef struct vl_instance vl_instance;
/* Rows [from, to) of some columns; weights may be NULL for all 1. Answers the row after which an error was
 * seen, else `to`. */
typedef int64_t (*vl_rows_function)(vl_instance *, const vl_column *, const int64_t *weights, int64_t from, int64_t to);
typedef void (*vl_emit)(void *sink, const vl_cell *row, int64_t weight);

typedef struct {
    uint32_t columns;
    const uint8_t *kinds; /* vl_kind of each column */
    const uint8_t *used;  /* does any trigger look at it? */
    vl_rows_function on_tuple;    /* rows one by one, each with all its effects */
    vl_rows_function on_change;   /* rows into the changes of a batch */
    void (*on_batch)(vl_instance *); /* the effects of these changes */
    void (*clear)(vl_instance *);    /* forget them */
} vl_table;

/* How a key column or a field lies in an entry; WIDE travels as VL_DECIMAL. */
typedef enum {
    VL_AS_I32, VL_AS_I32_WIDE, VL_AS_I64, VL_AS_I64_WIDE, VL_AS_I128, VL_AS_F64, VL_AS_TEXT, VL_AS_PAIR
} vl_form;

enum { VL_PLAIN, VL_INPLACE, VL_POOLED }; /* a struct in the state, or one of the maps of map.h */

/* A record, described well enough to be read and filled without code of its own (records.h). A pooled map
 * is followed by its slice indexes; the key comes first in an entry. Where an ordered index holds the entries but for
 * those with NULL along it, they are shown one after the other in the same place of the state. */
typedef struct {
    uint32_t keys, fields;
    const uint8_t *kinds;    /* of keys, then fields */
    const uint8_t *forms;    /* likewise */
    const uint16_t *offsets; /* likewise, in an entry */
    uint32_t nulls, flags;   /* where the NULL flags of the first keys are, 32 to a word, and how many; 0: none */
    uint8_t layout, slices;
    uint32_t size, id_at;    /* of an entry */
    uint64_t at;             /* in the state */
    uint64_t ordered_at;     /* where in the state the bytes of its ordered indexes are counted; 0: it has none */
    void *(*touch)(vl_instance *, const void *key);  /* the entry of a key, new if need be */
    void (*leave)(vl_instance *, void *entry);       /* after a change */
    uint64_t shown_at;                               /* where entries of an ordered index are shown */
    const void *(*following)(const vl_instance *, const void *entry); /* shows the next, or (NULL) the first; or NULL */
    uint64_t (*ordered_count)(const vl_instance *);  /* how many there are */
    void (*keep)(vl_instance *);                     /* keeps the strings that ordered indexes are searched by; or NULL */
} vl_record;

typedef struct {
    uint32_t columns;
    const uint8_t *kinds;
    void (*rows)(vl_instance *, void *sink, vl_emit);
    void (*after)(vl_instance *); /* into its feed, the rows under all keys touched; NULL: it has no feed */
} vl_view;

typedef struct {
    uint32_t abi;
    uint32_t tables, records, views;
    const vl_table *table;
    const vl_record *record;
    const vl_view *view;
    uint64_t state_bytes;
    bool (*init)(vl_instance *);
    bool rounds; /* it keeps sums of DOUBLE or crosses thresholds, and notes entries before they change */
} vl_program_description;

struct vl_instance {
    vl_arena arena;
    void *state;
    vl_strings *strings;
    uint64_t swept_at; /* strings left by the last sweep */
    uint64_t suspect;  /* not 0: a sum has grown beyond what every view can show */
    uint64_t feeding;  /* a bit for every view that is followed */
    vl_feed *feeds;    /* by view; the host's to make and to free */
    void *host;        /* the host's own */
    /* A scalar function that only the host knows; false (with VL_E_CALL) when it failed. */
    bool (*call)(vl_instance *, uint32_t function, const vl_cell *arguments, vl_cell *result);
    struct {
        uint8_t *bytes;
        uint64_t used, room;
    } later; /* additions that wait for the end of a trigger */
    struct {
        uint64_t word;
        uint32_t length, id;
    } short_texts[VL_SHORT_TEXTS]; /* ids of strings of up to 8 bytes; forgotten when strings are swept */
    uint32_t letters[256]; /* likewise of strings of one byte, by the byte */
    vl_undo undo;
};

/* A sum of DOUBLE that leaves their range is an error as one that leaves 128 bits is: nothing leads back to it. */
VL_INLINE void vl_sum_into(vl_pair *sum, vl_pair x, vl_errors *e) {
    vl_pair_into(sum, x);
    if (VL_UNLIKELY(!vl_f64_finite(sum->high))) *e |= VL_E_DOUBLE;
}
VL_INLINE double vl_sum_value(vl_pair sum, vl_errors *e) {
    double value = vl_pair_value(sum);
    if (VL_UNLIKELY(!vl_f64_finite(value))) *e |= VL_E_DOUBLE;
    return value;
}

/* What a memo holds for NULL. */
#define VL_NULL_ANSWER (VL_UNKNOWN - 1)

/* ---- additions put off ---- */

VL_LENT void vl_later_grow(vl_instance *x, uint64_t more);

/* Room for one more note of `size` bytes, a multiple of 16; NULL with VL_E_LOST without memory. */
VL_INLINE void *vl_later(vl_instance *x, uint64_t size) {
    if (VL_UNLIKELY(x->later.used + size > x->later.room)) {
        vl_later_grow(x, size);
        if (x->later.used + size > x->later.room) return NULL;
    }
    void *note = x->later.bytes + x->later.used;
    x->later.used += size;
    return note;
}

/* ---- columns ---- */

/* Up to 8 bytes as one word; loads overlap rather than run past the end. */
VL_INLINE uint64_t vl_short_word(vl_text t) {
    const uint8_t *p = t.bytes;
    uint64_t n = t.length;
    if (n >= 4) return vl_load32(p) | vl_load32(p + n - 4) << (8 * (n - 4));
    return p[0] | (uint64_t)p[n >> 1] << (8 * (n >> 1)) | (uint64_t)p[n - 1] << (8 * (n - 1));
}

VL_LENT uint32_t vl_intern_short(vl_instance *x, vl_text t, uint64_t word, uint64_t at);

/* The id of a string; flags, codes and names that come again and again are found without hashing. */
VL_INLINE uint32_t vl_intern_quickly(vl_instance *x, vl_text t) {
    if (t.length == 1 && VL_LIKELY(x->letters[t.bytes[0]] != 0)) return x->letters[t.bytes[0]];
    if (VL_UNLIKELY(t.length - 1 >= 8)) return vl_intern(&x->arena, x->strings, t);
    uint64_t word = vl_short_word(t), at = word * VL_SEED0 >> 56;
    if (VL_LIKELY(x->short_texts[at].word == word && x->short_texts[at].length == t.length)) return x->short_texts[at].id;
    return vl_intern_short(x, t, word, at);
}

/* Ids changed their meaning. */
VL_INLINE void vl_forget_short_texts(vl_instance *x) {
    memset(x->short_texts, 0, sizeof x->short_texts);
    memset(x->letters, 0, sizeof x->letters);
}

/* Is weight + shift within `mask` for every weight? */
VL_INLINE bool vl_weights_within(const int64_t *weights, int64_t from, int64_t to, uint64_t shift, uint64_t mask) {
    typedef uint64_t lanes __attribute__((vector_size(32), aligned(8)));
    lanes others = {0};
    uint64_t other = 0;
    if (!weights) return true;
    for (; from + 4 <= to; from += 4) others |= (*(const lanes *)(const void *)(weights + from) + shift) & ~mask;
    for (; from < to; from++) other |= ((uint64_t)weights[from] + shift) & ~mask;
    return (others[0] | others[1] | others[2] | others[3] | other) == 0;
}
VL_FUNCTION bool vl_are_ones(const int64_t *weights, int64_t from, int64_t to) {
    return vl_weights_within(weights, from, to, UINT64_MAX, 0);
}
/* 1 or -1 */
VL_FUNCTION bool vl_are_units(const int64_t *weights, int64_t from, int64_t to) {
    return vl_weights_within(weights, from, to, 1, 2);
}

VL_INLINE bool vl_bit(const uint8_t *bits, int64_t i) { return bits[i >> 3] >> (i & 7) & 1; }
VL_INLINE bool vl_column_null(const vl_column *c, int64_t i) { return c->valid && !vl_bit(c->valid, c->from + i); }
/* The same column with its first row at position 0 of `data`, or of `offsets` where they say where a text is;
 * bits keep counting from `from`. */
VL_INLINE vl_column vl_column_start(vl_column c, int64_t width) {
    if (c.offsets)
        c.offsets = (const uint8_t *)c.offsets + c.from * (c.large ? 8 : 4);
    else if (c.data)
        c.data = (const uint8_t *)c.data + c.from * width;
    return c;
}
VL_INLINE vl_text vl_column_text(const vl_column *c, int64_t i) {
    if (c->large) {
        const int64_t *at = c->offsets;
        return (vl_text){(const uint8_t *)c->data + at[i], (uint64_t)(at[i + 1] - at[i])};
    }
    const int32_t *at = c->offsets;
    return (vl_text){(const uint8_t *)c->data + at[i], (uint64_t)(at[i + 1] - at[i])};
}
/* Are texts that end where these n + 1 offsets say one byte each? Flags, codes and classes mostly are. */
#define VL_OF_ONE_BYTE(name, type)                                                                                  \
    VL_INLINE bool name(const type *at, int64_t n) {                                                                \
        typedef type lanes __attribute__((vector_size(32), aligned(sizeof(type))));                                 \
        enum { COUNT = 32 / sizeof(type) };                                                                         \
        lanes others = {0};                                                                                         \
        type other = 0;                                                                                             \
        int64_t i = 0;                                                                                              \
        for (; i + COUNT <= n; i += COUNT)                                                                          \
            others |= (*(const lanes *)(const void *)(at + i + 1) - *(const lanes *)(const void *)(at + i)) ^ 1;    \
        for (; i < n; i++) other |= (at[i + 1] - at[i]) ^ 1;                                                        \
        for (int k = 0; k < COUNT; k++) other |= others[k];                                                         \
        return other == 0;                                                                                          \
    }
VL_OF_ONE_BYTE(vl_of_one_byte, uint32_t)
VL_OF_ONE_BYTE(vl_of_one_byte_large, uint64_t)
#undef VL_OF_ONE_BYTE

VL_INLINE bool vl_are_letters(const vl_column *c, int64_t from, int64_t to) {
    if (c->valid) return false;
    if (c->large) return vl_of_one_byte_large((const uint64_t *)c->offsets + from, to - from);
    return vl_of_one_byte((const uint32_t *)c->offsets + from, to - from);
}

/* The ids of a column's texts, 0 for NULL, in those of the rows [base, end) whose n places `chosen` has (NULL: all).
 * Where every text is one byte, they lie side by side, and nothing is looked up but ids. */
VL_FUNCTION void vl_intern_rows(vl_instance *x, const vl_column *c, int64_t base, int64_t end, const uint8_t *chosen,
                                int64_t n, uint32_t *ids) {
    if (n > 0 && vl_are_letters(c, base, end)) {
        const uint8_t *letter = vl_column_text(c, base).bytes;
        uint32_t unknown = 0;
        for (int64_t j = 0; j < n; j++) {
            ids[j] = x->letters[letter[chosen ? chosen[j] : j]];
            unknown |= ids[j] - 1; /* ids have 31 bits */
        }
        if (VL_LIKELY(unknown >> 31 == 0)) return;
    }
    for (int64_t j = 0; j < n; j++) {
        const int64_t i = base + (chosen ? chosen[j] : j);
        ids[j] = vl_column_null(c, i) ? 0 : vl_intern_quickly(x, vl_column_text(c, i));
    }
}

/* A decimal that its type keeps within 64 bits. */
VL_INLINE int64_t vl_column_narrow(const vl_column *c, int64_t i) {
    int64_t value;
    memcpy(&value, (const uint8_t *)c->data + i * 16, 8);
    return value;
}
VL_INLINE vl_i128 vl_column_decimal(const vl_column *c, int64_t i) {
    vl_i128 value;
    memcpy(&value, (const uint8_t *)c->data + i * 16, 16);
    return value;
}

#ifndef VL_HOSTED

VL_LENT void vl_later_grow(vl_instance *x, uint64_t more) {
    uint64_t room = x->later.room * 2 > x->later.used + more ? x->later.room * 2 : x->later.used + more + 4096;
    uint8_t *bytes = realloc(x->later.bytes, room);
    if (!bytes) {
        x->arena.errors |= VL_E_LOST;
        x->later.used = 0;
        bytes = x->later.bytes;
        room = x->later.room;
    }
    x->later.bytes = bytes;
    x->later.room = room;
}

VL_LENT uint32_t vl_intern_short(vl_instance *x, vl_text t, uint64_t word, uint64_t at) {
    uint32_t id = vl_intern(&x->arena, x->strings, t);
    if (!id) return 0;
    if (t.length == 1) x->letters[t.bytes[0]] = id;
    x->short_texts[at].word = word;
    x->short_texts[at].length = (uint32_t)t.length;
    x->short_texts[at].id = id;
    return id;
}

#endif

#endif
