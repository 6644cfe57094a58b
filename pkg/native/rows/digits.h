/* Decimal digits of numbers. Every function writes to memory that the caller reserved and returns the end. */
#ifndef DM_DIGITS_H
#define DM_DIGITS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static const char digit_pairs[] = "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
                                  "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
                                  "8081828384858687888990919293949596979899";

static inline unsigned char *put_uint(unsigned char *out, uint64_t value)
{
    unsigned char digits[20], *p = digits + sizeof digits;
    while (value >= 100) {
        p -= 2;
        memcpy(p, digit_pairs + value % 100 * 2, 2);
        value /= 100;
    }
    if (value >= 10) {
        p -= 2;
        memcpy(p, digit_pairs + value * 2, 2);
    } else
        *--p = (unsigned char)('0' + value);
    size_t size = (size_t)(digits + sizeof digits - p);
    memcpy(out, p, size);
    return out + size;
}

/* ``width`` digits with leading zeros; the value must fit. */
static inline unsigned char *put_padded(unsigned char *out, uint64_t value, int width)
{
    for (int i = width; i-- > 0; value /= 10)
        out[i] = (unsigned char)('0' + value % 10);
    return out + width;
}

/* At least two digits. */
static inline unsigned char *put_two(unsigned char *out, uint64_t value)
{
    if (value >= 100)
        return put_uint(out, value);
    memcpy(out, digit_pairs + value * 2, 2);
    return out + 2;
}

static const uint64_t powers_of_ten[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000};

#endif
