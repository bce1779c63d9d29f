/* map_inplace.h: a map whose records sit in the hash table itself. Include once per map.
 *
 * For records up to about 48 bytes without secondary indexes: one cache miss per lookup. Linear probing,
 * backward shift on removal; a large table grows by half when it is two thirds full, which keeps it within
 * 2.25 times its records.
 *
 * Before the include, for a map called m:
 *
 *   typedef struct { int64_t orderkey; } m_key;
 *   typedef struct { m_key key; int64_t count; int64_t revenue; } m_record;
 *   VL_INLINE uint64_t m_hash(const m_key *k) { return vl_hash1((uint64_t)k->orderkey); }
 *   VL_INLINE bool m_equal(const m_key *x, const m_key *y) { return x->orderkey == y->orderkey; }
 *   #define VL_MAP m
 *   #include "map_inplace.h"
 *
 * A slot is free when VL_MAP_EMPTY(r) holds, by default (r)->count == 0; a free slot is all zeros.
 * So between m_upsert of a new key and the moment its count becomes non-zero, no other call may touch
 * the map. The header undefines VL_MAP and VL_MAP_EMPTY.
 *
 *   bool m_init(a, m)                     false with VL_E_LOST when there is no memory
 *   m_record *m_find(a, m, &key)          NULL when absent
 *   m_record *m_upsert(a, m, &key)        never NULL; new records are zero but for the key
 *   void m_settle(a, m, r)                call after changing r->count: removes r when it is empty
 *   m_record *m_next(a, m, r)             loop: for (r = m_next(a, m, NULL); r; r = m_next(a, m, r))
 *   void m_find_batch(a, m, keys, n, out) n lookups with prefetching; out[i] is NULL when absent
 *   void m_prefetch(a, m, &key)           the slot will be needed about a dozen lookups from now
 *   bool m_reserve(a, m, n)               n more records will not make the table grow
 *   void m_clear(a, m)
 *
 * With VL_MAP_HOME defined, m_hash takes some columns of a key alone, m_alike(&x, &y) compares those, and the
 * records that have them are met by
 *   for (m_place at = m_home(a, m, &key); (r = m_along(a, m, &at, &key));)
 *
 * With VL_MAP_COLUMN(key) defined, an integer of the key that decides the others, the table is an array as long as
 * these integers are dense, which is looked at when it grows: the record of a key lies in slot key - first, and is found with neither
 * hashing nor probing. It is for maps that are filled once and then asked alone: what comes later where the array
 * has no slot makes it wider or a hash table again. With VL_MAP_HOME the column is what m_alike compares; a second
 * record that is alike makes a hash table of it, too.
 *
 * Any m_upsert or m_settle of this map invalidates its record pointers and its loops. Other maps may
 * change freely during a loop.
 */
#include "map.h"

#ifndef VL_MAP_EMPTY
#define VL_MAP_EMPTY(r) ((r)->count == 0)
#endif
#define VL_M(suffix) VL_JOIN(VL_MAP, suffix)

VL_COLD bool VL_M(_resize)(vl_arena *a, vl_map_inplace *m, uint64_t size) {
    if (size >> 40) return false;
    vl_ref fresh = vl_try_alloc_zeroed(a, &m->account, sizeof(VL_M(_record)) * size);
    if (!fresh) return false;
    VL_M(_record) *to = vl_at(a, fresh);
    if (m->slots) {
        VL_M(_record) *from = vl_at(a, m->slots);
        for (uint64_t i = 0; i < m->size; i++) {
            if (VL_MAP_EMPTY(&from[i])) continue;
            uint64_t j = vl_slot_of(VL_M(_hash)(&from[i].key), size);
            while (!VL_MAP_EMPTY(&to[j])) j = j + 1 == size ? 0 : j + 1;
            to[j] = from[i];
        }
        vl_free(a, &m->account, m->slots, m->size * sizeof *from);
    }
    m->slots = fresh;
    m->size = size;
    m->reach = 0;
    m->grow_at = vl_inplace_room(size);
    return true;
}

#ifdef VL_MAP_COLUMN
/* The slot of a key in an array; beyond `reach`: it has none. Modulo 2^64, so that no key is too small or large. */
VL_INLINE uint64_t VL_M(_offset)(const vl_map_inplace *m, const VL_M(_key) * key) {
    return (uint64_t)VL_MAP_COLUMN(key) - m->first;
}

