/*
 * nearcall_resident.h - keep a program ready between its runs
 *
 * A launcher (nearcall-run) stands in for a program and asks the program's resident to
 * run it. The resident loads what takes long to load, once. Its forked children wait;
 * each takes one run, has a whole process to itself, and ends with the run. The
 * protocol is described in spec/resident.md. Return values and output parameters are as
 * in nearcall.h.
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
 * The process that was started is called the supervisor. It does not stand in the way
 * of runs: children accept from the launchers' socket themselves. It forks the
 * children, tells launchers how their runs have ended, and watches the files. It uses
 * no CPU time while nothing happens.
 *
 * BEFORE THE FORK the program must flush its output streams, and must not have threads
 * that children need. IN THE CHILD it must seed its random number generators anew.
 * Files that the program had opened for reading are the child's own, at the position
 * where they were.
 *
 * SIGNALS. SIGTERM makes the supervisor leave. From nearcall_resident_open() on the
 * supervisor has it blocked, and SIGCHLD has its default action. Children have both as
 * they were before. The process of a run leads a session and a process group. It gets
 * the launcher's signals, and SIGHUP when the launcher is gone.
 *
 * THREADS, FORK. A handle is used by one thread. After the fork the parent goes on with
 * nearcall_resident_forked() and the child with nearcall_resident_child(). Children
 * that a run forks must not use the handle.
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

/* What to do next. */
enum {
    NEARCALL_RESIDENT_FORK = 1,  /* fork a child */
    NEARCALL_RESIDENT_LEAVE = 2, /* end this process, without running anything of the program's own */
    NEARCALL_RESIDENT_RUN = 3    /* run the program */
};

typedef struct nearcall_resident_options {
    size_t struct_size;  /* sizeof(nearcall_resident_options) */
    uint32_t workers;    /* children that wait, 64 at most; 0: 2 */
    uint32_t reserved;   /* 0 */
    int64_t idle_ms;     /* leaves when nothing has run for so long; 0: ten minutes; NEARCALL_NO_TIMEOUT: never */
    const char *program; /* path by which it was started; NULL: that of its executable file */
    /* Variables that the program reads only once: a launcher that has other values runs
     * it plainly. These are names, or beginnings of names that end in '*', with NULL at
     * the end; NULL means none. LD_PRELOAD, LD_LIBRARY_PATH and TZ are always among
     * them. */
    const char *const *environment;
} nearcall_resident_options;

#define NEARCALL_RESIDENT_OPTIONS_INIT { sizeof(nearcall_resident_options), 0, 0, 0, NULL, NULL }

/* Returns 1 if this process was started as a resident, which its first argument and its
 * environment tell, and otherwise 0. first_argument is NULL if there is none. If the
 * environment says so and the argument does not, the program has changed its arguments
 * before, and would do its work for nobody. The function then writes why to stderr,
 * which is the log, and ends the process with code 125. */
NEARCALL_API int nearcall_resident_started(const char *first_argument);

/*
 * Takes over the listening socket with which this process was started, and watches the
 * program's file. Of the environment only variables whose names begin with NEARCALL_ or
 * LISTEN_ stay in /proc/PID/environ. getenv() returns the same as before, but strings that
 * it returned earlier are empty from then on. options may be NULL. On failure a handle is
 * still returned, for its error message, unless there was no memory for one.
 */
NEARCALL_API int nearcall_resident_open(nearcall_resident **ret_resident,
                                        const nearcall_resident_options *options);

/* Watches one more file: the resident leaves when the file is changed, replaced or
 * removed. It also leaves if the file was changed after this process started, because
 * the program may have read it before the change. Call it before the first
 * nearcall_resident_next(). */
NEARCALL_API int nearcall_resident_watch(nearcall_resident *resident, const char *path);

/* What a program can have read before its runs although each caller has its own. */
enum {
    NEARCALL_RESIDENT_VARIABLE = 1,  /* a variable of the environment, by its name; "*": all */
    NEARCALL_RESIDENT_DIRECTORY = 2, /* the current directory, also through relative paths; no name */
    NEARCALL_RESIDENT_INPUT = 3      /* whether standard input is a terminal, a pipe, or empty; no name */
};

