/* Calls that were begun and lost with their connections: questions about them are put in line, and what is answered
 * ends them. Nobody waits for it; whatever waits or processes does what is due. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "calls/calls.h"
#include "connect/connect.h"
#include "connection/connection.h"
#include "send/send.h"
#include "wait/wait.h"

/* ---- Asking ---- */

static int in_order(const void *one, const void *other)
{
    nearcall_call_id a = *(const nearcall_call_id *)one, b = *(const nearcall_call_id *)other;
    return a < b ? -1 : a > b;
}

/* Those that this round of questions was not about yet, and the latest of their deadlines. */
static unsigned collect(const nearcall_client *client, const struct nc_lost *lost, nearcall_call_id *ids,
                        int64_t *ret_deadline_ns)
{
    unsigned count = 0;
    *ret_deadline_ns = 0;
    for (const struct nc_call *call = client->calls.used; call; call = call->next) {
        if (!nc_call_asks_of(lost, call) || call->id <= lost->asked_id)
            continue;
        ids[count++] = call->id;
        if (call->deadline_ns > *ret_deadline_ns)
            *ret_deadline_ns = call->deadline_ns;
    }
    qsort(ids, count, sizeof(*ids), in_order);
    return count;
}

/* False: no memory. */
static bool encode(struct nc_lost *lost, const nearcall_call_id *ids, unsigned count)
{
    uint8_t id[NC_ASKED_CALL_BYTES];
    nc_buffer_empty(&lost->payload);
    if (nc_buffer_append(&lost->payload, lost->key, sizeof(lost->key)) < 0)
        return false;
    for (unsigned i = 0; i < count; i++) {
        nc_put_u64(id, ids[i]);
        if (nc_buffer_append(&lost->payload, id, sizeof(id)) < 0)
            return false;
    }
    return true;
}

static bool put_question(nearcall_client *client, struct nc_lost *lost, const nearcall_call_id *ids, unsigned count,
                         int64_t deadline_ns)
{
    lost->asked = count < NC_ASKED_CALLS_MAX ? count : NC_ASKED_CALLS_MAX;
    lost->alone = lost->count == 1;
    if (!encode(lost, ids, lost->asked) ||
        !nc_question_new(client, lost, nc_earlier(deadline_ns, lost->until_ns)))
        return false;
    lost->question->payload = lost->payload.data + lost->payload.start;
    lost->question->payload_bytes = nc_buffer_bytes(&lost->payload);
    nc_call_draw_id(client, lost->question);
    nc_call_wait_its_turn(client, lost->question);
    return true;
}

static void make_pause(nearcall_client *client, struct nc_lost *lost)
{
    lost->pause_ns = nc_earlier(lost->pause_ns ? 2 * lost->pause_ns : NC_ASK_PAUSE_MIN_NS, NC_ASK_PAUSE_MAX_NS);
    lost->due_ns = client->now_ns + lost->pause_ns;
}

static void ask(nearcall_client *client, struct nc_lost *lost)
{
    nearcall_call_id *ids = malloc(lost->count * sizeof(*ids));
    int64_t deadline_ns;
    unsigned count = ids ? collect(client, lost, ids, &deadline_ns) : 0;
    if (count == 0)
        lost->asked_id = 0; /* those that were left of this round have ended */
    if (count == 0 || !put_question(client, lost, ids, count, deadline_ns))
        make_pause(client, lost);
    free(ids);
}

/* ---- What is answered ---- */

static nearcall_call_id asked_id(const struct nc_lost *lost, unsigned i)
{
    return nc_get_u64(lost->payload.data + lost->payload.start + NC_CONNECTION_KEY_BYTES + i * NC_ASKED_CALL_BYTES);
}

/* The function of a call that is not asked about alone may have returned by the next time. */
static bool may_have_returned_soon(nearcall_client *client, struct nc_lost *lost, uint8_t stage)
{
    if (!nc_stage_is_running(stage) || lost->alone)
        return false;
    if (lost->running_until_ns == 0)
        lost->running_until_ns = nc_after_ms(client->now_ns, NC_ASK_WAIT_MS);
    return client->now_ns < lost->running_until_ns;
}

/* Some may have ended meanwhile, or were given up. */
static void take_answer(nearcall_client *client, struct nc_lost *lost, const uint8_t *stages)
{
    nearcall_call_id last_id = asked_id(lost, lost->asked - 1);
    bool is_round_over = true;
    for (unsigned i = 0; i < lost->asked; i++) {
        struct nc_call *call = nc_call_by_id(client, asked_id(lost, i));
        if (call && nc_call_asks_of(lost, call) && !may_have_returned_soon(client, lost, stages[i]))
            nc_call_end_said(client, call, stages[i]);
    }
    for (const struct nc_call *call = client->calls.used; call && is_round_over; call = call->next)
        is_round_over = !nc_call_asks_of(lost, call) || call->id <= last_id;
    lost->asked_id = is_round_over ? 0 : last_id;
    if (is_round_over)
        make_pause(client, lost);
    else
        lost->due_ns = client->now_ns;
}

/* If the server is there and was out of reach, it is asked again. */
static void take_failure(nearcall_client *client, struct nc_lost *lost)
{
    if (lost->question->retryable && !client->nobody_listens)
        make_pause(client, lost);
    else
        nc_lost_give_up(client, lost);
}

static void settle(nearcall_client *client, struct nc_lost *lost)
{
    const struct nc_call *question = lost->question;
    if (!question || question->state != NC_CALL_FINISHED)
        return;
    if (question->code == 0)
        take_answer(client, lost, question->data);
    else
        take_failure(client, lost);
    nc_question_free(client, lost);
}

/* ---- What is due ---- */

static void let_go(nearcall_client *client, struct nc_lost *lost)
{
    if (lost->question && lost->question->state == NC_CALL_SENT)
        nc_call_take_back(client, lost->question);
    nc_lost_free(client, lost);
}

static void look(nearcall_client *client, struct nc_lost *lost)
{
    settle(client, lost);
    if (client->now_ns >= lost->until_ns)
        nc_lost_give_up(client, lost);
    if (lost->count == 0) {
        let_go(client, lost);
        return;
    }
    if (!lost->question && client->now_ns >= lost->due_ns)
        ask(client, lost);
    nc_calls_look_by(client, lost->question ? lost->until_ns : lost->due_ns);
    client->calls.looks_at_all = true;
}

static void look_at_all(nearcall_client *client)
{
    for (struct nc_lost *lost = client->calls.lost, *next; lost; lost = next) {
        next = lost->next;
        look(client, lost);
    }
}

/* Questions wait for a connection like any other call, but nobody may be there to make it. */
static void connect_for_questions(nearcall_client *client)
{
    if (!client->calls.pending.first)
        return;
    if (nc_connection_is_over(client))
        nc_connection_close(client);
    if (client->connection.state == NC_CLOSED)
        nc_connection_start(client, nc_calls_pending_deadline_ns(client));
    nc_send_pending(client);
}

void nc_ask_go_on(nearcall_client *client)
{
    look_at_all(client);
    connect_for_questions(client);
    look_at_all(client); /* that may have shown that nobody can be asked */
}
