#include "connect/explain.h"

#include <stdio.h>
#include <string.h>

#include "base/errors_gen.h"
#include "base/utf8.h"
#include "calls/calls.h"
#include "handle/error.h"

#define STRING_32_HEAD_BYTES 5

/* ---- What was found ---- */

void nc_explain_note(nearcall_client *client, const struct nc_call *call)
{
    struct nc_endpoint *endpoint = client->endpoints->at[client->endpoints->active];
    nc_buffer_empty(&endpoint->answer);
    if (call->what) {
        snprintf(endpoint->said, sizeof(endpoint->said), "%s", call->what);
        return;
    }
    nc_error_message(call->data, call->data_bytes, endpoint->said, sizeof(endpoint->said));
    if (endpoint->said[0] == '\0')
        snprintf(endpoint->said, sizeof(endpoint->said), "%s", nc_code_meaning(call->code));
    if (nc_buffer_append(&endpoint->answer, call->data, call->data_bytes) != NEARCALL_OK)
        nc_buffer_empty(&endpoint->answer); /* the words are enough */
}

/* ---- What is told of it ---- */

/* A text that is cut where it is too long. */
struct text {
    char *to;
    size_t bytes;
    size_t left;
};

static void add(struct text *text, const char *first, const char *second, const char *third, const char *fourth)
{
    int bytes = snprintf(text->to + text->bytes, text->left, "%s%s%s%s", first, second, third, fourth);
    size_t added = bytes < 0 ? 0 : (size_t)bytes < text->left ? (size_t)bytes : text->left - 1;
    text->bytes += added;
    text->left -= added;
}

/* The first with that code; NULL: there is none. */
static const struct nc_endpoint *first_of_code(const struct nc_endpoints *endpoints, int code)
{
    for (unsigned i = 0; i < endpoints->search.failures; i++) {
        const struct nc_endpoint *endpoint = endpoints->at[endpoints->search.failed[i]];
        if (endpoint && endpoint->code == code)
            return endpoint;
    }
    return NULL;
}

/* One that may take the call later. */
static const struct nc_endpoint *chosen_of(const struct nc_endpoints *endpoints)
{
    const struct nc_endpoint *chosen = first_of_code(endpoints, -NEARCALL_E_UNAVAILABLE);
    if (!chosen)
        chosen = first_of_code(endpoints, -NEARCALL_E_RESOURCE_EXHAUSTED);
    return chosen ? chosen : endpoints->at[endpoints->search.failed[0]];
}

/* Also of those that were not tried because they rest. */
static void add_others(const struct nc_endpoints *endpoints, const struct nc_endpoint *chosen, struct text *text)
{
    for (unsigned i = 0; i < endpoints->search.failures; i++) {
        const struct nc_endpoint *other = endpoints->at[endpoints->search.failed[i]];
        if (other && other != chosen)
            add(text, "\n", other->text, ": ", other->said);
    }
    for (unsigned i = 0; i < NC_ADDRESS_ENDPOINTS_MAX; i++) {
        const struct nc_endpoint *other = endpoints->at[i];
        if (other && !(endpoints->search.tried & NC_ENDPOINT_BIT(i)) && other->failure[0])
            add(text, "\n", other->text, ": ", other->failure);
    }
}

/* The error of a server, with another message and the details that it has. */
static bool rewrite(struct nc_call *call, const struct nc_buffer *answer, const struct text *text)
{
    uint8_t head[1 + STRING_32_HEAD_BYTES] = {0x92, 0xDB, (uint8_t)(text->bytes >> 24), (uint8_t)(text->bytes >> 16),
                                              (uint8_t)(text->bytes >> 8), (uint8_t)text->bytes};
    static const uint8_t none[] = {0x90};
    size_t details_bytes;
    const uint8_t *details = nc_error_details(answer->data + answer->start, nc_buffer_bytes(answer), &details_bytes);
    nc_buffer_empty(&call->store);
    if (nc_buffer_append(&call->store, head, sizeof(head)) < 0 ||
        nc_buffer_append(&call->store, text->to, text->bytes) < 0 ||
        nc_buffer_append(&call->store, details ? details : none, details ? details_bytes : sizeof(none)) < 0)
        return false;
    call->what = NULL;
    call->data = call->store.data;
    call->data_bytes = nc_buffer_bytes(&call->store);
    return true;
}

static void tell(nearcall_client *client, struct nc_call *call, const struct nc_endpoint *chosen, const struct text *text)
{
    nc_call_finish(client, call, chosen->code, NEARCALL_OUTCOME_NOT_EXECUTED,
                   "no endpoint of the address has taken the call; no memory was left to say why");
    call->retryable = chosen->retryable;
    if (nc_buffer_bytes(&chosen->answer) && rewrite(call, &chosen->answer, text))
        return;
    nc_buffer_empty(&call->store);
    if (nc_buffer_append(&call->store, text->to, text->bytes + 1) == NEARCALL_OK)
        call->what = (const char *)call->store.data;
}

static const struct nc_endpoint *compose(const nearcall_client *client, struct text *text)
{
    const struct nc_endpoint *chosen = chosen_of(client->endpoints);
    add(text, chosen->said, "", "", "");
    add_others(client->endpoints, chosen, text);
    nc_utf8_clean(text->to); /* paths are in it, and it may become a server's error again */
    return chosen;
}

void nc_explain(nearcall_client *client, struct nc_call *call)
{
    char room[NC_ERROR_MESSAGE_BYTES_MAX + 1];
    struct text text = {room, 0, sizeof(room)};
    const struct nc_endpoint *chosen = compose(client, &text);
    client->endpoints->search.is_over = true;
    tell(client, call, chosen, &text);
}

void nc_explain_to_all(nearcall_client *client)
{
    char room[NC_ERROR_MESSAGE_BYTES_MAX + 1];
    struct text text = {room, 0, sizeof(room)};
    const struct nc_endpoint *chosen = compose(client, &text);
    nc_calls_keep_what(client);
    snprintf(client->lost_text, sizeof(client->lost_text), "%.*s", NC_LOST_TEXT_BYTES - 1, room);
    client->lost_code = client->connect_code = chosen->code;
    client->lost_outcome = NEARCALL_OUTCOME_NOT_EXECUTED;
    for (struct nc_call *call = client->calls.used; call; call = call->next)
        if (call->state == NC_CALL_PENDING)
            tell(client, call, chosen, &text);
    if (client->sync.call)
        client->endpoints->search.is_over = true;
    else
        memset(&client->endpoints->search, 0, sizeof(client->endpoints->search));
}
