/* CRC-32 (polynomial 0xEDB88320, as zlib computes it), eight bytes a step. */
#ifndef DM_CRC32_H
#define DM_CRC32_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "bytes.h"

static uint32_t crc32_table[8][256];

/* Call once when the module is made. */
static void crc32_prepare(void)
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

/* zlib.crc32(data, start) */
static inline uint32_t crc32_of(uint32_t start, const unsigned char *data, size_t size)
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

#endif
