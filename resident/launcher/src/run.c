#include "run.h"

#include "deadline.h"
#include "end.h"
#include "finish.h"
#include "frame.h"
#include "limits_gen.h"
#include "pass.h"
#include "request.h"
#include "settings.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

/* Apart from the run, which is cleared for each: this is large. */
static struct inbox inbox;

enum progress { GOES_ON, NOT_RUN_AGAIN, NOT_RUN_SILENT, NOT_RUN_PLAIN };

static int begins(struct run *run, const struct frame *frame)
{
    /* kill(2) has other meanings for 0 and -1. */
    if (run->running || frame->value == 1 || frame->value > INT32_MAX)
        return -1;
    run->running = 1;
    run->group = (pid_t)frame->value;
    nc_process_watch(&run->process, (pid_t)frame->second);
    nc_pass_delayed(run);
    return 0;
}

static int on_frame(struct run *run, const struct frame *frame)
{
    if (frame->type == NC_FRAME_RUNNING)
        return begins(run, frame);
    if (!run->running)
        return -1;
    switch (frame->type) {
    case NC_FRAME_EXITED:
        return nc_end_exited(frame->value);
    case NC_FRAME_KILLED:
        return nc_end_killed(run, frame->value);
    case NC_FRAME_ENDING:
        run->ending = 1;
        run->code = (int)(frame->value & 0xFF);
        return 0;
    case NC_FRAME_EXECUTE:
        return nc_execute(&run->execution, frame, run->caller->signals);
    default:
        return -1;
    }
}

/* Ends the connection so that no RUNNING can come any more: the kernel refuses
 * what the other side sends from here on. */
static void shut(struct run *run)
{
    shutdown(run->connection, SHUT_RDWR);
    run->shut = 1;
}

static enum progress ended(struct run *run, struct reason *reason, const char *why)
{
    if (run->running)
        nc_end_unknown(run);
    nc_because(reason, why, 0);
    return NOT_RUN_AGAIN;
}

static enum progress receive(struct run *run, struct reason *reason)
{
    struct frame frame;
    for (;;) {
        enum nc_inbox_state state = nc_inbox_next(&inbox, run->connection, &frame);
        if (state == NC_INBOX_EMPTY)
            return GOES_ON;
        if (state == NC_INBOX_ENDED)
            return ended(run, reason, "the resident ended without an answer, twice");
        if (state == NC_INBOX_FRAME && frame.type == NC_FRAME_PLAINLY && !run->running) {
            nc_because(reason, frame.text, 0);
            return NOT_RUN_PLAIN;
        }
        if (state == NC_INBOX_BROKEN || on_frame(run, &frame) != 0) {
            shut(run);
            return ended(run, reason, "the resident broke the protocol");
        }
    }
}

/* For a caller that waits no longer. What had arrived is read after the end. */
static enum progress withdraw(struct run *run, struct reason *reason, const char *why)
{
    enum progress progress;
    shut(run);
    do
        progress = receive(run, reason);
    while (progress == GOES_ON);
    if (progress == NOT_RUN_AGAIN)
        nc_because(reason, why, 0);
    return NOT_RUN_PLAIN;
}

static enum progress give_up_waiting(struct run *run, struct reason *reason)
{
    enum progress progress = withdraw(run, reason, "the resident gave no answer in time (NEARCALL_RUN_ANSWER_MS)");
    return progress == NOT_RUN_PLAIN ? NOT_RUN_SILENT : progress;
}

/* The program would have ended, and so does the launcher, unless it runs. */
static enum progress interrupted(struct run *run, struct reason *reason, int number)
{
    enum progress progress = receive(run, reason);
    if (run->running) {
        nc_pass(run, number);
        return progress;
    }
    run->interrupt = number;
    withdraw(run, reason, "it was interrupted");
    nc_finish_by_signal(number);
}

static enum progress on_signals(struct run *run, struct reason *reason)
{
    int number;
    while ((number = nc_signals_next(run->caller->signals)) != 0) {
        if (!run->running && nc_signal_ends(number)) {
            enum progress progress = interrupted(run, reason, number);
            if (progress != GOES_ON)
                return progress;
        } else {
            nc_pass(run, number);
        }
    }
    return GOES_ON;
}

