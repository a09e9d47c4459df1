/* Every read and write moves a random few bytes, some of them none at first, while short_io is set. For one
 * file of a program that is linked with --wrap for recv, recvmsg, send and sendmsg. */
#ifndef SHORT_IO_H
#define SHORT_IO_H

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#include "test.h"

static bool short_io;
static uint64_t state;

static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

ssize_t __real_recv(int fd, void *data, size_t bytes, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t bytes, int flags);
ssize_t __real_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags);

/* How much of so many bytes is received; 0: none, and errno says why. */
static size_t some_of(size_t bytes)
{
    if (!short_io)
        return bytes;
    if (next_random() % 8 == 0) {
        errno = next_random() % 2 ? EINTR : EAGAIN;
        return 0;
    }
    size_t some = (size_t)(1 + next_random() % 40);
    return some < bytes ? some : bytes;
}

ssize_t __wrap_recv(int fd, void *data, size_t bytes, int flags)
{
    size_t some = some_of(bytes);
    return some ? __real_recv(fd, data, some, flags) : -1;
}

ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags)
{
    size_t some = some_of(message->msg_iov->iov_len);
    if (!some)
        return -1;
    message->msg_iov->iov_len = some;
    return __real_recvmsg(fd, message, flags);
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    uint8_t bytes[40];
    size_t count = 0, some = (size_t)(1 + next_random() % sizeof(bytes));
    size_t parts = (size_t)message->msg_iovlen;
    if (!short_io)
        return __real_sendmsg(fd, message, flags);
    if (next_random() % 8 == 0) {
        errno = next_random() % 2 ? EINTR : EAGAIN;
        return -1;
    }
    for (size_t part = 0; part < parts; part++)
        for (size_t i = 0; i < message->msg_iov[part].iov_len && count < some; i++)
            bytes[count++] = ((const uint8_t *)message->msg_iov[part].iov_base)[i];
    struct iovec one = {bytes, count};
    struct msghdr shorter = {.msg_iov = &one, .msg_iovlen = 1};
    return __real_sendmsg(fd, &shorter, flags);
}

/* A hello goes out whole, or its connection is given up. */
static bool is_hello(const void *data, size_t bytes)
{
    return bytes >= 4 && memcmp(data, "\x89NCH", 4) == 0;
}

ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags)
{
    struct iovec all = {(void *)(uintptr_t)data, bytes};
    struct msghdr message = {.msg_iov = &all, .msg_iovlen = 1};
    return is_hello(data, bytes) ? __real_sendmsg(fd, &message, flags) : __wrap_sendmsg(fd, &message, flags);
}

/* The seed is printed, and may be given as NEARCALL_TEST_SEED. */
static void seed_short_io(void)
{
    state = (uint64_t)test_parameter("NEARCALL_TEST_SEED", (long)time(NULL)) | 1;
    printf("NEARCALL_TEST_SEED=%llu\n", (unsigned long long)state);
}

#endif
