/* What Go calls: nothing, and the functions of the published account in C. */
#ifndef FUNCTIONS_H
#define FUNCTIONS_H

#include <stddef.h>
#include <stdint.h>

enum { MD5_HEX_BYTES = 32 };

void empty(void);

/* Whether this thread has called this function before. */
int has_called(void);

int64_t one(void);
int64_t ack(int64_t m, int64_t n);

/* Writes the MD5 of a text in hexadecimal, without a NUL. The text has at most 55
 * bytes, which are one block. */
void md5(const char *text, size_t bytes, char *hex);

#endif
