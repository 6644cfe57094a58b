/* Dates and times, in the forms before and since MySQL 5.6. */
#include "temporal.h"
#include "digits.h"

static unsigned char *put_date(unsigned char *out, uint64_t year, uint64_t month, uint64_t day)
{
    if (year > 9999 || month > 99 || day > 99)
        return NULL;
    out = put_padded(out, year, 4);
    *out++ = '-';
    out = put_two(out, month);
    *out++ = '-';
    return put_two(out, day);
}

static unsigned char *put_clock(unsigned char *out, uint64_t hour, uint64_t minute, uint64_t second)
{
    out = put_two(out, hour);
    *out++ = ':';
    out = put_two(out, minute);
    *out++ = ':';
    return put_two(out, second);
}

/* A point and ``digits`` digits of a fraction stored with an even number of them; NULL when it has more. */
static unsigned char *put_fraction(unsigned char *out, uint64_t stored, uint32_t digits)
{
    if (digits == 0)
        return out;
    uint64_t fraction = digits & 1 ? stored / 10 : stored;
    if (fraction >= powers_of_ten[digits])
        return NULL;
    *out++ = '.';
    return put_padded(out, fraction, (int)digits);
}

/* Seconds since 1970 in UTC, 0 for the zero date. */
static unsigned char *put_seconds(unsigned char *out, uint32_t value)
{
    if (value == 0) {
        memcpy(out, "0000-00-00 00:00:00", 19);
        return out + 19;
    }
    /* Years begin in March, so that the leap day is the last of its year. */
    uint32_t days = value / 86400 + 719468, rest = value % 86400;
    uint32_t era = days / 146097, of_era = days % 146097;
    uint32_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    uint32_t of_year = of_era - (365 * year + year / 4 - year / 100);
    uint32_t month = (5 * of_year + 2) / 153;
    uint32_t day = of_year - (153 * month + 2) / 5 + 1;
    year += era * 400 + (month >= 10);
    out = put_date(out, year, month < 10 ? month + 3 : month - 9, day);
    *out++ = ' ';
    return put_clock(out, rest / 3600, rest / 60 % 60, rest % 60);
}

static unsigned char *put_datetime(unsigned char *out, const Value *value)
{
    uint64_t packed = big_endian(value->data, 5);
    if (packed < 0x8000000000u)
        return NULL;
    packed -= 0x8000000000u;
    uint64_t months = packed >> 22;
    out = put_date(out, months / 13, months % 13, packed >> 17 & 31);
    if (out == NULL)
        return NULL;
    *out++ = ' ';
    return put_clock(out, packed >> 12 & 31, packed >> 6 & 63, packed & 63);
}

static unsigned char *put_old_datetime(unsigned char *out, const Value *value)
{
    uint64_t packed = little_endian(value->data, 8), day = packed / 1000000, clock = packed % 1000000;
    out = put_date(out, day / 10000, day / 100 % 100, day % 100);
    if (out == NULL)
        return NULL;
    *out++ = ' ';
    return put_clock(out, clock / 10000, clock / 100 % 100, clock % 100);
}

static unsigned char *put_time(unsigned char *out, const Value *value, uint32_t digits)
{
    unsigned bits = 8 * ((unsigned)value->size - 3);
    int64_t packed = (int64_t)big_endian(value->data, value->size) - ((int64_t)0x800000 << bits);
    if (packed < 0) {
        *out++ = '-';
        packed = -packed;
    }
    uint64_t clock = (uint64_t)packed >> bits;
    out = put_clock(out, clock >> 12 & 0x3FF, clock >> 6 & 63, clock & 63);
    return put_fraction(out, (uint64_t)packed & (((uint64_t)1 << bits) - 1), digits);
}

static unsigned char *put_old_time(unsigned char *out, const Value *value)
{
    int64_t number = sign_extended(little_endian(value->data, 3), 3);
    if (number < 0) {
        *out++ = '-';
        number = -number;
    }
    return put_clock(out, (uint64_t)number / 10000, (uint64_t)number / 100 % 100, (uint64_t)number % 100);
}

unsigned char *put_temporal(unsigned char *out, const Column *column, const Value *value)
{
    *out++ = '\'';
    uint64_t number;
    switch (column->op) {
    case OP_DATE:
        number = little_endian(value->data, 3);
        out = put_date(out, number >> 9, number >> 5 & 15, number & 31);
        break;
    case OP_OLD_TIME:
        out = put_old_time(out, value);
        break;
    case OP_OLD_DATETIME:
        out = put_old_datetime(out, value);
        break;
    case OP_OLD_TIMESTAMP:
        out = put_seconds(out, (uint32_t)little_endian(value->data, 4));
        break;
    case OP_TIME:
        out = put_time(out, value, column->a);
        break;
    case OP_DATETIME:
        out = put_datetime(out, value);
        if (out != NULL)
            out = put_fraction(out, big_endian(value->data + 5, value->size - 5), column->a);
        break;
    default:
        out = put_seconds(out, (uint32_t)big_endian(value->data, 4));
        out = put_fraction(out, big_endian(value->data + 4, value->size - 4), column->a);
    }
    if (out != NULL)
        *out++ = '\'';
    return out;
}
