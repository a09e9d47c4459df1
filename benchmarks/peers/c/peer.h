/*
 * What the programs of all peers in C have in common: see ../README.md for their uses.
 */
#ifndef PEER_H
#define PEER_H

#include "caller.h"

struct peer {
    const char *version;
    const char *configuration; /* one line: how server and callers are set up */
    const char *documentation; /* where that is recommended */
    /* Begins to listen, calls peer_ready() and answers for ever; -1 after a message on
     * stderr. */
    int (*serve)(const char *address);
    struct subject subject; /* named "call" */
};

int peer_main(int argc, char **argv, const struct peer *peer);

/* Says that the server can be called at this address. */
void peer_ready(const char *address);

#endif
