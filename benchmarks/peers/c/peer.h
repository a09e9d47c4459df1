/*
 * What the programs of all peers in C have in common: see ../README.md for their uses.
 */
#ifndef PEER_H
#define PEER_H

#include "caller.h"

enum { PEER_VERSION_BYTES_MAX = 64 };

struct peer {
    /* Writes name and version of the library that the program runs with. */
    void (*version)(char ret_version[PEER_VERSION_BYTES_MAX]);
    const char *configuration; /* one line: how server and callers are set up */
    const char *documentation; /* where that is recommended */
    /* Begins to listen, calls peer_ready() and answers for ever; -1 after a message on
     * stderr. */
    int (*serve)(const char *address);
    struct subject subject; /* named "call"; its open() fills the request by peer_fill() */
    /* As subject.call, the answer compared in full. */
    int (*compare)(void *state);
};

int peer_main(int argc, char **argv, const struct peer *peer);

/* Says that the server can be called at this address. */
void peer_ready(const char *address);

/* Fills a request: with bytes of this process alone where calls are verified. */
void peer_fill(uint8_t *data, size_t bytes);

#endif
