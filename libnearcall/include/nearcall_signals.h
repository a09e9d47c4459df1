/*
 * nearcall_signals.h - for programs that have signal handlers: waits that signals end, handlers
 * and Go, and handlers that leave by longjmp(3)
 *
 * This is a part of nearcall.h, which includes it. nearcall.h is the manual for handles,
 * errors, threads and forks.
 */
#ifndef NEARCALL_SIGNALS_H
#define NEARCALL_SIGNALS_H

#include "nearcall.h"

#ifdef __cplusplus
extern "C" {
#endif

/* For an "embed:" address: blocks all but synchronous signals while a Go function runs in
 * the calling thread. With 0, the default, it does not. Go runs on small stacks, on which
 * only handlers are safe that were installed with SA_ONSTACK. Loading the library gives
 * that flag to the handlers that are installed by then. A program that installs others
 * later, without the flag, has to block signals, at the price of two system calls for each
 * call. */
NEARCALL_API void nearcall_block_signals(nearcall_client *client, int block);

/* For use with NEARCALL_INTERRUPTIBLE. A signal may arrive after the program has last
 * looked for one and before the wait sleeps; it would then not end the wait. Therefore
 * check is called before each sleep, and every 20 ms while waiting. If it returns a number
 * other than 0, for example a flag that signal handlers set, the wait returns
 * NEARCALL_E_INTERRUPTED. The program must clear the flag before it goes on with the wait.
 * check runs in the thread that waits, must be quick, and must not use the handle. NULL
 * removes it. */
NEARCALL_API int nearcall_interruptible_check(nearcall_client *client, int (*check)(void *argument),
                                              void *argument);

/*
 * A signal handler that has interrupted a function of the library must return to it. It must
 * not leave it by longjmp(3) or siglongjmp(3), nor by an exception or a die of another
 * language. Use a flag and NEARCALL_INTERRUPTIBLE instead, or nearcall_wake().
 *
 * If a handler left a function of a handle all the same, the handle stays inside that
 * function for ever: all others return NEARCALL_E_MISUSE, and nearcall_close() does nothing.
 * nearcall_abandon() ends that. It closes the connection. The call that was left is gone.
 * Of the other calls in flight, those that were sent fail with NEARCALL_E_UNAVAILABLE when
 * they are fetched, mostly with outcome unknown; those that were not sent are not executed, or
 * are sent over the next connection. A request that was being put together is dropped. The
 * handle can then be used, or closed; its functions and its hooks stay.
 *
 * If the handler came while the function slept, as nearly all do that interrupt a call,
 * nothing is lost but the connection. If it came at any other moment, memory may be
 * half changed there: it is not touched again, and is never freed. A few descriptors that
 * came with a reply at that moment may then stay open, too, and so may a socket that was
 * made or closed at that very moment, or by which a host's name was looked up. A handler that came within
 * malloc(3) leaves the whole program in a state in which it can only end, as POSIX says; so
 * does one that came while a Go function ran in this thread. One that came within OpenSSL may
 * leave a lock of OpenSSL taken, for which later calls over TLS would wait for ever.
 *
 * Call it only in the thread that has left the function, or if that thread has ended. It must
 * not be called in the handler, nor while any function of the handle is still to go on: that
 * function would use memory which is free by then. A hook (nearcall_hooks.h) must not be left.
 *
 * It returns 1 if it has abandoned a function, and 0, having done nothing, if the handle was
 * inside none; so a program may call it whenever it is certain that no function of the handle
 * is to go on.
 */
NEARCALL_API int nearcall_abandon(nearcall_client *client);

#ifdef __cplusplus
}
#endif

#endif
