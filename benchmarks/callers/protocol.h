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

/* In a run with windows the first of so many calls is a sample. */
enum { CALLS_OF_A_SAMPLE = 16 };

/* How the calls went. */
enum {
    TRANSPORT_UNKNOWN = 0,
    TRANSPORT_SOCKET = 1,
    TRANSPORT_SHARED_MEMORY = 2,
    TRANSPORT_SAME_PROCESS = 3,
    TRANSPORT_TCP = 4,
    TRANSPORT_TLS = 5
};

struct command {
    uint64_t run_ms;
    uint64_t per_s;    /* 0: as fast as it can */
    uint64_t begin_ns; /* of CLOCK_MONOTONIC; 0: at once */
    uint64_t window_ms; /* 0: calls are not counted by windows */
};

/* ns is freed with free(). */
struct samples {
    uint64_t *ns;
    size_t count;
    size_t capacity;
};

/* How many calls ended in each window of a run, one after the other. calls is freed with free(). */
struct windows {
    uint64_t *calls;
    size_t count;     /* 0: calls are not counted by windows */
    size_t at;        /* the one that is counted in */
    uint64_t edge_ns; /* where that ends */
    uint64_t window_ns;
};

struct report {
    uint64_t calls;
    uint64_t elapsed_ns;
    uint64_t cpu_ns;
    uint64_t allocations; /* NOT_COUNTED where nothing counts them */
    int transport;
    struct samples samples;
    struct windows windows;
};

uint64_t clock_ns(clockid_t clock);

/* Reads the next command from stdin. Returns 1, 0 at its end, -1 after a message on
 * stderr. */
int command_read(struct command *ret_command);

/* Makes room for so many samples in all; -1 after a message on stderr. */
int samples_reserve(struct samples *samples, size_t capacity);

/* Makes room for the whole windows of a run, if it has any; -1 after a message on stderr. */
int windows_reserve(struct windows *windows, const struct command *command);

/* Counts from then on. */
void windows_begin(struct windows *windows, uint64_t begin_ns);

/* Counts a call that has ended; calls end in order. */
static inline void windows_add(struct windows *windows, uint64_t end_ns)
{
    while (end_ns >= windows->edge_ns) {
        windows->edge_ns += windows->window_ns;
        windows->at++;
    }
    if (windows->at < windows->count)
        windows->calls[windows->at]++;
}

/* Writes to stdout; -1 after a message on stderr. */
int report_write(const struct report *report);

#endif
