#include "base/rights.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif
#ifndef SO_PASSPIDFD
#define SO_PASSPIDFD 76
#endif

/* A peer that goes on sending, or nests sockets in sockets, does not keep us longer. */
#define MESSAGES_MAX 4096
#define NESTED_MAX 4
#define STEPS_MAX 1024
#define DRAIN_BYTES 4096

static int set_passing(int socket, int passes)
{
    return setsockopt(socket, SOL_SOCKET, SO_PASSRIGHTS, &passes, sizeof(passes));
}

static void set_option(int socket, int option, int value)
{
    (void)setsockopt(socket, SOL_SOCKET, option, &value, sizeof(value));
}

/* An urgent byte that stays apart is thrown away, with its descriptors, by whoever reads on. */
void nc_rights_expect(int socket)
{
    set_option(socket, SO_OOBINLINE, 1);
}

void nc_rights_refuse(int socket)
{
    nc_rights_expect(socket);
    (void)set_passing(socket, 0);
}

void nc_rights_allow(int socket)
{
    (void)set_passing(socket, 1);
}

bool nc_rights_never_come(int socket)
{
    int passes = 1;
    socklen_t bytes = sizeof(passes);
    if (getsockopt(socket, SOL_SOCKET, SO_PASSRIGHTS, &passes, &bytes) == 0 && !passes)
        return true;
    nc_rights_refuse(socket);
    return false;
}

void nc_rights_alone(int socket)
{
    set_option(socket, SO_PASSCRED, 0);
    set_option(socket, SO_PASSSEC, 0);
    set_option(socket, SO_PASSPIDFD, 0);
    set_option(socket, SO_TIMESTAMP, 0);
    set_option(socket, SO_RXQ_OVFL, 0);
}

/* ---- Closing ---- */

/* What comes inside of sockets that have come, and in their queues, in all. */
struct budget {
    unsigned steps; /* each is a message or a connection */
    int levels;
    bool leaves_queues; /* of what came: its sender may use it again */
};

#define BUDGET {STEPS_MAX, NESTED_MAX, false}
#define BUDGET_OF_AGREED {STEPS_MAX, NESTED_MAX, true}

static void close_nested(int fd, struct budget *budget);

/* The next descriptors in the message, from *part on; NULL: there are none. */
static struct cmsghdr *next_rights(struct msghdr *message, struct cmsghdr *part)
{
    while (part && (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS))
        part = nc_control_next(message, part);
    return part;
}

/* Closes what came with a message; how many. */
static unsigned close_message(struct msghdr *message, struct budget *budget)
{
    unsigned count = 0;
    struct cmsghdr *part = next_rights(message, CMSG_FIRSTHDR(message));
    for (; part; part = next_rights(message, nc_control_next(message, part)))
        for (size_t i = 0; i < (part->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++, count++) {
            int fd;
            memcpy(&fd, CMSG_DATA(part) + i * sizeof(fd), sizeof(fd));
            close_nested(fd, budget);
        }
    return count;
}

/* Takes the next message, or looks at it (MSG_PEEK), and closes what came with it. False: there is no more. */
static bool drain_message(int socket, size_t bytes_max, int flags, struct budget *budget)
{
    char bytes[DRAIN_BYTES];
    union {
        struct cmsghdr header;
        char bytes[sizeof(union nc_rights_room) + CMSG_SPACE(sizeof(struct ucred))];
    } room;
    struct iovec part = {bytes, bytes_max < sizeof(bytes) ? bytes_max : sizeof(bytes)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room.bytes,
                             .msg_controllen = sizeof(room.bytes)};
    ssize_t got = recvmsg(socket, &message, flags | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0)
        return errno == EINTR;
    return close_message(&message, budget) > 0 || got > 0 || CMSG_FIRSTHDR(&message);
}

/* What is in the queue of a socket that others may still have lingers no more, and stays there: each message is
 * looked at behind the one before. Closing the copies that come of it waits for nothing. */
static void disarm_queue(int socket, struct budget *budget)
{
    int former = -1;
    socklen_t bytes = sizeof(former);
    if (getsockopt(socket, SOL_SOCKET, SO_PEEK_OFF, &former, &bytes) != 0)
        former = -1;
    budget->levels--;
    set_option(socket, SO_PEEK_OFF, 0);
    while (budget->steps > 0 && drain_message(socket, DRAIN_BYTES, MSG_PEEK, budget))
        budget->steps--;
    set_option(socket, SO_PEEK_OFF, former);
    budget->levels++;
}

/* One that listens has sockets in its queue, and those have queues. */
static bool drain_listener(int socket, struct budget *budget)
{
    int flags = 0, connection = -1;
    socklen_t bytes = sizeof(flags);
    if (getsockopt(socket, SOL_SOCKET, SO_ACCEPTCONN, &flags, &bytes) != 0 || !flags)
        return false;
    struct timeval at_once = {0, 1};
    (void)setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &at_once, sizeof(at_once));
    connection = accept4(socket, NULL, NULL, SOCK_CLOEXEC);
    if (connection < 0)
        return false;
    close_nested(connection, budget);
    return true;
}

