/* A connection as it stands: whose its descriptor is, what is waited for, what the kernel has not
 * taken yet, what event loops watch, and its end. Nothing is sent or received here.
 * May include: base, choice, wire, transport, memory, handle, calls, request. */
#ifndef NC_CONNECTION_H
#define NC_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "handle/handle.h"

/* ---- state.c ---- */

/* Whether the server lets one more request be sent. */
static inline bool nc_connection_has_room(const nearcall_client *client)
{
    uint32_t allowed = client->connection.welcome.calls_in_flight_max;
    return allowed == 0 || client->connection.unanswered < allowed;
}

bool nc_connection_is_over(const nearcall_client *client); /* it drains, and has answered all */

/* As poll(2) has them. */
short nc_connection_events(const nearcall_client *client);

/* Half a frame that nobody waits for holds up those behind it no longer than a server
 * bears with one; NC_NEVER where there is none. */
int64_t nc_output_stuck_ns(const struct nc_connection *connection);

/* When something has to be done though nothing has happened. */
int64_t nc_connection_timer_ns(const nearcall_client *client);

/* ---- silence.c ---- */

/* The connection is ready. */
void nc_silence_begin(nearcall_client *client);

/* A frame is sent while no answer was awaited. */
static inline void nc_silence_wait(nearcall_client *client)
{
    client->connection.silence.since_ns = client->now_ns;
}

/* When something is to be done about a server that says nothing; NC_NEVER: nobody waits, or nobody looks. */
int64_t nc_silence_timer_ns(const nearcall_client *client);

/* What is due at that time. */
enum nc_silence_step { NC_SILENCE_NONE, NC_SILENCE_ASK, NC_SILENCE_END };
enum nc_silence_step nc_silence_look(nearcall_client *client);

/* ---- identity.c: whose the descriptor is. The program may close what it does not know, and another
 * socket gets the number then: what is written there goes to a stranger. ---- */

/* Whether the number still means the socket that it did. */
bool nc_connection_has_its_socket(const struct nc_connection *connection);

/* The number means the connection's socket, as that was just made. */
void nc_identity_begin(nearcall_client *client);

/* A call is begun, and the clock was read. Where the one before it has left the library for less
 * time than a look takes, the program has made no system call since, and so replaced nothing. */
void nc_identity_infer(nearcall_client *client);

/* A begun call leaves the library. What was not sent, or by memory, says nothing of the socket. */
void nc_identity_leave(nearcall_client *client);

/* ---- end.c ---- */

/* What has failed, in words: errno's, or those of TLS, which also know the code of the loss. */
const char *nc_connection_what_failed(const nearcall_client *client, int error, struct nc_loss *loss);

/* Ends the calls that it carries, with a sentence that says why. */
void nc_connection_lost(nearcall_client *client, const struct nc_loss *loss,
                        const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The program ends it, if there is one, and its calls with it: none asks what became of it. */
void nc_connection_drop(nearcall_client *client, const char *how);

/* The input's memory stays: a reply the user is about to read may lie in it. */
void nc_connection_close(nearcall_client *client);

/* Never closes what is somebody else's by now. */
void nc_connection_close_socket(nearcall_client *client);

/* The child's side of a fork: nothing is sent, nothing is shut down, and the
 * descriptor is closed only if its number still means the same socket. */
void nc_connection_orphan(nearcall_client *client, bool trust_memory);

#endif
