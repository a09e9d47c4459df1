/*
 * What a way to call has to offer to be measured: see caller.c for what is
 * timed.
 */
#ifndef CALLER_H
#define CALLER_H

#include <stddef.h>
#include <stdint.h>

#include "protocol.h"

struct subject {
    const char *name;
    /* Connects and makes one call whose answer is compared in full. Returns its
     * state, which lives as long as the process, or NULL after a message on
     * stderr. */
    void *(*open)(const char *address, size_t payload_bytes);
    /* Before each call of a run without windows, and not timed; NULL where there is nothing
     * to do. Calls per second are over the time of the calls alone then, and CPU is not
     * told. -1 after a message on stderr. */
    int (*prepare)(void *state);
    /* What is timed: one call, or calls_per_sample of them, the answers checked
     * cheaply; -1 after a message on stderr. */
    int (*call)(void *state);
    unsigned calls_per_sample; /* 0: one */
    /* Around all calls of a run; NULL where there is nothing to do. -1 after a message
     * on stderr. */
    int (*begin)(void *state);
    int (*end)(void *state);
    int (*transport)(const void *state); /* TRANSPORT_...; NULL where there is no choice */
};

extern const struct subject subject_bare;           /* length prefix, echo */
extern const struct subject subject_spin;           /* 64 bytes through shared memory, echo */
extern const struct subject subject_memcpy;         /* memory to memory, no server */
extern const struct subject subject_simple;         /* JSON, one connection */
extern const struct subject subject_simple_reconnect; /* JSON, a connection per call */
extern const struct subject subject_raw;            /* libnearcall, raw bytes to echo() */
extern const struct subject subject_typed;          /* libnearcall, ack(0, 1) */
extern const struct subject subject_cgo;            /* an empty Go function in this process */
extern const struct subject subject_http;           /* connect, GET, 200, close */
extern const struct subject subject_http_second;    /* GET, 200, as a connection's second request */
extern const struct subject subject_http_kept;      /* GET, 200, on one connection */
extern const struct subject subject_run;            /* a program: spawn, output, exit */
extern const struct subject subject_goroutine;      /* libnearcall, a function that waits for a goroutine */
extern const struct subject subject_child_raw;      /* as raw, from a child of who opened the handle */
extern const struct subject subject_child_goroutine;
extern const struct subject subject_pipelined;      /* libnearcall, 64 calls of echo() in flight */

extern const struct subject subject_one;            /* libnearcall, functions of the published account */
extern const struct subject subject_ack;
extern const struct subject subject_md5;

/* The whole program of a caller that has these modes; returns its exit code. */
int caller_main(int argc, char **argv, const struct subject *const *subjects, size_t count);

/* Heap allocations of this process so far (allocations.c). */
uint64_t allocations_count(void);

/* The path in "unix:/path"; NULL after a message on stderr. */
const char *subject_path(const char *address);

/* Bytes that no short cut could guess and nothing could compress, the same in every program. */
void subject_fill(uint8_t *data, size_t bytes);

#endif
