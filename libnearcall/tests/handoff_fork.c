/* Processes: prefork masters and their workers, children that use, close or drop what they
 * inherited, kills at every moment, and a lack of descriptors. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "handoff_test.h"

/* Says which process serves the connection. */
static void serve_one(nearcall_handoff *handoff)
{
    nearcall_handoff_item item;
    char pid[32];
    CHECK_HANDOFF(handoff, nearcall_handoff_accept(handoff, PATIENCE_MS, &item), NEARCALL_OK);
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    send_bytes(item.fd, pid);
    close(item.fd);
}

/* Unix sockets: so many of TCP would use up the machine's ports. */
static long give_and_ask(nearcall_handoff *giver)
{
    nearcall_handoff_item item = {.kind = NEARCALL_HANDOFF_CONNECTION};
    char text[32] = "";
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    item.fd = pair[1];
    CHECK_HANDOFF(giver, nearcall_handoff_give(giver, 0, &item, PATIENCE_MS), NEARCALL_OK);
    CHECK(read(pair[0], text, sizeof(text) - 1) > 0);
    expect_end(pair[0]); /* no other process has it */
    close(pair[0]);
    return atol(text);
}

static nearcall_handoff *connect_to_others(const char *address)
{
    nearcall_handoff *giver;
    CHECK_HANDOFF(giver, nearcall_handoff_connect(&giver, address, NULL, PATIENCE_MS), NEARCALL_OK);
    return giver;
}

/* ---- Prefork ---- */

struct prefork {
    nearcall_handoff *handoff; /* NULL: the socket is all there is */
    int socket;
};

static void worker(void *argument)
{
    struct prefork *prefork = argument;
    nearcall_handoff_options options = NEARCALL_HANDOFF_OPTIONS_INIT;
    options.channels_max = 1;
    if (!prefork->handoff)
        CHECK_HANDOFF(prefork->handoff,
                      nearcall_handoff_listen_fd(&prefork->handoff, prefork->socket, &options),
                      NEARCALL_OK);
    serve_one(prefork->handoff);
    nearcall_handoff_close(prefork->handoff);
}

static int listening_socket(const char *address)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(at.sun_path, sizeof(at.sun_path), "%s", address + strlen("unix:"));
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0 && listen(fd, 8) == 0);
    return fd;
}

/* The master listens, each worker takes channels of its own. */
static void workers_share_the_masters_socket(bool master_has_handle)
{
    enum { WORKERS = 3 };
    const char *address = handoff_address();
    struct prefork prefork = {NULL, -1};
    pid_t workers[WORKERS];
    long seen[WORKERS];
    nearcall_handoff_options options = NEARCALL_HANDOFF_OPTIONS_INIT;
    options.channels_max = 1;
    if (master_has_handle)
        CHECK_HANDOFF(prefork.handoff, nearcall_handoff_listen(&prefork.handoff, address, &options),
                      NEARCALL_OK);
    else
        prefork.socket = listening_socket(address);
    for (int i = 0; i < WORKERS; i++)
        workers[i] = test_fork(worker, &prefork);
    for (int i = 0; i < WORKERS; i++) {
        nearcall_handoff *giver = connect_to_others(address);
        seen[i] = give_and_ask(giver);
        CHECK(seen[i] != getpid());
        for (int j = 0; j < i; j++)
            CHECK(seen[i] != seen[j]); /* it served one and left */
        nearcall_handoff_close(giver);
    }
    for (int i = 0; i < WORKERS; i++)
        test_join(workers[i]);
    nearcall_handoff_close(prefork.handoff);
    if (prefork.socket >= 0)
        close(prefork.socket);
}

/* ---- A child of a process that has channels ---- */

static void child_uses(void *argument)
{
    nearcall_handoff_item item;
    CHECK_HANDOFF(argument, nearcall_handoff_accept(argument, 0, &item), NEARCALL_E_AGAIN);
    CHECK_HANDOFF(argument, nearcall_handoff_refuse(argument, NEARCALL_HANDOFF_BUSY, ""),
                  NEARCALL_E_AGAIN);
    nearcall_handoff_close(argument);
}

