/* One run by a resident, from its request to its end. */
#ifndef NC_RUN_H
#define NC_RUN_H

#include "execute.h"
#include "place.h"
#include "process.h"
#include "program.h"
#include "reason.h"
#include "request.h"
#include "signals.h"
#include "terminal.h"

/* What is left to do when the program was not run. */
enum nc_verdict { NC_VERDICT_AGAIN, NC_VERDICT_SILENT, NC_VERDICT_PLAIN };

struct caller {
    const struct program *program;
    const struct place *place;
    struct signals *signals;
    struct terminal *terminal;
};

struct run {
    const struct caller *caller;
    int connection;
    struct request request;
    long long send_until_ms; /* it is sent again until then; 0: it has been sent, at least in part */
    struct execution execution;
    int running;           /* RUNNING has come */
    pid_t group;           /* of that: what gets signals; 0: by SIGNAL */
    struct process process; /* of that: what runs it */
    int ending;            /* ENDING has come */
    int code;              /* of that */
    int asked;             /* the last signal that was to end the run, and */
    long long asked_ms;    /* when its process is looked at because of that; 0: not */
    int shut;              /* the launcher ended the connection */
    int interrupt;         /* the signal for which it did */
    int stop_at_beginning; /* SIGTSTP came before RUNNING */
    int size_changed;      /* SIGWINCH did */
};

/* Sends the request and waits for the end. Returns only when nothing of the run
 * was done, with the reason; closes the connection then. Otherwise the process
 * ends as the program did. */
enum nc_verdict nc_run(const struct caller *caller, int connection, struct reason *reason);

#endif
