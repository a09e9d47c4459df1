#include "frame.h"

#include "bytes.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

/* Moves what follows the last frame to the front. */
static void discard(struct inbox *inbox)
{
    if (inbox->taken == 0)
        return;
    inbox->bytes[inbox->taken] = inbox->kept;
    inbox->length -= inbox->taken;
    memmove(inbox->bytes, inbox->bytes + inbox->taken, inbox->length);
    inbox->taken = 0;
}

static enum nc_inbox_state take(struct inbox *inbox, struct frame *frame)
{
    const char *at = inbox->bytes;
    if (inbox->length < NC_FRAME_HEADER_BYTES)
        return NC_INBOX_EMPTY;
    *frame = (struct frame){nc_get32(at), nc_get32(at + 4), nc_get32(at + 8), nc_get32(at + 12), at + NC_FRAME_HEADER_BYTES};
    if (frame->length > NC_RESIDENT_TEXT_BYTES_MAX)
        return NC_INBOX_BROKEN;
    if (inbox->length < NC_FRAME_HEADER_BYTES + frame->length)
        return NC_INBOX_EMPTY;
    inbox->taken = NC_FRAME_HEADER_BYTES + frame->length;
    inbox->kept = inbox->bytes[inbox->taken];
    inbox->bytes[inbox->taken] = '\0';
    return NC_INBOX_FRAME;
}

enum nc_inbox_state nc_inbox_next(struct inbox *inbox, int connection, struct frame *frame)
{
    discard(inbox);
    for (ssize_t length = 0, room = 0;; inbox->length += (size_t)length) {
        enum nc_inbox_state state = take(inbox, frame);
        /* Less than there was room for was all that was there. */
        if (state != NC_INBOX_EMPTY || length < room)
            return state;
        /* One byte stays free for the NUL. */
        room = (ssize_t)(sizeof(inbox->bytes) - 1 - inbox->length);
        length = recv(connection, inbox->bytes + inbox->length, (size_t)room, MSG_DONTWAIT);
        if (length < 0 && errno == EAGAIN)
            return NC_INBOX_EMPTY;
        if (length <= 0)
            return NC_INBOX_ENDED;
    }
}

void nc_frame_send(int connection, enum nc_frame_type type, uint32_t value, uint32_t second, int certain)
{
    char bytes[NC_FRAME_HEADER_BYTES] = {0};
    nc_put32(bytes, type);
    nc_put32(bytes + 4, value);
    nc_put32(bytes + 8, second);
    /* So few bytes are taken together or not at all. */
    while (send(connection, bytes, sizeof(bytes), MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno == EAGAIN && certain) {
        struct pollfd writable = {connection, POLLOUT, 0};
        poll(&writable, 1, -1);
    }
}
