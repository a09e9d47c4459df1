/* Functions that a signal's handler leaves by siglongjmp(3): where the function slept nothing is lost but
 * the connection, and at every other moment there is, nothing but memory. Linked with --wrap. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sched.h>
#include <unistd.h>

#include "handle/handle.h"
#include "script.h"

static sigjmp_buf back;

/* ---- Where it sleeps ---- */

static pthread_t tester;
static pid_t tester_id;
static nearcall_client *client;

static void leave(int signal_number)
{
    (void)signal_number;
    siglongjmp(back, 1);
}

static bool tester_sleeps(void)
{
    char path[64], text[128] = "";
    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tester_id);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0);
    close(fd);
    const char *name_end = strrchr(text, ')');
    return name_end && name_end[2] == 'S' && atomic_load(&client->asleep);
}

static void signal_the_sleeper(void)
{
    while (!tester_sleeps())
        sched_yield();
    CHECK(pthread_kill(tester, SIGUSR1) == 0);
}

/* The next connection is the handle's new one. */
static void signal_and_serve(struct script *script)
{
    int left = script->fd;
    signal_the_sleeper();
    script->fd = -1;
    script_greet(script);
    script_serve(script);
    close(left);
}

static void wants_misuse(void)
{
    nearcall_reply reply;
    CHECK_INT(nearcall_call(client, "f", "x", 1, 100, &reply), NEARCALL_E_MISUSE);
    CHECK_INT(nearcall_process(client), NEARCALL_E_MISUSE);
    nearcall_disconnect(client);
    nearcall_close(client);
    CHECK_INT(nearcall_call(client, "f", "x", 1, 100, &reply), NEARCALL_E_MISUSE);
}

static void wants_use(const char *text)
{
    nearcall_reply reply;
    CHECK_INT(nearcall_abandon(client), 0);
    CHECK_CALL(client, nearcall_call(client, "f", text, strlen(text), 20000, &reply), NEARCALL_OK);
    CHECK(reply.bytes == strlen(text) && memcmp(reply.data, text, reply.bytes) == 0);
}

static void take_one_of_two(struct script *script)
{
    struct nc_frame frame;
    script_greet(script);
    script_expect(script, NC_RESOLVE, &frame);
    script_reply(script, &frame, "\x80", 1);
    script_expect(script, NC_REQUEST, &frame);
    script_expect(script, NC_RESOLVE, &frame);
    script_expect(script, NC_REQUEST, &frame);
    signal_and_serve(script);
}

/* The call that was left is nobody's, and others end with the outcome that they have. */
static void calls_in_flight(uint32_t flags)
{
    struct script script;
    nearcall_reply reply;
    nearcall_call_id sent, looked_up;
    int before = test_open_descriptors();
    script_start(&script, take_one_of_two, NULL);
    client = test_open(script.address, flags);
    nearcall_function *function = test_find(client, "f");
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
    nearcall_put_raw(client, "sent", 4);
    CHECK_CALL(client, nearcall_request_send(client, 20000, &sent), NEARCALL_OK);
    CHECK_CALL(client, nearcall_find_begin(client, "other", 5, 20000, &looked_up), NEARCALL_OK);
    if (sigsetjmp(back, 1) == 0) {
        (void)nearcall_call(client, "f", "left", 4, NEARCALL_NO_TIMEOUT, &reply);
        CHECK(!"it was left");
    }
    wants_misuse();
    CHECK_INT(nearcall_abandon(client), 1);
    CHECK_CALL(client, nearcall_poll(client, sent, &reply), NEARCALL_E_UNAVAILABLE);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_UNKNOWN);
    CHECK(strstr(nearcall_error_message(client), "nearcall_abandon()"));
    CHECK_CALL(client, nearcall_poll(client, looked_up, NULL), NEARCALL_E_UNAVAILABLE);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK_INT(nearcall_next_finished(client), 0);
    wants_use("after");
    CHECK(nearcall_function_revision(function) > 0); /* functions stay */
    nearcall_close(client);
    script_end(&script);
    CHECK_INT(test_open_descriptors(), before);
}

/* A request that fills the socket: the rest is memory of the frame that is gone. */
static void read_nothing(struct script *script)
{
    script_greet(script);
    signal_and_serve(script);
}

static void call_large(const uint8_t *data, size_t bytes)
{
    nearcall_reply reply;
    (void)nearcall_call(client, "f", data, bytes, NEARCALL_NO_TIMEOUT, &reply);
    CHECK(!"it was left");
}

