/* What was given and not accepted yet. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/rights.h"
#include "handoff/handoff.h"

void nc_handoff_arrival_free(struct nc_handoff_arrival *arrival)
{
    if (arrival && nc_descriptor_is(arrival->fd, arrival->device, arrival->inode))
        nc_rights_close_received(arrival->fd, arrival->received_by);
    free(arrival);
}

static void queue(nearcall_handoff *handoff, struct nc_handoff_arrival *arrival)
{
    *handoff->arrivals_end = arrival;
    handoff->arrivals_end = &arrival->next;
    arrival->channel->arrivals++;
}

struct nc_handoff_arrival *nc_handoff_arrival_new(struct nc_handoff_channel *channel,
                                                  const struct nc_handoff_frame *frame, int fd)
{
    struct stat status;
    struct nc_handoff_arrival *arrival = malloc(sizeof(*arrival) + frame->length);
    if (!arrival)
        return NULL;
    memset(arrival, 0, sizeof(*arrival));
    arrival->channel = channel;
    arrival->id = frame->id;
    arrival->kind = frame->kind;
    uint8_t *to = arrival->data;
    for (size_t i = 0; i < NC_HANDOFF_PARTS; i++) {
        arrival->parts[i].data = to;
        arrival->parts[i].bytes = frame->parts[i].bytes;
        memcpy(to, frame->parts[i].data, frame->parts[i].bytes);
        to += frame->parts[i].bytes;
    }
    arrival->fd = fd;
    arrival->received_by = getpid();
    if (fstat(fd, &status) == 0) {
        arrival->device = status.st_dev;
        arrival->inode = status.st_ino;
    }
    queue(channel->handoff, arrival);
    return arrival;
}

/* Takes the arrival that the link points at out of the list. */
static struct nc_handoff_arrival *unlink_arrival(nearcall_handoff *handoff,
                                                 struct nc_handoff_arrival **link)
{
    struct nc_handoff_arrival *arrival = *link;
    *link = arrival->next;
    if (!*link)
        handoff->arrivals_end = link;
    arrival->next = NULL;
    arrival->channel->arrivals--;
    return arrival;
}

/* A channel that has ended takes none either, but says so at once. */
static bool takes_an_answer(const struct nc_handoff_channel *channel)
{
    struct pollfd writable = {.fd = channel->fd, .events = POLLOUT};
    if (channel->state != NC_HANDOFF_OPEN)
        return true;
    return nc_buffer_bytes(&channel->out) == 0 && poll(&writable, 1, 0) > 0;
}

/* A giver that does not read its answers holds up nobody: its arrivals wait until it does, and for
 * so long only. nc_handoff_channel_flush() ends the wait. */
static void await_room(struct nc_handoff_channel *channel)
{
    channel->answer_ns = nc_after_ms(channel->handoff->now_ns, NC_HANDOFF_RECALL_MS);
    nc_handoff_channel_watch(channel, true);
}

struct nc_handoff_arrival *nc_handoff_answerable_arrival(nearcall_handoff *handoff)
{
    struct nc_handoff_arrival *next, *arrival;
    for (arrival = handoff->arrivals; arrival; arrival = next) {
        next = arrival->next;
        if (arrival->channel->answer_ns)
            continue;
        if (takes_an_answer(arrival->channel))
            return arrival;
        await_room(arrival->channel);
        if (arrival->channel->state != NC_HANDOFF_OPEN)
            next = handoff->arrivals; /* its own are gone */
    }
    return NULL;
}

struct nc_handoff_arrival *nc_handoff_next_arrival(nearcall_handoff *handoff)
{
    return handoff->arrivals ? unlink_arrival(handoff, &handoff->arrivals) : NULL;
}

struct nc_handoff_arrival *nc_handoff_find_arrival(struct nc_handoff_channel *channel, uint64_t id)
{
    struct nc_handoff_arrival **link = &channel->handoff->arrivals;
    while (*link && ((*link)->channel != channel || (*link)->id != id))
        link = &(*link)->next;
    return *link ? unlink_arrival(channel->handoff, link) : NULL;
}

void nc_handoff_drop_arrivals(struct nc_handoff_channel *channel)
{
    struct nc_handoff_arrival **link = &channel->handoff->arrivals;
    while (*link) {
        if ((*link)->channel == channel)
            nc_handoff_arrival_free(unlink_arrival(channel->handoff, link));
        else
            link = &(*link)->next;
    }
}
