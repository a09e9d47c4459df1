/* Programs that stay ready between their runs: the handle of a resident, and what its files share.
 * It shares nothing with the handle of calls.
 * May include: base. */
#ifndef NC_RESIDENT_H
#define NC_RESIDENT_H

#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/limits_gen.h"
#include "nearcall_resident.h"
#include "resident/request.h"

#define NC_RESIDENT_MESSAGE_BYTES 512

/* ---- Files that are watched (watch.c) ---- */

struct nc_resident_file {
    struct nc_resident_file *next;
    dev_t device;
    ino_t inode;
    off_t bytes;
    struct timespec modified;
    struct timespec changed;
    char path[];
};

/* What stands above a file, as links do and directories. */
struct nc_resident_above {
    struct nc_resident_above *next;
    size_t bytes;
    char path[];
};

/* The hash of a file's identity, as in the socket's name; 0: there is no such file. */
uint64_t nc_resident_identity(const char *path);
int nc_resident_watch_begin(nearcall_resident *resident);
int nc_resident_watch_file(nearcall_resident *resident, const char *path);
/* The code that this process has mapped: its libraries. */
int nc_resident_watch_mapped(nearcall_resident *resident);

/* Takes the events, when no file is other than it was; whether one is. */
bool nc_resident_watch_changed(nearcall_resident *resident);

/* The same for a worker, who takes no events; a system call while there are none, if all is watched. */
bool nc_resident_watch_is_outdated(const nearcall_resident *resident);
void nc_resident_watch_end(nearcall_resident *resident);

/* ---- The place (place.c) ---- */

struct nc_resident_place {
    char socket[4096];
    char lock[4096]; /* "": there is none */
    uint64_t identity; /* by the socket's name; 0: the name does not tell */
    dev_t device;    /* of the socket's path, to see whether it still is our own */
    ino_t inode;
};

int nc_resident_place_open(nearcall_resident *resident);
bool nc_resident_place_is_own(const nearcall_resident *resident);
/* Takes the lock and empties it; false: this resident is not found any more. */
bool nc_resident_place_ready(const nearcall_resident *resident);
/* Takes the lock and removes the socket; lock and log too, when it is outdated. */
void nc_resident_place_remove(const nearcall_resident *resident);

/* ---- Who may ask (peer.c) ---- */

#define NC_RESIDENT_NAMESPACES 10
#define NC_RESIDENT_NAMESPACE_BYTES 48
#define NC_RESIDENT_STANDING_BYTES 16384
#define NC_RESIDENT_KEYRING_UNKNOWN UINT32_MAX

/* What the kernel goes by, as lines of a name, a colon and a value. */
struct nc_resident_standing {
    size_t bytes;
    char text[NC_RESIDENT_STANDING_BYTES];
    uint64_t ignored; /* signals; not compared */
};

struct nc_resident_self {
    struct nc_resident_standing standing;
    dev_t root_device;
    ino_t root_inode;
    char namespaces[NC_RESIDENT_NAMESPACES][NC_RESIDENT_NAMESPACE_BYTES];
    gid_t *groups; /* sorted */
    int groups_count;
    char *names;         /* variables that are read once, each with its NUL */
    size_t names_bytes;
    char *environment;   /* as this process was started with it */
    size_t environment_bytes;
    size_t noticed_at;   /* in names: those that the program was seen to read */
    size_t changed_at;   /* in names: those of what the program has changed, to their end */
    char *settings;      /* what it has set, each with its NUL */
    size_t settings_bytes;
    size_t settings_count;
    uint64_t ignored;    /* signals that the last caller ignores */
    char **applied;      /* the variables of the last request, with that */
    char *interpreter;   /* that env finds for the program; NULL: it is none of env's */
    char interpreter_name[NAME_MAX + 1];
    const char *directory; /* that callers must be in; NULL: in any */
    dev_t directory_device;
    ino_t directory_inode; /* 0: it is not there */
    bool reads_input;
    bool reads_all; /* of the environment */
    char refusal[NC_RESIDENT_MESSAGE_BYTES];
};

int nc_resident_self_init(nearcall_resident *resident, const char *const *names);
void nc_resident_self_free(struct nc_resident_self *self);

/* NULL, or why the caller must run the program itself. The text is valid until the next one. */
const char *nc_resident_peer_refusal(struct nc_resident_self *self, int connection, pid_t process_id, uint32_t keyring);

/* ---- Variables (environment.c) ---- */

