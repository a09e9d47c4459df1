/* NEARCALL_NONBLOCKING over TLS, in a loop of poll(2) and in one that is told of edges only. What was received and
 * is sealed still, or opened and not read yet, shows in no descriptor, and yet no loop sleeps over it. */
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "handle/handle.h"
#include "tls_test.h"

#define PATIENCE_MS 20000

static int loop_fd = -1; /* an epoll instance, or -1: poll(2) */

static void watch_edges(nearcall_client *client)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    loop_fd = epoll_create1(EPOLL_CLOEXEC);
    CHECK(loop_fd >= 0 && epoll_ctl(loop_fd, EPOLL_CTL_ADD, nearcall_fd(client), &event) == 0);
}

/* A loop that sleeps for so long has lost something. */
static int turn(nearcall_client *client)
{
    struct pollfd watched = {nearcall_fd(client), (short)nearcall_events(client), 0};
    struct epoll_event event;
    int64_t timeout_ms = nearcall_timeout_ms(client);
    int wait_ms = timeout_ms < 0 || timeout_ms > PATIENCE_MS ? PATIENCE_MS : (int)timeout_ms;
    double before_ms = test_now_ms();
    int r = loop_fd >= 0 ? epoll_wait(loop_fd, &event, 1, wait_ms) : poll(&watched, 1, wait_ms);
    CHECK(r > 0 || test_now_ms() - before_ms < PATIENCE_MS / 2);
    return nearcall_process(client);
}

static nearcall_function *find(nearcall_client *client, const char *name)
{
    nearcall_call_id call;
    nearcall_function *function;
    int r;
    CHECK_CALL(client, nearcall_find_begin(client, name, strlen(name), 20000, &call), NEARCALL_OK);
    while ((r = nearcall_poll(client, call, NULL)) == NEARCALL_E_AGAIN)
        CHECK(turn(client) >= 0);
    CHECK_CALL(client, r, NEARCALL_OK);
    CHECK_CALL(client, nearcall_find(client, name, strlen(name), 1, &function), NEARCALL_OK);
    return function;
}

static nearcall_call_id send_bytes(nearcall_client *client, nearcall_function *function, size_t bytes)
{
    nearcall_call_id call;
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
    void *room = nearcall_put_reserve(client, bytes);
    CHECK(room != NULL);
    memset(room, 'x', bytes);
    CHECK_CALL(client, nearcall_request_send(client, 20000, &call), NEARCALL_OK);
    return call;
}

/* The relay is stopped meanwhile, so that it takes no more than fits into two sockets. */
static void calls_of_all_sizes(const struct relay *relay, nearcall_client *client, nearcall_function *echo)
{
    static const size_t sizes[] = {0, 1, 64, 16384, 65536, 1 << 20, 3 << 20, 3 << 20, 3 << 20, 3 << 20, 10, 16384, 1};
    enum { COUNT = sizeof(sizes) / sizeof(sizes[0]) };
    nearcall_call_id calls[COUNT], finished;
    nearcall_reply reply;
    kill(relay->pid, SIGSTOP);
    for (int i = 0; i < COUNT; i++)
        calls[i] = send_bytes(client, echo, sizes[i]);
    CHECK(nearcall_unsent_bytes(client) > 0);
    CHECK(nc_connection_keeps(&client->connection));
    kill(relay->pid, SIGCONT);
    for (int fetched = 0; fetched < COUNT;) {
        CHECK(turn(client) >= 0);
        while ((finished = nearcall_next_finished(client)) != 0) {
            int i = 0;
            while (calls[i] != finished)
                i++;
            CHECK_CALL(client, nearcall_poll(client, finished, &reply), NEARCALL_OK);
            CHECK_INT(reply.bytes, sizes[i]);
            fetched++;
        }
    }
    CHECK_INT(nearcall_unsent_bytes(client), 0);
}

/* Two replies in records of their own, which arrive together. */
static void await_two_records(const nearcall_client *client)
{
    double until_ms = test_now_ms() + 100;
    int waiting = 0;
    while (waiting < 90 && test_now_ms() < until_ms)
        CHECK(ioctl(client->connection.fd, FIONREAD, &waiting) == 0);
}

/* A function that waits for one call receives both replies, and leaves the other sealed. */
static void nothing_is_left_sealed(nearcall_client *client)
{
    nearcall_function *nap = find(client, "sleep");
    nearcall_call_id calls[2];
    unsigned held = 0;
    for (int i = 0; i < 30; i++) {
        for (int k = 0; k < 2; k++) {
            test_request_int(client, nap, 1 + 3 * k);
            CHECK_CALL(client, nearcall_request_send(client, 20000, &calls[k]), NEARCALL_OK);
        }
        await_two_records(client);
        CHECK_CALL(client, nearcall_wait(client, calls[0], NULL), NEARCALL_OK);
        held += nc_connection_holds(&client->connection);
        while (nearcall_next_finished(client) != calls[1])
            CHECK(turn(client) >= 0);
        CHECK_CALL(client, nearcall_poll(client, calls[1], NULL), NEARCALL_OK);
    }
    CHECK(held > 0);
}

static void the_server_ends(struct tls_server *server, nearcall_client *client, nearcall_function *echo)
{
    nearcall_call_id call = send_bytes(client, echo, 5);
    nearcall_reply reply;
    server_kill(&server->server);
    while (nearcall_next_finished(client) != call)
        (void)turn(client);
    int r = nearcall_poll(client, call, &reply); /* answered, or lost */
    CHECK(r == NEARCALL_OK || r == NEARCALL_E_UNAVAILABLE);
    while (nearcall_server_process_id(client) != 0)
        (void)turn(client);
}

static void run(bool edges)
{
    struct tls_server server;
    int r;
    tls_server_start(&server);
    nearcall_client *client = tls_open(server.relay.address, NEARCALL_NONBLOCKING);
    if (edges)
        watch_edges(client);
    while ((r = nearcall_connect(client, 20000)) == NEARCALL_E_AGAIN)
        (void)turn(client);
    CHECK_CALL(client, r, NEARCALL_OK);
    nearcall_function *echo = find(client, "echo");
    for (int i = 0; i < 2; i++)
        calls_of_all_sizes(&server.relay, client, echo);
    nothing_is_left_sealed(client);
    the_server_ends(&server, client, echo);
    nearcall_close(client);
    relay_stop(&server.relay);
    if (loop_fd >= 0)
        close(loop_fd);
    loop_fd = -1;
}

int main(void)
{
    test_begin();
    run(false);
    run(true);
    return 0;
}
