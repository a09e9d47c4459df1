/* Descriptors that a peer sends over a local socket, wanted or not. Who closes the last
 * reference to one may have to wait for it, as for data that a TCP socket lingers for, and
 * the sender chooses which. So none are accepted where none are expected (SO_PASSRIGHTS,
 * Linux 6.16), there is room for all that may come otherwise, since the kernel would
 * close what there is no room for, and what nobody takes is disarmed before it is closed. */
#ifndef NC_RIGHTS_H
#define NC_RIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

/* What the kernel lets one message carry. */
#define NC_RIGHTS_MESSAGE_MAX 253

union nc_rights_room {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(NC_RIGHTS_MESSAGE_MAX * sizeof(int))];
};

/* CMSG_NXTHDR(), whose form in musl changes signs. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
static inline struct cmsghdr *nc_control_next(struct msghdr *message, struct cmsghdr *part)
{
    return CMSG_NXTHDR(message, part);
}
#pragma GCC diagnostic pop

/* Before anything is read from a socket over which descriptors may come. */
void nc_rights_expect(int socket);

/* Kernels that do not know the option let descriptors come. */
void nc_rights_refuse(int socket);
void nc_rights_allow(int socket);

/* Whether the kernel has refused them ever since the socket was made, so that none are queued
 * and none will come. It makes the kernel refuse them if it does not yet. */
bool nc_rights_never_come(int socket);

/* What else the kernel may have been asked to tell with each read, on this socket or on the
 * listener that it comes from, takes the room of descriptors, or is one that nobody closes. */
void nc_rights_alone(int socket);

/* Before one is handed to the program, which closes it by itself: a socket lingers no more. A
 * linger time of zero, which resets, stays. */
void nc_rights_disarm(int fd);

/* Closes one that a peer sent against the rules; -1: none came. What waits in its own queue
 * is taken out and closed as well. A linger time of zero, which resets, stays. */
void nc_rights_close(int fd);

/* Closes one that was agreed to, and that nobody took. Its sender may have it still, so its
 * queue is left as it is, and only its lingering ends, and that of what waits in its queue; a copy
 * that a child of the process to which it was sent has is closed as it is. */
void nc_rights_close_received(int fd, pid_t received_by);

/* Closes all that came with a message; how many. */
unsigned nc_rights_close_all(struct msghdr *message);

/* recv() where no descriptors may come. */
ssize_t nc_rights_receive(int socket, void *data, size_t bytes, int flags);

/* Takes the descriptors out of the queue of a stream socket that is about to be closed, and
 * lets nothing more come. A part of what was unread stays: from it the peer knows what was not read. */
void nc_rights_drain(int socket);

/* The same where descriptors were agreed to: each is closed as nc_rights_close_received() does. */
void nc_rights_drain_agreed(int socket);

#endif