static void child_closes(void *argument)
{
    nearcall_handoff_close(argument);
}

static void child_drains(void *argument)
{
    CHECK_HANDOFF(argument, nearcall_handoff_drain(argument, "the child ends"), NEARCALL_OK);
    nearcall_handoff_close(argument);
}

static void child_exits(void *argument)
{
    (void)argument;
}

/* As daemons do: every descriptor is closed, and the numbers are used again. */
static void child_reuses_all_descriptors(void *argument)
{
    nearcall_handoff_item item;
    for (int fd = 3; fd < 64; fd++)
        close(fd);
    for (int fd = 3; fd < 64; fd++)
        CHECK_INT(open("/dev/null", O_RDONLY), fd);
    (void)nearcall_handoff_accept(argument, 0, &item);
    for (int fd = 3; fd < 64; fd++)
        CHECK(fcntl(fd, F_GETFD) >= 0);
}

/* Something was given when the process forked: the child says nothing of it, and the
 * parent takes it. */
static void children_leave_the_parents_channel(void)
{
    static void (*const bodies[])(void *) = {child_uses, child_closes, child_drains, child_exits,
                                             child_reuses_all_descriptors};
    const char *address = handoff_address();
    nearcall_handoff *taker = handoff_listen(address, 0);
    nearcall_handoff *giver = handoff_connect(address, 0, taker);
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        struct giving giving = {0};
        nearcall_handoff_item item;
        int client;
        tcp_pair(&client, &giving.item.fd);
        giving_start(&giving, giver, giving.item.fd, PATIENCE_MS);
        CHECK_HANDOFF(taker, nearcall_handoff_wait(taker, PATIENCE_MS), NEARCALL_OK);
        test_join(test_fork(bodies[i], taker));
        CHECK_HANDOFF(taker, nearcall_handoff_accept(taker, PATIENCE_MS, &item), NEARCALL_OK);
        CHECK_HANDOFF(giver, giving_end(&giving), NEARCALL_OK);
        send_bytes(item.fd, "parent");
        close(item.fd);
        expect_bytes(client, "parent");
        expect_end(client);
        close(client);
    }
    CHECK(access(address + strlen("unix:"), F_OK) == 0); /* no child has removed it */
    nearcall_handoff_close(giver);
    nearcall_handoff_close(taker);
}

static void child_gives(void *argument)
{
    nearcall_handoff_item item = {.kind = NEARCALL_HANDOFF_CONNECTION};
    int client;
    tcp_pair(&client, &item.fd);
    CHECK_HANDOFF(argument, nearcall_handoff_give(argument, 0, &item, 1000), NEARCALL_E_UNAVAILABLE);
    CHECK(fcntl(item.fd, F_GETFD) >= 0);
    nearcall_handoff_close(argument);
}

static void child_serves_twice(void *argument)
{
    serve_one(argument);
    serve_one(argument);
    nearcall_handoff_close(argument);
}

static void a_child_does_not_give_on_the_parents_channel(void)
{
    const char *address = handoff_address();
    nearcall_handoff *taker = handoff_listen(address, 0);
    pid_t server = test_fork(child_serves_twice, taker);
    nearcall_handoff *giver = connect_to_others(address);
    CHECK_INT(give_and_ask(giver), server);
    test_join(test_fork(child_gives, giver));
    CHECK_INT(give_and_ask(giver), server);
    test_join(server);
    nearcall_handoff_close(giver);
    nearcall_handoff_close(taker);
}

/* ---- Kills ---- */

static void taker_that_waits(void *argument)
{
    CHECK_HANDOFF(argument, nearcall_handoff_wait(argument, PATIENCE_MS), NEARCALL_OK);
    kill(getpid(), SIGKILL);
}

