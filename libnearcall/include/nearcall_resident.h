/*
 * nearcall_resident.h - keep a program ready between its runs
 *
 * A launcher (nearcall-run) stands in for a program and asks the program's resident to run
 * it. The resident loads once what takes time to load; its forked children wait, each
 * takes one run, with everything of a process its own, and ends with it. The protocol is
 * spec/resident.md; return values and output parameters are as in nearcall.h.
 *
 *     load_what_takes_long();
 *     if (!nearcall_resident_started(argc > 1 ? argv[1] : NULL))
 *         return run(argc, argv);                     // a plain start
 *     nearcall_resident *resident;
 *     nearcall_resident_run what;
 *     int r = nearcall_resident_open(&resident, NULL);
 *     while (r == NEARCALL_OK || r == NEARCALL_E_INTERRUPTED) {
 *         r = nearcall_resident_next(resident);
 *         pid_t pid = r == NEARCALL_RESIDENT_FORK ? fork() : -1;
 *         if (pid == 0) {
 *             nearcall_resident_child(resident);
 *             while ((r = nearcall_resident_accept(resident, &what)) == NEARCALL_E_INTERRUPTED)
 *                 ;
 *             if (r != NEARCALL_RESIDENT_RUN)
 *                 _exit(0);
 *             environ = what.environment;
 *             int code = run(what.arguments_count, what.arguments);
 *             nearcall_resident_ending(resident, code);
 *             return code;
 *         }
 *         if (r == NEARCALL_RESIDENT_FORK)
 *             r = nearcall_resident_forked(resident, pid);
 *     }
 *     if (r < 0)
 *         fprintf(stderr, "%s\n", nearcall_resident_error_message(resident));
 *     _exit(r < 0);
 *
 * The process that was started is the supervisor. It is not in the way of a run: children
 * accept from the launchers' socket themselves. It forks them, tells launchers how the
 * runs ended, and watches the files. It uses no time while nothing happens.
 *
 * BEFORE THE FORK the program writes out what its streams hold, and has no threads that
 * the children need. IN THE CHILD its generators of random numbers are seeded anew. Files
 * that the program had opened for reading are the child's own, at the place where they
 * stood.
 *
 * SIGNALS. SIGTERM makes the supervisor leave: it is blocked there from
 * nearcall_resident_open() on, and SIGCHLD has its default action. Children have both as
 * they were. A run's process leads a session and a process group; it gets the launcher's
 * signals, and SIGHUP when the launcher is gone.
 *
 * THREADS, FORK. A handle is used by one thread. After the fork the parent goes on with
 * nearcall_resident_forked(), the child with nearcall_resident_child(); children that a
 * run forks leave the handle alone.
 *
 * All functions exist since version 0.1.
 */
#ifndef NEARCALL_RESIDENT_H
#define NEARCALL_RESIDENT_H

#include <sys/types.h>

#include "nearcall.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A resident, in its supervisor or in a child. Opaque. */
typedef struct nearcall_resident nearcall_resident;

/* What is to be done next. */
enum {
    NEARCALL_RESIDENT_FORK = 1,  /* fork a child */
    NEARCALL_RESIDENT_LEAVE = 2, /* end this process, without anything of the program's own */
    NEARCALL_RESIDENT_RUN = 3    /* run the program */
};

typedef struct nearcall_resident_options {
    size_t struct_size;  /* sizeof(nearcall_resident_options) */
    uint32_t workers;    /* children that wait, at most 64; 0: 2 */
    uint32_t reserved;   /* 0 */
    int64_t idle_ms;     /* leaves when nothing ran for so long; 0: ten minutes; NEARCALL_NO_TIMEOUT: never */
    const char *program; /* the path by which it was started; NULL: that of its executable file */
    /* Variables that the program reads only once: a launcher with others runs it plainly.
     * Names, or beginnings that end in '*', with NULL at the end; NULL: none. LD_PRELOAD,
     * LD_LIBRARY_PATH and TZ are among them always. */
    const char *const *environment;
} nearcall_resident_options;

#define NEARCALL_RESIDENT_OPTIONS_INIT { sizeof(nearcall_resident_options), 0, 0, 0, NULL, NULL }

/* 1 when this process was started as a resident, by what its first argument (NULL: it has
 * none) and its environment say; else 0. Where the environment says so and the argument
 * does not, the program has changed its arguments before, and would do its work for
 * nobody: then this writes why to stderr, the log, and ends the process with code 125. */
NEARCALL_API int nearcall_resident_started(const char *first_argument);

/*
 * Takes over the listening socket that this process was started with, and watches the
 * program's file. Nothing of the environment stays in /proc/PID/environ: getenv() says what it
 * said, but texts that it has returned before are empty then. options may be NULL. On failure a handle is still returned, for its
 * error message, unless there was no memory for one.
 */
