/* The calls of a handle: the table in which each has its place from its beginning until its user has
 * fetched it, how long those that wait for a connection give it, and what a connection that has
 * ended makes of those that it carried. Nothing is sent or received here.
 * May include: base, wire, transport, memory, handle, functions. */
#ifndef NC_CALLS_H
#define NC_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "handle/handle.h"

/* ---- table.c ---- */

void nc_calls_init(struct nc_calls *calls);
void nc_calls_free(struct nc_calls *calls);

/* NULL when the handle has as many as it may, or there is no memory. Its id is
 * drawn when it is sent, or begins to wait its turn, so that ids rise in the order of sending. */
struct nc_call *nc_call_new(nearcall_client *client, enum nc_frame_type type,
                            nearcall_function *function, int64_t deadline_ns);

/* The next id above all others that belongs to this place of the table. */
void nc_call_draw_id(nearcall_client *client, struct nc_call *call);

/* A pending call that has its id, and that nobody waits for from its beginning. */
void nc_call_wait_its_turn(nearcall_client *client, struct nc_call *call);

void nc_queue_remove(struct nc_call *call);
static inline void nc_call_leave_queue(struct nc_call *call)
{
    if (call->queue)
        nc_queue_remove(call);
}

/* May be called again, for another end. */
void nc_call_finish(nearcall_client *client, struct nc_call *call, int code, int outcome,
                    const char *what);

/* A finished call that is to be sent once more. */
void nc_call_begin_again(struct nc_call *call);

/* Ends a finished call: its result to the user, its slot back to the table. */
int nc_call_deliver(nearcall_client *client, struct nc_call *call, nearcall_reply *ret_reply);
void nc_call_free(nearcall_client *client, struct nc_call *call);

/* Releases what few calls have: files, a view, metadata. */
void nc_call_let_go(struct nc_call *call);

/* lost_text is about to say what became of another connection, and is empty until it does:
 * calls that end with it meanwhile are told that. A call that has ended needs its payload no
 * longer, unless its waiter sends it once more and learns of the new one instead. */
void nc_calls_keep_what(nearcall_client *client);

/* In a child: what was in flight is the parent's. */
void nc_calls_after_fork(nearcall_client *client);

/* In a child, when another thread was inside: what it was changing is left where it is,
 * and calls that only that thread knows of are nobody's. */
void nc_calls_after_busy_fork(nearcall_client *client);

/* Why calls end with a function that a signal's handler has left. */
#define NC_ABANDONED "nearcall_abandon(), after a signal's handler had left a function of the handle"

/* The same in the process itself, when a function was left that may have been changing the table. */
void nc_calls_after_leaving(nearcall_client *client);

/* When the table is whole: those that only the function which was left knows of. */
void nc_calls_free_unknown(nearcall_client *client);

/* NULL: the handle has no such call. */
static inline struct nc_call *nc_call_by_id(const nearcall_client *client, nearcall_call_id id)
{
    struct nc_call *chunk = client->calls.chunks[id % NC_CALLS / NC_CALLS_IN_CHUNK];
    struct nc_call *call = chunk ? &chunk[id % NC_CALLS_IN_CHUNK] : NULL;
    return call && id != 0 && call->id == id && call->state != NC_CALL_FREE ? call : NULL;
}
/* The same by the id that the user knows: a call that asks for a store draws further ones. */
struct nc_call *nc_call_by_known_id(const nearcall_client *client, nearcall_call_id id);
static inline void nc_calls_look_by(nearcall_client *client, int64_t until_ns)
{
    if (until_ns < client->calls.timer_ns)
        client->calls.timer_ns = until_ns;
}

/* ---- view.c: the options of single calls, and what comes with their replies ---- */

/* The call, which has just been made, has the options of the view that the handle uses. A request
 * has finished afterwards if they do not fit its frame; no other carries them. */
void nc_call_use_view(nearcall_client *client, struct nc_call *call);

/* Whether what travels with the function's name fits a frame. It travels only until its number is
 * known, but what fits does not depend on that. */
static inline bool nc_view_fits(const nearcall_view *view, const nearcall_function *function)
{
    return view->extension_bytes == 0 ||
           view->extension_bytes + NC_EXTENSION_HEADER_BYTES + function->name_bytes <= NC_EXTENSION_BYTES_MAX;
}
static inline bool nc_call_asks(const struct nc_call *call, uint32_t flag)
{
    return call->view && call->view->flags & flag;
}
static inline uint32_t nc_attempts_max(const nearcall_client *client, const nearcall_view *view)
{
    return view && view->attempts_max ? view->attempts_max : client->options.attempts_max;
}

/* Keeps the extensions of an answer; false: no memory. */
bool nc_metadata_keep(struct nc_metadata **metadata, const uint8_t *extensions, size_t bytes);
void nc_metadata_free(struct nc_metadata **metadata);