/* NULL, or why not, until the next one. */
const char *nc_resident_variable_refusal(struct nc_resident_self *self, char *const *environment);
/* From here on a caller must have of it what the resident was started with; 0, or -1: no memory. */
int nc_resident_add_name(struct nc_resident_self *self, const char *variable);
/* What the program has changed since its start; 0, or -1: no memory. Called once. */
int nc_resident_changes_keep(struct nc_resident_self *self);
/* The same changes to a request's variables; 0, or -1: no memory. */
int nc_resident_changes_apply(struct nc_resident_self *self, struct nc_resident_request *request);
void nc_resident_changes_free(struct nc_resident_self *self);

/* ---- What the kernel shows of them (shown.c) ---- */

/* Leaves nothing of this process's environment in /proc/PID/environ but what launchers have
 * added; whoever has kept a pointer to a variable's text finds none there. Where that cannot be it says so. */
void nc_resident_environment_hide(void);

/* ---- What the program has read (reads.c) ---- */

/* NULL, or why the caller must run the program itself. */
const char *nc_resident_reads_refusal(const struct nc_resident_self *self,
                                      const struct nc_resident_request *request,
                                      const int fds[NC_RESIDENT_FDS]);

/* ---- The interpreter of a script (interpreter.c) ---- */

/* Looks what env finds by this process's PATH at its start, for scripts that begin with it. 0,
 * or -1: no memory. */
int nc_resident_interpreter_keep(struct nc_resident_self *self, const char *program);
/* NULL, or why the caller must run the program itself. */
const char *nc_resident_interpreter_refusal(const struct nc_resident_self *self,
                                            const struct nc_resident_request *request);

/* ---- What a process is allowed (standing.c) ---- */

/* The whole of a file, with a NUL behind it, which the caller frees; NULL with errno. */
char *nc_resident_read_at(int directory, const char *name, size_t *ret_bytes);
/* Of the process that this directory of /proc is of; false: not all of it can be known. ours,
 * if not NULL, tells what this kernel does not have: that is not asked for again. */
bool nc_resident_standing_read(struct nc_resident_standing *standing, int directory, pid_t process_id,
                               const struct nc_resident_standing *ours);
/* NULL, or why nobody can know what such a process is allowed. */
const char *nc_resident_standing_restriction(const struct nc_resident_standing *standing);
/* The length of the name of the first that is not the same; 0: there is none. */
size_t nc_resident_standing_difference(const struct nc_resident_standing *ours,
                                       const struct nc_resident_standing *theirs, const char **ret_name);
/* How much of a control group's path, which ends with a NUL, is compared. */
size_t nc_resident_group_bytes(const char *path, size_t bytes);
/* Whether the process that made the connection has not ended: its number is not another's. */
bool nc_resident_peer_is_there(int connection);
/* This process's session keyring; 0: it has nothing but its user's own. */
uint32_t nc_resident_keyring(void);

/* ---- The supervisor ---- */

/* HEARING: for one launcher, which is slow. */
enum nc_resident_worker_state {
    NC_RESIDENT_STARTING,
    NC_RESIDENT_WAITING,
    NC_RESIDENT_HEARING,
    NC_RESIDENT_BUSY
};

struct nc_resident_worker {
    struct nc_resident_worker *next;
    enum nc_resident_worker_state state;
    pid_t process_id;
    int pidfd;
    int lease;      /* -1: the worker has closed its end */
    int connection; /* to the launcher of its run; -1: none */
    bool is_withdrawn;
};

/* Messages of a lease, from the worker. TAKEN and FORWARD bring a connection. */
enum nc_resident_lease_type {
    NC_RESIDENT_READY = 1,
    NC_RESIDENT_TAKEN = 2,
    NC_RESIDENT_FORWARD = 3,
    NC_RESIDENT_OUTGROWN = 4, /* a caller may have more than this resident can give */
    NC_RESIDENT_SLOW = 5,     /* it has a connection whose request does not come; it waits for no other */
    NC_RESIDENT_WITHDRAWN = 6 /* the launcher of what was TAKEN has gone before RUNNING: there was no run */
};

struct nc_resident_lease_message {
    uint32_t type;
    uint32_t kind; /* of the request, for FORWARD */
};

struct nearcall_resident {
    char message[NC_RESIDENT_MESSAGE_BYTES];
    int listener;
    char *program;
    uint32_t workers_wanted;
    int64_t idle_ms; /* NEARCALL_NO_TIMEOUT: it stays */
    int (*interrupt_check)(void *argument); /* NULL: nobody is asked */
    void *interrupt_argument;
    struct nc_resident_place place;
    struct nc_resident_self self;

