/* Receiving where descriptors may come along. */
#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/rights.h"
#include "calls/calls.h"
#include "receive/frames.h"
#include "receive/receive.h"
#include "transport/files.h"

/* What a peer can send in vain before others get their turn, if it does not take NC_TURN_NS before. */
#define SEALED_READS_MAX 64

#define DESCRIPTORS_KNOWN_BYTES 8 /* of a header: enough to know how many come with it */

/* Whether descriptors may come with the next read. */
static bool may_come(const struct nc_connection *connection)
{
    uint64_t features = connection->welcome.features;
    bool memory = features & NC_FEATURE_SHARED_MEMORY && !connection->memory_came;
    return connection->state == NC_READY && (features & (NC_FEATURE_DESCRIPTORS | NC_FEATURE_STORES) || memory);
}

void nc_agree_on_descriptors(nearcall_client *client)
{
    struct nc_connection *connection = &client->connection;
    connection->bytes_alone = !connection->transport->is_local;
    if (connection->bytes_alone)
        return;
    if (may_come(connection))
        nc_rights_allow(connection->fd);
    else
        connection->bytes_alone = nc_rights_never_come(connection->fd);
}

static ssize_t nothing_came(void)
{
    errno = EAGAIN;
    return -1;
}

/* A shorter way in the kernel. */
static ssize_t receive_alone(nearcall_client *client, int flags)
{
    const struct nc_buffer *in = &client->connection.in;
    nc_fall_asleep(client);
    ssize_t received = recv(client->connection.fd, in->data + in->end, in->capacity - in->end, flags);
    nc_wake_up(client);
    return received;
}

/* The clock is looked at only if what arrived by the first read has opened to nothing. */
static bool turn_is_over(int reads, int64_t *until_ns)
{
    if (reads == 0)
        return false;
    int64_t now_ns = nc_now_ns();
    if (reads == 1)
        *until_ns = now_ns + NC_TURN_NS;
    return now_ns >= *until_ns;
}

/* Waits once at most, because the time for that was measured once. */
ssize_t nc_receive_sealed(nearcall_client *client, void *to, size_t bytes, int flags)
{
    struct nc_connection *connection = &client->connection;
    int64_t until_ns = 0;
    for (int i = 0; i < SEALED_READS_MAX; i++, flags |= MSG_DONTWAIT) {
        ssize_t opened = nc_tls_take(connection->tls, to, bytes);
        if (opened >= 0 || errno != EAGAIN)
            return opened;
        if (turn_is_over(i, &until_ns))
            break;
        size_t room_bytes;
        void *room = nc_tls_room(connection->tls, &room_bytes);
        nc_fall_asleep(client);
        ssize_t received = recv(connection->fd, room, room_bytes, flags);
        nc_wake_up(client);
        if (received <= 0 || nc_forked_inside(client))
            return received > 0 ? nothing_came() : received;
        nc_tls_arrived(connection->tls, (size_t)received);
    }
    return nothing_came();
}

ssize_t nc_receive_bytes(nearcall_client *client, int flags, bool *ret_illegal)
{
    struct nc_connection *connection = &client->connection;
    struct nc_buffer *in = &connection->in;
    *ret_illegal = false;
    if (connection->bytes_alone && __builtin_expect(connection->tls != NULL, 0))
        return nc_receive_sealed(client, in->data + in->end, in->capacity - in->end, flags);
    if (connection->bytes_alone)
        return receive_alone(client, flags);
    union nc_rights_room room;
    struct iovec part = {in->data + in->end, in->capacity - in->end};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room.bytes,
                             .msg_controllen = sizeof(room.bytes)};
    nc_fall_asleep(client);
    ssize_t received = recvmsg(connection->fd, &message, flags | MSG_CMSG_CLOEXEC);
    nc_wake_up(client);
    if (received < 0 || (message.msg_controllen == 0 && !(message.msg_flags & MSG_CTRUNC)))
        return received;
    if (!may_come(connection)) {
        *ret_illegal = nc_rights_close_all(&message) > 0 || message.msg_flags & MSG_CTRUNC;
        return received;
    }
    uint64_t from = connection->taken + nc_buffer_bytes(in);
    *ret_illegal = !nc_descriptors_add(&connection->descriptors, &message, from,
                                       from + (uint64_t)received);
    return received;
}

bool nc_descriptors_are_misplaced(const struct nc_connection *connection)
{
    const struct nc_buffer *in = &connection->in;
    const uint8_t *header = in->data + in->start;
    size_t bytes = nc_buffer_bytes(in);
    if (connection->descriptors.waiting == 0)
        return false;
    if (bytes == 0 || connection->skip_bytes)
        return true;
    if (bytes < DESCRIPTORS_KNOWN_BYTES || header[4] == NC_MEMORY)
        return false;
    return !(connection->welcome.features & (NC_FEATURE_DESCRIPTORS | NC_FEATURE_STORES)) || header[7] == 0;
}

int nc_take_descriptors(struct nc_connection *connection, const struct nc_frame *frame,
                        struct nc_fault *fault)
{
    if (frame->descriptors == 0 && connection->descriptors.waiting == 0)
        return 0;
    return nc_descriptors_take(&connection->descriptors, frame, connection->taken,
                               connection->taken + NC_FRAME_HEADER_BYTES + frame->length, fault);
}

bool nc_keep_files(nearcall_client *client, struct nc_call *call)
{
    struct nc_descriptors *descriptors = &client->connection.descriptors;
    const char *what = "the descriptors of the reply did not arrive: this process has too many "
                       "open files, see ulimit -n";
    if (descriptors->frame.count > 0) {
        call->has_more = true;
        call->reply_files = nc_descriptors_keep(descriptors);
        if (call->reply_files)
            return true;
        what = "no memory to keep the descriptors of the reply";
    } else if (!descriptors->frame.truncated) {
        return true;
    }
    nc_call_finish(client, call, -NEARCALL_E_RESOURCE_EXHAUSTED, NEARCALL_OUTCOME_EXECUTED_RESULT_LOST, what);
    return false;
}
