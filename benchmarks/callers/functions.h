/*
 * Functions with the values that they are given, and what they have to answer: those of
 * the published account, ack(0, 1), one that waits for a goroutine, and some of other shapes.
 */
#ifndef FUNCTIONS_H
#define FUNCTIONS_H

#include <nearcall.h>

struct known_function;

/* NULL after a message on stderr when there is none of that name. */
const struct known_function *known_function(const char *name);

/* Finds it at the server; -1 after a message on stderr. */
int known_function_find(const struct known_function *known, nearcall_client *client, nearcall_function **ret_function);

/* Makes one call and compares the answer; function is what known_function_find() gave.
 * -1 after a message on stderr. */
int known_function_call(const struct known_function *known, nearcall_client *client, nearcall_function *function,
                        nearcall_reply *reply);

/* TRANSPORT_... of protocol.h: how the calls of a client go. */
int transport_of(const nearcall_client *client);

/* Makes calls of the client by the socket until the server has given shared memory; to have been
 * given none is no error, the report tells. -1 where a call fails. */
int reach_memory(const nearcall_client *client, int (*call)(void *state), void *state);

#endif
