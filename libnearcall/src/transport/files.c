#include "transport/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rights.h"
#include "nearcall.h"

/* ---- Sets ---- */

static struct nc_files *new_set(void)
{
    struct nc_files *files = calloc(1, sizeof(*files));
    if (files)
        files->holders = 1;
    return files;
}

static int refuse(int code, const char *what, const char **ret_what)
{
    *ret_what = what;
    return code;
}

int nc_files_add(struct nc_files **files, int fd, const char **ret_what)
{
    if (!*files)
        *files = new_set();
    if (!*files)
        return refuse(NEARCALL_E_RESOURCE_EXHAUSTED, "no memory for the request's files", ret_what);
    struct nc_files *set = *files;
    if (set->count == NC_FILE_DESCRIPTORS_PER_FRAME_MAX)
        return refuse(NEARCALL_E_RESOURCE_EXHAUSTED,
                      "the request has more files than the limit file_descriptors_per_frame_max",
                      ret_what);
    int duplicate = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (duplicate < 0 && errno == EBADF)
        return refuse(NEARCALL_E_INVALID_ARGUMENT, "a file of the request is not open", ret_what);
    if (duplicate < 0)
        return refuse(NEARCALL_E_RESOURCE_EXHAUSTED,
                      "this process has too many open files to pass one on, see ulimit -n", ret_what);
    set->fds[set->count] = duplicate;
    return (int)set->count++;
}

struct nc_files *nc_files_hold(struct nc_files *files)
{
    if (files)
        files->holders++;
    return files;
}

/* Those of a frame that keeps to the rules. */
static void close_all(const int *fds, unsigned count, pid_t received_by)
{
    for (unsigned i = 0; i < count; i++)
        nc_rights_close_received(fds[i], received_by);
}

void nc_files_unhold(struct nc_files *files)
{
    if (--files->holders > 0)
        return;
    close_all(files->fds, files->count, files->received_by);
    free(files);
}

void nc_files_attach(const struct nc_files *files, struct msghdr *message, union nc_control *room)
{
    size_t bytes = files->count * sizeof(int);
    memset(room, 0, sizeof(*room));
    message->msg_control = room;
    message->msg_controllen = (socklen_t)CMSG_SPACE(bytes);
    struct cmsghdr *control = &room->header;
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = (socklen_t)CMSG_LEN(bytes);
    memcpy(CMSG_DATA(control), files->fds, bytes);
}

/* ---- Arrivals ---- */

/* Keeps as many as there is room for, and closes what is more. */
static void adopt(struct nc_arrival *arrival, const struct cmsghdr *control)
{
    size_t count = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
        int fd;
        memcpy(&fd, CMSG_DATA(control) + i * sizeof(fd), sizeof(fd));
        if (arrival->count < NC_FILE_DESCRIPTORS_PER_FRAME_MAX) {
            arrival->fds[arrival->count++] = fd;
        } else {
            nc_rights_close(fd);
            arrival->truncated = true;
        }
    }
}

/* One that belongs to no frame, or not to the frame that it came with. */
static void close_stray(struct nc_arrival *arrival)
{
    bool is_ours = arrival->received_by == getpid();
    for (unsigned i = 0; i < arrival->count; i++)
        if (is_ours)
            nc_rights_close(arrival->fds[i]);
        else
            close(arrival->fds[i]);
    arrival->count = 0;
}

bool nc_descriptors_add(struct nc_descriptors *descriptors, struct msghdr *message, uint64_t from,
                        uint64_t to)
{
    struct nc_arrival arrival = {.from = from, .to = to,
                                 .truncated = message->msg_flags & MSG_CTRUNC};
    struct cmsghdr *control = CMSG_FIRSTHDR(message);
    for (; control; control = nc_control_next(message, control))
        if (control->cmsg_level == SOL_SOCKET && control->cmsg_type == SCM_RIGHTS)
            adopt(&arrival, control);
    if (arrival.count == 0 && !arrival.truncated)
        return true;
    arrival.received_by = getpid();
    if (descriptors->waiting < NC_ARRIVALS_MAX) {
        descriptors->arrivals[descriptors->waiting++] = arrival;
        return true;
    }
    close_stray(&arrival);
    return false;
}

static void pop(struct nc_descriptors *descriptors)
{
    descriptors->frame = descriptors->arrivals[0];
    descriptors->arrivals[0] = descriptors->arrivals[1];
    descriptors->waiting--;
}

static int misplaced(struct nc_fault *fault, const char *field, uint64_t value, const char *allowed)
{
    *fault = (struct nc_fault){-NEARCALL_E_INVALID_ARGUMENT, "server's", field, value, allowed};
    return -1;
}

/* The kernel ends a read within the message that brought descriptors, which begins
 * with the frame that announces them: so it is the frame that holds the read's last
 * byte, and it has begun in that read. What is wrong with MEMORY costs the memory. */
int nc_descriptors_take(struct nc_descriptors *descriptors, const struct nc_frame *frame,
                        uint64_t from, uint64_t to, struct nc_fault *fault)
{
    const struct nc_arrival *first = descriptors->arrivals;
    unsigned announced = frame->descriptors;
    descriptors->frame = (struct nc_arrival){0};
    if (descriptors->waiting && first->to <= to)
        pop(descriptors);
    const struct nc_arrival *came = &descriptors->frame;
    if (came->from > from || (came->to && came->to <= from) ||
        (descriptors->waiting && first->to <= to))
        return misplaced(fault, "descriptors' place", came->from, "with a frame's first byte");
    if (frame->type != NC_MEMORY &&
        (came->count > announced || (came->count < announced && !came->truncated)))
        return misplaced(fault, "descriptors", came->count, "as many as the frame announces");
    if (came->truncated)
        close_stray(&descriptors->frame);
    return 0;
}

void nc_descriptors_drop(struct nc_descriptors *descriptors)
{
    struct nc_arrival *frame = &descriptors->frame;
    close_all(frame->fds, frame->count, frame->received_by);
    frame->count = 0;
    frame->truncated = false;
}

struct nc_files *nc_descriptors_keep(struct nc_descriptors *descriptors)
{
    struct nc_arrival *came = &descriptors->frame;
    struct nc_files *files = new_set();
    if (!files) {
        nc_descriptors_drop(descriptors);
        return NULL;
    }
    files->received_by = came->received_by;
    files->count = came->count;
    memcpy(files->fds, came->fds, came->count * sizeof(int));
    came->count = 0;
    return files;
}

void nc_descriptors_close(struct nc_descriptors *descriptors)
{
    close_stray(&descriptors->frame);
    descriptors->frame.truncated = false;
    while (descriptors->waiting > 0)
        close_stray(&descriptors->arrivals[--descriptors->waiting]);
}
