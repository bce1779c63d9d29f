/* Interned strings, their memos, and text functions. A text is its length and then one word per byte.
 * 0 text = intern; 1 text = find; 2 id = text of; 3 x y = compare; 4 n id* = sweep all but these;
 * 5 id = length of, memoized; 6 text pattern escape = LIKE; 7 text position length = substring;
 * 8 text = characters, validity; 9 pattern escape = pattern check; 10 text part = position;
 * 11 = bytes and errors; 12 id = pin. First word: memory limit. */
#include "driver.h"
#include "interned.h"

typedef struct {
    vl_strings strings;
    vl_memo lengths, short_lengths;
} state;

static uint8_t *buffers[4];

static vl_text take_text(input *in, int which) {
    uint64_t n = (uint64_t)take(in);
    free(buffers[which]);
    buffers[which] = n ? malloc(n) : NULL; /* exactly n bytes: reading past the end is caught */
    for (uint64_t i = 0; i < n; i++) buffers[which][i] = (uint8_t)take(in);
    return (vl_text){buffers[which], n};
}

static void give_text(vl_text t) {
    give((int64_t)t.length);
    for (uint64_t i = 0; i < t.length; i++) give(t.bytes[i]);
}

static void sweep(vl_arena *a, vl_strings *s, input *in) {
    vl_strings_mark(s);
    for (int64_t n = take(in); n > 0; n--) vl_string_keep(a, s, (uint32_t)take(in));
    give((int64_t)vl_strings_sweep(a, s));
}

/* The answer twice, from both kinds of memo; a memo must never answer for another string. */
static void length_of(vl_arena *a, state *s, uint32_t id) {
    vl_strings *strings = &s->strings;
    uint32_t wide = vl_memo_get(a, &s->lengths, strings, id), narrow = vl_memo8_get(a, &s->short_lengths, strings, id);
    give(wide != VL_UNKNOWN);
    uint32_t answer = (uint32_t)vl_text_length(vl_string_at(a, strings, id));
    if (wide == VL_UNKNOWN) vl_memo_put(a, &s->lengths, strings, id, wide = answer);
    if (narrow == VL_UNKNOWN) vl_memo8_put(a, &s->short_lengths, strings, id, (uint8_t)(narrow = answer % 200));
    give(wide);
    give(narrow);
}

static void step(vl_arena *a, state *s, input *in) {
    vl_text t, u;
    int64_t x, y;
    switch (take(in)) {
    case 0: give(vl_intern(a, &s->strings, take_text(in, 0))); break;
    case 1: give(vl_string_find(a, &s->strings, take_text(in, 0))); break;
    case 2: give_text(vl_string_at(a, &s->strings, (uint32_t)take(in))); break;
    case 3:
        x = take(in);
        y = vl_string_compare(a, &s->strings, (uint32_t)x, (uint32_t)take(in));
        give((y > 0) - (y < 0));
        break;
    case 4: sweep(a, &s->strings, in); break;
    case 5: length_of(a, s, (uint32_t)take(in)); break;
    case 6:
        t = take_text(in, 0);
        u = take_text(in, 1);
        give(vl_like(t, u, (int)take(in)));
        break;
    case 7:
        t = take_text(in, 0);
        x = take(in);
        give_text(vl_text_substring(t, x, take(in)));
        break;
    case 8:
        t = take_text(in, 0);
        give(vl_text_length(t));
        give(vl_utf8_valid(t));
        break;
    case 9:
        t = take_text(in, 0);
        give(vl_like_check(t, (int)take(in)));
        break;
    case 10:
        t = take_text(in, 0);
        u = take_text(in, 1);
        x = (int64_t)vl_text_find(t, u, 0);
        give(x > (int64_t)t.length ? -1 : x);
        break;
    case 11:
        give((int64_t)s->strings.account.bytes);
        give((int64_t)s->strings.index.count);
        give(a->errors);
        a->errors = 0;
        break;
    case 12: vl_string_pin(a, &s->strings, (uint32_t)take(in)); break;
    default: require(false, "unknown operation");
    }
}

int main(void) {
    input in = read_input();
    vl_arena a;
    vl_account own = {0, 0};
    require(vl_arena_create(&a, (uint64_t)take(&in), PROGRAM) == VL_OK, "create");
    state *s = vl_at(&a, vl_alloc_zeroed(&a, &own, sizeof(state)));
    require(vl_strings_init(&a, &s->strings), "initialize");
    while (more(&in)) step(&a, s, &in);
    vl_arena_close(&a);
    for (int i = 0; i < 4; i++) free(buffers[i]);
    free(in.words);
    return 0;
}