/* The record of a key in an array, or NULL. */
VL_INLINE VL_M(_record) * VL_M(_in_array)(const vl_arena *a, const vl_map_inplace *m, uint64_t offset) {
    if (VL_UNLIKELY(offset >= m->reach)) return NULL;
    VL_M(_record) *r = (VL_M(_record) *)vl_at(a, m->slots) + offset;
    return VL_MAP_EMPTY(r) ? NULL : r;
}

/* An array of `reach` slots from the key `first` on; false, which is no failure, leaves the table as it was. */
VL_COLD bool VL_M(_lay_out)(vl_arena *a, vl_map_inplace *m, uint64_t first, uint64_t reach) {
    if (reach >> 40) return false;
    vl_errors before = a->errors;
    vl_ref fresh = vl_try_alloc_zeroed(a, &m->account, sizeof(VL_M(_record)) * reach);
    a->errors = before;
    if (!fresh) return false;
    VL_M(_record) *to = vl_at(a, fresh), *from = vl_at(a, m->slots);
    for (uint64_t i = 0; i < m->size; i++) {
        if (VL_MAP_EMPTY(&from[i])) continue;
        VL_M(_record) *r = &to[(uint64_t)VL_MAP_COLUMN(&from[i].key) - first];
        if (VL_UNLIKELY(!VL_MAP_EMPTY(r))) { /* the column does not decide the others */
            vl_free(a, &m->account, fresh, sizeof *to * reach);
            return false;
        }
        *r = from[i];
    }
    vl_free(a, &m->account, m->slots, m->size * sizeof *from);
    m->slots = fresh;
    m->size = m->reach = reach;
    m->first = first;
    m->grow_at = UINT64_MAX;
    return true;
}

/* A hash table of dense keys, with this one, becomes an array from the least of them to the greatest. */
VL_COLD bool VL_M(_become_array)(vl_arena *a, vl_map_inplace *m, const VL_M(_key) * key) {
    const VL_M(_record) *slots = vl_at(a, m->slots);
    int64_t least = (int64_t)VL_MAP_COLUMN(key), most = least;
    for (uint64_t i = 0; i < m->size; i++) {
        int64_t k = (int64_t)VL_MAP_COLUMN(&slots[i].key);
        if (VL_MAP_EMPTY(&slots[i])) continue;
        if (k < least) least = k;
        if (k > most) most = k;
    }
    uint64_t span = (uint64_t)most - (uint64_t)least;
    return vl_is_dense(span, m->count + 1) && VL_M(_lay_out)(a, m, (uint64_t)least, span + 1);
}

/* An array that has a slot for this key as well; by half wider at least, so that keys may come in their order. */
VL_COLD bool VL_M(_widen)(vl_arena *a, vl_map_inplace *m, const VL_M(_key) * key) {
    uint64_t up = VL_M(_offset)(m, key) - m->reach + 1, down = m->first - (uint64_t)VL_MAP_COLUMN(key);
    uint64_t more = up < down ? up : down, half = m->reach / 2 + VL_INPLACE_LEAST;
    if (m->reach + more < more || !vl_is_dense(m->reach + more - 1, m->count + 1)) return false;
    if (more < half) more = half;
    return VL_M(_lay_out)(a, m, up < down ? m->first : m->first - more, m->reach + more);
}

/* The record of a key in an array, new if need be; NULL: it is a hash table now. */
VL_FUNCTION VL_M(_record) * VL_M(_enter_array)(vl_arena *a, vl_map_inplace *m, const VL_M(_key) * key) {
    if (VL_M(_offset)(m, key) < m->reach || VL_M(_widen)(a, m, key)) {
        VL_M(_record) *r = (VL_M(_record) *)vl_at(a, m->slots) + VL_M(_offset)(m, key);
        if (VL_MAP_EMPTY(r)) {
            r->key = *key;
            m->count++;
            return r;
        }
        if (VL_LIKELY(VL_M(_equal)(&r->key, key))) return r;
    }
    uint64_t size = VL_INPLACE_LEAST;
    while (m->count >= vl_inplace_room(size)) size = vl_inplace_more(size);
    if (VL_M(_resize)(a, m, size)) return NULL;
    a->errors |= VL_E_LOST;
    VL_M(_record) *scratch = vl_at(a, m->scratch);
    memset(scratch, 0, sizeof *scratch);
    scratch->key = *key;
    return scratch;
}
#endif

