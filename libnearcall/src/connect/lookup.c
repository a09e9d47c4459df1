#include "connect/lookup.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/base.h"
#include "base/clock.h"
#include "choice/choice.h"
#include "connection/connection.h"
#include "connection/endpoint.h"

/* A failed lookup is repeated after so many times of what it took. */
#define FAILED_SHARE 10

/* What a host's name stands for. */
struct answers {
    unsigned count;
    struct answer {
        char number[NC_ANSWER_BYTES_MAX + 1];
        int family;
    } all[NC_ADDRESS_ENDPOINTS_MAX];
    bool too_many;
};

static struct nc_endpoint *active(const nearcall_client *client)
{
    return client->endpoints->at[client->endpoints->active];
}

bool nc_lookup_is_due(const nearcall_client *client)
{
    const struct nc_endpoint *endpoint = active(client);
    const struct nc_host_name *name = endpoint->name;
    if (!name)
        return false;
    int64_t age_ns = client->now_ns - name->looked_up_ns;
    return endpoint->stands_in || age_ns >= NC_LOOKUP_MS * NC_NS_PER_MS ||
           (name->has_failed && age_ns >= NC_ENDPOINT_RETURN_MS * NC_NS_PER_MS);
}

bool nc_lookup_has_other_family(const nearcall_client *client)
{
    const struct nc_endpoints *endpoints = client->endpoints;
    const struct nc_host_name *name = active(client)->name;
    if (!name || endpoints->choice.members[endpoints->active].group != name->group)
        return false;
    for (unsigned i = 0; i < NC_ADDRESS_ENDPOINTS_MAX; i++)
        if (endpoints->at[i] && endpoints->at[i]->name == name && endpoints->choice.members[i].group != name->group)
            return true;
    return false;
}

/* ---- Asking the system ---- */

static bool has(const struct answers *answers, const char *number)
{
    for (unsigned i = 0; i < answers->count; i++)
        if (strcmp(answers->all[i].number, number) == 0)
            return true;
    return false;
}

static void add_answer(struct answers *answers, const struct addrinfo *info)
{
    char number[NC_ANSWER_BYTES_MAX + 1];
    if (getnameinfo(info->ai_addr, info->ai_addrlen, number, sizeof(number), NULL, 0, NI_NUMERICHOST) != 0 ||
        has(answers, number))
        return;
    if (answers->count == NC_ADDRESS_ENDPOINTS_MAX) {
        answers->too_many = true;
        return;
    }
    struct answer *answer = &answers->all[answers->count++];
    memcpy(answer->number, number, sizeof(number));
    answer->family = info->ai_family;
}

/* 0, or what getaddrinfo(3) returned. */
static int ask_system(const struct nc_address *address, struct answers *answers)
{
    struct addrinfo hints, *list = NULL;
    memset(&hints, 0, sizeof(hints));
    memset(answers, 0, sizeof(*answers));
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV;
    int r = getaddrinfo(address->host, address->port, &hints, &list);
    if (r != 0)
        return r;
    for (const struct addrinfo *info = list; info; info = info->ai_next)
        add_answer(answers, info);
    freeaddrinfo(list);
    return answers->count ? 0 : EAI_NONAME;
}

/* ---- Answers become endpoints ---- */

static char *text_of(const struct nc_host_name *name, const char *number)
{
    const char *scheme = name->address.kind == NC_ADDRESS_TLS ? "tls" : "tcp";
    bool is_six = strchr(number, ':') != NULL;
    size_t bytes = strlen(scheme) + strlen(number) + strlen(name->address.port) + strlen(name->parameters) + sizeof(":[]:");
    char *text = malloc(bytes);
    if (text)
        snprintf(text, bytes, "%s:%s%s%s:%s%s", scheme, is_six ? "[" : "", number, is_six ? "]" : "", name->address.port,
                 name->parameters);
    return text;
}

/* What was said of an endpoint that had the index before is not about this one. */
static void forget_search(struct nc_search *search, int index)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < search->failures; i++)
        if (search->failed[i] != index)
            search->failed[kept++] = search->failed[i];
    search->failures = kept;
    search->tried &= ~NC_ENDPOINT_BIT(index);
    search->absent &= ~NC_ENDPOINT_BIT(index);
}

static struct nc_endpoint *new_endpoint(const struct nc_host_name *name, const char *number,
                                        const struct nc_transport *transport)
{
    struct nc_endpoint *endpoint = nc_endpoint_new(&name->address, transport);
    if (!endpoint)
        return NULL;
    snprintf(endpoint->address.answer, sizeof(endpoint->address.answer), "%s", number);
    endpoint->text = text_of(name, number);
    if (!endpoint->text) {
        nc_endpoint_free(endpoint);
        return NULL;
    }
    return endpoint;
}

static void tell_of_too_many(nearcall_client *client, struct nc_host_name *name)
{
    if (name->is_told)
        return;
    name->is_told = true;
    nc_log(client, NEARCALL_LOG_WARNING,
           "some addresses of the host %s are not used: the address has more than " NC_TEXT(NC_ADDRESS_ENDPOINTS_MAX)
           " endpoints (limit address_endpoints_max)",
           name->address.host);
}

