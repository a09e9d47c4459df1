/*
 * nearcall_hooks.h - functions of the program that a handle calls: when a call has finished,
 * and when something happens to its connection
 *
 * This is a part of nearcall.h, which includes it. nearcall.h is the manual for handles,
 * errors, threads and forks. A handle without hooks pays nothing for them. In a forked child
 * a handle keeps its hooks.
 */
#ifndef NEARCALL_HOOKS_H
#define NEARCALL_HOOKS_H

#include "nearcall.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * For event loops: finished is called once for each call that has finished, in the order in
 * which the calls finished. nearcall_process() calls it, and no other function does, so it
 * runs in the thread of the loop and never within another function of the library. It is
 * called for calls of nearcall_request_send() and nearcall_find_begin(), but not for those
 * that another function waits for. NULL removes it.
 *
 * finished may use the handle. It usually fetches the call with nearcall_poll(), which does
 * not wait, and it may send further requests, cancel calls, or close the handle; a handle
 * that is closed there is freed when nearcall_process() returns, which then returns 0. A
 * call that is not fetched stays in the line of nearcall_next_finished(). If further calls
 * finish while finished runs, for example because it waits for one, it may be called for
 * them at the next turn; nearcall_timeout_ms() is 0 until then.
 *
 * nearcall_process() returns what it returns without a hook. The error message of a
 * connection that was lost is gone if finished has used the handle; each call has its own.
 */
NEARCALL_API int nearcall_on_finished(nearcall_client *client,
                                      void (*finished)(void *argument, nearcall_call_id call),
                                      void *argument);

/* How much a line of the log matters. The numbers are those of syslog(3). */
enum {
    /* A connection has ended; the handle cannot have something, such as certificates that have
     * changed, and goes on; or calls over plain TCP to another machine can be read on the way. */
    NEARCALL_LOG_WARNING = 4,
    NEARCALL_LOG_INFO = 6,    /* a connection was made, or its server is stopping; a call is sent again */
    NEARCALL_LOG_DEBUG = 7    /* how calls travel */
};

/*
 * log gets lines for people about the connection of this handle: that it was made, or lost and
 * why, that the server is stopping, that a call is sent again, that there is shared memory. No
 * line contains anything of a payload, and none is about a call that goes well. text is UTF-8
 * without control characters, such as the end of a line, and is valid only while log runs. Texts
 * may change between versions.
 *
 * log runs within the function of the handle in which something happens. It must be quick and
 * must not use the handle, whose functions return NEARCALL_E_MISUSE until it returns. NULL
 * removes it.
 */
NEARCALL_API int nearcall_on_log(nearcall_client *client,
                                 void (*log)(void *argument, int level, const char *text),
                                 void *argument);

/*
 * Whether the calls of this handle can be read and changed on the way: 1 if its connection goes to
 * another machine over plain TCP, and the address does not say plain=quiet; 0 if not, or without a
 * connection. It is for programs that have no log, and tell their users in another way.
 */
NEARCALL_API int nearcall_is_exposed(const nearcall_client *client);

#ifdef __cplusplus
}
#endif

#endif