VL_FUNCTION bool VL_M(_init)(vl_arena *a, vl_map_inplace *m) {
    memset(m, 0, sizeof *m);
    m->record_size = sizeof(VL_M(_record));
    m->scratch = vl_alloc_zeroed(a, &m->account, sizeof(VL_M(_record)));
    if (m->scratch && VL_M(_resize)(a, m, VL_INPLACE_LEAST)) {
#ifdef VL_MAP_COLUMN
        m->grow_at = 0; /* the first key makes an array of it */
#endif
        return true;
    }
    a->errors |= VL_E_LOST;
    return false;
}

VL_INLINE bool VL_M(_is_large)(const vl_map_inplace *m) { return m->count > VL_LARGE_MAP; }

VL_INLINE void VL_M(_prefetch)(const vl_arena *a, const vl_map_inplace *m, const VL_M(_key) * key) {
#ifdef VL_MAP_COLUMN
    uint64_t offset = VL_M(_offset)(m, key); /* a hint: what lies there does not matter where it is none */
    uint64_t i = m->reach ? (offset < m->reach ? offset : 0) : vl_slot_of(VL_M(_hash)(key), m->size);
#else
    uint64_t i = vl_slot_of(VL_M(_hash)(key), m->size);
#endif
    const VL_M(_record) *r = (const VL_M(_record) *)vl_at(a, m->slots) + i;
    __builtin_prefetch(r);
    if (64 % sizeof *r) __builtin_prefetch((const uint8_t *)(r + 1) - 1); /* it may lie on two lines */
}

VL_INLINE VL_M(_record) * VL_M(_find)(const vl_arena *a, const vl_map_inplace *m, const VL_M(_key) * key) {
#ifdef VL_MAP_COLUMN
    if (VL_LIKELY(m->reach != 0)) {
        VL_M(_record) *r = VL_M(_in_array)(a, m, VL_M(_offset)(m, key));
#ifdef VL_MAP_HOME
        if (r && !VL_M(_equal)(&r->key, key)) return NULL;
#endif
        return r;
    }
#endif
    VL_M(_record) *slots = vl_at(a, m->slots);
    for (uint64_t i = vl_slot_of(VL_M(_hash)(key), m->size);; i = i + 1 == m->size ? 0 : i + 1) {
        if (VL_MAP_EMPTY(&slots[i])) return NULL;
        if (VL_M(_equal)(&slots[i].key, key)) return &slots[i];
    }
}

#ifdef VL_MAP_HOME
typedef uint64_t VL_M(_place);

VL_INLINE VL_M(_place) VL_M(_home)(const vl_arena *a, const vl_map_inplace *m, const VL_M(_key) * key) {
    (void)a;
#ifdef VL_MAP_COLUMN
    if (VL_LIKELY(m->reach != 0)) return VL_M(_offset)(m, key);
#endif
    return vl_slot_of(VL_M(_hash)(key), m->size);
}

VL_INLINE VL_M(_record) * VL_M(_along)(const vl_arena *a, const vl_map_inplace *m, VL_M(_place) * at, const VL_M(_key) * key) {
#ifdef VL_MAP_COLUMN
    if (VL_LIKELY(m->reach != 0)) { /* one at most */
        VL_M(_record) *r = VL_M(_in_array)(a, m, *at);
        *at = UINT64_MAX;
        return r;
    }
#endif
    VL_M(_record) *slots = vl_at(a, m->slots);
    for (;;) {
        VL_M(_record) *r = &slots[*at];
        if (VL_MAP_EMPTY(r)) return NULL;
        *at = *at + 1 == m->size ? 0 : *at + 1;
        if (VL_M(_alike)(&r->key, key)) return r;
    }
}
#endif

VL_FUNCTION void VL_M(_find_batch)(const vl_arena *a, const vl_map_inplace *m, const VL_M(_key) * keys, uint64_t n,
                                   VL_M(_record) * *out) {
    for (uint64_t i = 0; i < n && i < VL_AHEAD; i++) VL_M(_prefetch)(a, m, &keys[i]);
    for (uint64_t i = 0; i < n; i++) {
        if (i + VL_AHEAD < n) VL_M(_prefetch)(a, m, &keys[i + VL_AHEAD]);
        out[i] = VL_M(_find)(a, m, &keys[i]);
    }
}

