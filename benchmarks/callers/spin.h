/*
 * Two processes that bounce bytes through shared memory, and do nothing else: the floor that
 * the machine sets. spin_server.c and subject_floors.c are the two. 64 bytes lie beside the
 * word that publishes them. More lie apart: the caller copies them to the memory, the server
 * copies them across to its own part, and the caller copies them back.
 *
 * A caller connects to the server's socket and is told, as text, where to open
 * the memory. It begins a run by one byte, which the server answers; from then on
 * both spin until the caller puts SPIN_STOP, and the server has answered that by one
 * byte more. Between runs both sleep. Each is held to a CPU of its own: the scheduler
 * may else leave two that spin on one CPU, while the other idles.
 */
#ifndef SPIN_H
#define SPIN_H

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

enum { SPIN_BYTES = 64, SPIN_LARGE_BYTES_MAX = 4 << 20, SPIN_PATH_BYTES = 64, SPIN_PAGE_BYTES = 4096 };

#define SPIN_STOP UINT32_MAX

/* One direction. Its lines are beside each other, and nobody else's are. */
struct spin_line {
    _Alignas(128) _Atomic uint32_t sequence; /* published last */
    uint8_t data[SPIN_BYTES];
};

struct spin_memory {
    struct spin_line request;
    struct spin_line reply;
    uint32_t bytes; /* of each run; the caller writes it before */
    _Alignas(SPIN_PAGE_BYTES) uint8_t large_request[SPIN_LARGE_BYTES_MAX];
    _Alignas(SPIN_PAGE_BYTES) uint8_t large_reply[SPIN_LARGE_BYTES_MAX];
};

/* Holds this process to the first or the last CPU it may use. */
static inline int spin_hold(int last)
{
    cpu_set_t allowed, one;
    int chosen = -1;

    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return -1;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &allowed) && (last || chosen < 0))
            chosen = cpu;
    }
    CPU_ZERO(&one);
    CPU_SET(chosen, &one);
    return sched_setaffinity(0, sizeof one, &one);
}

static inline void spin_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static inline void spin_publish(struct spin_line *line, uint32_t sequence)
{
    atomic_store_explicit(&line->sequence, sequence, memory_order_release);
}

static inline void spin_put(struct spin_line *line, uint32_t sequence, const uint8_t data[SPIN_BYTES])
{
    memcpy(line->data, data, SPIN_BYTES);
    spin_publish(line, sequence);
}

/* Waits for that sequence; returns what came instead when it was SPIN_STOP. */
static inline uint32_t spin_await(struct spin_line *line, uint32_t sequence)
{
    uint32_t seen;

    while ((seen = atomic_load_explicit(&line->sequence, memory_order_acquire)) != sequence && seen != SPIN_STOP)
        spin_pause();
    return seen;
}

/* Waits as spin_await() and copies the data of that sequence out. */
static inline uint32_t spin_take(struct spin_line *line, uint32_t sequence, uint8_t data[SPIN_BYTES])
{
    uint32_t seen = spin_await(line, sequence);

    if (seen == sequence)
        memcpy(data, line->data, SPIN_BYTES);
    return seen;
}

#endif
