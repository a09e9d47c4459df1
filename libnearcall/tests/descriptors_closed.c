/* The program closes descriptors it does not know, and others get their numbers: the
 * library notices, touches none of them, and connects anew. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client.h"
#include "test.h"

#define ROUNDS 20

/* Puts one end of a pair where the connection's socket was; returns the other. */
static int take_the_number(const nearcall_client *client)
{
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    CHECK(dup2(pair[0], client->connection.fd) == client->connection.fd);
    close(pair[0]);
    return pair[1];
}

static void check_untouched(int other)
{
    char byte;
    CHECK(recv(other, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN); /* open, and silent */
    close(other);
}

static void between_calls(const struct server *server, uint32_t flags, int calls)
{
    nearcall_reply reply;
    bool may_be_lost = calls > 1; /* shared memory has the request before the socket is looked at */
    nearcall_client *client = test_open(server->address, flags);
    for (int i = 0; i < calls; i++)
        CHECK_CALL(client, nearcall_call(client, "echo", "x", 1, 20000, &reply), NEARCALL_OK);
    int former = client->connection.fd, other = take_the_number(client);
    int r = nearcall_call(client, "echo", "x", 1, 20000, &reply);
    if (r == NEARCALL_E_UNAVAILABLE && may_be_lost) {
        CHECK(nearcall_error_outcome(client) != NEARCALL_OUTCOME_NOT_EXECUTED);
        r = nearcall_call(client, "echo", "x", 1, 20000, &reply);
    }
    CHECK_CALL(client, r, NEARCALL_OK);
    nearcall_close(client);
    check_untouched(other);
    close(former);
}

static void with_a_call_in_flight(const struct server *server, bool reads_first)
{
    nearcall_reply reply;
    nearcall_call_id call;
    nearcall_client *client = test_open(server->address, 0);
    test_request_int(client, test_find(client, "block"), 100);
    CHECK_CALL(client, nearcall_request_send(client, 20000, &call), NEARCALL_OK);
    int former = client->connection.fd, other = take_the_number(client);
    if (reads_first)
        CHECK_CALL(client, nearcall_process(client), NEARCALL_E_UNAVAILABLE);
    CHECK_CALL(client, nearcall_wait(client, call, &reply), NEARCALL_E_UNAVAILABLE);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_UNKNOWN);
    CHECK(strstr(nearcall_error_message(client), "closed the descriptor") != NULL);
    nearcall_close(client);
    check_untouched(other);
    close(former);
}

/* Who gives a call up writes as well, though no clock is read for it. */
static void a_call_is_cancelled(const struct server *server, uint32_t flags, int calls)
{
    nearcall_reply reply;
    nearcall_call_id call;
    nearcall_client *client = test_open(server->address, flags);
    nearcall_function *block = test_find(client, "block");
    for (int i = 0; i < calls; i++)
        CHECK_CALL(client, nearcall_call(client, "echo", "x", 1, 20000, &reply), NEARCALL_OK);
    test_request_int(client, block, 100);
    CHECK_CALL(client, nearcall_request_send(client, 20000, &call), NEARCALL_OK);
    int former = client->connection.fd, other = take_the_number(client);
    nearcall_cancel(client, call);
    nearcall_close(client);
    check_untouched(other);
    close(former);
}

static void without_a_successor(const struct server *server)
{
    nearcall_reply reply;
    nearcall_client *client = test_open(server->address, 0);
    CHECK_CALL(client, nearcall_call(client, "echo", "x", 1, 20000, &reply), NEARCALL_OK);
    close(client->connection.fd);
    CHECK_CALL(client, nearcall_call(client, "echo", "x", 1, 20000, &reply), NEARCALL_OK);
    nearcall_close(client);
}

/* A file that the program opened has the number by which the handle is woken: neither a
 * byte of it is read, nor one written to it, and wakes arrive again. */
static void the_number_of_the_event(const struct server *server)
{
    nearcall_reply reply;
    char path[160], text[32] = "";
    snprintf(path, sizeof(path), "%s/log", test_directory());
    nearcall_client *client = test_open(server->address, NEARCALL_WAKEABLE | NEARCALL_NO_SHARED_MEMORY);
    CHECK_CALL(client, nearcall_call(client, "echo", "x", 1, 20000, &reply), NEARCALL_OK);
    int watched = nearcall_fd(client), number = client->watch.wake_fd;
    int log = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(log >= 0 && write(log, "what was logged", 15) == 15 && lseek(log, 0, SEEK_SET) == 0);
    CHECK(dup2(log, number) == number);
    CHECK_INT(nearcall_wake(client), NEARCALL_E_MISUSE);
    for (int i = 0; i < 3; i++)
        CHECK_CALL(client, nearcall_call(client, "echo", "x", 1, 20000, &reply), NEARCALL_OK);
    CHECK_INT(read(log, text, sizeof(text)), 15);
    CHECK(strcmp(text, "what was logged") == 0);
    struct pollfd loop = {watched, POLLIN, 0};
    CHECK_INT(nearcall_wake(client), NEARCALL_OK);
    CHECK_INT(nearcall_fd(client), watched);
    CHECK_INT(poll(&loop, 1, 10000), 1);
    nearcall_close(client);
    CHECK(fcntl(number, F_GETFD) >= 0);
    close(number);
    close(log);
}

int main(void)
{
    struct server server;
    test_begin();
    server_start(&server);
    for (int i = 0; i < ROUNDS; i++) { /* what is looked at when depends on the clock */
        between_calls(&server, NEARCALL_NO_SHARED_MEMORY, 1);
        between_calls(&server, 0, 1);
        between_calls(&server, 0, 40); /* enough for shared memory */
    }
    with_a_call_in_flight(&server, false);
    with_a_call_in_flight(&server, true);
    a_call_is_cancelled(&server, NEARCALL_NO_SHARED_MEMORY, 1);
    a_call_is_cancelled(&server, 0, 40);
    without_a_successor(&server);
    the_number_of_the_event(&server);
    server_stop(&server);
    return 0;
}