static bool add_endpoint(nearcall_client *client, struct nc_host_name *name, const struct answer *answer, unsigned group)
{
    struct nc_endpoints *endpoints = client->endpoints;
    struct nc_endpoint *endpoint = new_endpoint(name, answer->number, active(client)->transport);
    if (!endpoint)
        return false;
    int index = nc_choice_add(&endpoints->choice, group, true);
    if (index == NC_CHOICE_NONE) {
        nc_endpoint_free(endpoint);
        return false;
    }
    endpoint->name = name;
    endpoint->tls = name->tls;
    forget_search(&endpoints->search, index);
    endpoints->at[index] = endpoint;
    name->answers++;
    return true;
}

static bool is_there(const struct nc_endpoints *endpoints, const struct nc_host_name *name, const char *number)
{
    for (unsigned i = 0; i < NC_ADDRESS_ENDPOINTS_MAX; i++)
        if (endpoints->at[i] && endpoints->at[i]->name == name && strcmp(endpoints->at[i]->address.answer, number) == 0)
            return true;
    return false;
}

/* Turns to an endpoint that stays, so that the active one can be removed. */
static void turn_away(nearcall_client *client, const struct nc_host_name *name, const struct answers *answers)
{
    struct nc_endpoints *endpoints = client->endpoints;
    for (unsigned i = 0; i < NC_ADDRESS_ENDPOINTS_MAX; i++)
        if (endpoints->at[i] && endpoints->at[i]->name == name && has(answers, endpoints->at[i]->address.answer)) {
            nc_endpoint_turn(client, i);
            return;
        }
}

/* Those that the name does not stand for any more, or that stood for what there is now. */
static void remove_gone(nearcall_client *client, struct nc_host_name *name, const struct answers *answers)
{
    struct nc_endpoints *endpoints = client->endpoints;
    for (unsigned i = 0; i < NC_ADDRESS_ENDPOINTS_MAX; i++) {
        const struct nc_endpoint *endpoint = endpoints->at[i];
        if (!endpoint || endpoint->name != name || has(answers, endpoint->address.answer))
            continue;
        if (i == endpoints->active)
            turn_away(client, name, answers);
        if (i == endpoints->active)
            continue; /* nothing could be put in its place */
        if (!endpoint->stands_in)
            name->answers--;
        nc_endpoint_remove(client, i);
        forget_search(&endpoints->search, (int)i);
    }
}

/* False: there is no place for one, or no memory. */
static bool add_new(nearcall_client *client, struct nc_host_name *name, const struct answers *answers)
{
    for (unsigned i = 0; i < answers->count; i++) {
        bool is_preferred = answers->all[i].family == answers->all[0].family;
        if (!is_there(client->endpoints, name, answers->all[i].number) &&
            !add_endpoint(client, name, &answers->all[i], name->group + !is_preferred))
            return false;
    }
    return true;
}

/* Those that are gone have the places of new ones. The active one may have to wait for one that it can be left for. */
static void replace(nearcall_client *client, struct nc_host_name *name, const struct answers *answers)
{
    if (name->sets_silence && answers->count > 1)
        name->address.silence_ms = NC_TCP_SILENCE_MS;
    remove_gone(client, name, answers);
    (void)add_new(client, name, answers);
    remove_gone(client, name, answers);
    if (!add_new(client, name, answers) || answers->too_many)
        tell_of_too_many(client, name);
}

/* That a resolver does not answer may be over in a moment; what it says holds longer. */
static void not_found(nearcall_client *client, int r)
{
    struct nc_loss loss = {-NEARCALL_E_UNAVAILABLE, r == EAI_AGAIN, NC_ENDED_HERE};
    nc_connection_lost(client, &loss, "cannot connect to %s: the name %s cannot be looked up: %s", client->address_text,
                       client->address.host, gai_strerror(r));
}

/* Asking a resolver that does not answer holds up the program, which has other endpoints, for a tenth of its time at
 * most. */
static bool is_too_early(const nearcall_client *client, const struct nc_host_name *name)
{
    const struct nc_endpoints *endpoints = client->endpoints;
    nc_endpoint_bits not_left = endpoints->search.tried | NC_ENDPOINT_BIT(endpoints->active);
    return client->now_ns < name->not_before_ns &&
           (endpoints->is_beside || nc_choice_has_others(&endpoints->choice, not_left));
}

static void note_lookup(nearcall_client *client, struct nc_host_name *name, int r)
{
    int64_t begun_ns = client->now_ns;
    client->now_ns = nc_now_ns();
    name->looked_up_ns = client->now_ns;
    name->has_failed = false;
    name->failure = r;
    name->not_before_ns = r ? client->now_ns + nc_earlier(FAILED_SHARE * (client->now_ns - begun_ns), NC_LOOKUP_MS * NC_NS_PER_MS)
                            : 0;
}

bool nc_lookup(nearcall_client *client)
{
    struct nc_host_name *name = active(client)->name;
    bool stands_in = active(client)->stands_in;
    struct answers answers;
    if (is_too_early(client, name)) {
        not_found(client, name->failure);
        return false;
    }
    client->now_ns = nc_now_ns();
    int r = ask_system(&name->address, &answers);
    if (nc_forked_inside(client))
        return false;
    note_lookup(client, name, r);
    if (r == 0)
        replace(client, name, &answers);
    else if (stands_in)
        not_found(client, r); /* former answers stay */
    return r == 0;
}
