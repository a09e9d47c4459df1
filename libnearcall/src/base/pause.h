/* Tells the processor that this is a loop that waits for memory. */
#ifndef NC_PAUSE_H
#define NC_PAUSE_H

#if defined(__x86_64__) || defined(__i386__)
static inline void nc_pause_cpu(void)
{
    __builtin_ia32_pause();
}
#elif defined(__aarch64__)
static inline void nc_pause_cpu(void)
{
    __asm__ volatile("yield");
}
#else
static inline void nc_pause_cpu(void)
{
}
#endif

#endif
