/* Little-endian integers, as spec/resident.md has them. */
#ifndef NC_BYTES_H
#define NC_BYTES_H

#include <stdint.h>

static inline void nc_put16(char *at, uint32_t value)
{
    at[0] = (char)(value & 0xFF);
    at[1] = (char)(value >> 8 & 0xFF);
}

static inline void nc_put32(char *at, uint32_t value)
{
    nc_put16(at, value);
    nc_put16(at + 2, value >> 16);
}

static inline uint32_t nc_get32(const char *at)
{
    const unsigned char *bytes = (const unsigned char *)at;
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

#endif