/* It had arrived and was not accepted: it is the giver's, and untouched. */
static void a_taker_that_is_killed_before_it_accepted(void)
{
    const char *address = handoff_address();
    nearcall_handoff *taker = handoff_listen(address, 0);
    nearcall_handoff_item item = {.kind = NEARCALL_HANDOFF_CONNECTION};
    int client, status;
    pid_t pid = test_fork(taker_that_waits, taker);
    nearcall_handoff *giver = connect_to_others(address);
    tcp_pair(&client, &item.fd);
    CHECK_HANDOFF(giver, nearcall_handoff_give(giver, 0, &item, PATIENCE_MS), NEARCALL_E_UNAVAILABLE);
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status));
    send_bytes(item.fd, "mine");
    expect_bytes(client, "mine");
    close(item.fd);
    expect_end(client);
    close(client);
    nearcall_handoff_close(giver);
    nearcall_handoff_close(taker);
}

static void taker_that_serves_for_ever(void *argument)
{
    for (;;)
        serve_one(argument);
}

/* The taker is killed while it serves: what give() says is true each time. A connection that
 * it took and did not answer dies with it, as that of any killed server; one that it did not
 * take is served here. */
static void a_taker_that_is_killed_at_any_moment(long rounds)
{
    unsigned seed = (unsigned)test_parameter("NEARCALL_TEST_SEED", getpid());
    printf("seed %u\n", seed);
    for (long i = 0; i < rounds; i++) {
        const char *address = handoff_address();
        nearcall_handoff *taker = handoff_listen(address, 0);
        pid_t pid = test_fork(taker_that_serves_for_ever, taker);
        nearcall_handoff *giver = connect_to_others(address);
        pid_t killer = fork();
        if (killer == 0) {
            usleep((useconds_t)rand_r(&seed) % 3000); /* any moment: that is the test */
            kill(pid, SIGKILL);
            _exit(0);
        }
        rand_r(&seed);
        int r = NEARCALL_OK;
        while (r == NEARCALL_OK) {
            nearcall_handoff_item item = {.kind = NEARCALL_HANDOFF_CONNECTION};
            int client;
            char text[32];
            tcp_pair(&client, &item.fd);
            r = nearcall_handoff_give(giver, 0, &item, PATIENCE_MS);
            if (r != NEARCALL_OK) {
                send_bytes(item.fd, "mine");
                close(item.fd);
                expect_bytes(client, "mine");
            } else {
                (void)!read(client, text, sizeof(text));
            }
            expect_end(client);
            close(client);
        }
        CHECK_HANDOFF(giver, r, NEARCALL_E_UNAVAILABLE);
        CHECK_INT(waitpid(pid, NULL, 0), pid);
        CHECK_INT(waitpid(killer, NULL, 0), killer);
        nearcall_handoff_close(giver);
        nearcall_handoff_close(taker);
    }
}

static void giver_that_dies(void *argument)
{
    nearcall_handoff *giver = connect_to_others(argument);
    nearcall_handoff_item item = {.kind = NEARCALL_HANDOFF_CONNECTION};
    int client;
    tcp_pair(&client, &item.fd);
    (void)nearcall_handoff_give(giver, 0, &item, PATIENCE_MS);
}

static void a_giver_that_is_killed_while_it_waits(void)
{
    const char *address = handoff_address();
    nearcall_handoff *taker = handoff_listen(address, 0);
    nearcall_handoff_item item;
    pid_t pid = test_fork(giver_that_dies, (void *)(uintptr_t)address);
    CHECK_HANDOFF(taker, nearcall_handoff_wait(taker, PATIENCE_MS), NEARCALL_OK);
    CHECK(kill(pid, SIGKILL) == 0);
    CHECK_INT(waitpid(pid, NULL, 0), pid);
    /* Nobody is left who could be told, so nobody takes it. */
    CHECK_HANDOFF(taker, nearcall_handoff_accept(taker, 0, &item), NEARCALL_E_AGAIN);
    nearcall_handoff_close(taker);
}

/* ---- A lack of descriptors ---- */

struct starved {
    nearcall_handoff *handoff;
    int told; /* that the next step is to be taken */
    int tells;
};

