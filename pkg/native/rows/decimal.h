/* DECIMAL values. */
#ifndef DM_DECIMAL_H
#define DM_DECIMAL_H

#include <stdint.h>

#include "literals.h"

/* Bytes of a group of so many digits. */
static const uint8_t decimal_bytes[] = {0, 1, 1, 2, 2, 3, 3, 4, 4, 4};

/* Bytes of so many digits before or after the point. */
static inline uint32_t decimal_size(uint32_t digits)
{
    return digits / 9 * 4 + decimal_bytes[digits % 9];
}

/* The value in digits; NULL for bytes that no server writes. */
unsigned char *put_decimal(unsigned char *out, const Column *column, const Value *value);

#endif
