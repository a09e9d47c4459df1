/*
 * What the programs of all peers in C have in common: see ../README.md for their uses.
 */
#ifndef PEER_H
#define PEER_H

#include "caller.h"

enum { PEER_VERSION_BYTES_MAX = 64 };

/* What the caller sends, and room for as much. */
struct peer_message {
    size_t bytes;
    uint8_t *request;
    uint8_t *answer;
};

/* A peer that calls and serves at an endpoint ipc://PATH. A process has one connection. */
struct peer {
    const char *name;
    /* Writes the version of the library that the program runs with. */
    void (*version)(char ret_version[PEER_VERSION_BYTES_MAX]);
    const char *configuration; /* one line: how server and callers are set up */
    const char *documentation; /* where that is recommended */
    /* Begins to listen, calls peer_ready() and answers for ever; or connects. They return what was
     * wrong. */
    const char *(*serve)(const char *endpoint);
    const char *(*connect)(const char *endpoint);
    int (*call)(void *message); /* as subject.call, of a struct peer_message */
    /* The same, the answer compared in full. */
    int (*compare)(void *message);
};

int peer_main(int argc, char **argv, const struct peer *peer);

/* Says that the server can be called. */
void peer_ready(void);

/* Says what is wrong with a call; -1. */
int peer_failed(const char *why);

#endif
