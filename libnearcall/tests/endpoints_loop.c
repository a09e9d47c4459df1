/* An address with several endpoints in a loop of poll(2): connecting and calls that were begun go on to the next endpoint
 * without a function that blocks. */
#include <poll.h>
#include <sys/socket.h>

#include "endpoints_test.h"
#include "handle/handle.h"

/* Linked with --wrap. On this socket the server ends the connection before a second request is sent. */
static int ends_after_one = -1;

ssize_t __real_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags);

ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags)
{
    struct pollfd watched = {fd, 0, 0};
    ssize_t sent = __real_send(fd, data, bytes, flags);
    if (fd == ends_after_one && sent > 0)
        CHECK_INT(poll(&watched, 1, -1), 1);
    return sent;
}

/* One turn of a loop; what nearcall_process() returned. */
static int turn(nearcall_client *client)
{
    struct pollfd watched = {nearcall_fd(client), (short)nearcall_events(client), 0};
    int64_t timeout_ms = nearcall_timeout_ms(client);
    CHECK(watched.fd >= 0 || timeout_ms >= 0); /* else the loop would sleep for ever */
    poll(&watched, watched.fd >= 0 ? 1 : 0, (int)timeout_ms);
    return nearcall_process(client);
}

static int finish(nearcall_client *client, nearcall_call_id call, nearcall_reply *reply)
{
    int r;
    while ((r = nearcall_poll(client, call, reply)) == NEARCALL_E_AGAIN)
        (void)turn(client);
    return r;
}

static nearcall_call_id begin(nearcall_client *client, nearcall_function *function, int64_t timeout_ms)
{
    nearcall_call_id call;
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
    nearcall_put_raw(client, "x", 1);
    CHECK_CALL(client, nearcall_request_send(client, timeout_ms, &call), NEARCALL_OK);
    return call;
}

static void call_begun(nearcall_client *client, nearcall_function *function, int64_t timeout_ms)
{
    nearcall_reply reply;
    CHECK_CALL(client, finish(client, begin(client, function, timeout_ms), &reply), NEARCALL_OK);
    CHECK_INT(reply.bytes, 1);
}

static void connect_in_loop(nearcall_client *client, int code)
{
    int r;
    while ((r = nearcall_connect(client, 20000)) == NEARCALL_E_AGAIN)
        (void)turn(client);
    CHECK_CALL(client, r, code);
}

static nearcall_function *find(nearcall_client *client)
{
    nearcall_call_id call;
    nearcall_function *function;
    CHECK_CALL(client, nearcall_find_begin(client, "f", 1, 20000, &call), NEARCALL_OK);
    CHECK_CALL(client, finish(client, call, NULL), NEARCALL_OK);
    CHECK_CALL(client, nearcall_find(client, "f", 1, 1, &function), NEARCALL_OK);
    return function;
}

/* Several calls wait for the same connection, and go on together. */
static void begun_while_connecting(nearcall_client *client, nearcall_function *function)
{
    nearcall_call_id calls[10];
    nearcall_reply reply;
    for (int i = 0; i < 10; i++)
        calls[i] = begin(client, function, 20000);
    for (int i = 0; i < 10; i++)
        CHECK_CALL(client, finish(client, calls[i], &reply), NEARCALL_OK);
}

static void first_is_away(const char *scheme)
{
    struct host near, far;
    host_start(&near, scheme);
    host_start(&far, scheme);
    host_stop(&near);
    nearcall_client *client = test_open(two_hosts(&near, "|", &far), NEARCALL_NONBLOCKING);
    connect_in_loop(client, NEARCALL_OK);
    CHECK(strcmp(nearcall_endpoint(client), far.script.address) == 0);
    nearcall_function *function = find(client);
    begun_while_connecting(client, function);
    nearcall_disconnect(client);
    begun_while_connecting(client, function);
    CHECK_INT(atomic_load(&far.requests), 20);
    host_start_again(&near);
    while (atomic_load(&near.requests) == 0)
        call_begun(client, function, 20000);
    nearcall_close(client);
    host_end(&near);
    host_end(&far);
}

static void all_are_away(void)
{
    struct host near, far;
    nearcall_reply reply;
    host_start(&near, "unix:");
    host_start(&far, "unix:");
    nearcall_client *client = test_open(two_hosts(&near, "|", &far), NEARCALL_NONBLOCKING);
    nearcall_function *function = find(client);
    host_stop(&near);
    host_stop(&far);
    while (*nearcall_endpoint(client))
        (void)turn(client);
    connect_in_loop(client, NEARCALL_E_UNAVAILABLE);
    CHECK_CALL(client, finish(client, begin(client, function, 20000), &reply), NEARCALL_E_UNAVAILABLE);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK(strstr(nearcall_error_message(client), near.script.address) != NULL);
    CHECK(strstr(nearcall_error_message(client), far.script.address) != NULL);
    host_start_again(&near);
    call_begun(client, function, 20000);
    nearcall_close(client);
    host_end(&near);
}

