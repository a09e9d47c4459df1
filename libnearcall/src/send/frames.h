/* What the files of send/ do for each other with one frame. */
#ifndef NC_SEND_FRAMES_H
#define NC_SEND_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "handle/handle.h"

struct msghdr;
union nc_control;

/* ---- head.c ---- */

/* Of the extension that names the function, if that is needed, and of those of the call's view. */
size_t nc_extension_bytes(const nearcall_client *client, const struct nc_call *call);

/* As the header has it. */
uint32_t nc_deadline_field(const nearcall_client *client, const struct nc_call *call);

/* Writes header and extensions, for which there is room. */
void nc_encode_head(nearcall_client *client, struct nc_call *call, uint8_t *header,
                    uint8_t *extensions);
void nc_mark_as_sent(nearcall_client *client, struct nc_call *call);

/* ---- write.c ---- */

/* Gives the kernel what it takes at once. The number of bytes, or -1 when the
 * connection was lost. */
ssize_t nc_send_now(nearcall_client *client, struct iovec *parts, size_t count);

/* ---- send.c ---- */

/* Sends the call's frame, by whichever way is better. */
void nc_send_frame(nearcall_client *client, struct nc_call *call);

/* ---- stores.c ---- */

/* For a pending call whose payload no frame holds. */
void nc_store_ask(nearcall_client *client, struct nc_call *call);

/* ---- memory.c ---- */

/* False: it did not fit, or the socket is the better way. */
bool nc_send_by_memory(nearcall_client *client, struct nc_call *call);
bool nc_cancel_by_memory(nearcall_client *client, const struct nc_call *call);

/* ---- files.c ---- */

/* Ends the message before the next request with descriptors, or behind it when it is
 * its turn. Returns that request then, with its descriptors attached; else NULL. */
struct nc_call *nc_files_in_message(nearcall_client *client, struct msghdr *message,
                                    union nc_control *room);
void nc_files_are_sent(struct nc_call *call);

/* This user has too many descriptors on the way, and nothing tells when that changes. */
void nc_send_later(nearcall_client *client);

#endif
