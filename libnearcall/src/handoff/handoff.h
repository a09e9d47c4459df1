/* Giving live connections, listeners and files to other processes, and taking them: the handle of
 * handoffs and what its files share. It shares nothing with the handle of calls.
 * May include: base, wire. */
#ifndef NC_HANDOFF_H
#define NC_HANDOFF_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/address.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/fork.h"
#include "base/limits_gen.h"
#include "base/socket_file.h"
#include "handoff/frame.h"
#include "nearcall_handoff.h"

#define NC_HANDOFF_MESSAGE_BYTES 512

enum nc_handoff_state {
    NC_HANDOFF_GREETING, /* the peer's hello is awaited */
    NC_HANDOFF_OPEN,
    NC_HANDOFF_ENDING, /* shut down; what had arrived before is still read */
    NC_HANDOFF_ENDED   /* its descriptor is closed; freed by nc_handoff_enter() */
};

enum nc_handoff_fate { NC_HANDOFF_WAITING = 1, NC_HANDOFF_IS_TAKEN, NC_HANDOFF_IS_REFUSED, NC_HANDOFF_IS_LOST };

/* What is being given; one at a time. */
struct nc_handoff_gift {
    uint64_t id;
    enum nc_handoff_fate fate;
    uint8_t reason;
    char text[NC_HANDOFF_MESSAGE_BYTES / 2];
};

struct nc_handoff_channel {
    struct nc_handoff_channel *next;
    nearcall_handoff *handoff;
    uint64_t number;
    enum nc_handoff_state state;
    int fd;
    dev_t device; /* with inode: which socket fd was, for a child that */
    ino_t inode;  /* closes only what is still its own */
    bool connected_here;
    pid_t process_id; /* of the peer, as the kernel said */
    uid_t user_id;
    struct nc_handoff_hello peer;
    struct nc_handoff_reader reader;
    struct nc_buffer out; /* whole frames, but for the first's beginning */
    uint64_t queued;      /* bytes that were ever put into out */
    uint64_t written;     /* and of them, those that the kernel took */
    bool watches_out;
    int64_t deadline_ns; /* of the hello, or of the frame that has begun */
    uint64_t last_arrival;
    unsigned arrivals; /* neither accepted nor refused */
    int64_t answer_ns; /* until when an arrival waits for room for its answer; 0: none does */
    uint64_t last_id;
    struct nc_handoff_gift gift;
    bool peer_drains;
    char why[NC_HANDOFF_MESSAGE_BYTES / 2]; /* it has ended */
};

/* Something that was given and not accepted yet; its parts lie behind it. */
struct nc_handoff_arrival {
    struct nc_handoff_arrival *next;
    struct nc_handoff_channel *channel;
    uint64_t id;
    int kind;
    int fd;
    dev_t device;
    ino_t inode;
    pid_t received_by;
    struct nc_handoff_text parts[NC_HANDOFF_PARTS];
    uint8_t data[];
};

/* Room for "unix:" or "tcp:" and whatever the kernel may say behind it. */
#define NC_HANDOFF_ADDRESS_BYTES 160

/* What the program was given last; the texts of its item lie here. */
struct nc_handoff_accepted {
    struct nc_handoff_arrival *arrival;
    char name[NC_HANDOFF_NAME_BYTES_MAX + 1];
    char local[NC_HANDOFF_NAME_BYTES_MAX + 1];
    char remote[NC_HANDOFF_NAME_BYTES_MAX + 1];
};

struct nc_handoff_listening {
    int fd; /* -1: it does not listen */
    bool watched;
    int64_t retry_ns; /* when it is looked at again; 0: it need not wait */
    int lock_fd;
    pid_t owner;  /* whose the path is to remove */
    struct nc_socket_file file; /* of the path */
    bool published;
    struct nc_address address;
};

struct nearcall_handoff {
    struct nc_fork_guard guard;
    /* As in nearcall_client: a child that finds it 1 trusts nothing it inherited. */
    atomic_int busy;
    atomic_int asleep; /* 1 while the thread inside is in a system call that waits, and memory is whole */
    bool unusable; /* it is not open, or not yet */
    bool drained;
    bool forked; /* this is a child of the process that made it */
    int epoll_fd;
    int bell_fd; /* always readable; watched while the program is to be woken; -1: never */
    bool bell_rings;
    int64_t now_ns;
    uint32_t flags;
    int (*interrupt_check)(void *argument); /* NULL: nobody is asked */
    void *interrupt_argument;
    uint32_t mode;
    uint32_t takes;
    uint32_t window;
    struct nc_handoff_limits limits;
    uint32_t channels_max;
    uint32_t users_count;
    uint32_t *users;
    struct nc_handoff_listening listening;
    struct nc_handoff_channel *channels;
    unsigned channels_open;
    uint64_t last_channel;
    struct nc_handoff_channel *connected; /* the one that this side connected */
    struct nc_handoff_arrival *arrivals; /* in the order in which they came */
    struct nc_handoff_arrival **arrivals_end;
    struct nc_handoff_accepted accepted;
    int reason;
    char message[NC_HANDOFF_MESSAGE_BYTES];
};

