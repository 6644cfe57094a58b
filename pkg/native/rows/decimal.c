/* DECIMAL values: groups of nine digits in four bytes, the first bit inverted. */
#include "decimal.h"
#include "digits.h"

/* The next group of decimal digits; a number wider than the group if a server did not write the bytes. */
static inline uint64_t decimal_group(const uint8_t *bytes, size_t *at, int width)
{
    uint64_t value = big_endian(bytes + *at, decimal_bytes[width]);
    *at += decimal_bytes[width];
    return value;
}

unsigned char *put_decimal(unsigned char *out, const Column *column, const Value *value)
{
    int whole = (int)(column->a - column->b), scale = (int)column->b;
    uint8_t bytes[40] = {0};
    if (value->size == 0 || value->size > sizeof bytes)
        return NULL;
    int negative = !(value->data[0] & 0x80);
    for (size_t i = 0; i < value->size; i++)
        bytes[i] = negative ? (uint8_t)~value->data[i] : value->data[i];
    bytes[0] ^= 0x80;
    if (negative)
        *out++ = '-';
    size_t at = 0;
    int started = 0;
    for (int left = whole; left > 0;) {
        int width = left % 9 ? left % 9 : 9;
        uint64_t group = decimal_group(bytes, &at, width);
        if (group >= powers_of_ten[width])
            return NULL;
        if (started)
            out = put_padded(out, group, 9);
        else if (group) {
            out = put_uint(out, group);
            started = 1;
        }
        left -= width;
    }
    if (!started)
        *out++ = '0';
    if (scale)
        *out++ = '.';
    for (int left = scale; left > 0;) {
        int width = left < 9 ? left : 9;
        uint64_t group = decimal_group(bytes, &at, width);
        if (group >= powers_of_ten[width])
            return NULL;
        out = put_padded(out, group, width);
        left -= width;
    }
    return out;
}
