/* fenwick_seek.h: threshold search on the field FEN_SEEK, in which no record may be negative.
 *
 * Takes the longest run of slots whose sum stays within the bound, halving the step. A bound that every
 * running sum passes would stop at slot 0, record or not, so the count finds the first record instead.
 *
 * From the greatest key downwards: last_over(b) is first_reaching(total - b), last_reaching(b) is
 * first_over(total - b).
 */
#define FEN_BY_FIELD(x) ORD_PASTE(FEN_(x), FEN_SEEK)
#define FEN_SEEK_T __typeof__(((FEN_(rec) *)0)->FEN_SEEK)

VL_INLINE bool FEN_BY_FIELD(seek)(const vl_arena *a, const FEN_NAME *f, FEN_SEEK_T bound, bool strict,
                                  FEN_(hit) * hit) {
    uint64_t slot = 0;
    hit->before = FEN_(none)();
    if (!f->capacity) return false;
    const FEN_(cell) *c = FEN_(cells)(a, f);
    bool all_pass = strict ? bound < 0 : bound <= 0;
    for (uint64_t step = f->capacity; step; step >>= 1) {
        if (slot + step > f->capacity) continue;
        const FEN_(rec) *run = &c[slot + step].sum;
        FEN_SEEK_T next = ORD_PLUS(hit->before.FEN_SEEK, run->FEN_SEEK);
        bool within = all_pass ? ORD_PLUS(hit->before.n, run->n) == 0 : strict ? next <= bound : next < bound;
        if (within) {
            slot += step;
            FEN_(join)(&hit->before, run);
        }
    }
    hit->key = (int64_t)((uint64_t)f->low + slot);
    return slot < f->capacity;
}

VL_FUNCTION bool FEN_BY_FIELD(first_over)(const vl_arena *a, const FEN_NAME *f, FEN_SEEK_T bound, FEN_(hit) * hit) {
    return FEN_BY_FIELD(seek)(a, f, bound, true, hit);
}
VL_FUNCTION bool FEN_BY_FIELD(first_reaching)(const vl_arena *a, const FEN_NAME *f, FEN_SEEK_T bound, FEN_(hit) * hit) {
    return FEN_BY_FIELD(seek)(a, f, bound, false, hit);
}

#undef FEN_SEEK_T
#undef FEN_BY_FIELD
#undef FEN_SEEK