static enum progress send_request(struct run *run, struct reason *reason)
{
    enum nc_sent sent = nc_request_send(&run->request, run->connection, reason);
    if (sent == NC_SENT_LATER)
        return run->send_until_ms > nc_now_ms() ? GOES_ON : NOT_RUN_PLAIN;
    run->send_until_ms = 0;
    if (sent == NC_SENT_ENDED)
        return receive(run, reason);
    return sent == NC_SENT ? GOES_ON : NOT_RUN_PLAIN;
}

/* Nobody tells when descriptors have arrived. */
static enum progress send_again(struct run *run, struct reason *reason)
{
    enum { PAUSE_MS = 5 };
    struct pollfd waits = {run->caller->signals->fd, POLLIN, 0};
    enum progress progress = poll(&waits, 1, PAUSE_MS) > 0 ? on_signals(run, reason) : GOES_ON;
    return progress == GOES_ON ? send_request(run, reason) : progress;
}

static enum progress on_connection(struct run *run, short events, struct reason *reason)
{
    /* A resident that is gone is noticed by reading what it said before. */
    if ((events & POLLOUT) && nc_request_continue(&run->request, run->connection) != 0)
        run->request.length = 0;
    return events & (POLLIN | POLLHUP | POLLERR) ? receive(run, reason) : GOES_ON;
}

/* The first of the times at which something is to be done; 0: there is none. */
static long long next_ms(const struct run *run, long long deadline_ms)
{
    long long look_ms = run->process.look_ms, asked_ms = run->asked_ms;
    if (!run->running)
        return deadline_ms;
    return look_ms == 0 || (asked_ms != 0 && asked_ms < look_ms) ? asked_ms : look_ms;
}

/* The time has come, or the process of the run has ended, and nobody has said anything. */
static enum progress on_silence(struct run *run, struct reason *reason)
{
    if (!run->running)
        return give_up_waiting(run, reason);
    if (run->asked_ms != 0 && nc_now_ms() >= run->asked_ms)
        nc_end_unless_alive(run);
    if (nc_process_is_long_gone(&run->process))
        nc_end_without_word(run);
    return GOES_ON;
}

static enum progress wait_once(struct run *run, struct reason *reason, long long deadline_ms)
{
    struct pollfd waits[] = {
        {run->connection, (short)(POLLIN | (run->request.length > 0 ? POLLOUT : 0)), 0},
        {run->caller->signals->fd, POLLIN, 0},
        {run->process.fd, POLLIN, 0},
    };
    long long until_ms = next_ms(run, deadline_ms);
    int ready = poll(waits, 3, until_ms == 0 ? -1 : nc_remaining_ms(until_ms));
    if (ready < 0)
        return GOES_ON;
    if (waits[0].revents == 0 && waits[1].revents == 0)
        return on_silence(run, reason);
    /* Frames first: a run that has ended gets no signal. */
    enum progress progress = waits[0].revents ? on_connection(run, waits[0].revents, reason) : GOES_ON;
    if (progress == GOES_ON && waits[1].revents)
        progress = on_signals(run, reason);
    return progress;
}

enum nc_verdict nc_run(const struct caller *caller, int connection, struct reason *reason)
{
    struct run run = {.caller = caller, .connection = connection, .process.fd = -1,
                      .send_until_ms = nc_now_ms() + NC_RESIDENT_SEND_MS};
    enum progress progress = NOT_RUN_PLAIN;
    inbox.length = inbox.taken = 0;
    if (nc_request_build(&run.request, caller->program->arguments, &caller->terminal->size, reason) == 0)
        progress = send_request(&run, reason);
    while (progress == GOES_ON && run.send_until_ms != 0)
        progress = send_again(&run, reason);
    long long deadline_ms = nc_now_ms() + nc_setting_answer_ms();
    while (progress == GOES_ON)
        progress = wait_once(&run, reason, deadline_ms);
    close(connection);
    nc_pass_back(&run);
    switch (progress) {
    case NOT_RUN_AGAIN:
        return NC_VERDICT_AGAIN;
    case NOT_RUN_SILENT:
        return NC_VERDICT_SILENT;
    default:
        return NC_VERDICT_PLAIN;
    }
}
