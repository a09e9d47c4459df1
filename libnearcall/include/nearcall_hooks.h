/*
 * nearcall_hooks.h - what a handle tells its program by calling it: that calls have
 * finished, and what happens to its connection
 *
 * nearcall.h includes it, and that page's rules hold here. Without hooks nothing of this
 * costs anything. Hooks stay with their handle in a forked child.
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
 * runs in the thread of the loop and never within another function of the library. Calls of
 * nearcall_request_send() and nearcall_find_begin() are told of; those that are waited for
 * are not. Give NULL to be told no longer.
 *
 * finished may use the handle. It usually fetches the call with nearcall_poll(), which does
 * not wait, and it may send further requests, cancel calls, or close the handle; a handle
 * that is closed there is freed when nearcall_process() returns, which then returns 0. A
 * call that is not fetched stays in the line of nearcall_next_finished(). If finished lets
 * further calls finish, for example by waiting for one, they may be told of at the next
 * turn; nearcall_timeout_ms() is 0 until then.
 *
 * nearcall_process() returns what it returns without a hook. The error message of a
 * connection that was lost is gone if finished has used the handle; each call has its own.
 */
NEARCALL_API int nearcall_on_finished(nearcall_client *client,
                                      void (*finished)(void *argument, nearcall_call_id call),
                                      void *argument);

/* How much a line of the log matters. The numbers are those of syslog(3). */
enum {
    NEARCALL_LOG_WARNING = 4, /* a connection has ended, or the handle does without something */
    NEARCALL_LOG_INFO = 6,    /* a connection stands or drains; a call is sent again */
    NEARCALL_LOG_DEBUG = 7    /* how calls travel */
};

/*
 * log is told what happens to the connection of this handle, in lines for people: connected,
 * lost and why, the server is stopping, a call is sent again, shared memory is there. No
 * line holds anything of a payload. Nothing is told of single calls that go well. text is
 * UTF-8 without a line's end, and valid during the call only; texts may change between
 * versions.
 *
 * log runs in whatever function of the handle it happens in. It must be quick and must not
 * use the handle, whose functions return NEARCALL_E_MISUSE meanwhile. NULL removes it.
 */
NEARCALL_API int nearcall_on_log(nearcall_client *client,
                                 void (*log)(void *argument, int level, const char *text),
                                 void *argument);

#ifdef __cplusplus
}
#endif

#endif
