/*
 * nearcall_endpoints.h - addresses with several endpoints, of which a call uses the nearest one
 * that works
 *
 * This is a part of nearcall.h, which includes it. nearcall.h is the manual for handles,
 * errors, threads and forks.
 *
 *     nearcall_open(&client, "unix:/run/shop.sock | tls:b.example:7000,c.example:7000", NULL);
 *
 * A bar stands before endpoints that are farther away, and a comma, in "tcp:" and "tls:"
 * addresses, between equals. Parameters at the end of a group hold for all of its endpoints. There
 * are 16 endpoints at most. "embed:" cannot be one of several. docs/guides/endpoints.md is the
 * guide, and spec/call-semantics.md has the rules under "Several endpoints".
 *
 * WHICH ONE. A call goes to the nearest group that has an endpoint which works, and there to one
 * that is drawn. An endpoint that fails is left alone, for 100 ms at first and for longer after
 * each failure. When calls come back to one of another machine, its connection is made beside
 * calls: each call looks how far it has come, and no call waits for it.
 *
 * ONE AFTER THE OTHER. A handle keeps the connection of each endpoint that it has used. It goes
 * to another endpoint only while none of its calls is on the way. Until then calls that begin go
 * to the endpoint that the others have gone to. They wait if that one has no room or is stopping,
 * even if another endpoint would take them.
 *
 * MOVING ON. A call that nearcall_call(), nearcall_request_call(), nearcall_find() or
 * nearcall_ping() waits for goes to the next endpoint at once if it certainly was not executed
 * and if the reason lies with the endpoint: there is no connection to it, or none within a second
 * or within half of the time that the call has left; the connection was lost, or the server is
 * stopping; the server has too many calls; or it does not have the function. That is no attempt
 * in the sense of attempts_max. If no endpoint is left, the error is that of the first one that
 * may take the call later, and the message has a line for each of the others. Calls that are
 * begun go to the next endpoint as long as they wait for a connection, and not after that.
 *   A server that does not accept the caller (NEARCALL_E_PERMISSION_DENIED,
 * NEARCALL_E_UNAUTHENTICATED), or may not be called over plain TCP
 * (NEARCALL_E_FAILED_PRECONDITION), ends the call. The next call uses another endpoint.
 *
 * SILENCE. A server of another machine from which nothing comes for a second while a call waits,
 * although it is asked, counts as gone: its calls end, and further ones go to other endpoints.
 * silence_ms, or "?silence=MS" behind a group of the address, sets another time, and "?silence=off"
 * none. Servers of this machine are given all the time that calls have.
 *
 * DESCRIPTIONS. nearcall_find() asks the server that the handle is connected to, and the call
 * after it goes there as well. Servers of one address may describe a function in different ways.
 * A call that meets another description than its own ends with NEARCALL_E_ABORTED, as when a
 * server was replaced.
 *
 * FORK. A child makes all connections anew, and sends nothing on those of its parent.
 */
#ifndef NEARCALL_ENDPOINTS_H
#define NEARCALL_ENDPOINTS_H

#include "nearcall.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The endpoint to which the handle is connected, as the address has it, with its parameters; ""
 * if it is not connected. Of an address with one endpoint that is the address. It is valid until
 * the next function that is given this handle. */
NEARCALL_API const char *nearcall_endpoint(const nearcall_client *client);

#ifdef __cplusplus
}
#endif

#endif
