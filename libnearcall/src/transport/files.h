/* Descriptors that travel with calls: those of one frame, and which frame those are
 * of that came with the bytes of a read. */
#ifndef NC_FILES_H
#define NC_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/limits_gen.h"
#include "wire/wire.h"

/* The descriptors of one frame, held by the request that is put together, by the
 * call that sends it, or by the handle that hands a reply out. */
struct nc_files {
    unsigned holders;
    unsigned count;
    pid_t received_by; /* the process that a peer sent them to; 0: they are the caller's */
    int fds[NC_FILE_DESCRIPTORS_PER_FRAME_MAX]; /* -1: taken */
};

/* Adds a duplicate of the descriptor, and makes the set when there is none. Its
 * number in the set, or NEARCALL_E_... with *ret_what set. */
int nc_files_add(struct nc_files **files, int fd, const char **ret_what);

/* The set with one more holder; NULL stays NULL. */
struct nc_files *nc_files_hold(struct nc_files *files);

/* Gives a set up; the last who does closes what is in it. *files is NULL then. */
void nc_files_unhold(struct nc_files *files);
static inline void nc_files_release(struct nc_files **files)
{
    struct nc_files *held = *files;
    *files = NULL;
    if (held)
        nc_files_unhold(held);
}

/* What came with the read of the bytes from..to of the stream. */
struct nc_arrival {
    uint64_t from;
    uint64_t to;
    bool truncated; /* there were more, which this process could not have */
    pid_t received_by;
    unsigned count;
    int fds[NC_FILE_DESCRIPTORS_PER_FRAME_MAX];
};

/* Those of a frame that is not complete, and of one behind it whose first bytes came
 * with its last. */
#define NC_ARRIVALS_MAX 2

struct nc_descriptors {
    unsigned waiting;
    struct nc_arrival arrivals[NC_ARRIVALS_MAX];
    struct nc_arrival frame; /* those of the frame that is being handled */
};

/* Room for what may come with one message. */
union nc_control {
    struct cmsghdr header;
    uint8_t bytes[CMSG_SPACE(NC_FILE_DESCRIPTORS_PER_FRAME_MAX * sizeof(int))];
};

/* Notes what came with a message; false: it cannot belong to a frame, and was closed. */
bool nc_descriptors_add(struct nc_descriptors *descriptors, struct msghdr *message, uint64_t from,
                        uint64_t to);

/* Makes what came with the frame, which takes the bytes from..to of the stream, that
 * of the frame that is being handled. 0, or -1 with the fault filled. */
int nc_descriptors_take(struct nc_descriptors *descriptors, const struct nc_frame *frame,
                        uint64_t from, uint64_t to, struct nc_fault *fault);

/* Closes what nobody took of the frame that was handled. */
void nc_descriptors_drop(struct nc_descriptors *descriptors);

/* Makes a set of what came with the frame; NULL: no memory, and they are closed. */
struct nc_files *nc_descriptors_keep(struct nc_descriptors *descriptors);

void nc_descriptors_close(struct nc_descriptors *descriptors);

/* Fills the message's control part from the set. */
void nc_files_attach(const struct nc_files *files, struct msghdr *message, union nc_control *room);

#endif