static void half_sent(void)
{
    struct script script;
    size_t bytes = 2 << 20;
    script_start(&script, read_nothing, NULL);
    client = test_open(script.address, 0);
    uint8_t *volatile data = calloc(1, bytes);
    CHECK(data != NULL);
    if (sigsetjmp(back, 1) == 0)
        call_large(data, bytes);
    free(data);
    CHECK_INT(nearcall_abandon(client), 1);
    wants_use("after half of another");
    nearcall_close(client);
    script_end(&script);
}

static void answer_resolve_alone(struct script *script)
{
    struct nc_frame frame;
    script_greet(script);
    script_expect(script, NC_RESOLVE, &frame);
    script_reply(script, &frame, "\x80", 1);
    signal_and_serve(script);
}

static void begin_large(nearcall_function *function)
{
    nearcall_call_id call;
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
    uint8_t *data = nearcall_put_reserve(client, 2 << 20);
    CHECK(data != NULL);
    memset(data, 0, 2 << 20);
    CHECK_CALL(client, nearcall_put_commit(client, 2 << 20), NEARCALL_OK);
    (void)nearcall_request_send(client, NEARCALL_NO_TIMEOUT, &call);
    CHECK(!"it was left");
}

/* Nobody was given its id, so nobody finds it among those that have finished. */
static void half_begun(void)
{
    struct script script;
    script_start(&script, answer_resolve_alone, NULL);
    client = test_open(script.address, 0);
    nearcall_function *function = test_find(client, "f");
    if (sigsetjmp(back, 1) == 0)
        begin_large(function);
    CHECK_INT(nearcall_abandon(client), 1);
    CHECK_INT(nearcall_next_finished(client), 0);
    wants_use("after half of one that was begun");
    nearcall_close(client);
    script_end(&script);
}

/* A child of the process that left it has nothing to close, and a handle to use. */
static void use_in_child(void *unused)
{
    (void)unused;
    CHECK_INT(nearcall_abandon(client), 1);
    nearcall_close(client);
    _exit(0); /* what the parent's function held is lost on purpose: no leak check */
}

static void signal_and_wait(struct script *script)
{
    struct nc_frame frame;
    script_greet(script);
    script_expect(script, NC_REQUEST, &frame);
    signal_the_sleeper();
    CHECK(script_read_end(script)); /* the child has sent nothing, and shut nothing down */
}

static void left_before_a_fork(void)
{
    struct script script;
    nearcall_reply reply;
    script_start(&script, signal_and_wait, NULL);
    client = test_open(script.address, 0);
    if (sigsetjmp(back, 1) == 0)
        (void)nearcall_call(client, "f", "left", 4, NEARCALL_NO_TIMEOUT, &reply);
    test_join(test_fork(use_in_child, NULL));
    CHECK_INT(nearcall_abandon(client), 1);
    nearcall_close(client);
    script_end(&script);
}

/* ---- At every moment ---- */

/* More than there are in one call. */
#define MOMENTS 120

static int countdown; /* to the moment at which it is left; 0: none */

/* As a handler would that came here, before the kernel or the allocator was asked. */
static void maybe_leave(void)
{
    if (countdown > 0 && --countdown == 0)
        siglongjmp(back, 1);
}

#define WRAP(type, name, parameters, arguments)                                            \
    type __real_##name parameters;                                                         \
    type __wrap_##name parameters;                                                         \
    type __wrap_##name parameters                                                          \
    {                                                                                      \
        maybe_leave();                                                                     \
        type r = __real_##name arguments;                                                  \
        maybe_leave();                                                                     \
        return r;                                                                          \
    }

WRAP(void *, malloc, (size_t bytes), (bytes))
WRAP(void *, calloc, (size_t count, size_t bytes), (count, bytes))
WRAP(void *, realloc, (void *block, size_t bytes), (block, bytes))
WRAP(int, clock_gettime, (clockid_t clock, struct timespec *ret_now), (clock, ret_now))
WRAP(int, connect, (int fd, const struct sockaddr *address, socklen_t bytes), (fd, address, bytes))
WRAP(int, getsockopt, (int fd, int level, int option, void *value, socklen_t *bytes),
     (fd, level, option, value, bytes))
WRAP(int, madvise, (void *address, size_t bytes, int advice), (address, bytes, advice))
WRAP(int, munmap, (void *address, size_t bytes), (address, bytes))
WRAP(int, ppoll, (struct pollfd *watched, nfds_t count, const struct timespec *timeout, const sigset_t *mask),
     (watched, count, timeout, mask))
