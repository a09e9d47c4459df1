/* The hash of a description, as servers and generated code say it. */
#ifndef NC_BASE_HASH_H
#define NC_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NC_HASH_DIGITS 64

/* -1: it is none, or in upper case. */
static inline int nc_hex_value(uint8_t digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

static inline bool nc_is_hash(const uint8_t *text, size_t bytes)
{
    if (bytes != NC_HASH_DIGITS)
        return false;
    for (size_t i = 0; i < NC_HASH_DIGITS; i++)
        if (nc_hex_value(text[i]) < 0)
            return false;
    return true;
}

#endif