NEARCALL_API int nearcall_resident_open(nearcall_resident **ret_resident,
                                        const nearcall_resident_options *options);

/* Watches one more file: the resident leaves when it changes, is replaced or removed. To
 * be called before the first nearcall_resident_next(). A file that was changed after this
 * process started may have been read before the change: the resident leaves then too. */
NEARCALL_API int nearcall_resident_watch(nearcall_resident *resident, const char *path);

/* What a program can have read before its runs, of which a caller has its own. */
enum {
    NEARCALL_RESIDENT_VARIABLE = 1,  /* one of the environment, by its name; "*": all */
    NEARCALL_RESIDENT_DIRECTORY = 2, /* the current one, also by relative paths; no name */
    NEARCALL_RESIDENT_INPUT = 3      /* whether standard input is a terminal, a pipe, or empty; no name */
};

/*
 * Says that the program has read something before its runs: a launcher where it is other than
 * it was there runs the program plainly. Variables are compared with those at this process's
 * start. The directory is that of the launcher that started this process, which is in the
 * variable NEARCALL_RESIDENT_DIRECTORY (not there: "/"): a program that reads its directory
 * goes there first, and to "/" before it waits. Standard input was /dev/null.
 *
 * To be called before nearcall_resident_next() or, in a child, nearcall_resident_accept().
 * The name is copied. Errors: NEARCALL_E_INVALID_ARGUMENT, NEARCALL_E_RESOURCE_EXHAUSTED.
 */
NEARCALL_API int nearcall_resident_reads(nearcall_resident *resident, int what, const char *name);

/* What the last failed function on the handle left, in words: UTF-8, never NULL, valid
 * until the next function on it. */
NEARCALL_API const char *nearcall_resident_error_message(const nearcall_resident *resident);

/* Closes the handle's descriptors and frees it. In the supervisor children that wait are
 * told to leave, and how runs end is not told any more: it is for programs that do not
 * leave as they should. In a run the launcher sees the connection's end. NULL is allowed. */
NEARCALL_API void nearcall_resident_close(nearcall_resident *resident);

/* So that a signal that arrives after the program has looked for one, and before the handle's
 * wait sleeps, ends the wait as well: check is asked before each sleep, while signals are
 * kept from this thread until it sleeps. Where it returns another number than 0, as a flag that
 * handlers set, the wait returns NEARCALL_E_INTERRUPTED. It must not use the handle. NULL:
 * nobody is asked. Children have what the supervisor had. */
NEARCALL_API int nearcall_resident_interruptible_check(nearcall_resident *resident,
                                                       int (*check)(void *argument),
                                                       void *argument);

/* ---- The supervisor ---- */

/* Waits until there is something to do, and returns NEARCALL_RESIDENT_FORK,
 * NEARCALL_RESIDENT_LEAVE, or an error: NEARCALL_E_INTERRUPTED (a signal arrived: call it
 * again); NEARCALL_E_ABORTED, when children end again and again before they take a run. */
NEARCALL_API int nearcall_resident_next(nearcall_resident *resident);

/* Says which process was forked; -1: it failed, and errno says why. */
NEARCALL_API int nearcall_resident_forked(nearcall_resident *resident, pid_t process_id);

/* ---- A child ---- */

/* The first thing in a forked child: it begins a session, and lets go of what is the
 * supervisor's. What the program prepares in each child comes after it. */
NEARCALL_API int nearcall_resident_child(nearcall_resident *resident);

/* What is to run. It belongs to the handle, as do the strings, which end in NUL. */
typedef struct nearcall_resident_run {
    int arguments_count;
    char **arguments;      /* with argument 0; NULL at the end */
    char **environment;    /* NULL at the end */
    size_t environment_count;
    const char *directory; /* its path, "" where it has none */
    uint32_t process_id;   /* of the launcher, by the kernel */
    uint32_t user_id;
    uint32_t group_id;
    uint16_t terminal_rows; /* 0: no terminal */
    uint16_t terminal_columns;
} nearcall_resident_run;

/* Waits for a run: NEARCALL_RESIDENT_RUN, and this process has the launcher's descriptors
 * 0, 1 and 2, directory, umask and resource limits. Or NEARCALL_RESIDENT_LEAVE, or
 * NEARCALL_E_INTERRUPTED (a signal arrived: call it again). Argument 0 is the path that a
 * plain start would have given. Environment and arguments are the program's to set. */
NEARCALL_API int nearcall_resident_accept(nearcall_resident *resident, nearcall_resident_run *ret_run);

/* Tells the launcher with which code the process is about to end, for the case that the
 * supervisor, who tells how it really ended, is no more. */
NEARCALL_API void nearcall_resident_ending(nearcall_resident *resident, int exit_code);

#ifdef __cplusplus
}
#endif

#endif
