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
    size_t state_bytes; /* of what all functions are given; zeros, and as long as the process */
    /* Connects and makes one call whose answer is compared in full. -1 after a message on
     * stderr. */
    int (*open)(const struct subject *subject, void *state, const char *address, size_t payload_bytes);
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

/* The ways of one file, up to one without a name. */
extern const struct subject floor_subjects[];    /* what calls cannot do without */
extern const struct subject simple_subjects[];   /* JSON: one connection, a connection per call */
extern const struct subject nearcall_subjects[]; /* libnearcall */
extern const struct subject shop_subjects[];     /* libnearcall: the functions of an application */
extern const struct subject http_subjects[];     /* GET, 200: on a connection per call, as its second request, on one */
extern const struct subject run_subjects[];      /* a program: spawn, output, exit */

/* The whole program of a caller that has the modes of these lists, the last of which is
 * NULL; returns its exit code. */
int caller_main(int argc, char **argv, const struct subject *const *lists);

/* Heap allocations of this process so far (allocations.c). */
uint64_t allocations_count(void);

/* Says on stderr what failed, and why as errno has it; -1. */
int subject_failed(const char *what);

/* 0 where an answer is what was sent; -1 after a message on stderr. */
int subject_compare(const uint8_t *answer, const uint8_t *sent, size_t bytes);

/* Memory for a payload, filled; NULL after a message on stderr. */
uint8_t *subject_payload(size_t bytes);

/* The path in "unix:/path"; NULL after a message on stderr. */
const char *subject_path(const char *address);

/* Bytes that no short cut could guess and nothing could compress, the same in every program. */
void subject_fill(uint8_t *data, size_t bytes);

#endif
