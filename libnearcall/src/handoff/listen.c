/* The listening socket: its path and lock, and the channels that come by it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/rights.h"
#include "handoff/handoff.h"

#define DEFAULT_MODE 0660

/* How long a process that lacks descriptors leaves its backlog alone: nothing tells when
 * there are some again. */
#define RETRY_MS 10

/* ---- The path ---- */

static int no_lock(nearcall_handoff *handoff, const char *lock_path)
{
    const char *step = "";
    if (errno == ENOENT)
        step = "; make the directory first, as by install -d -m 0750";
    else if (errno == EACCES)
        step = "; let the directory be this user's, as by install -d -m 0750 -o USER";
    return nc_handoff_fail(handoff, NEARCALL_E_FAILED_PRECONDITION, "user %u cannot open %s: %s%s",
                           (unsigned)geteuid(), lock_path, strerror(errno), step);
}

/* The lock belongs to the open file, so it ends with the last process that has it,
 * however that ends. The file stays: removing it would let two processes hold locks on
 * two files of one name. */
static int take_lock(nearcall_handoff *handoff)
{
    struct nc_handoff_listening *listening = &handoff->listening;
    const char *path = listening->address.path;
    char lock_path[sizeof(listening->address.path) + sizeof(".lock")];
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    snprintf(lock_path, sizeof(lock_path), "%s.lock", path);
    listening->lock_fd = open(lock_path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (listening->lock_fd < 0)
        return no_lock(handoff, lock_path);
    if (fcntl(listening->lock_fd, F_OFD_SETLK, &whole) == 0)
        return NEARCALL_OK;
    if (errno != EAGAIN && errno != EACCES)
        return nc_handoff_fail(handoff, NEARCALL_E_FAILED_PRECONDITION, "cannot lock %s: %s",
                               lock_path, strerror(errno));
    return nc_handoff_fail(handoff, NEARCALL_E_ALREADY_EXISTS,
                           "another process listens on unix:%s; stop it first, or choose another "
                           "address",
                           path);
}

/* A name in the same directory that this process alone uses, shortened where the kernel
 * would not take more. */
static int temporary_name(nearcall_handoff *handoff, struct sockaddr_un *to)
{
    const char *path = handoff->listening.address.path;
    const char *name = strrchr(path, '/') + 1;
    size_t room = sizeof(to->sun_path);
    char suffix[16];
    to->sun_family = AF_UNIX;
    if ((size_t)snprintf(to->sun_path, room, "%s.%d", path, (int)getpid()) < room)
        return NEARCALL_OK;
    int suffix_bytes = snprintf(suffix, sizeof(suffix), ".%x", (unsigned)getpid());
    size_t needed = (size_t)(name - path) + (size_t)suffix_bytes + 1;
    if (needed > room)
        return nc_handoff_fail(handoff, NEARCALL_E_INVALID_ARGUMENT,
                               "no room for a temporary name beside unix:%s: use a shorter "
                               "directory such as /run/NAME",
                               path);
    snprintf(to->sun_path, room, "%.*s%.*s%s", (int)(name - path), path, (int)(room - needed), name,
             suffix);
    return NEARCALL_OK;
}

static int publish(nearcall_handoff *handoff, const char *temporary)
{
    struct nc_handoff_listening *listening = &handoff->listening;
    const char *path = listening->address.path, *what = "";
    int r = nc_socket_file_publish(temporary, path, &what);
    listening->published = r == 0;
    if (r == -EEXIST || r == -EADDRINUSE)
        return nc_handoff_fail(handoff, NEARCALL_E_ALREADY_EXISTS,
                               "unix:%s cannot be an address: %s is there; choose another address, or move it away",
                               path, what);
    if (r < 0)
        return nc_handoff_fail(handoff, NEARCALL_E_FAILED_PRECONDITION, "rename, for unix:%s: %s", path,
                               strerror(-r));
    return NEARCALL_OK;
}

/* The mode of the new file is the descriptor's less the umask, so it can be narrower than
 * asked but never wider, until it is settled. */
static int bind_and_listen(nearcall_handoff *handoff, const struct sockaddr_un *to)
{
    struct nc_handoff_listening *listening = &handoff->listening;
    const char *step = "socket";
    listening->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listening->fd < 0)
        goto fail;
    nc_rights_refuse(listening->fd); /* until it is known who connects */
    step = "bind";
    if (fchmod(listening->fd, 0600) != 0 ||
        bind(listening->fd, (const struct sockaddr *)to, sizeof(*to)) != 0)
        goto fail;
    step = "chmod";
    int r = nc_socket_file_settle(listening->fd, to->sun_path,
                                  handoff->mode ? handoff->mode : DEFAULT_MODE, &listening->file);
    if (r < 0) {
        nc_socket_file_remove_any(to->sun_path); /* which file it is may be unknown */
        errno = -r;
        goto fail;
    }
    step = "listen";
    if (listen(listening->fd, NC_LISTEN_BACKLOG) != 0)
        goto fail;
    return publish(handoff, to->sun_path);
fail:
    return nc_handoff_fail(handoff, NEARCALL_E_FAILED_PRECONDITION, "%s, for unix:%s: %s", step,
                           listening->address.path, strerror(errno));
}

