/*
 * The functions of the published account, as C calls them: one() is 1, ack is
 * Ackermann's of 3 and 4, md5 that of "hoge" in hexadecimal.
 */
#ifndef FUNCTIONS_H
#define FUNCTIONS_H

#include <nearcall.h>

struct known_function;

/* NULL when there is none of that name. */
const struct known_function *known_function(const char *name);

const char *known_function_name(const struct known_function *known);

/* Makes one call and compares the answer; function is what nearcall_find() gave for
 * the name. -1 after a message on stderr. */
int known_function_call(const struct known_function *known, nearcall_client *client, nearcall_function *function,
                        nearcall_reply *reply);

/* TRANSPORT_... of protocol.h: how the calls of a client go. */
int transport_of(const nearcall_client *client);

#endif
