/* Sending requests with descriptors: each goes in a message of its own, and the
 * descriptors with its first byte. */
#include "base/clock.h"
#include "send/frames.h"
#include "send/send.h"
#include "transport/files.h"

#define RETRY_NS NC_NS_PER_MS

static bool waits_with_files(const struct nearcall_client *client, const struct nc_call *call)
{
    return nc_call_is_on_connection(call) && call->files && !call->files_sent && !call->by_memory &&
           call->frame_start >= client->connection.written;
}

static struct nc_call *first_with_files(nearcall_client *client)
{
    struct nc_call *first = NULL;
    for (struct nc_call *call = client->calls.used; call; call = call->next) {
        if (waits_with_files(client, call) && (!first || call->frame_start < first->frame_start))
            first = call;
    }
    return first;
}

static void limit(struct msghdr *message, uint64_t bytes)
{
    for (size_t i = 0; i < (size_t)message->msg_iovlen; i++) {
        struct iovec *part = &message->msg_iov[i];
        if (part->iov_len > bytes)
            part->iov_len = (size_t)bytes;
        bytes -= part->iov_len;
    }
}

struct nc_call *nc_files_in_message(nearcall_client *client, struct msghdr *message,
                                    union nc_control *room)
{
    uint64_t written = client->connection.written;
    struct nc_call *call = first_with_files(client);
    if (!call) {
        client->connection.has_files = false;
        return NULL;
    }
    if (call->frame_start > written) {
        limit(message, call->frame_start - written);
        return NULL;
    }
    limit(message, call->frame_end - written);
    nc_files_attach(call->files, message, room);
    return call;
}

/* One that nobody waits for from its beginning is not sent again. */
void nc_files_are_sent(struct nc_call *call)
{
    call->files_sent = true;
    if (!call->synchronous)
        nc_files_release(&call->files);
}

void nc_send_later(nearcall_client *client)
{
    client->connection.refused = true;
    client->connection.retry_ns = nc_now_ns() + RETRY_NS;
}

bool nc_may_send_again(nearcall_client *client)
{
    struct nc_connection *connection = &client->connection;
    if (!connection->refused || client->now_ns < connection->retry_ns)
        return false;
    connection->refused = false;
    return true;
}
