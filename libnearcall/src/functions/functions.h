/* The functions that a handle knows: by name, with the description that a server gave, and by which
 * description a request was encoded, so that it never runs on a server that has another one.
 * May include: wire, msgpack, handle. */
#ifndef NC_FUNCTIONS_H
#define NC_FUNCTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "handle/call.h"
#include "handle/function.h"
#include "nearcall.h"

/* The one entry of a name; NULL without memory. bytes is within the limit. */
nearcall_function *nc_function_intern(nearcall_client *client, const char *name, size_t bytes);

/* NULL: the server there is has to be asked. */
nearcall_function *nc_function_known(nearcall_client *client, const char *name, size_t bytes);

/* Whether it is one of this handle's, and not of another. */
bool nc_function_is_of(nearcall_client *client, const nearcall_function *function);

/* By the server that is at the other end now: the next one may have another description. */
bool nc_function_is_described(const nearcall_client *client, const nearcall_function *function);

/* Whether some server is remembered not to have the function, and whether one of that schema is. */
static inline bool nc_function_is_absent_somewhere(const nearcall_function *function)
{
    return function->absences > 0;
}
bool nc_function_is_absent(const nearcall_function *function, uint64_t schema_hash, int64_t now_ns);
void nc_function_note_absent(nearcall_function *function, uint64_t schema_hash, int64_t until_ns);

/* Takes a description that has just come. 0 or NEARCALL_E_RESOURCE_EXHAUSTED. */
int nc_function_learn(nearcall_client *client, nearcall_function *function, const uint8_t *data,
                      size_t bytes);

/* Names that the server does not have must not pile up. */
void nc_function_forget_if_unused(nearcall_client *client, nearcall_function *function);
void nc_functions_free(struct nc_functions *functions);

/* ---- description.c ---- */

/* NULL without memory. */
struct nc_description *nc_description_new(const uint8_t *data, size_t bytes);

/* Of a request that begins now. A raw payload is the same under every description. */
static inline struct nc_encoding nc_encoding_of(const nearcall_function *function, int codec)
{
    if (codec == NEARCALL_CODEC_RAW || !function->description)
        return (struct nc_encoding){0};
    return (struct nc_encoding){.by_description = true,
                                .check = function->description->check,
                                .schema_hash = function->description_hash};
}

/* Whether a request may be written with packed lists, for the server that there is. */
bool nc_takes_blocks(const nearcall_client *client);

/* Whether the server at the other end may have another description, and would not
 * notice, or does not read packed lists that are in the request. */
bool nc_encoding_is_outdated(const nearcall_client *client, const struct nc_encoding *encoding);

/* A call has failed with what the server says. If it refused the encoding, and nobody
 * has asked for the description since, it is asked for again. */
void nc_description_refused(const nearcall_client *client, const struct nc_call *call);

#endif
