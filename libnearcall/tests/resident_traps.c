/* Launchers that send sockets whose closing waits, because they linger over data that nobody
 * reads: wherever they come, others' runs do not wait with them. */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "resident_test.h"

enum {
    BYTES = 4096,
    TRAPS = 4, /* more than there are processes that wait */
    BOUND_MS = TEST_LINGER_S * 1000 / 3
};

/* A launcher that has left the last reference of what it sent to the resident. */
struct trapper {
    int connection;
    int peer;
};

static size_t run_request(const struct resident *resident, uint8_t *data)
{
    const char *const arguments[] = {resident->program, "exit", "1", NULL};
    return request_make(data, BYTES, NC_RESIDENT_RUN, 0, arguments, NULL);
}

/* So many descriptors of one such socket. */
static void send_traps(struct trapper *trapper, const uint8_t *data, size_t bytes, int count)
{
    int fd = test_lingering(&trapper->peer);
    const int fds[NC_RESIDENT_FDS] = {fd, fd, fd, fd};
    request_send(trapper->connection, data, bytes, fds, count);
    close(fd);
}

/* The supervisor and those that wait: nobody receives a socket before this process has let
 * go of it, or answers before others are in the queue. */
static void tell_all(const struct resident *resident, int number)
{
    char path[64];
    long worker;
    CHECK(kill(resident->pid, number) == 0);
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)resident->pid, (int)resident->pid);
    FILE *children = fopen(path, "r");
    CHECK(children != NULL);
    while (fscanf(children, "%ld", &worker) == 1)
        CHECK(kill((pid_t)worker, number) == 0);
    fclose(children);
}

/* ---- Where they come ---- */

static void with_what_is_no_request(const struct resident *resident, struct trapper *trapper)
{
    (void)resident;
    send_traps(trapper, (const uint8_t *)"G", 1, NC_RESIDENT_FDS);
}

static void behind_what_is_no_request(const struct resident *resident, struct trapper *trapper)
{
    (void)resident;
    request_send(trapper->connection, "G", 1, NULL, 0);
    send_traps(trapper, (const uint8_t *)"x", 1, 1);
}

static void too_few_of_a_run(const struct resident *resident, struct trapper *trapper)
{
    uint8_t data[BYTES];
    send_traps(trapper, data, run_request(resident, data), NC_RESIDENT_FDS - 1);
}

/* The last is to be a directory. */
static void of_a_run(const struct resident *resident, struct trapper *trapper)
{
    uint8_t data[BYTES];
    send_traps(trapper, data, run_request(resident, data), NC_RESIDENT_FDS);
}

static void with_a_question(const struct resident *resident, struct trapper *trapper)
{
    uint8_t data[BYTES];
    (void)resident;
    send_traps(trapper, data, request_make(data, BYTES, NC_RESIDENT_STATUS, 0, NULL, NULL), 1);
}

static void behind_a_question(const struct resident *resident, struct trapper *trapper)
{
    uint8_t data[BYTES];
    (void)resident;
    request_send(trapper->connection, data, request_make(data, BYTES, NC_RESIDENT_STATUS, 0, NULL, NULL), NULL, 0);
    send_traps(trapper, (const uint8_t *)"x", 1, 1);
}

static void behind_a_run(const struct resident *resident, struct trapper *trapper)
{
    uint8_t data[BYTES];
    const int fds[] = {0, 1, 2, open("/", O_PATH | O_CLOEXEC)};
    CHECK(fds[3] >= 0);
    request_send(trapper->connection, data, run_request(resident, data), fds, NC_RESIDENT_FDS);
    send_traps(trapper, (const uint8_t *)"x", 1, 1);
    close(fds[3]);
}

/* ---- Whom they hold up ---- */

static void holds_up_nobody(const struct resident *resident, const char *where,
                            void (*send)(const struct resident *, struct trapper *))
{
    struct trapper trappers[TRAPS];
    struct launch launch;
    struct frame report;
    resident_await(resident, "\"waiting\":2");
    tell_all(resident, SIGSTOP);
    for (int i = 0; i < TRAPS; i++) {
        trappers[i].connection = resident_connect(resident);
        send(resident, &trappers[i]);
        shutdown(trappers[i].connection, SHUT_WR);
    }
    tell_all(resident, SIGCONT);
    double begun_ms = test_now_ms();
    launch_start(&launch, resident, "exit", "5");
    launch_expect(&launch, NC_RESIDENT_EXITED, 5);
    resident_ask(resident, NC_RESIDENT_STATUS, &report);
    double took_ms = test_now_ms() - begun_ms;
    if (took_ms >= BOUND_MS)
        fprintf(stderr, "traps %s: a run beside them took %.0f ms\n", where, took_ms);
    CHECK(took_ms < BOUND_MS * test_slowness());
    launch_close(&launch);
    for (int i = 0; i < TRAPS; i++) {
        close(trappers[i].connection);
        close(trappers[i].peer);
    }
}

int main(void)
{
    struct resident resident;
    test_begin();
    resident_start(&resident, NULL);
    holds_up_nobody(&resident, "with what is no request", with_what_is_no_request);
    holds_up_nobody(&resident, "behind what is no request", behind_what_is_no_request);
    holds_up_nobody(&resident, "of a run, too few", too_few_of_a_run);
    holds_up_nobody(&resident, "of a run", of_a_run);
    holds_up_nobody(&resident, "with a question", with_a_question);
    holds_up_nobody(&resident, "behind a question", behind_a_question);
    holds_up_nobody(&resident, "behind a run", behind_a_run);
    resident_stop(&resident);
    return 0;
}
