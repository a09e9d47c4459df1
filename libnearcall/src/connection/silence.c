/* A server of another machine may vanish without a word. While calls wait it is asked when nothing has come for a while, and
 * the connection has ended when nothing has come for longer. A server of this machine that does not answer was stopped, and
 * may go on. */
#include "base/clock.h"
#include "base/limits_gen.h"
#include "calls/calls.h"
#include "connection/connection.h"
#include "transport/transport.h"

#define ASK_NS (NC_PEER_ASK_MS * NC_NS_PER_MS)
/* The part of the time after which the server is asked at the latest, so that its answer has the rest. */
#define ASK_SHARE 3

void nc_silence_begin(nearcall_client *client)
{
    struct nc_connection *connection = &client->connection;
    bool is_local = connection->transport->is_local;
    connection->silence = (struct nc_silence){.since_ns = client->now_ns,
                                              .limit_ns = is_local ? 0 : client->address.silence_ms * NC_NS_PER_MS};
}

static int64_t ask_after_ns(const struct nc_silence *silence)
{
    return nc_earlier(ASK_NS, silence->limit_ns / ASK_SHARE);
}

static int64_t last_sign_ns(const struct nc_connection *connection)
{
    int64_t heard_ns = connection->looked_ns, since_ns = connection->silence.since_ns;
    return heard_ns > since_ns ? heard_ns : since_ns;
}

/* Of calls that were given up too, which somebody finds out who looks. */
static bool is_answer_awaited(const nearcall_client *client)
{
    return client->connection.unanswered > 0 || client->waiting;
}

static bool is_call_on_connection(const nearcall_client *client)
{
    for (const struct nc_call *call = client->calls.used; call; call = call->next)
        if (nc_call_is_on_connection(call))
            return true;
    return false;
}

int64_t nc_silence_timer_ns(const nearcall_client *client)
{
    const struct nc_silence *silence = &client->connection.silence;
    /* a server that drains reads nothing any more, and cannot be asked */
    if (silence->limit_ns == 0 || client->connection.draining || !is_answer_awaited(client))
        return NC_NEVER;
    int64_t last_ns = last_sign_ns(&client->connection);
    if (silence->asked_for_ns != last_ns)
        return last_ns + ask_after_ns(silence);
    /* If this side was late to ask, the server has as much time to answer all the same. */
    int64_t answer_ns = silence->asked_ns + silence->limit_ns - ask_after_ns(silence);
    return answer_ns > last_ns + silence->limit_ns ? answer_ns : last_ns + silence->limit_ns;
}

/* A server says nothing while it receives a large request, for which a slow way may need long. Then it is a sign that
 * its host takes more of that. */
static bool takes_more(nearcall_client *client)
{
    struct nc_silence *silence = &client->connection.silence;
    uint64_t bytes;
    int64_t ago_ns;
    bool is_sending = nc_tcp_acknowledged(client->connection.fd, &bytes, &ago_ns);
    bool has_taken = is_sending && bytes != silence->acknowledged;
    silence->acknowledged = bytes;
    if (has_taken && client->now_ns - ago_ns > last_sign_ns(&client->connection))
        silence->since_ns = client->now_ns - ago_ns;
    return has_taken;
}

enum nc_silence_step nc_silence_look(nearcall_client *client)
{
    struct nc_connection *connection = &client->connection;
    struct nc_silence *silence = &connection->silence;
    if (connection->state != NC_READY || client->now_ns < nc_silence_timer_ns(client))
        return NC_SILENCE_NONE;
    if (!is_call_on_connection(client)) {
        silence->since_ns = client->now_ns;
        return NC_SILENCE_NONE;
    }
    if (takes_more(client) && client->now_ns < nc_silence_timer_ns(client))
        return NC_SILENCE_NONE;
    if (silence->asked_for_ns == last_sign_ns(connection))
        return NC_SILENCE_END;
    silence->asked_for_ns = last_sign_ns(connection);
    silence->asked_ns = client->now_ns;
    return NC_SILENCE_ASK;
}
