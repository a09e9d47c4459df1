#include "request.h"

#include "bytes.h"
#include "limits_gen.h"
#include "standing.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

/* spec/resident.md, Request. */
enum { HEADER_BYTES = 48, VERSION = 1, KIND_RUN = 1, DESCRIPTORS = 4 };
enum { AT_TOTAL = 8, AT_VERSION = 12, AT_KIND = 14, AT_PROCESS = 16, AT_UMASK = 20 };
enum { AT_ROWS = 24, AT_COLUMNS = 26, AT_ARGUMENTS = 28, AT_VARIABLES = 32, AT_KEYRING = 36 };
static const unsigned char magic[8] = {0x8B, 0x4E, 0x43, 0x52, 0x0D, 0x0A, 0x1A, 0x0A};

/* What most requests fit in; larger ones are allocated. */
enum { USUAL_BYTES = 32768 };
static char usual[USUAL_BYTES];

struct list {
    char **strings;
    uint32_t count;
    size_t bytes; /* with the NULs */
};

static struct list measure(char **strings)
{
    struct list list = {strings, 0, 0};
    for (; strings[list.count] != NULL; list.count++)
        list.bytes += strlen(strings[list.count]) + 1;
    return list;
}

static char *append(char *at, const struct list *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        at = stpcpy(at, list->strings[i]) + 1;
    return at;
}

static uint32_t current_umask(void)
{
    mode_t mask = umask(S_IRWXG | S_IRWXO);
    umask(mask);
    return mask;
}

static void fill_header(char *header, const struct winsize *size, const struct list *arguments,
                        const struct list *variables)
{
    memcpy(header, magic, sizeof(magic));
    nc_put16(header + AT_VERSION, VERSION);
    nc_put16(header + AT_KIND, KIND_RUN);
    nc_put32(header + AT_PROCESS, (uint32_t)getpid());
    nc_put32(header + AT_UMASK, current_umask());
    nc_put16(header + AT_ROWS, size->ws_row);
    nc_put16(header + AT_COLUMNS, size->ws_col);
    nc_put32(header + AT_ARGUMENTS, arguments->count);
    nc_put32(header + AT_VARIABLES, variables->count);
    nc_put32(header + AT_KEYRING, nc_standing_keyring());
}

static int fill(struct request *request, char **strings, const struct winsize *size, struct reason *reason)
{
    char directory[PATH_MAX];
    struct list arguments = measure(strings), variables = measure(environ);
    /* The kernel has no name for a directory that was removed. */
    if (getcwd(directory, sizeof(directory)) == NULL)
        directory[0] = '\0';
    size_t total = HEADER_BYTES + strlen(directory) + 1 + arguments.bytes + variables.bytes;
    if (total > NC_RESIDENT_REQUEST_BYTES_MAX)
        return nc_because(reason, "arguments and environment are more than limit resident_request_bytes_max", 0);
    char *bytes = total <= sizeof(usual) ? usual : malloc(total);
    if (bytes == NULL)
        return nc_because(reason, "no memory for the request", 0);
    memset(bytes, 0, HEADER_BYTES);
    fill_header(bytes, size, &arguments, &variables);
    nc_put32(bytes + AT_TOTAL, (uint32_t)total);
    char *at = stpcpy(bytes + HEADER_BYTES, directory) + 1;
    append(append(at, &arguments), &variables);
    request->bytes = bytes;
    request->length = total;
    return 0;
}

int nc_request_build(struct request *request, char **arguments, const struct winsize *size, struct reason *reason)
{
    int directory = openat(AT_FDCWD, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        return nc_because(reason, "cannot open the current directory", errno);
    request->directory = directory;
    if (fill(request, arguments, size, reason) == 0)
        return 0;
    close(directory);
    return -1;
}

static ssize_t send_with_descriptors(const struct request *request, int connection)
{
    const int descriptors[DESCRIPTORS] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, request->directory};
    union {
        char bytes[CMSG_SPACE(sizeof(descriptors))];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec text = {(char *)(size_t)request->bytes, request->length};
    struct msghdr message = {.msg_iov = &text, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(descriptors));
    memcpy(CMSG_DATA(header), descriptors, sizeof(descriptors));
    return sendmsg(connection, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static int is_end(int error)
{
    return error == EPIPE || error == ECONNRESET || error == ENOTCONN;
}

static void advance(struct request *request, ssize_t sent)
{
    request->bytes += sent;
    request->length -= (size_t)sent;
}

enum nc_sent nc_request_send(struct request *request, int connection, struct reason *reason)
{
    ssize_t sent = send_with_descriptors(request, connection);
    if (sent >= 0) {
        advance(request, sent);
        return NC_SENT;
    }
    if (is_end(errno))
        return NC_SENT_ENDED;
    if (errno != ETOOMANYREFS) {
        nc_because(reason, "cannot send the request", errno);
        return NC_SENT_PLAIN;
    }
    /* The library has no text for it. */
    nc_because(reason, "too many descriptors of this user are on the way (ETOOMANYREFS);"
                       " a higher limit of open files (ulimit -n) lets more be", 0);
    return NC_SENT_LATER;
}

int nc_request_continue(struct request *request, int connection)
{
    ssize_t sent = send(connection, request->bytes, request->length, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    advance(request, sent);
    return 0;
}
