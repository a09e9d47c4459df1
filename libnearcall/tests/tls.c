/* Calls of every kind over TLS, and what lasts from one connection to the next. */
#include <poll.h>
#include <unistd.h>

#include "handle/handle.h"
#include "nearcall_hooks.h"
#include "tls_test.h"

static unsigned new_sessions, resumed_sessions, warnings;

static void note(void *argument, int level, const char *text)
{
    (void)argument;
    new_sessions += strstr(text, "new session") != NULL;
    resumed_sessions += strstr(text, "session resumed") != NULL;
    warnings += level == NEARCALL_LOG_WARNING && strstr(text, "were not read again") != NULL;
}

static void echo(nearcall_client *client, size_t bytes)
{
    nearcall_reply reply;
    uint8_t *data = calloc(1, bytes + 1);
    CHECK(data != NULL);
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)(i * 7 + i / 251);
    CHECK_CALL(client, nearcall_call(client, "echo", data, bytes, 30000, &reply), NEARCALL_OK);
    CHECK_INT(reply.bytes, bytes);
    CHECK(memcmp(reply.data, data, bytes) == 0);
    free(data);
}

/* Around the size of a record, of what is sealed at once, and of what a socket takes. */
static void calls_of_all_sizes(nearcall_client *client)
{
    static const size_t sizes[] = {0, 1, 100, 16335, 16384, 16385, 32768, 65535, 65536, 65537, 1 << 20, 3 << 20, 1};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        echo(client, sizes[i]);
    CHECK(strcmp(nearcall_transport(client), "tls") == 0);
    CHECK(nearcall_server_process_id(client) != 0);
    CHECK_CALL(client, nearcall_ping(client, 10000, NULL), NEARCALL_OK);
}

/* Large requests and large replies at the same time: neither side waits for the other to read. */
static void calls_in_flight(nearcall_client *client)
{
    enum { COUNT = 20 };
    nearcall_call_id calls[COUNT];
    nearcall_reply reply;
    nearcall_function *echo_function = test_find(client, "echo");
    for (int i = 0; i < COUNT; i++) {
        CHECK_CALL(client, nearcall_request(client, echo_function, NEARCALL_CODEC_RAW), NEARCALL_OK);
        void *room = nearcall_put_reserve(client, (size_t)i * 50000);
        CHECK(room != NULL);
        memset(room, i, (size_t)i * 50000);
        CHECK_CALL(client, nearcall_request_send(client, 30000, &calls[i]), NEARCALL_OK);
        CHECK_INT(nearcall_unsent_bytes(client), 0); /* a call that may block has sent all */
    }
    for (int i = COUNT - 1; i >= 0; i--) {
        CHECK_CALL(client, nearcall_wait(client, calls[i], &reply), NEARCALL_OK);
        CHECK_INT(reply.bytes, i * 50000);
        CHECK(i == 0 || reply.data[reply.bytes - 1] == i);
    }
}

static bool a_deadline_passes(nearcall_client *client)
{
    nearcall_reply reply;
    nearcall_function *block = test_find(client, "block");
    test_request_int(client, block, 400);
    double before_ms = test_now_ms();
    CHECK_CALL(client, nearcall_request_call(client, 100, &reply), NEARCALL_E_DEADLINE_EXCEEDED);
    return test_in_time(test_now_ms() - before_ms, 100);
}

static void of_every_kind(const char *address)
{
    nearcall_client *client = tls_open(address, 0);
    CHECK(strcmp(nearcall_transport(client), "") == 0);
    calls_of_all_sizes(client);
    calls_in_flight(client);
    for (int tries = 0; !a_deadline_passes(client); tries++)
        CHECK(tries < TEST_TRIES);
    echo(client, 100);
    nearcall_close(client);
}

/* A host by name, with the settings in the address. */
static void by_address(const struct relay *relay)
{
    char address[400];
    nearcall_reply reply;
    snprintf(address, sizeof(address), "tls:localhost:%s?ca=%s&name=localhost&silence=2000",
             strrchr(relay->address, ':') + 1, tls_file("ca.pem"));
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    options.tls_authorities = "/none"; /* the address says otherwise */
    nearcall_client *client = test_open_with(address, &options);
    CHECK_CALL(client, nearcall_call(client, "echo", "x", 1, 10000, &reply), NEARCALL_OK);
    nearcall_close(client);
}

/* The server's ticket comes with the first reply, if not before. */
static void a_session_is_resumed(const char *address)
{
    nearcall_client *client = tls_open(address, 0);
    new_sessions = resumed_sessions = 0;
    CHECK_CALL(client, nearcall_on_log(client, note, NULL), NEARCALL_OK);
    for (int i = 0; i < 3; i++) {
        echo(client, 10);
        nearcall_disconnect(client);
    }
    CHECK_INT(new_sessions, 1);
    CHECK_INT(resumed_sessions, 2);
    nearcall_close(client);
}

static void copy_file(const char *from, const char *to)
{
    char command[600];
    snprintf(command, sizeof(command), "cp '%s' '%s'", from, to);
    CHECK(system(command) == 0);
}

/* Files are read again when they have changed, and what cannot be read does no harm. */
static void files_change(const char *address)
{
    char authorities[256];
    nearcall_options options = tls_options(0);
    snprintf(authorities, sizeof(authorities), "%s", tls_file("changing.pem"));
    copy_file(tls_file("ca.pem"), authorities);
    options.tls_authorities = authorities;
    nearcall_client *client = test_open_with(address, &options);
    CHECK_CALL(client, nearcall_on_log(client, note, NULL), NEARCALL_OK);
    echo(client, 10);
    nearcall_disconnect(client);
    CHECK(truncate(authorities, 0) == 0);
    warnings = 0;
    echo(client, 10);
    CHECK_INT(warnings, 1);
    nearcall_disconnect(client);
    copy_file(tls_file("stranger-ca.pem"), authorities);
    CHECK_CALL(client, nearcall_connect(client, 10000), NEARCALL_E_UNAUTHENTICATED);
    copy_file(tls_file("ca.pem"), authorities);
    echo(client, 10);
    CHECK_INT(warnings, 1);
    nearcall_close(client);
}

/* A handle that has rested notices that its server was replaced before it sends a call there. */
static void the_server_is_replaced(struct tls_server *server)
{
    nearcall_reply reply;
    nearcall_client *client = tls_open(server->relay.address, 0);
    nearcall_function *count = test_find(client, "count");
    for (int i = 0; i < 3; i++) {
        server_replace(&server->server, "1");
        struct pollfd end = {client->connection.fd, POLLIN, 0};
        CHECK_INT(poll(&end, 1, 20000), 1); /* the relay has passed it on */
        CHECK_CALL(client, nearcall_request(client, count, NEARCALL_CODEC_MSGPACK), NEARCALL_OK);
        nearcall_put_array(client, 0);
        CHECK_CALL(client, nearcall_request_call(client, 10000, &reply), NEARCALL_OK);
        CHECK_INT(test_read_int(&reply), 1);
    }
    nearcall_close(client);
}

int main(void)
{
    struct tls_server server;
    test_begin();
    tls_server_start(&server);
    of_every_kind(server.relay.address);
    by_address(&server.relay);
    a_session_is_resumed(server.relay.address);
    files_change(server.relay.address);
    the_server_is_replaced(&server);
    tls_server_stop(&server);
    return 0;
}