static inline bool nc_handoff_is_busy(const nearcall_handoff *handoff)
{
    return atomic_load_explicit(&handoff->busy, memory_order_relaxed) != 0;
}
static inline void nc_handoff_become_busy(nearcall_handoff *handoff)
{
    atomic_store_explicit(&handoff->busy, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
}

/* Around a system call that waits, as in nearcall_client. */
static inline void nc_handoff_fall_asleep(nearcall_handoff *handoff)
{
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(&handoff->asleep, 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
}
static inline void nc_handoff_wake_up(nearcall_handoff *handoff)
{
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(&handoff->asleep, 0, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
}

/* check.c */
int nc_handoff_fail(nearcall_handoff *handoff, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int nc_handoff_parse_address(nearcall_handoff *handoff, struct nc_address *address,
                             const char *text);
bool nc_handoff_admits(const nearcall_handoff *handoff, uid_t user);

/* listening.c */
void nc_handoff_watch_listening(nearcall_handoff *handoff);
void nc_handoff_stop_listening(nearcall_handoff *handoff);

/* arrivals.c */

/* One that waits to be accepted; NULL: no memory. */
struct nc_handoff_arrival *nc_handoff_arrival_new(struct nc_handoff_channel *channel,
                                                  const struct nc_handoff_frame *frame, int fd);

/* The oldest one whose answer the kernel takes at once; it stays in the list. NULL: there is none. */
struct nc_handoff_arrival *nc_handoff_answerable_arrival(nearcall_handoff *handoff);

/* The oldest one, which nobody else answers from now on. NULL: there is none. */
struct nc_handoff_arrival *nc_handoff_next_arrival(nearcall_handoff *handoff);

/* The same for the one with that number. */
struct nc_handoff_arrival *nc_handoff_find_arrival(struct nc_handoff_channel *channel, uint64_t id);
void nc_handoff_drop_arrivals(struct nc_handoff_channel *channel);
void nc_handoff_arrival_free(struct nc_handoff_arrival *arrival);

/* channel.c */
struct nc_handoff_channel *nc_handoff_channel_new(nearcall_handoff *handoff, int fd,
                                                  bool connected_here);
void nc_handoff_channel_flush(struct nc_handoff_channel *channel);
void nc_handoff_channel_send(struct nc_handoff_channel *channel,
                             const struct nc_handoff_frame *frame);
void nc_handoff_channel_send_hello(struct nc_handoff_channel *channel, const char *refusal);
ssize_t nc_handoff_channel_write(struct nc_handoff_channel *channel, int passed_fd);
void nc_handoff_channel_watch(struct nc_handoff_channel *channel, bool out);
void nc_handoff_channel_end(struct nc_handoff_channel *channel, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void nc_handoff_channel_close(struct nc_handoff_channel *channel);
void nc_handoff_channel_orphan(struct nc_handoff_channel *channel);

/* arrive.c */
int nc_handoff_handle(struct nc_handoff_channel *channel, const struct nc_handoff_frame *frame,
                      int fd, struct nc_handoff_fault *fault);
void nc_handoff_answer_refused(struct nc_handoff_channel *channel, uint64_t id, int reason,
                               const char *text);

/* receive.c */
void nc_handoff_channel_receive(struct nc_handoff_channel *channel);
void nc_handoff_channel_expire(struct nc_handoff_channel *channel);

/* handoff.c: public functions begin with enter and end with leave, and those that open a handle
 * begin with new and end with opened. */
int nc_handoff_new(nearcall_handoff **ret_handoff, const nearcall_handoff_options *options,
                   uint32_t takes);
int nc_handoff_opened(nearcall_handoff *handoff, int r);
int nc_handoff_enter(nearcall_handoff *handoff);
int nc_handoff_leave(nearcall_handoff *handoff, int r);
int nc_handoff_open_watch(nearcall_handoff *handoff);
bool nc_handoff_forked_inside(nearcall_handoff *handoff);
void nc_handoff_after_fork(nearcall_handoff *handoff);

/* wait.c: one round of waiting until then, and of what can be done.
 * NEARCALL_OK, NEARCALL_E_INTERRUPTED, or why nothing can be waited for. */
int nc_handoff_pump(nearcall_handoff *handoff, int64_t until_ns);

/* listen.c */
void nc_handoff_accept_channel(nearcall_handoff *handoff);

/* address.c */
void nc_handoff_socket_address(int fd, bool remote, char *out, size_t bytes);

#endif
