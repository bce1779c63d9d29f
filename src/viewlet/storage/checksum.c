/* checksum.c: CRC-32 (the one of zlib) by carry-less multiplication: the same number, several times as fast.
 *
 *   int vl_crc32_works(void)                              does this processor have the instructions?
 *   uint32_t vl_crc32(crc, data, size)                    continues a checksum; ask vl_crc32_works before
 *
 * A message is a polynomial over GF(2), bits reversed, and its checksum the remainder modulo P. Blocks of 16
 * bytes are moved d bits ahead by x^d mod P, which leaves the remainder as it is:
 *
 *   (high * x^64 + low) * x^d  =  high * (x^(d+64) mod P) + low * (x^d mod P)    (mod P)
 *
 * so a long message folds onto its last 16 bytes, which are divided bit by bit.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SEEN __attribute__((visibility("default")))

enum { BLOCK = 16, LANES = 4, WIDE_BYTES = 256 };

/* The remainder of some bytes that follow on one, a bit at a time: for the last few. */
static uint32_t divided(uint32_t rest, const uint8_t *data, size_t size) {
    for (; size; size--) {
        rest ^= *data++;
        for (int bit = 0; bit < 8; bit++) rest = (rest >> 1) ^ (0xEDB88320u & (0u - (rest & 1)));
    }
    return rest;
}

#if defined(__x86_64__)
#include <immintrin.h>

#define FOLDING __attribute__((target("pclmul,sse4.1")))

FOLDING static inline __m128i moved(__m128i block, __m128i ahead) {
    return _mm_xor_si128(_mm_clmulepi64_si128(block, ahead, 0x00), _mm_clmulepi64_si128(block, ahead, 0x11));
}

FOLDING static inline __m128i block_at(const uint8_t *data) {
    return _mm_loadu_si128((const __m128i *)(const void *)data);
}

/* The remainder of at least four blocks: four lanes side by side, then one after the other. */
FOLDING static uint32_t folded(uint32_t rest, const uint8_t *data, size_t size) {
    const __m128i by_four = _mm_set_epi64x(0x1c6e41596, 0x154442bd4); /* x^480 and x^544 mod P, reversed */
    const __m128i by_one = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);  /* x^96 and x^160 mod P, reversed */
    __m128i lane[LANES];
    for (int i = 0; i < LANES; i++) lane[i] = block_at(data + BLOCK * i);
    lane[0] = _mm_xor_si128(lane[0], _mm_cvtsi32_si128((int)rest));
    data += LANES * BLOCK, size -= LANES * BLOCK;
    for (; size >= LANES * BLOCK; data += LANES * BLOCK, size -= LANES * BLOCK)
        for (int i = 0; i < LANES; i++)
            lane[i] = _mm_xor_si128(moved(lane[i], by_four), block_at(data + BLOCK * i));
    __m128i last = lane[0];
    for (int i = 1; i < LANES; i++) last = _mm_xor_si128(moved(last, by_one), lane[i]);
    for (; size >= BLOCK; data += BLOCK, size -= BLOCK)
        last = _mm_xor_si128(moved(last, by_one), block_at(data));
    uint8_t left[BLOCK];
    memcpy(left, &last, BLOCK);
    return divided(divided(0, left, BLOCK), data, size);
}

#define WIDE __attribute__((target("avx512f,vpclmulqdq")))

WIDE static inline __m512i wide_at(const uint8_t *data) {
    return _mm512_loadu_si512((const void *)data);
}

/* The remainder of a long message: four registers of four blocks each, which are then a message themselves. */
WIDE static uint32_t folded_wide(uint32_t rest, const uint8_t *data, size_t size) {
    const __m512i by_all = _mm512_broadcast_i32x4(_mm_set_epi64x(0x1322d1430, 0x11542778a)); /* x^2016, x^2080 */
    __m512i lane[LANES];
    for (int i = 0; i < LANES; i++) lane[i] = wide_at(data + 64 * i);
    lane[0] = _mm512_xor_si512(lane[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)rest)));
    data += WIDE_BYTES, size -= WIDE_BYTES;
    for (; size >= WIDE_BYTES; data += WIDE_BYTES, size -= WIDE_BYTES)
        for (int i = 0; i < LANES; i++) {
            __m512i low = _mm512_clmulepi64_epi128(lane[i], by_all, 0x00);
            __m512i high = _mm512_clmulepi64_epi128(lane[i], by_all, 0x11);
            lane[i] = _mm512_xor_si512(_mm512_xor_si512(low, high), wide_at(data + 64 * i));
        }
    uint8_t left[WIDE_BYTES];
    memcpy(left, lane, WIDE_BYTES);
    rest = folded(0, left, WIDE_BYTES);
    return size >= LANES * BLOCK ? folded(rest, data, size) : divided(rest, data, size);
}

static int is_wide(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq");
}

SEEN int vl_crc32_works(void) {
    return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
}
#else
static uint32_t folded(uint32_t rest, const uint8_t *data, size_t size) {
    return divided(rest, data, size);
}

static uint32_t folded_wide(uint32_t rest, const uint8_t *data, size_t size) {
    return divided(rest, data, size);
}

static int is_wide(void) {
    return 0;
}

SEEN int vl_crc32_works(void) {
    return 0;
}
#endif

SEEN uint32_t vl_crc32(uint32_t crc, const uint8_t *data, size_t size) {
    if (size >= WIDE_BYTES && is_wide()) return ~folded_wide(~crc, data, size);
    return ~(size >= LANES * BLOCK ? folded(~crc, data, size) : divided(~crc, data, size));
}
