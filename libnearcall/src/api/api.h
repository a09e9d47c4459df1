/* What users call, and what only that needs: coming in and leaving, opening and closing, requests, event
 * loops, generated code, what a server has, and the calls that stay in this process.
 * May include: base, choice, wire, msgpack, schema, embed, transport, memory, handle, functions, calls, request, connection,
 * receive, send, connect, wait. */
#ifndef NC_API_H
#define NC_API_H

#include <stddef.h>
#include <stdint.h>

#include "handle/handle.h"

/* ---- enter.c: every public function that changes the handle begins with nc_enter()
 * and ends with nc_leave() ---- */

int nc_enter(nearcall_client *client);

/* All of entering but loading the library of an "embed:" address, which a process that
 * only sets something up may leave to its children. */
int nc_enter_without_library(nearcall_client *client);

/* For a function that only sets something, and that ends neither the reply nor the error of
 * the one before. It must not fail once it is inside. */
int nc_enter_beside(nearcall_client *client);

/* Leaves a handle whose user waits elsewhere, so that its descriptor tells all. */
void nc_go_outside(nearcall_client *client);
static inline int nc_leave(nearcall_client *client, int r)
{
    if (__builtin_expect(client->watched, 0))
        nc_go_outside(client);
    nc_become_idle(client);
    return r;
}

/* Makes a handle that this process inherited its own. If another thread was inside
 * at the fork, what it may have been changing is left where it is. */
void nc_after_fork(nearcall_client *client);

/* Leaves where it is what a function of another thread, or one that was left, may have been changing:
 * what was lent, the request, the error. */
void nc_forget_half_changed(nearcall_client *client);

int64_t nc_deadline(nearcall_client *client, int64_t timeout_ms);
int nc_check_timeout(nearcall_client *client, int64_t timeout_ms);

/* ---- options.c ---- */

/* An option is out of range: NEARCALL_E_INVALID_ARGUMENT. */
int nc_invalid_option(nearcall_client *client, const char *option, long long value, const char *allowed);

/* Reads a struct that begins with struct_size, as base/sized.h says. */
int nc_read_options(nearcall_client *client, const void *given, void *options, size_t options_bytes);

/* ---- address.c ---- */

/* Reads the address that a handle is opened with, and what its endpoints need. */
int nc_keep_address(nearcall_client *client, const char *address, const nearcall_options *options);

/* ---- hooks.c ---- */

/* Tells of the calls that have finished. r is what nearcall_process() has come to; the handle
 * may be gone afterwards. */
int nc_tell_finished(nearcall_client *client, int r);

/* ---- process.c ---- */

/* What poll(2) says of the descriptor right now. */
int nc_poll_now(const nearcall_client *client);

#endif
