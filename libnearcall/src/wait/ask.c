/* The call that is waited for from its beginning, and whose connection was lost: what became of it is known to the server, and asked over another connection. */
#include <stdio.h>

#include "base/clock.h"
#include "calls/calls.h"
#include "send/send.h"
#include "wait/wait.h"

/* The call's text may lie in what is about to change. */
static void tell(nearcall_client *client, struct nc_call *call, uint8_t stage)
{
    char why[NC_LOST_TEXT_BYTES];
    snprintf(why, sizeof(why), "%s", call->what);
    nc_call_say(call, why, stage);
    call->retryable = client->sync.asking.retryable && nc_outcome_permits_again(call, call->outcome);
}

/* Another process that serves the address knows nothing. */
static bool is_that_server(const nearcall_client *client)
{
    const struct nc_welcome *welcome = &client->connection.welcome;
    return welcome->has_key && welcome->server_instance == client->sync.asking.server_instance;
}

static int send_question(nearcall_client *client, struct nc_call *question)
{
    while (question->state == NC_CALL_PENDING) {
        int r = nc_may_send(client, question) ? NEARCALL_OK : nc_make_ready(client, question);
        if (r < 0)
            return r;
        if (question->state != NC_CALL_PENDING)
            break;
        if (is_that_server(client))
            nc_send_call(client, question);
        else
            nc_call_finish(client, question, -NEARCALL_E_FAILED_PRECONDITION, NEARCALL_OUTCOME_NOT_EXECUTED,
                           "another server has taken the place of the one that was to be asked");
    }
    return NEARCALL_OK;
}

/* The server is there, and was out of reach. */
static bool may_ask_again(const nearcall_client *client, const struct nc_call *question)
{
    return question->code != 0 && question->retryable && !client->nobody_listens;
}

static int pause_before_asking(nearcall_client *client, int64_t deadline_ns)
{
    struct nc_asking *asking = &client->sync.asking;
    client->now_ns = nc_now_ns();
    asking->pause_ns = nc_earlier(asking->pause_ns ? 2 * asking->pause_ns : NC_ASK_PAUSE_MIN_NS, NC_ASK_PAUSE_MAX_NS);
    int64_t until_ns = client->now_ns + asking->pause_ns;
    while (client->now_ns < until_ns) {
        int r = nc_pause(client, until_ns);
        if (r < 0)
            return r;
    }
    asking->is_possible = client->now_ns < deadline_ns;
    return NEARCALL_OK;
}

static int ask_once(nearcall_client *client, struct nc_call *call, int64_t deadline_ns)
{
    struct nc_asking *asking = &client->sync.asking;
    struct nc_call *question = nc_call_new(client, NC_ASK, NULL, deadline_ns);
    if (!question) { /* no call is left, or no memory: it stays unknown */
        asking->is_possible = false;
        return NEARCALL_OK;
    }
    question->synchronous = true;
    question->payload = asking->payload;
    question->payload_bytes = sizeof(asking->payload);
    int r = send_question(client, question);
    if (r == NEARCALL_OK)
        r = nc_wait(client, question);
    if (r < 0) {
        nc_call_give_up(client, question);
        return r;
    }
    bool again = may_ask_again(client, question);
    if (question->code == 0)
        tell(client, call, question->data[0]);
    nc_call_free(client, question);
    if (again)
        return pause_before_asking(client, deadline_ns);
    asking->is_possible = false;
    return NEARCALL_OK;
}

int nc_ask(nearcall_client *client, struct nc_call *call)
{
    struct nc_asking *asking = &client->sync.asking;
    int64_t deadline_ns = nc_earlier(call->deadline_ns, asking->until_ns);
    while (__builtin_expect(asking->is_possible, 0)) {
        client->now_ns = nc_now_ns();
        if (client->now_ns >= deadline_ns)
            asking->is_possible = false;
        else {
            int r = ask_once(client, call, deadline_ns);
            if (r < 0)
                return r;
        }
    }
    return NEARCALL_OK;
}
