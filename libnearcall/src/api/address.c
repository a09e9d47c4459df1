/* The address that a handle is opened with: of one endpoint, or of several. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/embed.h"
#include "base/base.h"
#include "base/clock.h"
#include "choice/choice.h"
#include "connection/endpoint.h"
#include "transport/tls.h"
#include "transport/transport.h"

static const struct nc_transport *transport_of(enum nc_address_kind kind)
{
    switch (kind) {
    case NC_ADDRESS_EMBED: return &nc_transport_embed;
    case NC_ADDRESS_TCP: return &nc_transport_tcp;
    case NC_ADDRESS_TLS: return &nc_transport_tls;
    default: return &nc_transport_unixsocket;
    }
}

/* What the address says comes before the option. */
static struct nc_part either(const struct nc_part *part, const char *option)
{
    return part->data || !option ? *part : (struct nc_part){option, strlen(option)};
}

static int open_tls(nearcall_client *client, const struct nc_address *address, const nearcall_options *options,
                    struct nc_tls **ret_tls)
{
    char words[NC_TLS_WORDS_BYTES];
    /* The key of an option is that of another certificate. */
    const char *key = address->certificate.data ? NULL : options->tls_key;
    struct nc_tls_settings settings = {
        .authorities = either(&address->authorities, options->tls_authorities),
        .certificate = either(&address->certificate, options->tls_certificate),
        .key = either(&address->key, key),
        .server_name = either(&address->server_name, options->tls_server_name),
    };
    if (nc_tls_open(ret_tls, &settings, words, sizeof(words)) == 0)
        return NEARCALL_OK;
    return nc_fail(client, *ret_tls ? NEARCALL_E_INVALID_ARGUMENT : NEARCALL_E_RESOURCE_EXHAUSTED,
                   NEARCALL_OUTCOME_NOT_EXECUTED, "%s", words);
}

static int parse(nearcall_client *client, struct nc_address *address, const char *text)
{
    const char *reason;
    if (nc_address_parse(address, text, client->options.flags & NEARCALL_ALLOW_ABSTRACT, &reason) == 0)
        return NEARCALL_OK;
    return nc_fail(client, NEARCALL_E_INVALID_ARGUMENT, NEARCALL_OUTCOME_NOT_EXECUTED, "%.256s is no address: %s",
                   text, reason);
}