/*
 * Says that the program has read something before its runs. A launcher for which that
 * is different runs the program plainly. Variables are compared with those at the start
 * of this process. The directory is that of the launcher that started this process. The
 * variable NEARCALL_RESIDENT_DIRECTORY holds it, or is not set, which means "/": a
 * program that reads its directory changes to it first, and to "/" before it waits.
 * Standard input was /dev/null.
 *
 * Call it before nearcall_resident_next() or, in a child, before
 * nearcall_resident_accept(). The name is copied. Errors: NEARCALL_E_INVALID_ARGUMENT,
 * NEARCALL_E_RESOURCE_EXHAUSTED.
 */
NEARCALL_API int nearcall_resident_reads(nearcall_resident *resident, int what, const char *name);

/* What went wrong in the last function that failed on the handle, in words. UTF-8,
 * never NULL, valid until the next function on the handle. */
NEARCALL_API const char *nearcall_resident_error_message(const nearcall_resident *resident);

/* Closes the handle's descriptors and frees it. In the supervisor, children that wait
 * are told to leave, and launchers are no longer told how runs end: this is for
 * programs that do not leave in the proper way. In a run the launcher sees the end of
 * the connection. NULL is allowed. */
NEARCALL_API void nearcall_resident_close(nearcall_resident *resident);

/* Makes a signal end the wait even if it arrives after the program has last looked for
 * one and before the wait sleeps. check is called before each sleep, while signals are
 * kept from this thread until it sleeps. If it returns a number other than 0, for
 * example a flag that signal handlers set, the wait returns NEARCALL_E_INTERRUPTED.
 * check must not use the handle. NULL removes it. Children have the check of the
 * supervisor. */
NEARCALL_API int nearcall_resident_interruptible_check(nearcall_resident *resident,
                                                       int (*check)(void *argument),
                                                       void *argument);

/* ---- The supervisor ---- */

/* Waits until there is something to do. It returns NEARCALL_RESIDENT_FORK or
 * NEARCALL_RESIDENT_LEAVE, or an error: NEARCALL_E_INTERRUPTED if a signal arrived
 * (call it again), or NEARCALL_E_ABORTED if children end again and again before they
 * take a run. */
NEARCALL_API int nearcall_resident_next(nearcall_resident *resident);

/* Says which process was forked, or -1 if forking failed; errno then says why. */
NEARCALL_API int nearcall_resident_forked(nearcall_resident *resident, pid_t process_id);

/* ---- A child ---- */

/* The first call in a forked child. It begins a session, and lets go of what belongs to
 * the supervisor. What the program prepares in each child comes after it. */
NEARCALL_API int nearcall_resident_child(nearcall_resident *resident);

/* What is to run. It belongs to the handle, with its strings, which end in NUL. */
typedef struct nearcall_resident_run {
    int arguments_count;
    char **arguments;      /* from argument 0 on; NULL at the end */
    char **environment;    /* NULL at the end */
    size_t environment_count;
    const char *directory; /* its path, "" if it has none */
    uint32_t process_id;   /* the launcher's, from the kernel */
    uint32_t user_id;
    uint32_t group_id;
    uint16_t terminal_rows; /* 0: there is no terminal */
    uint16_t terminal_columns;
} nearcall_resident_run;

/* Waits for a run. On NEARCALL_RESIDENT_RUN this process has the launcher's descriptors
 * 0, 1 and 2, its directory, umask and resource limits. Otherwise it returns
 * NEARCALL_RESIDENT_LEAVE, or NEARCALL_E_INTERRUPTED if a signal arrived (call it
 * again). Argument 0 is the path that a plain start would have given. Setting the
 * environment and the arguments is up to the program. */
NEARCALL_API int nearcall_resident_accept(nearcall_resident *resident, nearcall_resident_run *ret_run);

/* Tells the launcher the code with which the process is about to end. Usually the
 * supervisor tells how the process has really ended; this is for the case that the
 * supervisor has gone. */
NEARCALL_API void nearcall_resident_ending(nearcall_resident *resident, int exit_code);

#ifdef __cplusplus
}
#endif

#endif