static void set_descriptor_limit(rlim_t descriptors)
{
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = descriptors;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

static void taker_without_descriptors(void *argument)
{
    struct starved *starved = argument;
    nearcall_handoff_item item;
    serve_one(starved->handoff);
    int lowest = dup(0);
    close(lowest);
    set_descriptor_limit((rlim_t)lowest);
    CHECK_INT(write(starved->tells, "x", 1), 1);
    int r = NEARCALL_E_AGAIN;
    struct pollfd told = {starved->told, POLLIN, 0};
    while (poll(&told, 1, 1) == 0) {
        r = nearcall_handoff_accept(starved->handoff, 0, &item);
        CHECK_HANDOFF(starved->handoff, r, NEARCALL_E_AGAIN);
    }
    set_descriptor_limit(64);
    CHECK_INT(write(starved->tells, "y", 1), 1);
    serve_one(starved->handoff);
    nearcall_handoff_close(starved->handoff);
}

static void a_taker_without_descriptors_refuses(void)
{
    const char *address = handoff_address();
    nearcall_handoff_item item = {.kind = NEARCALL_HANDOFF_CONNECTION};
    int client, to_child[2], to_parent[2];
    CHECK(pipe(to_child) == 0 && pipe(to_parent) == 0);
    struct starved starved = {handoff_listen(address, 0), to_child[0], to_parent[1]};
    pid_t pid = test_fork(taker_without_descriptors, &starved);
    nearcall_handoff *giver = connect_to_others(address);
    CHECK_INT(give_and_ask(giver), pid);
    expect_bytes(to_parent[0], "x");
    tcp_pair(&client, &item.fd);
    CHECK_HANDOFF(giver, nearcall_handoff_give(giver, 0, &item, PATIENCE_MS),
                  NEARCALL_E_RESOURCE_EXHAUSTED);
    CHECK_INT(nearcall_handoff_error_reason(giver), NEARCALL_HANDOFF_NO_DESCRIPTOR);
    send_bytes(item.fd, "mine");
    expect_bytes(client, "mine");
    CHECK_INT(write(to_child[1], "x", 1), 1);
    expect_bytes(to_parent[0], "y");
    CHECK_INT(give_and_ask(giver), pid); /* the channel goes on */
    test_join(pid);
    close(item.fd);
    close(client);
    for (int i = 0; i < 2; i++) {
        close(to_child[i]);
        close(to_parent[i]);
    }
    nearcall_handoff_close(giver);
    nearcall_handoff_close(starved.handoff);
}

/* ---- Many ---- */

static void taker_of_many(void *argument)
{
    long rounds = test_parameter("NEARCALL_TEST_HANDOFFS", 2000);
    serve_one(argument);
    int descriptors = test_open_descriptors();
    for (long i = 1; i < rounds; i++)
        serve_one(argument);
    CHECK_INT(test_open_descriptors(), descriptors);
    nearcall_handoff_close(argument);
}

static void many(void)
{
    long rounds = test_parameter("NEARCALL_TEST_HANDOFFS", 2000);
    const char *address = handoff_address();
    nearcall_handoff *taker = handoff_listen(address, 0);
    pid_t pid = test_fork(taker_of_many, taker);
    nearcall_handoff *giver = connect_to_others(address);
    int descriptors = test_open_descriptors();
    for (long i = 1; i < rounds; i++)
        CHECK_INT(give_and_ask(giver), pid);
    CHECK_INT(test_open_descriptors(), descriptors);
    CHECK_INT(give_and_ask(giver), pid); /* and the taker ends */
    test_join(pid);
    nearcall_handoff_close(giver);
    nearcall_handoff_close(taker);
}

int main(void)
{
    test_begin();
    workers_share_the_masters_socket(true);
    int descriptors = test_open_descriptors();
    workers_share_the_masters_socket(false);
    children_leave_the_parents_channel();
    a_child_does_not_give_on_the_parents_channel();
    a_taker_that_is_killed_before_it_accepted();
    a_taker_that_is_killed_at_any_moment(20);
    a_giver_that_is_killed_while_it_waits();
    a_taker_without_descriptors_refuses();
    many();
    CHECK_INT(test_open_descriptors(), descriptors);
    return 0;
}
