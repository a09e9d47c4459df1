/*
 * Counts heap allocations: the linker redirects the functions below by --wrap, in
 * this program and in the libnearcall.a it is linked with.
 */
#include <stdlib.h>

#include "caller.h"

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);

static uint64_t count_so_far;

uint64_t allocations_count(void)
{
    return count_so_far;
}

void *__wrap_malloc(size_t bytes)
{
    count_so_far++;
    return __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    count_so_far++;
    return __real_calloc(count, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
    count_so_far++;
    return __real_realloc(old, bytes);
}
