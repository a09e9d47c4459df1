/* What the files of receive/ do for each other with one frame. */
#ifndef NC_RECEIVE_FRAMES_H
#define NC_RECEIVE_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "handle/handle.h"
#include "wire/wire.h"

/* ---- handlers.c ---- */

/* body is the frame's, with its extensions. 0, or -1 with the fault filled. */
int nc_handle_frame(nearcall_client *client, const struct nc_frame *frame, const uint8_t *body,
                    struct nc_fault *fault);

/* The same by the head alone, although a call may wait for the rest. The connection has ended. */
int nc_handle_head(nearcall_client *client, const struct nc_frame *frame, struct nc_fault *fault);

/* False: nobody waits for what the frame says, and its handler looks at its head and extensions only. */
bool nc_payload_is_read(const nearcall_client *client, const struct nc_frame *frame);

/* frame is NULL when what came is no frame at all. */
void nc_protocol_error(nearcall_client *client, const struct nc_frame *frame,
                       const struct nc_fault *fault);

/* The server counts the request no longer, whether somebody waits for it or not. */
void nc_answer_came(struct nc_connection *connection, const struct nc_frame *frame);

/* The reply, or the error's words, cannot be kept: the call ends with what the
 * header says. */
void nc_lose_answer(nearcall_client *client, const struct nc_frame *frame);

/* The result that lies in the input or in shared memory must outlive further reading. */
void nc_keep_waiting_result(nearcall_client *client);

/* ---- attach.c ---- */

int nc_on_memory(nearcall_client *client, const struct nc_frame *frame, const uint8_t *payload,
                 size_t bytes, struct nc_fault *fault);

/* ---- stored.c ---- */

/* The answer to a STORE has come for a call that has asked for one. */
void nc_on_store_given(nearcall_client *client, struct nc_call *call);

/* The result of the call lies in the store that the frame names. Ends the call, unless this process is
 * a child by now. */
void nc_read_stored(nearcall_client *client, struct nc_call *call);

/* ---- files.c ---- */

/* Receives into the input, with room for whatever may come along. Bytes, 0 at the end, -1
 * with errno. */
ssize_t nc_receive_bytes(nearcall_client *client, int flags, bool *ret_illegal);

/* Descriptors came whose frame is not complete, and is none that may have them. */
bool nc_descriptors_are_misplaced(const struct nc_connection *connection);

/* What came with the frame at the input's start. 0, or -1 with the fault filled. */
int nc_take_descriptors(struct nc_connection *connection, const struct nc_frame *frame,
                        struct nc_fault *fault);

/* The frame that is being handled is the call's reply. False: the call has ended,
 * because what came with it was lost. */
bool nc_keep_files(nearcall_client *client, struct nc_call *call);

#endif
