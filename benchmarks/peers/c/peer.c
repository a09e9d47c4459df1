#include "peer.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VERIFIED_CALLS = 10, ENDPOINT_BYTES_MAX = 256 };

static const struct peer *own;
static const char *server; /* its address */
static bool fills_with_own_bytes;

/* Peers are not asked how often they allocate, and nothing counts it. */
uint64_t allocations_count(void)
{
    return 0;
}

void peer_ready(void)
{
    printf("ready %s\n", server);
    fflush(stdout);
}

int peer_failed(const char *why)
{
    fprintf(stderr, "%s: %s\n", own->name, why);
    return -1;
}

/* Lets the peer serve or connect; -1 after a message on stderr. */
static int at_endpoint(const char *address, const char *(*use)(const char *endpoint))
{
    char endpoint[ENDPOINT_BYTES_MAX];
    const char *path = subject_path(address), *wrong;

    if (path == NULL)
        return -1;
    if (snprintf(endpoint, sizeof endpoint, "ipc://%s", path) >= ENDPOINT_BYTES_MAX)
        return peer_failed("its path is too long");
    server = address;
    wrong = use(endpoint);
    return wrong == NULL ? 0 : peer_failed(wrong);
}

/* Fills a request; with bytes of this process alone where calls are verified. */
static void fill(uint8_t *data, size_t bytes)
{
    pid_t process = getpid();

    subject_fill(data, bytes);
    for (size_t i = 0; fills_with_own_bytes && i < bytes; i++)
        data[i] ^= (uint8_t)(process >> 8 * (i % sizeof process));
}

static int open_caller(const struct subject *subject, void *state, const char *address, size_t payload_bytes)
{
    struct peer_message *message = state;

    (void)subject;
    message->bytes = payload_bytes;
    message->request = malloc(payload_bytes);
    message->answer = calloc(1, payload_bytes);
    if (message->request == NULL || message->answer == NULL || at_endpoint(address, own->connect) != 0)
        return -1;
    fill(message->request, payload_bytes);
    return own->compare(message);
}

static int describe(void)
{
    char version[PEER_VERSION_BYTES_MAX];

    own->version(version);
    /* None of these holds what JSON would escape. */
    printf("{\"version\":\"%s\",\"language\":\"C\",\"connections\":\"one each, which is a process\",\"configuration\":\"%s\","
           "\"documentation\":\"%s\"}\n",
           version, own->configuration, own->documentation);
    return 0;
}

/* Calls with bytes that no other process sends, and compares every answer in full. */
static int verify(const char *address, const char *payload_bytes)
{
    struct peer_message message;
    int failed;

    fills_with_own_bytes = true;
    failed = open_caller(NULL, &message, address, (size_t)strtoul(payload_bytes, NULL, 10));
    for (int i = 0; !failed && i < VERIFIED_CALLS; i++)
        failed = own->compare(&message);
    return failed ? 1 : 0;
}

int peer_main(int argc, char **argv, const struct peer *peer)
{
    const struct subject list[] = {{.name = "call", .state_bytes = sizeof(struct peer_message), .open = open_caller, .call = peer->call}, {0}};
    const struct subject *const lists[] = {list, NULL};

    own = peer;
    if (argc == 2 && strcmp(argv[1], "describe") == 0)
        return describe();
    if (argc == 3 && strcmp(argv[1], "serve") == 0)
        return at_endpoint(argv[2], peer->serve) == 0 ? 0 : 1;
    if (argc == 5 && strcmp(argv[1], "call") == 0 && strcmp(argv[4], "1") == 0)
        return caller_main(argc - 1, argv, lists);
    if (argc == 5 && strcmp(argv[1], "verify") == 0 && strcmp(argv[4], "1") == 0)
        return verify(argv[2], argv[3]);
    fprintf(stderr, "usage: %s serve ADDRESS, call or verify ADDRESS PAYLOAD_BYTES 1, or describe\n", argv[0]);
    return 2;
}
