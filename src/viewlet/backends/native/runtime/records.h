/* records.h: records by their description: reading, filling, counting, without code made for each.
 *
 * For everything that is not a trigger: checkpoints, first contents, statistics, reclaiming strings.
 */
#ifndef VL_RECORDS_H
#define VL_RECORDS_H

#include "map.h"
#include "program.h"
#include "slice_index.h"

VL_INLINE void *vl_record_state(const vl_instance *x, const vl_record *r) { return (uint8_t *)x->state + r->at; }

VL_FUNCTION vl_cell vl_stored_get(const uint8_t *at, uint8_t form) {
    vl_cell cell = {0};
    switch (form) {
    case VL_AS_I32: cell.as.i = *(const int32_t *)(const void *)at; break;
    case VL_AS_I32_WIDE: cell.as.wide = *(const int32_t *)(const void *)at; break;
    case VL_AS_I64: cell.as.i = *(const int64_t *)(const void *)at; break;
    case VL_AS_I64_WIDE: cell.as.wide = *(const int64_t *)(const void *)at; break;
    case VL_AS_TEXT: cell.as.text = *(const uint32_t *)(const void *)at; break;
    case VL_AS_F64: cell.as.number = *(const double *)(const void *)at; break;
    case VL_AS_PAIR: memcpy(&cell.as.sum, at, sizeof cell.as.sum); break;
    default: memcpy(&cell.as.wide, at, sizeof cell.as.wide); break;
    }
    return cell;
}

VL_FUNCTION void vl_stored_put(uint8_t *at, uint8_t form, const vl_cell *cell) {
    switch (form) {
    case VL_AS_I32: *(int32_t *)(void *)at = (int32_t)cell->as.i; break;
    case VL_AS_I32_WIDE: *(int32_t *)(void *)at = (int32_t)cell->as.wide; break;
    case VL_AS_I64: *(int64_t *)(void *)at = cell->as.i; break;
    case VL_AS_I64_WIDE: *(int64_t *)(void *)at = (int64_t)cell->as.wide; break;
    case VL_AS_TEXT: *(uint32_t *)(void *)at = cell->as.text; break;
    case VL_AS_F64: *(double *)(void *)at = cell->as.number; break;
    default: memcpy(at, &cell->as.wide, sizeof cell->as.wide); break;
    }
}

VL_FUNCTION bool vl_key_is_null(const vl_record *r, const uint8_t *entry, uint32_t i) {
    if (i >= r->flags) return false;
    const uint32_t *nulls = (const void *)(entry + r->nulls);
    return nulls[i / 32] >> i % 32 & 1;
}

/* Puts a column of a key into an entry that was zeros. */
VL_FUNCTION void vl_key_put(const vl_record *r, uint8_t *entry, uint32_t i, const vl_cell *cell) {
    uint32_t *nulls = (void *)(entry + r->nulls);
    if (!cell->null)
        vl_stored_put(entry + r->offsets[i], r->forms[i], cell);
    else if (i < r->flags)
        nulls[i / 32] |= UINT32_C(1) << i % 32;
}

/* Adds an amount to a field. */
VL_FUNCTION void vl_stored_add(uint8_t *at, uint8_t form, const vl_cell *cell, vl_errors *e) {
    switch (form) {
    case VL_AS_PAIR: {
        vl_pair sum;
        memcpy(&sum, at, sizeof sum);
        vl_sum_into(&sum, cell->as.sum, e);
        memcpy(at, &sum, sizeof sum);
        break;
    }
    case VL_AS_I64: vl_i64_into((int64_t *)(void *)at, cell->as.i, e); break;
    case VL_AS_I64_WIDE: vl_i64_into((int64_t *)(void *)at, (int64_t)cell->as.wide, e); break;
    default: vl_i128_into((vl_i128 *)(void *)at, cell->as.wide, e); break;
    }
}

/* A slot in a table is free when its fields are all zeros. */
VL_FUNCTION bool vl_entry_lives(const vl_record *r, const uint8_t *entry) {
    for (uint32_t i = r->keys; i < r->keys + r->fields; i++) {
        vl_cell cell = vl_stored_get(entry + r->offsets[i], r->forms[i]);
        if (r->forms[i] == VL_AS_PAIR ? !vl_pair_zero(cell.as.sum) : r->forms[i] == VL_AS_I64 ? cell.as.i != 0 : cell.as.wide != 0)
            return true;
    }
    return false;
}

/* The entry of a map after `entry` (NULL: the first), or NULL. */
VL_FUNCTION const uint8_t *vl_record_next_mapped(const vl_instance *x, const vl_record *r, const uint8_t *entry) {
    const vl_arena *a = &x->arena;
    if (r->layout == VL_POOLED) {
        const vl_map_pooled *m = vl_record_state(x, r);
        uint32_t id = entry ? *(const uint32_t *)(const void *)(entry + r->id_at) + 1 : 1;
        return vl_pool_from(a, &m->pool, id, r->size, r->id_at);
    }
    const vl_map_inplace *m = vl_record_state(x, r);
    const uint8_t *slots = vl_at(a, m->slots), *end = slots + m->size * r->size;
    for (entry = entry ? entry + r->size : slots; entry < end; entry += r->size)
        if (vl_entry_lives(r, entry)) return entry;
    return NULL;
}

