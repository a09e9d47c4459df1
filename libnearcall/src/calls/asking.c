/* Calls that were begun and lost with their connections, from then on until it is known what became of them. */
#include "calls/calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define SAID_BYTES_MAX 80

/* What the answer says, as bytes of the payload. */
enum stage { STAGE_NEVER, STAGE_RECEIVED, STAGE_STARTED, STAGE_FINISHED };

static const char *what_is_said(uint8_t stage)
{
    switch (stage) {
    case STAGE_NEVER:
    case STAGE_RECEIVED:
        return "the function was not started";
    case STAGE_STARTED:
        return "the function was started and is not known to have returned";
    case STAGE_FINISHED:
        return "the function had returned";
    default:
        return "it does not know the call any more";
    }
}

static int outcome_of(uint8_t stage)
{
    switch (stage) {
    case STAGE_NEVER:
    case STAGE_RECEIVED:
        return NEARCALL_OUTCOME_NOT_EXECUTED;
    case STAGE_FINISHED:
        return NEARCALL_OUTCOME_EXECUTED_RESULT_LOST;
    default:
        return NEARCALL_OUTCOME_UNKNOWN;
    }
}

bool nc_stage_is_running(uint8_t stage)
{
    return stage == STAGE_STARTED;
}

static void keep_text(struct nc_call *call, const char *text)
{
    nc_buffer_empty(&call->store);
    call->what = nc_buffer_append(&call->store, text, strlen(text) + 1) == NEARCALL_OK
                     ? (const char *)call->store.data
                     : "the connection was lost; no memory was left to keep why";
}

void nc_call_say(struct nc_call *call, const char *why, uint8_t stage)
{
    char text[NC_LOST_TEXT_BYTES + SAID_BYTES_MAX];
    snprintf(text, sizeof(text), "%s; the server says that %s", why, what_is_said(stage));
    call->outcome = outcome_of(stage);
    keep_text(call, text);
}

/* ---- Connections that were lost ---- */

static bool carried(const struct nc_lost *lost, const struct nc_call *call)
{
    return call->id >= lost->first_id && call->id <= lost->last_id;
}

static struct nc_lost *lost_with(const nearcall_client *client, const struct nc_call *call)
{
    struct nc_lost *lost = client->calls.lost;
    while (!carried(lost, call))
        lost = lost->next;
    return lost;
}

bool nc_call_asks_of(const struct nc_lost *lost, const struct nc_call *call)
{
    return call->state == NC_CALL_ASKING && carried(lost, call);
}

bool nc_loss_can_be_asked_about(const nearcall_client *client, const struct nc_loss *loss)
{
    return loss->code == -NEARCALL_E_UNAVAILABLE && client->connection.welcome.has_key;
}

void nc_asking_look(nearcall_client *client)
{
    if (!client->calls.lost)
        return;
    client->calls.looks_at_all = true;
    client->calls.timer_ns = 0;
}

/* Of those of the one that was lost first nothing more will be known. It goes when it is looked at next. */
static struct nc_lost **make_room(nearcall_client *client)
{
    struct nc_lost **at = &client->calls.lost;
    for (unsigned count = 0; *at; at = &(*at)->next)
        if ((*at)->count > 0 && ++count == NC_LOST_MAX) {
            struct nc_lost *first = client->calls.lost;
            while (first->count == 0)
                first = first->next;
            nc_lost_give_up(client, first);
        }
    return at;
}

struct nc_lost *nc_lost_begin(nearcall_client *client)
{
    const struct nc_connection *connection = &client->connection;
    size_t what_bytes = strlen(client->lost_text) + 1;
    struct nc_lost *lost = malloc(sizeof(*lost) + what_bytes);
    if (!lost)
        return NULL;
    *lost = (struct nc_lost){.server_instance = connection->welcome.server_instance,
                             .first_id = connection->first_id,
                             .last_id = connection->last_id,
                             .until_ns = nc_after_ms(nc_now_ns(), NC_ENDED_CONNECTION_MS)};
    memcpy(lost->key, connection->welcome.key, NC_CONNECTION_KEY_BYTES);
    memcpy(lost->what, client->lost_text, what_bytes);
    *make_room(client) = lost;
    return lost;
}

void nc_lost_free(nearcall_client *client, struct nc_lost *lost)
{
    struct nc_lost **at = &client->calls.lost;
    while (*at != lost)
        at = &(*at)->next;
    *at = lost->next;
    if (lost->question)
        nc_question_free(client, lost);
    nc_buffer_free(&lost->payload);
    free(lost);
}

void nc_lost_give_up(nearcall_client *client, struct nc_lost *lost)
{
    for (struct nc_call *call = client->calls.used; call && lost->count > 0; call = call->next)
        if (nc_call_asks_of(lost, call))
            nc_call_end_unknown(client, call);
}

void nc_lost_give_up_all(nearcall_client *client)
{
    while (client->calls.lost) {
        nc_lost_give_up(client, client->calls.lost);
        nc_lost_free(client, client->calls.lost);
    }
}

void nc_lost_free_all(nearcall_client *client)
{
    while (client->calls.lost)
        nc_lost_free(client, client->calls.lost);
}

/* ---- Calls that ask ---- */

void nc_call_begin_asking(struct nc_lost *lost, struct nc_call *call)
{
    call->state = NC_CALL_ASKING;
    nc_buffer_empty(&call->store);
    lost->count++;
}

void nc_call_stop_asking(nearcall_client *client, const struct nc_call *call)
{
    lost_with(client, call)->count--;
    nc_asking_look(client);
}

void nc_call_end_said(nearcall_client *client, struct nc_call *call, uint8_t stage)
{
    struct nc_lost *lost = lost_with(client, call);
    lost->count--;
    nc_call_finish(client, call, -NEARCALL_E_UNAVAILABLE, NEARCALL_OUTCOME_UNKNOWN, NULL);
    nc_call_say(call, lost->what, stage);
}

void nc_call_end_unknown(nearcall_client *client, struct nc_call *call)
{
    struct nc_lost *lost = lost_with(client, call);
    lost->count--;
    nc_call_finish(client, call, -NEARCALL_E_UNAVAILABLE, NEARCALL_OUTCOME_UNKNOWN, NULL);
    keep_text(call, lost->what);
}

/* ---- Questions ---- */

struct nc_call *nc_question_new(nearcall_client *client, struct nc_lost *lost, int64_t deadline_ns)
{
    client->calls.used_max++; /* a handle may have lost as many calls as it may have */
    lost->question = nc_call_new(client, NC_ASK, NULL, deadline_ns);
    if (lost->question)
        lost->question->synchronous = true; /* no user fetches it */
    else
        client->calls.used_max--;
    return lost->question;
}

void nc_question_free(nearcall_client *client, struct nc_lost *lost)
{
    nc_call_free(client, lost->question);
    lost->question = NULL;
    client->calls.used_max--;
}

const struct nc_lost *nc_lost_of_question(const nearcall_client *client, const struct nc_call *question)
{
    const struct nc_lost *lost = client->calls.lost;
    while (lost && lost->question != question)
        lost = lost->next;
    return lost;
}

bool nc_only_questions_wait(const nearcall_client *client)
{
    if (!client->calls.lost || client->connects)
        return false;
    for (const struct nc_call *call = client->calls.used; call; call = call->next)
        if (call->state == NC_CALL_PENDING && call->type != NC_ASK)
            return false;
    return true;
}
