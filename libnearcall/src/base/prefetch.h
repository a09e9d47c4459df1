/* Asks for a cache line before it is written. It never faults, whatever the address is. */
#ifndef NC_PREFETCH_H
#define NC_PREFETCH_H

#if defined(__x86_64__)
/* The compiler has this instruction only for processors that it is told of; others of 64 bits take
 * it for one that does nothing. */
static inline void nc_prefetch_to_write(const void *line)
{
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
}
#else
static inline void nc_prefetch_to_write(const void *line)
{
    __builtin_prefetch(line, 1);
}
#endif

#endif