/* ---- patience.c ---- */

/* Whether one could make use of a connection. */
bool nc_calls_wait_for_connection(const nearcall_client *client);

/* The latest deadline of the calls that wait for a connection; 0 when none does. */
int64_t nc_calls_pending_deadline_ns(const nearcall_client *client);

/* A connection begins to be made, for a call of that deadline and for those that wait. */
void nc_connection_limit(nearcall_client *client, int64_t deadline_ns);

/* A further call will wait for the connection that is being made. The call that began to
 * make it may have had less time, or may have been given up. */
void nc_connection_expect(nearcall_client *client, int64_t deadline_ns);

/* ---- asking.c: what became of calls is asked of the server that they were lost with. handle/call.h says how. ---- */

/* What the server says of a call that was lost, as a byte of its answer: gives the call the outcome that follows, and
 * words for it behind those that say why it was lost. */
void nc_call_say(struct nc_call *call, const char *why, uint8_t stage);
bool nc_stage_is_running(uint8_t stage);

/* Whether the server could tell what became of calls that end unknown with the connection. */
bool nc_loss_can_be_asked_about(const nearcall_client *client, const struct nc_loss *loss);

/* The connection is being lost, with calls that will ask. If others have been lost before, and nobody knows yet what
 * became of their calls, those of the first end unknown. NULL: no memory. */
struct nc_lost *nc_lost_begin(nearcall_client *client);
void nc_lost_free(nearcall_client *client, struct nc_lost *lost);

/* Ends its calls, of which nothing more will be known. */
void nc_lost_give_up(nearcall_client *client, struct nc_lost *lost);

/* The same for all, and it is forgotten that they asked. There is no connection. */
void nc_lost_give_up_all(nearcall_client *client);

/* Only forgets it: the calls have ended, or will at once. */
void nc_lost_free_all(nearcall_client *client);

void nc_call_begin_asking(struct nc_lost *lost, struct nc_call *call);
bool nc_call_asks_of(const struct nc_lost *lost, const struct nc_call *call);

/* The call asks: it ends so, or is given up. */
void nc_call_end_said(nearcall_client *client, struct nc_call *call, uint8_t stage);
void nc_call_end_unknown(nearcall_client *client, struct nc_call *call);
void nc_call_stop_asking(nearcall_client *client, const struct nc_call *call);

/* Something may have to be done for calls that ask, now. */
void nc_asking_look(nearcall_client *client);

/* Pending. NULL: there is no place, or no memory, for it. */
struct nc_call *nc_question_new(nearcall_client *client, struct nc_lost *lost, int64_t deadline_ns);
void nc_question_free(nearcall_client *client, struct nc_lost *lost);

/* NULL: it is the question of the call that is waited for from its beginning. */
const struct nc_lost *nc_lost_of_question(const nearcall_client *client, const struct nc_call *question);

/* Whether nobody else wants a connection: that none comes is no news to the program then. */
bool nc_only_questions_wait(const nearcall_client *client);

/* ---- outcomes.c ---- */

static inline bool nc_frame_is_written(const nearcall_client *client, const struct nc_call *call)
{
    return call->by_memory || client->connection.written >= call->frame_end;
}
/* Whether the kernel has nothing of it, so that it can be taken back. */
static inline bool nc_frame_is_untouched(const nearcall_client *client, const struct nc_call *call)
{
    return !call->by_memory && client->connection.written <= call->frame_start;
}

/* Whether a call that ended so because of its connection or its server may be sent again. */
static inline bool nc_outcome_permits_again(const struct nc_call *call, int outcome)
{
    return outcome == NEARCALL_OUTCOME_NOT_EXECUTED ||
           (outcome != NEARCALL_OUTCOME_EXECUTED && nc_call_asks(call, NEARCALL_CALL_RETRY_UNKNOWN));
}

bool nc_reply_has_begun(const nearcall_client *client, const struct nc_call *call);
unsigned nc_calls_on_connection(const nearcall_client *client);

/* Of a call whose deadline has passed when nothing more will be known of it. */
int nc_outcome_of_expiry(const nearcall_client *client, const struct nc_call *call);

/* Finishes what the lost connection carried, and, if it never stood, what waited
 * for it. */
void nc_calls_lose(nearcall_client *client, const struct nc_loss *loss, bool before_welcome);

/* Whether the connection that is lost has taken something of a call: otherwise it may have ended long ago. */
bool nc_calls_are_touched(const nearcall_client *client, const struct nc_loss *loss);

/* Finishes the calls that wait for a connection, or only those that are waited for from their beginning: there was
 * none, as client->lost_text says. */
void nc_calls_end_waiting(nearcall_client *client, int code, bool retryable, bool synchronous_only);

/* The server serves nothing above the id it names, and nothing it has not got,
 * whatever it names. */
void nc_calls_drain(nearcall_client *client, uint64_t last_served_id);

#endif