static void first_says_nothing(const char *scheme)
{
    struct host near, far;
    nearcall_reply reply;
    host_start(&near, scheme);
    host_start(&far, scheme);
    nearcall_client *client = test_open(two_hosts(&near, "|", &far), NEARCALL_NONBLOCKING);
    nearcall_function *function = find(client);
    nearcall_disconnect(client);
    atomic_store(&near.way, HOST_SAYS_NOTHING);
    double begun_ms = test_now_ms();
    CHECK_CALL(client, finish(client, begin(client, function, 1200), &reply), NEARCALL_OK);
    CHECK(test_now_ms() - begun_ms >= 599);
    CHECK_INT(atomic_load(&far.requests), 1);
    atomic_store(&near.way, HOST_SERVES);
    while (atomic_load(&near.requests) == 0)
        call_begun(client, function, 20000);
    nearcall_close(client);
    host_end(&near);
    host_end(&far);
}

/* Calls that are on their way hold the handle at its endpoint. */
static void stays_with_its_calls(void)
{
    struct host one, other;
    nearcall_call_id calls[100];
    nearcall_reply reply;
    host_start(&one, "tcp:");
    host_start(&other, "tcp:");
    nearcall_client *client = test_open(two_hosts(&one, ",", &other), NEARCALL_NONBLOCKING);
    nearcall_function *function = find(client);
    for (int i = 0; i < 100; i++)
        calls[i] = begin(client, function, 20000);
    for (int i = 0; i < 100; i++)
        CHECK_CALL(client, finish(client, calls[i], &reply), NEARCALL_OK);
    int requests = host_requests(&one);
    CHECK(requests == 0 || requests == 100);
    for (int i = 0; i < 100; i++)
        call_begun(client, function, 20000);
    CHECK(host_requests(&one) > 0 && host_requests(&other) > 0);
    nearcall_close(client);
    host_end(&one);
    host_end(&other);
}

/* Two calls wait for the second endpoint while the first, which was given up, welcomes the connection. Its server ends
 * when it has one of them. */
static void lost_when_it_was_given_up(void)
{
    struct host near, far;
    nearcall_reply reply;
    host_start(&near, "unix:");
    host_start(&far, "unix:");
    nearcall_client *client = test_open(two_hosts(&near, "|", &far), NEARCALL_NONBLOCKING);
    nearcall_function *function = find(client);
    nearcall_disconnect(client);
    atomic_store(&near.way, HOST_SAYS_NOTHING);
    atomic_store(&far.way, HOST_SAYS_NOTHING);
    nearcall_call_id first = begin(client, function, 20000), second = begin(client, function, 20000);
    while (client->endpoints->active == 0 || client->connection.state != NC_HELLO)
        (void)turn(client);
    ends_after_one = client->endpoints->at[0]->connection.fd;
    struct pollfd welcome = {ends_after_one, POLLIN, 0};
    atomic_store(&near.way, HOST_ENDS);
    CHECK_INT(poll(&welcome, 1, -1), 1);
    nearcall_call_id third = begin(client, function, 20000);
    ends_after_one = -1;
    CHECK_INT(atomic_load(&near.requests), 1);
    CHECK_CALL(client, nearcall_poll(client, first, &reply), NEARCALL_E_UNAVAILABLE);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_UNKNOWN);
    CHECK_CALL(client, nearcall_poll(client, second, &reply), NEARCALL_E_UNAVAILABLE);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    atomic_store(&far.way, HOST_SERVES);
    CHECK_CALL(client, finish(client, third, &reply), NEARCALL_OK);
    CHECK_INT(atomic_load(&far.requests), 1);
    nearcall_close(client);
    host_end(&near);
    host_end(&far);
}

/* The connection that the program is making stands, although it is that of an endpoint that was given up. */
static void connected_when_it_was_given_up(void)
{
    struct host near, far;
    nearcall_reply reply;
    host_start(&near, "unix:");
    host_start(&far, "unix:");
    nearcall_client *client = test_open(two_hosts(&near, "|", &far), NEARCALL_NONBLOCKING);
    nearcall_function *function = find(client);
    nearcall_disconnect(client);
    atomic_store(&near.way, HOST_SAYS_NOTHING);
    atomic_store(&far.way, HOST_SAYS_NOTHING);
    CHECK_CALL(client, nearcall_connect(client, 20000), NEARCALL_E_AGAIN);
    nearcall_call_id first = begin(client, function, 20000);
    while (client->endpoints->active == 0 || client->connection.state != NC_HELLO)
        (void)turn(client);
    struct pollfd welcome = {client->endpoints->at[0]->connection.fd, POLLIN, 0};
    atomic_store(&near.way, HOST_SERVES);
    CHECK_INT(poll(&welcome, 1, -1), 1);
    call_begun(client, function, 20000);
    CHECK_CALL(client, finish(client, first, &reply), NEARCALL_OK);
    CHECK(strcmp(nearcall_endpoint(client), near.script.address) == 0);
    CHECK_CALL(client, nearcall_connect(client, 20000), NEARCALL_OK);
    host_stop(&near);
    while (*nearcall_endpoint(client))
        (void)turn(client);
    (void)nearcall_process(client);
    CHECK_INT(client->connection.state, NC_CLOSED); /* nobody asks for another one */
    nearcall_close(client);
    host_end(&far);
}

int main(void)
{
    test_begin();
    first_is_away("unix:");
    first_is_away("tcp:");
    all_are_away();
    first_says_nothing("unix:");
    first_says_nothing("tcp:");
    stays_with_its_calls();
    lost_when_it_was_given_up();
    connected_when_it_was_given_up();
    return 0;
}
