/* The request that is being put together: the memory that it is built in, the handle's own or the
 * arena of shared memory, and the values that nearcall_put_...() write there; and writers apart from a handle.
 * May include: base, wire, msgpack, transport, memory, handle, functions, calls. */
#ifndef NC_REQUEST_H
#define NC_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/base.h"
#include "base/limits_gen.h"
#include "handle/handle.h"
#include "handle/request.h"
#include "nearcall.h"

/* ---- buffer.c: where a request is built; once it has so many bytes, in shared memory ---- */

#define NC_IN_ARENA_BYTES_MIN 4096

/* What no request of the handle exceeds: what any frame may have, or the handle's option value_bytes_max. A writer
 * apart from a handle, which has none, may write as much as any value may have. */
static inline size_t nc_request_bytes_max(const nearcall_client *owner)
{
    size_t most = owner ? owner->options.value_bytes_max : NC_VALUE_BYTES_MAX_CEILING;
    return most > NC_FRAME_BYTES_MAX_CEILING ? most : NC_FRAME_BYTES_MAX_CEILING;
}

/* What the user of one that is larger is told. */
const char *nc_request_is_too_large(const nearcall_client *owner);

/* Room for bytes behind the request's end. 0 or NEARCALL_E_RESOURCE_EXHAUSTED. */
int nc_request_reserve(nearcall_client *client, size_t bytes);

/* Whether the request, when it has that many bytes, should lie in the arena and does
 * not yet. */
bool nc_request_moves(const nearcall_client *client, size_t bytes);

/* Makes the request the handle's own: the arena is about to go, or too small. 0, or
 * a negative number; then the request is lost. */
int nc_request_own(nearcall_client *client);

/* What was published may be overwritten by other calls once the server has taken it:
 * before control goes back while its call waits, it becomes the handle's own. False:
 * no memory, and nothing has changed. */
bool nc_request_settle(nearcall_client *client);
void nc_request_leave_arena(nearcall_client *client);

/* In a child, before the connection is forgotten: what lay in the arena is there no
 * more. */
void nc_request_after_fork(nearcall_client *client);

/* ---- put.c ---- */

/* Begins anew, keeping the memory. */
void nc_writer_reset(struct nc_writer *writer, nearcall_function *function, int codec);

/* The failure that was kept, or that what was announced is not all there. */
int nc_writer_fault(const struct nc_writer *writer, const char **ret_what);

void nc_writer_begin(nearcall_client *client, nearcall_function *function, int codec);

/* Puts values into the request that was begun, from inside of the handle. */
void nc_writer_put_values(nearcall_client *client, const nearcall_value *values, size_t count);
int nc_writer_check(nearcall_client *client);

/* Its call was interrupted, and sends from the buffer whatever the handle is used for before
 * it has ended: until then nothing is put there. */
void nc_writer_lend(nearcall_client *client);

/* That call is about to be given up. */
void nc_writer_give_back(nearcall_client *client);
void nc_writer_drop(nearcall_client *client);

/* What values.h does seldom. */
uint8_t *nc_writer_make_room(struct nc_writer *writer, size_t bytes) __attribute__((noinline));
void nc_writer_copy(struct nc_writer *writer, void *to, const void *data, size_t bytes);
void nc_writer_add_file(struct nc_writer *writer, int fd);

/* ---- packed.c ---- */

/* The codec of a request as it travels. */
static inline int nc_writer_codec(const struct nc_writer *writer)
{
    return writer->packs ? NEARCALL_CODEC_PACKED : writer->codec;
}

/* One value, that was counted: a list of count elements NEARCALL_ELEMENT_..., as they lie in memory. */
void nc_put_packed(struct nc_writer *writer, int element, const void *elements, size_t count);

/* ---- writer.c ---- */

/* Its values have no owner, so nothing of them ever lies in memory that is shared. */
struct nearcall_writer {
    struct nc_writer values;
};

#endif