    /* The supervisor's. */
    pid_t supervisor;
    int signals; /* a signalfd of SIGTERM */
    int inotify;
    struct nc_resident_file *files;
    struct nc_resident_above *above;
    bool looks; /* not all can be watched: the files are looked at with each run */
    int64_t process_start_ns; /* by the clock of files; 0: not asked for yet */
    struct nc_resident_worker *workers;
    int next_lease[2]; /* for the worker that is being forked; -1: none */
    unsigned failures; /* workers in a row that ended before they waited */
    unsigned lost;     /* workers in a row that ended while they waited */
    int64_t retry_ns;  /* no fork before it; 0: at once */
    int64_t idle_since_ns;
    int64_t started_ms; /* since 1970 */
    uint64_t runs;      /* that have ended */
    uint32_t workers_max;
    bool ready;
    bool outdated;
    bool leaving;
    struct sigaction child_action; /* as the program had them, for its children */
    sigset_t mask;
    struct rlimit descriptors;

    /* A worker's. */
    pid_t worker;
    int lease;
    int epoll;
    bool lease_ended;
    bool waits;
    bool slow; /* it has sent SLOW */
    int connection;
    struct nc_resident_request request;
    uint8_t *body; /* the whole request; its strings point into it */
    char *argument_zero;
};

/* ---- Failures (failure.c) ---- */

int nc_resident_fail(nearcall_resident *resident, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Closes if it is open, and says that it is not. */
void nc_resident_close_fd(int *fd);
/* The same for a connection from which nobody reads any more: what waits in its queue does
 * not hold up whoever closes it. */
void nc_resident_close_connection(int *connection);

/* ---- Sleeping (sleep.c): as poll() and epoll_wait() ---- */

int nc_resident_poll(const nearcall_resident *resident, struct pollfd *set, size_t count, int timeout_ms);
int nc_resident_epoll_wait(const nearcall_resident *resident, struct epoll_event *events, int count);

/* ---- Leases (lease.c) ---- */

/* 0, or -1 with errno. What the kernel refuses for ETOOMANYREFS is sent again for a while. */
int nc_resident_lease_send(int lease, const struct nc_resident_lease_message *message, int fd);
/* 1: a message, and a descriptor or -1; 0: the end; -1 with errno: EAGAIN, nothing yet. */
int nc_resident_lease_receive(int lease, struct nc_resident_lease_message *message, int *ret_fd);

/* ---- The table of workers (workers.c) ---- */

/* Handles what a worker has sent. */
void nc_resident_worker_hear(nearcall_resident *resident, struct nc_resident_worker *worker);
/* Reaps it when it has ended, tells its launcher, and frees it. */
void nc_resident_worker_reap(nearcall_resident *resident, struct nc_resident_worker *worker);
void nc_resident_workers_free(nearcall_resident *resident);

/* ---- Leaving (leave.c) ---- */

void nc_resident_leave(nearcall_resident *resident, const char *why);

/* ---- How many workers there are, and forking more (fork.c) ---- */

unsigned nc_resident_count(const nearcall_resident *resident, enum nc_resident_worker_state state);
bool nc_resident_wants_worker(const nearcall_resident *resident);
/* NEARCALL_RESIDENT_FORK, or 0: it must be tried later. */
int nc_resident_ask_for_fork(nearcall_resident *resident);

/* Answers a status or a stop (report.c). */
void nc_resident_report(nearcall_resident *resident, int connection);

/* ---- A worker ---- */

/* PASSED_ON: the supervisor has the connection, and answers it. */
enum nc_resident_taken { NC_RESIDENT_NOTHING, NC_RESIDENT_TOOK, NC_RESIDENT_SPOILED, NC_RESIDENT_PASSED_ON };

/* Reads a request (receive.c): 0, or -1: the connection is of no use. The
 * descriptors that came are the caller's; those that did not are -1. After -1 they may
 * still be those of a run, which its launcher goes on with. */
int nc_resident_receive(nearcall_resident *resident, int connection, int fds[NC_RESIDENT_FDS]);

/* Raises what is lower than the caller's: NULL, or why not, and whether the caller may have
 * more than this process. Nothing else is changed. */
const char *nc_resident_raise_limits(pid_t caller, bool *ret_outgrown);

/* Makes this process the launcher's (apply.c) and closes fds: NULL. Or what failed; fds are
 * the caller's still. */
const char *nc_resident_apply(const struct nc_resident_request *request, pid_t caller,
                              int fds[NC_RESIDENT_FDS]);
/* Ignores what its caller does, a bit for each signal, but for what the program handles
 * itself. */
void nc_resident_ignore(uint64_t signals);
/* Own copies of files that are open for reading. */
void nc_resident_reopen_files(void);

#endif
