/* Which endpoint a call goes to, if the address has several, and how a call goes on to another one. A handle has the
 * connection of one endpoint, and turns to another one only while none of its calls is on that connection. */
#ifndef NC_ENDPOINTS_H
#define NC_ENDPOINTS_H

#include <stdbool.h>

#include "handle/handle.h"

/* A call is about to begin, or to be attempted once more (is_later): turns to the endpoint that is to take it. The clock
 * was read. The function may be NULL. */
void nc_endpoints_choose(nearcall_client *client, const nearcall_function *function, bool is_later);
static inline void nc_endpoints_begin(nearcall_client *client, const struct nc_call *call)
{
    if (__builtin_expect(client->endpoints == NULL, 1))
        return;
    if (call->type == NC_RESOLVE) /* it is about the server at the other end */
        client->endpoints->stays = true;
    nc_endpoints_choose(client, call->function, false);
}

/* ---- For handles with endpoints only ---- */

/* Begins to make a connection, to the next endpoint if the active one has been tried. If that has one already, there is
 * nothing to begin. If no endpoint is left, the calls that wait are told. */
void nc_endpoints_start(nearcall_client *client, int64_t deadline_ns);

/* A connection begins to be made, for a call of that deadline and for those that wait. */
void nc_endpoints_limit(nearcall_client *client, int64_t deadline_ns);

/* The time is over that calls have for one of several endpoints: they go to the next one, and connecting goes on for
 * later calls. */
void nc_endpoints_give_up(nearcall_client *client);

/* Whether the finished call goes to another endpoint at once: it certainly was not executed, and the reason lies with
 * the active one. The handle has turned to the next endpoint then. If the reason is one of these and no endpoint is
 * left, the call has the error that follows from all of them. */
bool nc_endpoints_move_on(nearcall_client *client, struct nc_call *call);

/* Turns to an endpoint whose server alone can tell what became of a call, and stays there until it is released.
 * False: the handle cannot turn to it. */
bool nc_endpoints_pin(nearcall_client *client, unsigned index);
void nc_endpoints_release(nearcall_client *client);

/* Looks at connections that are being made while calls go elsewhere. */
void nc_endpoints_look(nearcall_client *client);

#endif
