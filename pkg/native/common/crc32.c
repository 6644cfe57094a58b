/* CRC-32: with tables, and with carry-less multiplication if the processor supports it. */
#include <string.h>

#include "bytes.h"
#include "crc32.h"

static uint32_t crc32_table[8][256];

void crc32_prepare(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t value = i;
        for (int bit = 0; bit < 8; bit++)
            value = (value >> 1) ^ (value & 1 ? 0xEDB88320u : 0);
        crc32_table[0][i] = value;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int step = 1; step < 8; step++)
            crc32_table[step][i] = (crc32_table[step - 1][i] >> 8) ^ crc32_table[0][crc32_table[step - 1][i] & 0xFF];
}

uint32_t crc32_of(uint32_t start, const unsigned char *data, size_t size)
{
    uint32_t crc = ~start;
    while (size >= 8) {
        uint32_t low, high;
        memcpy(&low, data, 4);
        memcpy(&high, data + 4, 4);
        low ^= crc;
        crc = crc32_table[7][low & 0xFF] ^ crc32_table[6][(low >> 8) & 0xFF] ^ crc32_table[5][(low >> 16) & 0xFF] ^
              crc32_table[4][low >> 24] ^ crc32_table[3][high & 0xFF] ^ crc32_table[2][(high >> 8) & 0xFF] ^
              crc32_table[1][(high >> 16) & 0xFF] ^ crc32_table[0][high >> 24];
        data += 8;
        size -= 8;
    }
    while (size--)
        crc = (crc >> 8) ^ crc32_table[0][(crc ^ *data++) & 0xFF];
    return ~crc;
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

/* Remainders of x^n that move 64 bits past 512 or 128 others, for the bit-reflected polynomial. */
#define CRC32_FOLD_512 _mm_set_epi64x(0x00000001c6e41596, 0x0000000154442bd4)

#define CRC32_FOLD_128 _mm_set_epi64x(0x00000000ccaa009e, 0x00000001751997d0)

__attribute__((target("pclmul,sse4.1"))) static inline __m128i crc32_fold(__m128i value, __m128i by, __m128i next)
{
    __m128i low = _mm_clmulepi64_si128(value, by, 0x00), high = _mm_clmulepi64_si128(value, by, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

/* Needs at least 64 bytes. The folding leaves 16 bytes with the same remainder: the tables finish them. */
__attribute__((target("pclmul,sse4.1"))) static uint32_t crc32_folded(uint32_t start, const unsigned char *data,
                                                                      size_t size)
{
    const __m128i *from = (const __m128i *)data;
    __m128i a = _mm_xor_si128(_mm_loadu_si128(from), _mm_cvtsi32_si128((int)~start));
    __m128i b = _mm_loadu_si128(from + 1), c = _mm_loadu_si128(from + 2), d = _mm_loadu_si128(from + 3);
    const __m128i by512 = CRC32_FOLD_512, by128 = CRC32_FOLD_128;
    unsigned char rest[16];

    for (from += 4, size -= 64; size >= 64; from += 4, size -= 64) {
        a = crc32_fold(a, by512, _mm_loadu_si128(from));
        b = crc32_fold(b, by512, _mm_loadu_si128(from + 1));
        c = crc32_fold(c, by512, _mm_loadu_si128(from + 2));
        d = crc32_fold(d, by512, _mm_loadu_si128(from + 3));
    }
    a = crc32_fold(a, by128, b);
    a = crc32_fold(a, by128, c);
    a = crc32_fold(a, by128, d);
    for (; size >= 16; from++, size -= 16)
        a = crc32_fold(a, by128, _mm_loadu_si128(from));
    _mm_storeu_si128((__m128i *)rest, a);
    /* crc32_of inverts its start value, and the start is already in the first bytes. */
    return crc32_of(crc32_of(0xFFFFFFFFu, rest, 16), (const unsigned char *)from, size);
}

uint32_t crc32_long(uint32_t start, const unsigned char *data, size_t size)
{
    if (size >= 64 && __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1"))
        return crc32_folded(start, data, size);
    return crc32_of(start, data, size);
}

#else
uint32_t crc32_long(uint32_t start, const unsigned char *data, size_t size)
{
    return crc32_of(start, data, size);
}
#endif
