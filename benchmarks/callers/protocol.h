/*
 * Commands and reports as ../README.md has them ("Adding a caller"), and the clock of
 * what is measured.
 */
#ifndef PROTOCOL_H
#define PROTOCOL_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

enum { NS_PER_US = 1000, NS_PER_MS = 1000 * 1000, NS_PER_S = 1000 * 1000 * 1000 };

#define NOT_COUNTED UINT64_MAX

/* How the calls went. */
enum {
    TRANSPORT_UNKNOWN = 0,
    TRANSPORT_SOCKET = 1,
    TRANSPORT_SHARED_MEMORY = 2,
    TRANSPORT_SAME_PROCESS = 3,
    TRANSPORT_TCP = 4
};

struct command {
    uint64_t run_ms;
    uint64_t per_s;    /* 0: as fast as it can */
    uint64_t begin_ns; /* of CLOCK_MONOTONIC; 0: at once */
};

/* Owned by whoever declared it; ns is freed with free(). */
struct samples {
    uint64_t *ns;
    size_t count;
    size_t capacity;
};

struct report {
    uint64_t calls;
    uint64_t elapsed_ns;
    uint64_t cpu_ns;
    uint64_t allocations; /* NOT_COUNTED where nothing counts them */
    int transport;
};

uint64_t clock_ns(clockid_t clock);

/* Reads the next command from stdin. Returns 1, 0 at its end, -1 after a message on
 * stderr. */
int command_read(struct command *ret_command);

/* Makes room for so many samples in all; -1 after a message on stderr. */
int samples_reserve(struct samples *samples, size_t capacity);

/* Writes to stdout; -1 after a message on stderr. */
int report_write(const struct report *report, const struct samples *samples);

#endif
