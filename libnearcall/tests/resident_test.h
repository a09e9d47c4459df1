/* What the tests of residents share: a resident as a process, and a launcher that says
 * byte for byte what it sends. */
#ifndef RESIDENT_TEST_H
#define RESIDENT_TEST_H

#include "nearcall_resident.h"
#include "resident/request.h"
#include "test.h"

#define PATIENCE_MS 20000
#define RESIDENT_TEST_FILES 128

struct resident {
    pid_t pid;
    char program[128]; /* a file of the test's own, which may be changed */
    char path[100];
    char lock[108];
    char log[108];
};

/* Capabilities that residents with NCTEST_LIMIT (CAP_SYS_RESOURCE) or NCTEST_FILES (CAP_SYS_ADMIN
 * as well) do not have, and so their callers. */
void resident_drop(int capability);

/* Starts one as nearcall-run would. Its runs do what their first argument says:
 *   exit N     end with a code           kill N   by a signal
 *   state      write what the process is to descriptor 1, as lines
 *   wait       write "ready", wait for a signal
 *   fork       leave a child behind that writes "left" when its standard input ends
 *   ending N   say ENDING, write "ready", wait for the end of standard input, exit N
 * With NCTEST_CRASH set its children end before they wait, with NCTEST_LOST a moment
 * later; with NCTEST_LIMIT it may not write cores, with NCTEST_FILES it has few descriptors. */
void resident_start(struct resident *resident, const nearcall_resident_options *options);
/* The name of its program, with an identity that is that of a file or not. */
void resident_start_as(struct resident *resident, const nearcall_resident_options *options, uint64_t identity);
/* Waits until it has left: its exit code, or minus the signal. */
int resident_wait(const struct resident *resident);
void resident_stop(const struct resident *resident);

/* Asked in its waits whether a signal has come; NULL: nobody is. */
extern int (*resident_check)(void *argument);

/* ---- A launcher ---- */

struct launch {
    int connection;
    int input;  /* the other ends of the run's streams */
    int output;
    int errors;
};

struct frame {
    uint32_t type, value, second;
    char text[8192];
};

int resident_connect(const struct resident *resident);
/* A request of a kind; arguments and environment end with NULL. Returns its bytes. */
size_t request_make(uint8_t *to, size_t room, uint32_t kind, uint32_t umask_value,
                    const char *const *arguments, char *const *environment);
void request_send(int connection, const void *data, size_t bytes, const int *fds, int fds_count);

/* Starts a run in a directory: the program and two arguments, of which NULL are left out. */
void launch_in(struct launch *launch, const struct resident *resident, const char *directory,
               const char *first, const char *second);
void launch_start(struct launch *launch, const struct resident *resident, const char *first,
                  const char *second);
/* 1 and a frame, or 0 at the end. */
int frame_next(int connection, struct frame *frame);
void frame_expect(int connection, uint32_t type, struct frame *ret_frame);
/* Expects RUNNING, and this end. */
void launch_expect(struct launch *launch, uint32_t type, uint32_t value);
/* All that comes from a descriptor until its end. */
void read_all(int fd, char *to, size_t room);
void read_line(int fd, const char *line);
void launch_close(struct launch *launch);

/* Sends status or stop; its report. */
void resident_ask(const struct resident *resident, uint32_t kind, struct frame *ret_report);
/* Polls its status for a text. */
void resident_await(const struct resident *resident, const char *text);

#endif