static char *copy_of(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = malloc(bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

/* ---- One endpoint ---- */

static int keep_one(nearcall_client *client, const char *address, const nearcall_options *options)
{
    int r = parse(client, &client->address, address);
    if (r < 0)
        return r;
    client->connection.transport = transport_of(client->address.kind);
    client->address_text = copy_of(address);
    if (!client->address_text)
        return nc_fail_no_memory(client, "the address");
    if (!client->address.has_silence)
        client->address.silence_ms = (uint32_t)options->silence_ms;
    if (client->address.kind == NC_ADDRESS_TLS)
        return open_tls(client, &client->address, options, &client->tls);
    return client->address.kind == NC_ADDRESS_EMBED ? nc_embed_open(client) : NEARCALL_OK;
}

/* ---- Several ---- */

static char *join(const struct nc_endpoint_text *text)
{
    size_t bytes = text->scheme.bytes + text->target.bytes + text->parameters.bytes;
    char *joined = malloc(bytes + 1);
    if (!joined)
        return NULL;
    memcpy(joined, text->scheme.data, text->scheme.bytes);
    memcpy(joined + text->scheme.bytes, text->target.data, text->target.bytes);
    memcpy(joined + text->scheme.bytes + text->target.bytes, text->parameters.data, text->parameters.bytes);
    joined[bytes] = '\0';
    return joined;
}

/* A caller that has other endpoints should go there soon. */
static void set_silence(struct nc_address *address, const nearcall_options *options)
{
    if (address->has_silence || (address->kind != NC_ADDRESS_TCP && address->kind != NC_ADDRESS_TLS))
        return;
    address->silence_ms = options->silence_ms ? (uint32_t)options->silence_ms : NC_TCP_SILENCE_MS;
}

static bool is_name(const struct nc_address *address)
{
    uint8_t number[sizeof(struct in6_addr)];
    return (address->kind == NC_ADDRESS_TCP || address->kind == NC_ADDRESS_TLS) &&
           inet_pton(AF_INET, address->host, number) != 1 && inet_pton(AF_INET6, address->host, number) != 1;
}

/* The endpoint stands for a name until that is looked up. */
static int add_name(nearcall_client *client, struct nc_endpoint *endpoint, unsigned group,
                    const struct nc_part *parameters)
{
    struct nc_endpoints *endpoints = client->endpoints;
    struct nc_host_name *name = calloc(1, sizeof(*name));
    char *copy = malloc(parameters->bytes + 1);
    unsigned at = 0;
    if (!name || !copy) {
        free(name);
        free(copy);
        return nc_fail_no_memory(client, "the address");
    }
    memcpy(copy, parameters->data, parameters->bytes);
    copy[parameters->bytes] = '\0';
    name->address = endpoint->address;
    name->parameters = copy;
    name->group = group;
    name->tls = endpoint->tls;
    endpoint->name = name;
    endpoint->stands_in = true;
    while (endpoints->names[at])
        at++;
    endpoints->names[at] = name; /* there are as many as endpoints at most */
    return NEARCALL_OK;
}

static int add_endpoint(nearcall_client *client, const struct nc_endpoint_text *text, const nearcall_options *options)
{
    struct nc_endpoints *endpoints = client->endpoints;
    struct nc_address address = {0};
    unsigned group = 2 * text->group; /* each distance has two: see connect/lookup.c */
    char *joined = join(text);
    int r = joined ? parse(client, &address, joined) : nc_fail_no_memory(client, "the address");
    if (r == NEARCALL_OK && address.kind == NC_ADDRESS_EMBED)
        r = nc_fail(client, NEARCALL_E_INVALID_ARGUMENT, NEARCALL_OUTCOME_NOT_EXECUTED,
                    "%.256s: a library of this process stands alone in an address, and cannot be one of several endpoints",
                    joined);
    if (r < 0) {
        free(joined);
        return r;
    }
    set_silence(&address, options);
    struct nc_endpoint *endpoint = nc_endpoint_new(&address, transport_of(address.kind));
    if (!endpoint) {
        free(joined);
        return nc_fail_no_memory(client, "the address");
    }
    endpoint->text = joined;
    endpoints->at[nc_choice_add(&endpoints->choice, group, !endpoint->transport->is_local)] = endpoint; /* there is room */
    if (address.kind == NC_ADDRESS_TLS)
        r = open_tls(client, &address, options, &endpoint->tls);
    return r == NEARCALL_OK && is_name(&address) ? add_name(client, endpoint, group, &text->parameters) : r;
}

static int keep_list(nearcall_client *client, const struct nc_endpoint_text *texts, unsigned count,
                     const nearcall_options *options)
{
    client->endpoints = calloc(1, sizeof(*client->endpoints));
    if (!client->endpoints)
        return nc_fail_no_memory(client, "the address");
    client->endpoints->share_until_ns = NC_NEVER;
    for (unsigned i = 0; i < count; i++) {
        int r = add_endpoint(client, &texts[i], options);
        if (r < 0) {
            nc_endpoints_free(client);
            return r;
        }
    }
    const struct nc_endpoint *first = client->endpoints->at[0];
    client->connection = first->connection;
    client->address = first->address;
    client->address_text = first->text;
    client->tls = first->tls;
    return NEARCALL_OK;
}

int nc_keep_address(nearcall_client *client, const char *address, const nearcall_options *options)
{
    struct nc_endpoint_text texts[NC_ADDRESS_ENDPOINTS_MAX];
    if (!address)
        return nc_fail(client, NEARCALL_E_MISUSE, NEARCALL_OUTCOME_NOT_EXECUTED, "the address is NULL");
    unsigned count = nc_address_split(address, texts, NC_ADDRESS_ENDPOINTS_MAX);
    if (count > NC_ADDRESS_ENDPOINTS_MAX)
        return nc_fail(client, NEARCALL_E_INVALID_ARGUMENT, NEARCALL_OUTCOME_NOT_EXECUTED,
                       "%.256s is no address: it has %u endpoints (at most " NC_TEXT(NC_ADDRESS_ENDPOINTS_MAX)
                       ", limit address_endpoints_max, which is fixed)", address, count);
    return count > 1 ? keep_list(client, texts, count, options) : keep_one(client, address, options);
}
