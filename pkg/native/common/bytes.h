/* Integers and hex digits in bytes. Nothing here depends on the machine's byte order; files that include this may.
 */
#ifndef DM_BYTES_H
#define DM_BYTES_H

#include <stddef.h>
#include <stdint.h>

/* CRC-32 and floating point values are read in the machine's order, and sizes are computed in size_t. On other
 * machines the build fails, and the Python code does the work. */
#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__ || SIZE_MAX < UINT64_MAX
#error "the compiled kernel is for 64-bit little-endian machines"
#endif

static inline uint64_t little_endian(const uint8_t *p, size_t size)
{
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++)
        value |= (uint64_t)p[i] << (8 * i);
    return value;
}

static inline uint64_t big_endian(const uint8_t *p, size_t size)
{
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++)
        value = value << 8 | p[i];
    return value;
}

static inline uint32_t get32(const uint8_t *p)
{
    return (uint32_t)little_endian(p, 4);
}

static inline uint64_t get64(const uint8_t *p)
{
    return little_endian(p, 8);
}

static inline void put32(uint8_t *out, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        out[i] = (uint8_t)(value >> 8 * i);
}

/* Two digits for each byte; returns the end. */
static inline uint8_t *put_hex(uint8_t *out, const uint8_t *p, size_t size)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < size; i++) {
        *out++ = (uint8_t)digits[p[i] >> 4];
        *out++ = (uint8_t)digits[p[i] & 15];
    }
    return out;
}

#endif
