/* The same over TCP, by number and by name. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/limits_gen.h"
#include "handle/handle.h"
#include "script.h"

static void play(struct script *script)
{
    for (int i = 0; i < 2; i++) {
        script_greet(script);
        script_serve(script);
    }
}

static void expect_option(int fd, int level, int name, int expected)
{
    int value = -1;
    socklen_t bytes = sizeof(value);
    CHECK(getsockopt(fd, level, name, &value, &bytes) == 0);
    CHECK_INT(value, expected);
}

/* A host that vanishes sends nothing, so the kernel has to notice. */
static void asks_whether_the_host_is_there(const nearcall_client *client)
{
    int fd = client->connection.fd;
    expect_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    expect_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, NC_TCP_KEEP_ALIVE_MS / 1000);
    expect_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, NC_TCP_KEEP_ALIVE_MS / 1000);
    expect_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, NC_TCP_UNANSWERED_MS);
}

static void call(const char *address)
{
    nearcall_reply reply;
    nearcall_client *client = test_open(address, 0);
    uint8_t *data = calloc(1, 60000);
    CHECK(data != NULL);
    for (int i = 0; i < 10; i++) {
        CHECK_CALL(client, nearcall_call(client, "f", data, 60000, 10000, &reply), NEARCALL_OK);
        CHECK_INT(reply.bytes, 60000);
    }
    free(data);
    asks_whether_the_host_is_there(client);
    nearcall_close(client);
}

static void end_after_a_call(struct script *script)
{
    struct nc_frame frame;
    for (int i = 0; i < 2; i++) {
        script_greet(script);
        script_expect(script, NC_REQUEST, &frame);
        script_reply(script, &frame, "x", 1);
        if (i == 0)
            script_hang_up(script);
    }
    CHECK(script_read_end(script));
}

/* A handle that has rested notices the end of its connection before it sends a call there: afterwards
 * nobody could say what has become of that. */
static void looks_before_a_call(void)
{
    struct script script;
    nearcall_reply reply;
    script_start_tcp(&script, end_after_a_call, NULL);
    nearcall_client *client = test_open(script.address, 0);
    CHECK_CALL(client, nearcall_call(client, "f", NULL, 0, 10000, &reply), NEARCALL_OK);
    struct pollfd end = {client->connection.fd, POLLIN, 0};
    CHECK_INT(poll(&end, 1, 20000), 1);
    (void)usleep(2000); /* the handle rests for longer than it takes a connection to be in use */
    CHECK_CALL(client, nearcall_call(client, "f", NULL, 0, 10000, &reply), NEARCALL_OK);
    nearcall_close(client);
    script_end(&script);
}

static void silence_is_an_option(void)
{
    struct script script;
    char address[200];
    script_start_tcp(&script, play, NULL);
    nearcall_reply reply;
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    options.silence_ms = 5000;
    nearcall_client *client = test_open_with(script.address, &options);
    CHECK_CALL(client, nearcall_call(client, "f", NULL, 0, 10000, &reply), NEARCALL_OK);
    expect_option(client->connection.fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 5000);
    expect_option(client->connection.fd, IPPROTO_TCP, TCP_KEEPIDLE, 2);
    nearcall_close(client);
    snprintf(address, sizeof(address), "%s?silence=200", script.address);
    client = test_open_with(address, &options);
    CHECK_CALL(client, nearcall_call(client, "f", NULL, 0, 10000, &reply), NEARCALL_OK);
    expect_option(client->connection.fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 200);
    expect_option(client->connection.fd, IPPROTO_TCP, TCP_KEEPIDLE, 1);
    nearcall_close(client);
    script_end(&script);
}

/* It reads as what it is: neither as an address that cannot be used, nor as a server
 * that cannot be reached. */
static void a_name_that_is_not_there(void)
{
    nearcall_reply reply;
    nearcall_client *client = test_open("tcp:name.invalid:7", 0);
    CHECK_CALL(client, nearcall_call(client, "f", NULL, 0, 20000, &reply), NEARCALL_E_UNAVAILABLE);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK(strstr(nearcall_error_message(client), "the name name.invalid cannot be looked up: ") != NULL);
    nearcall_close(client);
}

int main(void)
{
    struct script script;
    char by_name[160];
    nearcall_reply reply;
    test_begin();
    script_start_tcp(&script, play, NULL);
    call(script.address);
    snprintf(by_name, sizeof(by_name), "tcp:localhost:%s", strrchr(script.address, ':') + 1);
    call(by_name);
    script_end(&script);
    nearcall_client *client = test_open(script.address, 0);
    CHECK_CALL(client, nearcall_call(client, "f", NULL, 0, 5000, &reply), NEARCALL_E_UNAVAILABLE);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    nearcall_close(client);
    looks_before_a_call();
    silence_is_an_option();
    a_name_that_is_not_there();
    return 0;
}
