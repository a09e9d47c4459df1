#ifndef NC_UTF8_H
#define NC_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool nc_utf8_is_valid(const uint8_t *text, size_t bytes);

/* Makes a NUL-terminated text valid: what is not UTF-8 becomes '?'. */
void nc_utf8_clean(char *text);

#endif
