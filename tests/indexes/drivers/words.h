/* words.h: a driver reads int64 words from standard input and answers int64 words. */
#include "arena.h"

#include <stdio.h>
#include <stdlib.h>

static int64_t *words;
static size_t words_left;

static void read_words(void) {
    size_t size = 0, room = 1 << 16;
    char *data = malloc(room);
    for (size_t n; (n = fread(data + size, 1, room - size, stdin)) > 0;)
        if ((size += n) == room) data = realloc(data, room *= 2);
    words = (int64_t *)(void *)data;
    words_left = size / 8;
}

static inline int64_t take_word(void) {
    if (!words_left) abort();
    words_left--;
    return *words++;
}
static inline __int128 take_wide(void) {
    unsigned __int128 high = (uint64_t)take_word();
    return (__int128)(high << 64 | (uint64_t)take_word());
}
static inline void give_word(int64_t x) { fwrite(&x, 8, 1, stdout); }
static inline void give_wide(__int128 x) {
    give_word((int64_t)(x >> 64));
    give_word((int64_t)x);
}

#ifndef LIMIT
#define LIMIT 0 /* of the arena, in bytes; with one, running out of memory is part of the test */
#endif

static vl_arena arena;
static void open_arena(void) {
    static const uint8_t program[32] = {7};
    if (vl_arena_create(&arena, LIMIT, program)) abort();
}
