/* libnearcall: the functions of the published account. */
#include <nearcall.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "caller.h"
#include "functions.h"

struct published {
    nearcall_client *client;
    nearcall_function *function;
    nearcall_reply reply;
    const struct known_function *known;
};

static int call(void *state)
{
    struct published *published = state;

    return known_function_call(published->known, published->client, published->function, &published->reply);
}

static void *open_function(const char *address, const char *name)
{
    struct published *published = calloc(1, sizeof *published);

    if (published == NULL)
        return NULL;
    published->known = known_function(name);
    if (nearcall_open(&published->client, address, NULL) != NEARCALL_OK ||
        nearcall_connect(published->client, 0) != NEARCALL_OK ||
        nearcall_find(published->client, name, strlen(name), 0, &published->function) != NEARCALL_OK) {
        fprintf(stderr, "caller: %s: %s\n", address, nearcall_error_message(published->client));
        return NULL;
    }
    return call(published) == 0 ? published : NULL;
}

static void *open_one(const char *address, size_t payload_bytes)
{
    (void)payload_bytes;
    return open_function(address, "one");
}

static void *open_ack(const char *address, size_t payload_bytes)
{
    (void)payload_bytes;
    return open_function(address, "ack");
}

static void *open_md5(const char *address, size_t payload_bytes)
{
    (void)payload_bytes;
    return open_function(address, "md5");
}

static int transport(const void *state)
{
    const struct published *published = state;

    return transport_of(published->client);
}

const struct subject subject_one = {.name = "one", .open = open_one, .call = call, .transport = transport};
const struct subject subject_ack = {.name = "ack", .open = open_ack, .call = call, .transport = transport};
const struct subject subject_md5 = {.name = "md5", .open = open_md5, .call = call, .transport = transport};
