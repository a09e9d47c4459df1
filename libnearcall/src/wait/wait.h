/* What happens to a call from its beginning to its end, which takes time: waiting for the connection, for
 * its turn and for its reply, retries, deadlines, giving up.
 * May include: base, wire, memory, handle, functions, calls, request, connection, receive, send, connect. */
#ifndef NC_WAIT_H
#define NC_WAIT_H

#include <stdint.h>

#include "handle/handle.h"

/* ---- retry.c ---- */

/* Sends the call and waits for its end. sendings were made before, of what was another encoding then. */
int nc_sync_call(nearcall_client *client, struct nc_call *call, unsigned sendings, nearcall_reply *ret_reply);

/* Begins or goes on with client->sync until its call has ended or a signal came. */
int nc_sync_run(nearcall_client *client, nearcall_reply *ret_reply);

/* An interrupted call that nobody resumed. */
void nc_sync_abandon(nearcall_client *client);

/* Sends the pending call once. Afterwards it is sent or finished. 0 or NEARCALL_E_INTERRUPTED. */
int nc_send_once(nearcall_client *client, struct nc_call *call);

/* ---- idempotent.c ---- */

/* Of a call that may be sent again when nobody knows whether it ran: ends it if the server
 * that it would be sent to does not describe the function as idempotent. Asks that server if it
 * was not asked before. 0 or NEARCALL_E_INTERRUPTED. */
int nc_check_idempotent(nearcall_client *client, struct nc_call *call);

/* ---- ask.c ---- */

/* Asks the server what became of a finished call whose connection was lost, if nobody here can tell and the
 * server can be asked, and gives the call the outcome that follows. 0 or NEARCALL_E_INTERRUPTED; then it is to
 * be called again. */
int nc_ask(nearcall_client *client, struct nc_call *call);

/* Pauses before the server is connected to again, in order to ask it. */
#define NC_ASK_PAUSE_MIN_NS NC_NS_PER_MS
#define NC_ASK_PAUSE_MAX_NS (50 * NC_NS_PER_MS)

/* ---- ask_begun.c ---- */

/* Does what is due for calls that were begun, and that ask now. It does not wait. */
void nc_ask_go_on(nearcall_client *client);

/* ---- begin.c ---- */

/* Sends a pending call that its caller does not wait for. Fails with what ended
 * the call when nothing will come of it; the call is gone then. */
int nc_begin(nearcall_client *client, struct nc_call *call, nearcall_call_id *ret_call);

/* Goes on with what was begun by half. */
int nc_begin_go_on(nearcall_client *client, nearcall_call_id *ret_call);

/* Another request takes its place. */
void nc_begin_abandon(nearcall_client *client);

/* ---- wait.c: 0 or NEARCALL_E_INTERRUPTED; what happened is in the calls ---- */

/* Waits for the connection until then at most, and does what can be done. */
int nc_pump(nearcall_client *client, int64_t until_ns);

/* Asks a server of another machine that says nothing while calls wait, or ends its connection. */
void nc_watch_silence(nearcall_client *client);

/* Sleeps without touching the connection. */
int nc_pause(nearcall_client *client, int64_t until_ns);

/* Until the connection can take the pending call, or the call has failed. */
int nc_make_ready(nearcall_client *client, struct nc_call *call);

/* Until a call that was sent has finished. */
int nc_wait(nearcall_client *client, struct nc_call *call);

/* Takes what lies in the ring. Whether that was the end of the call: then there is nothing to wait for,
 * and the clock, which is a tenth of a call when many are in flight, need not be read. */
bool nc_wait_at_once(nearcall_client *client, struct nc_call *call);

/* Decides for the wait that is about to begin, before anything is sent: the server
 * answers through the ring only if this side is awake by then. */
void nc_choose_waiting(nearcall_client *client);

/* ---- expire.c ---- */

/* The call's deadline, or its grace, has passed. */
void nc_call_expire(nearcall_client *client, struct nc_call *call);

/* When that is; a call that is to ask for a store again does so then. */
int64_t nc_call_timer_ns(const struct nc_call *call);

/* The same for all of which that is so. */
void nc_call_expire_all(nearcall_client *client);

/* Nobody waits for what was sent any more. */
void nc_call_take_back(nearcall_client *client, struct nc_call *call);

/* The same of any call, and it is no more. */
void nc_call_give_up(nearcall_client *client, struct nc_call *call);

#endif