static int listen_path(nearcall_handoff *handoff, const char *address)
{
    struct sockaddr_un to = {0};
    handoff->listening.owner = getpid();
    int r = nc_handoff_parse_address(handoff, &handoff->listening.address, address);
    if (r == NEARCALL_OK)
        r = take_lock(handoff);
    if (r == NEARCALL_OK)
        r = temporary_name(handoff, &to);
    if (r != NEARCALL_OK)
        return r;
    nc_socket_file_remove_any(to.sun_path); /* of a process that had this number before */
    r = bind_and_listen(handoff, &to);
    if (r != NEARCALL_OK)
        nc_socket_file_remove(to.sun_path, &handoff->listening.file);
    return r;
}

static int begin(nearcall_handoff *handoff, int r)
{
    if (r == NEARCALL_OK)
        nc_handoff_watch_listening(handoff);
    else
        nc_handoff_stop_listening(handoff);
    return nc_handoff_opened(handoff, r);
}

NEARCALL_API int nearcall_handoff_listen(nearcall_handoff **ret_handoff, const char *address,
                                         const nearcall_handoff_options *options)
{
    if (!ret_handoff)
        return NEARCALL_E_MISUSE;
    int r = nc_handoff_new(ret_handoff, options, NEARCALL_HANDOFF_TAKE_CONNECTIONS);
    if (r != NEARCALL_OK)
        return nc_handoff_opened(*ret_handoff, r);
    return begin(*ret_handoff, listen_path(*ret_handoff, address));
}

static int listen_descriptor(nearcall_handoff *handoff, int fd)
{
    int family = 0, listens = 0;
    socklen_t family_bytes = sizeof(family), listens_bytes = sizeof(listens);
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &family_bytes) != 0 ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &listens_bytes) != 0)
        return nc_handoff_fail(handoff, NEARCALL_E_INVALID_ARGUMENT, "descriptor %d: %s", fd,
                               strerror(errno));
    if (family != AF_UNIX || !listens)
        return nc_handoff_fail(handoff, NEARCALL_E_INVALID_ARGUMENT,
                               "descriptor %d is not a Unix socket that listens", fd);
    nc_rights_refuse(fd);
    handoff->listening.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    int flags = fcntl(fd, F_GETFL);
    if (handoff->listening.fd < 0 || flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
        return nc_handoff_fail(handoff, NEARCALL_E_RESOURCE_EXHAUSTED, "descriptor %d: %s", fd,
                               strerror(errno));
    return NEARCALL_OK;
}

NEARCALL_API int nearcall_handoff_listen_fd(nearcall_handoff **ret_handoff, int fd,
                                            const nearcall_handoff_options *options)
{
    if (!ret_handoff)
        return NEARCALL_E_MISUSE;
    int r = nc_handoff_new(ret_handoff, options, NEARCALL_HANDOFF_TAKE_CONNECTIONS);
    if (r != NEARCALL_OK)
        return nc_handoff_opened(*ret_handoff, r);
    return begin(*ret_handoff, listen_descriptor(*ret_handoff, fd));
}

/* ---- Channels ---- */

/* One at a time: another process that waits for the socket gets the next. */
void nc_handoff_accept_channel(nearcall_handoff *handoff)
{
    struct nc_handoff_listening *listening = &handoff->listening;
    int fd = accept4(listening->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
        listening->retry_ns = nc_after_ms(handoff->now_ns, RETRY_MS);
    if (fd >= 0) {
        struct nc_handoff_channel *channel = nc_handoff_channel_new(handoff, fd, false);
        if (channel)
            nc_handoff_channel_receive(channel); /* its hello is there, mostly */
    }
    nc_handoff_watch_listening(handoff);
}
