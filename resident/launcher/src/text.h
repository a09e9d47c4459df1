/* Text without stdio, which would be half of the launcher. */
#ifndef NC_TEXT_H
#define NC_TEXT_H

#include <stddef.h>

enum { NC_NUMBER_BYTES = 24 };

/* Writes the strings one after the other into `into`, with a NUL. Returns 0, or
 * -1 when they do not fit. */
#define nc_join(into, size, ...) nc_join_strings(into, size, (const char *const[]){__VA_ARGS__, NULL})
int nc_join_strings(char *into, size_t size, const char *const *strings);

/* The number in decimal digits, within `buffer`. */
const char *nc_number(char buffer[NC_NUMBER_BYTES], unsigned long long number);

/* A line on standard error: the launcher's name and the strings. */
#define nc_say(...) nc_say_strings((const char *const[]){__VA_ARGS__, NULL})
void nc_say_strings(const char *const *strings);

#endif
