#include "peer.h"

#include <stdio.h>
#include <string.h>

void peer_ready(const char *address)
{
    printf("ready %s\n", address);
    fflush(stdout);
}

static int describe(const struct peer *peer)
{
    /* None of these holds what JSON would escape. A process is one caller. */
    printf("{\"version\":\"%s\",\"configuration\":\"%s\",\"documentation\":\"%s\",\"processes\":true}\n", peer->version,
           peer->configuration, peer->documentation);
    return 0;
}

int peer_main(int argc, char **argv, const struct peer *peer)
{
    const struct subject *subjects[] = {&peer->subject};

    if (argc == 2 && strcmp(argv[1], "describe") == 0)
        return describe(peer);
    if (argc == 3 && strcmp(argv[1], "serve") == 0)
        return peer->serve(argv[2]) == 0 ? 0 : 1;
    if (argc == 5 && strcmp(argv[1], "call") == 0 && strcmp(argv[4], "1") == 0)
        return caller_main(argc - 1, argv, subjects, 1);
    fprintf(stderr, "usage: %s serve ADDRESS, call ADDRESS PAYLOAD_BYTES 1, or describe\n", argv[0]);
    return 2;
}