WRAP(ssize_t, recv, (int fd, void *data, size_t bytes, int flags), (fd, data, bytes, flags))
WRAP(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags))
WRAP(ssize_t, send, (int fd, const void *data, size_t bytes, int flags), (fd, data, bytes, flags))
WRAP(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
WRAP(int, sched_yield, (void), ())

struct moment {
    void (*leave)(const struct moment *moment); /* and ends the child */
    const char *address;
    uint32_t flags;
    int calls; /* before it; without any the handle connects */
    size_t bytes;
    int at;
};

/* The child's end says whether the call has that many moments. */
#define NO_SUCH_MOMENT 7

static void call_echo(const uint8_t *data, size_t bytes)
{
    nearcall_reply reply;
    CHECK_CALL(client, nearcall_call(client, "echo", data, bytes, 20000, &reply), NEARCALL_OK);
    CHECK(reply.bytes == bytes && memcmp(reply.data, data, bytes) == 0);
}

/* What it leaves in memory is lost on purpose, so it ends without a leak check. */
static void at_moment(const struct moment *moment)
{
    static uint8_t data[100000];
    int before = test_open_descriptors();
    client = test_open(moment->address, moment->flags);
    for (int i = 0; i < moment->calls; i++)
        call_echo(data, moment->bytes);
    if (sigsetjmp(back, 1) == 0) {
        countdown = moment->at;
        call_echo(data, moment->bytes);
        countdown = 0;
        _exit(NO_SUCH_MOMENT);
    }
    CHECK_INT(nearcall_abandon(client), 1);
    CHECK(!test_has_mapping("nearcall-caller"));
    for (int i = 0; i < 40; i++)
        call_echo(data, moment->bytes);
    nearcall_close(client);
    CHECK(!test_has_mapping("nearcall-caller"));
    CHECK_INT(test_open_descriptors(), before);
    _exit(0);
}

/* While it connects to a host that accepts nothing. */
static void at_moment_of_connecting(const struct moment *moment)
{
    nearcall_reply reply;
    int before = test_open_descriptors();
    client = test_open(moment->address, moment->flags);
    if (sigsetjmp(back, 1) == 0) {
        countdown = moment->at;
        CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 50, &reply), NEARCALL_E_DEADLINE_EXCEEDED);
        countdown = 0;
        _exit(NO_SUCH_MOMENT);
    }
    CHECK_INT(nearcall_abandon(client), 1);
    nearcall_close(client);
    CHECK_INT(test_open_descriptors(), before);
    _exit(0);
}

/* Whether the call has that many moments. */
static bool is_survived(const struct moment *moment)
{
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        moment->leave(moment);
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == NO_SUCH_MOMENT));
    return WEXITSTATUS(status) == 0;
}

static void survive_all(struct moment moment, int at_least)
{
    while (moment.at < MOMENTS && is_survived(&moment))
        moment.at++;
    CHECK(moment.at > at_least && moment.at < MOMENTS);
}

static void at_every_moment(const char *address, uint32_t flags, int calls, size_t bytes, int at_least)
{
    survive_all((struct moment){at_moment, address, flags, calls, bytes, 1}, at_least);
}

static void at_every_moment_over_tcp(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(at);
    char address[64];
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(listener >= 0 && bind(listener, (struct sockaddr *)&at, sizeof(at)) == 0);
    CHECK(listen(listener, 2 * MOMENTS) == 0 && getsockname(listener, (struct sockaddr *)&at, &bytes) == 0);
    snprintf(address, sizeof(address), "tcp:127.0.0.1:%d", ntohs(at.sin_port));
    survive_all((struct moment){at_moment_of_connecting, address, 0, 0, 0, 1}, 6);
    close(listener);
}

int main(void)
{
    struct server server;
    struct sigaction action = {.sa_handler = leave};
    test_begin();
    tester = pthread_self();
    tester_id = (pid_t)syscall(SYS_gettid);
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    calls_in_flight(0);
    calls_in_flight(NEARCALL_WAKEABLE); /* it sleeps in ppoll() */
    half_sent();
    half_begun();
    left_before_a_fork();
    server_start(&server);
    at_every_moment(server.address, 0, 0, 5, 12);
    at_every_moment(server.address, NEARCALL_NO_SHARED_MEMORY, 1, 5, 6);
    at_every_moment(server.address, NEARCALL_NO_SHARED_MEMORY, 1, 90000, 6);
    at_every_moment(server.address, NEARCALL_SPIN_OFF, 40, 5, 4); /* enough for shared memory */
    at_every_moment(server.address, NEARCALL_SPIN_OFF, 40, 90000, 4);
    server_stop(&server);
    at_every_moment_over_tcp();
    return 0;
}