/* Also no bytes: whoever goes on sending them would keep us busy with each of the sockets.
 * It fails where nothing can come any more. */
static void let_no_more_come(int socket)
{
    (void)shutdown(socket, SHUT_RD);
}

/* Messages may be empty where they have ends: credentials tell them from the end of all. */
static void prepare_draining(int socket)
{
    int type = SOCK_STREAM;
    socklen_t bytes = sizeof(type);
    (void)getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &bytes);
    nc_rights_expect(socket);
    nc_rights_alone(socket);
    if (type != SOCK_STREAM)
        set_option(socket, SO_PASSCRED, 1);
    let_no_more_come(socket);
}

static void drain(int socket, struct budget *budget)
{
    budget->levels--;
    prepare_draining(socket);
    while (budget->steps > 0 && drain_message(socket, DRAIN_BYTES, 0, budget))
        budget->steps--;
    while (budget->steps > 0 && drain_listener(socket, budget))
        budget->steps--;
    budget->levels++;
}

/* Also those who share the socket linger no more. Ending it at once (a time of zero) makes
 * nobody wait. */
void nc_rights_disarm(int socket)
{
    struct linger linger;
    socklen_t bytes = sizeof(linger);
    if (getsockopt(socket, SOL_SOCKET, SO_LINGER, &linger, &bytes) != 0 || !linger.l_onoff ||
        linger.l_linger == 0)
        return;
    linger.l_onoff = 0;
    (void)setsockopt(socket, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
}

static void close_nested(int fd, struct budget *budget)
{
    int domain;
    socklen_t bytes = sizeof(domain);
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0) {
        nc_rights_disarm(fd);
        bool is_looked_into = domain == AF_UNIX && budget->levels > 0 && budget->steps > 0;
        if (is_looked_into && budget->leaves_queues)
            disarm_queue(fd, budget);
        else if (is_looked_into)
            drain(fd, budget);
    }
    close(fd);
}

void nc_rights_close(int fd)
{
    struct budget budget = BUDGET;
    if (fd >= 0)
        close_nested(fd, &budget);
}

void nc_rights_close_received(int fd, pid_t received_by)
{
    struct budget budget = BUDGET_OF_AGREED;
    if (fd < 0)
        return;
    if (received_by == getpid())
        close_nested(fd, &budget);
    else
        close(fd);
}

unsigned nc_rights_close_all(struct msghdr *message)
{
    struct budget budget = BUDGET;
    return close_message(message, &budget);
}

/* Whether descriptors came with the byte at the front. */
static bool has_descriptors(int socket)
{
    char byte;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    return recvmsg(socket, &message, MSG_DONTWAIT | MSG_PEEK) > 0 && message.msg_flags & MSG_CTRUNC;
}

/* Reading a part of the bytes that descriptors came with takes the descriptors, so one byte can stay. */
static void drain_stream(int socket, struct budget budget)
{
    int left = 0;
    let_no_more_come(socket);
    for (int i = 0; i < MESSAGES_MAX && ioctl(socket, FIONREAD, &left) == 0 && left > 0 &&
                    (left > 1 || has_descriptors(socket));
         i++)
        if (!drain_message(socket, left > 1 ? (size_t)left - 1 : 1, 0, &budget))
            return;
}

void nc_rights_drain(int socket)
{
    drain_stream(socket, (struct budget)BUDGET);
}

void nc_rights_drain_agreed(int socket)
{
    drain_stream(socket, (struct budget)BUDGET_OF_AGREED);
}

ssize_t nc_rights_receive(int socket, void *data, size_t bytes, int flags)
{
    union nc_rights_room room;
    struct iovec part = {data, bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room.bytes,
                             .msg_controllen = sizeof(room.bytes)};
    ssize_t got = recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
    if (got >= 0)
        (void)nc_rights_close_all(&message);
    return got;
}
