/* CRC-32 (polynomial 0xEDB88320), as zlib computes it. */
#ifndef DM_CRC32_H
#define DM_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* The CRC of any data followed by its own CRC. */
#define CRC_RESIDUE 0x2144DF1Cu

/* Call once when the module is created. */
void crc32_prepare(void);

/* zlib.crc32(data, start), for short data: eight bytes a step. */
uint32_t crc32_of(uint32_t start, const unsigned char *data, size_t size);

/* The same for long data: carry-less multiplication if the processor supports it. */
uint32_t crc32_long(uint32_t start, const unsigned char *data, size_t size);

#endif