/* The table is at its mark: grow it, or run denser while the limit is in the way. NULL = there is room. */
VL_COLD VL_M(_record) * VL_M(_make_room)(vl_arena *a, vl_map_inplace *m, const VL_M(_key) * key) {
    uint64_t dense = m->size - m->size / 16 - 1, last = vl_last_mark(dense);
    VL_M(_record) *r = m->count < last ? NULL : VL_M(_find)(a, m, key);
    if (r) return r;
#ifdef VL_MAP_COLUMN
    if (VL_M(_become_array)(a, m, key)) return VL_M(_enter_array)(a, m, key);
#endif
    if (VL_M(_resize)(a, m, vl_inplace_more(m->size))) return NULL;
    m->grow_at = last;
    if (m->count < dense) return NULL;
    a->errors |= VL_E_LOST;
    r = vl_at(a, m->scratch);
    memset(r, 0, sizeof *r);
    r->key = *key;
    return r;
}

VL_INLINE VL_M(_record) * VL_M(_upsert)(vl_arena *a, vl_map_inplace *m, const VL_M(_key) * key) {
#ifdef VL_MAP_COLUMN
    if (m->reach != 0) {
        VL_M(_record) *r = VL_M(_enter_array)(a, m, key);
        if (r) return r;
    }
#endif
    if (VL_UNLIKELY(m->count >= m->grow_at)) {
        VL_M(_record) *r = VL_M(_make_room)(a, m, key);
        if (r) return r;
    }
    VL_M(_record) *slots = vl_at(a, m->slots);
    for (uint64_t i = vl_slot_of(VL_M(_hash)(key), m->size);; i = i + 1 == m->size ? 0 : i + 1) {
        VL_M(_record) *r = &slots[i];
        if (VL_MAP_EMPTY(r)) {
            r->key = *key;
            m->count++;
            return r;
        }
        if (VL_M(_equal)(&r->key, key)) return r;
    }
}

VL_COLD void VL_M(_shrink)(vl_arena *a, vl_map_inplace *m) {
    vl_errors before = a->errors;
    VL_M(_resize)(a, m, m->size / 4);
    a->errors = before; /* not shrinking is no failure */
}

/* Closes the gap that r leaves. r itself may already read as empty. */
VL_FUNCTION void VL_M(_remove)(vl_arena *a, vl_map_inplace *m, VL_M(_record) * r) {
    VL_M(_record) *slots = vl_at(a, m->slots);
    if (VL_UNLIKELY(r == vl_at(a, m->scratch))) return;
#ifdef VL_MAP_COLUMN
    if (m->reach != 0) {
        memset(r, 0, sizeof *r);
        m->count--;
        return;
    }
#endif
    uint64_t size = m->size, i = (uint64_t)(r - slots);
    for (uint64_t j = i + 1 == size ? 0 : i + 1; !VL_MAP_EMPTY(&slots[j]); j = j + 1 == size ? 0 : j + 1) {
        uint64_t home = vl_slot_of(VL_M(_hash)(&slots[j].key), size);
        uint64_t from_home = j >= home ? j - home : j + size - home, from_gap = j >= i ? j - i : j + size - i;
        if (from_home >= from_gap) {
            slots[i] = slots[j];
            i = j;
        }
    }
    memset(&slots[i], 0, sizeof slots[i]);
    m->count--;
    if (VL_UNLIKELY(m->count < size / 16) && size / 4 > VL_INPLACE_LEAST) VL_M(_shrink)(a, m);
}

VL_INLINE void VL_M(_settle)(vl_arena *a, vl_map_inplace *m, VL_M(_record) * r) {
    if (VL_MAP_EMPTY(r)) VL_M(_remove)(a, m, r);
}

VL_INLINE VL_M(_record) * VL_M(_next)(const vl_arena *a, const vl_map_inplace *m, VL_M(_record) * r) {
    VL_M(_record) *slots = vl_at(a, m->slots), *end = slots + m->size;
    for (r = r ? r + 1 : slots; r < end; r++)
        if (!VL_MAP_EMPTY(r)) return r;
    return NULL;
}

VL_FUNCTION bool VL_M(_reserve)(vl_arena *a, vl_map_inplace *m, uint64_t n) {
    uint64_t size = m->size;
    if (m->reach != 0) return true; /* which keys will come decides */
    while (m->count + n > vl_inplace_room(size)) size = vl_inplace_more(size);
    return size == m->size || VL_M(_resize)(a, m, size);
}

VL_FUNCTION void VL_M(_clear)(vl_arena *a, vl_map_inplace *m) {
    memset(vl_at(a, m->slots), 0, m->size * sizeof(VL_M(_record)));
    m->count = 0;
    if (m->size / 4 > VL_INPLACE_LEAST) VL_M(_shrink)(a, m);
}

#undef VL_M
#undef VL_MAP
#undef VL_MAP_EMPTY
#undef VL_MAP_HOME
#undef VL_MAP_COLUMN
