#include "peer.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VERIFIED_CALLS = 10 };

static bool fills_with_own_bytes;

/* Peers are not asked how often they allocate, and nothing counts it. */
uint64_t allocations_count(void)
{
    return 0;
}

void peer_ready(const char *address)
{
    printf("ready %s\n", address);
    fflush(stdout);
}

void peer_fill(uint8_t *data, size_t bytes)
{
    pid_t own = getpid();

    subject_fill(data, bytes);
    for (size_t i = 0; fills_with_own_bytes && i < bytes; i++)
        data[i] ^= (uint8_t)(own >> 8 * (i % sizeof own));
}

static int describe(const struct peer *peer)
{
    char version[PEER_VERSION_BYTES_MAX];

    peer->version(version);
    /* None of these holds what JSON would escape. */
    printf("{\"version\":\"%s\",\"language\":\"C\",\"connections\":\"one each, which is a process\",\"configuration\":\"%s\","
           "\"documentation\":\"%s\"}\n",
           version, peer->configuration, peer->documentation);
    return 0;
}

/* Calls with bytes that no other process sends, and compares every answer in full. */
static int verify(const struct peer *peer, const char *address, const char *payload_bytes)
{
    void *state;

    fills_with_own_bytes = true;
    state = peer->subject.open(&peer->subject, address, (size_t)strtoul(payload_bytes, NULL, 10));
    if (state == NULL)
        return 1;
    for (int i = 0; i < VERIFIED_CALLS; i++) {
        if (peer->compare(state) != 0)
            return 1;
    }
    return 0;
}

int peer_main(int argc, char **argv, const struct peer *peer)
{
    const struct subject list[] = {peer->subject, {0}};
    const struct subject *const lists[] = {list, NULL};

    if (argc == 2 && strcmp(argv[1], "describe") == 0)
        return describe(peer);
    if (argc == 3 && strcmp(argv[1], "serve") == 0)
        return peer->serve(argv[2]) == 0 ? 0 : 1;
    if (argc == 5 && strcmp(argv[1], "call") == 0 && strcmp(argv[4], "1") == 0)
        return caller_main(argc - 1, argv, lists);
    if (argc == 5 && strcmp(argv[1], "verify") == 0 && strcmp(argv[4], "1") == 0)
        return verify(peer, argv[2], argv[3]);
    fprintf(stderr, "usage: %s serve ADDRESS, call or verify ADDRESS PAYLOAD_BYTES 1, or describe\n", argv[0]);
    return 2;
}