/* The entry after `entry` (NULL: the first), or NULL; those that an ordered index holds come last. */
VL_FUNCTION const uint8_t *vl_record_next(const vl_instance *x, const vl_record *r, const uint8_t *entry) {
    if (r->layout == VL_PLAIN) return entry ? NULL : vl_record_state(x, r);
    if (!r->following) return vl_record_next_mapped(x, r, entry);
    if (entry == (const uint8_t *)x->state + r->shown_at) return r->following(x, entry);
    const uint8_t *mapped = vl_record_next_mapped(x, r, entry);
    return mapped ? mapped : r->following(x, NULL);
}

/* Rows of keys and fields. */
VL_FUNCTION void vl_record_entries(const vl_instance *x, const vl_record *r, vl_cell *row, void *sink, vl_emit emit) {
    for (const uint8_t *entry = vl_record_next(x, r, NULL); entry; entry = vl_record_next(x, r, entry)) {
        for (uint32_t i = 0; i < r->keys + r->fields; i++) row[i] = vl_stored_get(entry + r->offsets[i], r->forms[i]);
        for (uint32_t i = 0; i < r->keys && i < r->flags; i++) row[i].null = vl_key_is_null(r, entry, i);
        emit(sink, row, 1);
    }
}

/* Writes entries back as they were before notes from `from` on were taken (undo.h). */
VL_FUNCTION void vl_undo_back(vl_instance *x, const vl_record *records, uint64_t from) {
    vl_undo *u = &x->undo;
    while (u->used > from) {
        const vl_note *note = (const void *)(u->bytes + u->last);
        const vl_record *r = &records[note->record];
        if (r->layout == VL_PLAIN) {
            memcpy(vl_record_state(x, r), note->entry, note->size);
        } else {
            uint8_t *entry = r->touch(x, note->entry);
            for (uint32_t i = r->keys; i < r->keys + r->fields; i++) {
                bool narrow = r->forms[i] == VL_AS_I64 || r->forms[i] == VL_AS_I64_WIDE;
                memcpy(entry + r->offsets[i], note->entry + r->offsets[i], narrow ? 8 : 16);
            }
            r->leave(x, entry);
        }
        u->used = u->last;
        u->last = note->before;
    }
    if (u->failed) x->arena.errors |= VL_E_LOST;
}

/* Adds amounts to the fields of one entry; `space` has room for an entry, aligned to 16. */
VL_FUNCTION void vl_record_add(vl_instance *x, const vl_record *r, const vl_cell *row, uint8_t *space) {
    uint8_t *entry = vl_record_state(x, r);
    if (r->layout != VL_PLAIN) {
        memset(space, 0, r->size);
        for (uint32_t i = 0; i < r->keys; i++) vl_key_put(r, space, i, &row[i]);
        entry = r->touch(x, space);
    }
    for (uint32_t i = r->keys; i < r->keys + r->fields; i++)
        vl_stored_add(entry + r->offsets[i], r->forms[i], &row[i], &x->arena.errors);
    if (r->layout != VL_PLAIN) r->leave(x, entry);
}

VL_FUNCTION uint64_t vl_record_count(const vl_instance *x, const vl_record *r) {
    if (r->layout == VL_PLAIN) return 1;
    uint64_t ordered = r->following ? r->ordered_count(x) : 0;
    if (r->layout == VL_POOLED) return ordered + ((const vl_map_pooled *)vl_record_state(x, r))->pool.live;
    return ordered + ((const vl_map_inplace *)vl_record_state(x, r))->count;
}

VL_FUNCTION uint64_t vl_record_bytes(const vl_instance *x, const vl_record *r) {
    if (r->layout == VL_PLAIN) return r->size;
    uint64_t bytes = r->ordered_at ? *(const uint64_t *)(const void *)((const uint8_t *)x->state + r->ordered_at) : 0;
    if (r->layout == VL_INPLACE) return bytes + vl_map_inplace_bytes(vl_record_state(x, r));
    const vl_map_pooled *m = vl_record_state(x, r);
    const vl_slice_index *slices = (const vl_slice_index *)(const void *)(m + 1);
    bytes += vl_map_pooled_bytes(m);
    for (uint32_t i = 0; i < r->slices; i++) bytes += slices[i].account.bytes;
    return bytes;
}

VL_FUNCTION void vl_record_keep_strings(vl_instance *x, const vl_record *r) {
    bool any = false;
    if (r->keep) r->keep(x);
    for (uint32_t i = 0; i < r->keys; i++) any |= r->forms[i] == VL_AS_TEXT;
    if (!any) return;
    for (const uint8_t *entry = vl_record_next(x, r, NULL); entry; entry = vl_record_next(x, r, entry))
        for (uint32_t i = 0; i < r->keys; i++) {
            uint32_t id = r->forms[i] == VL_AS_TEXT ? *(const uint32_t *)(const void *)(entry + r->offsets[i]) : 0;
            if (id) vl_string_keep(&x->arena, x->strings, id);
        }
}

#endif
