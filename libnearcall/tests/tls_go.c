/* A server in Go that speaks TLS itself: it knows callers by their certificates, and says in words whom it refuses. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nearcall_hooks.h"
#include "tls_test.h"

static unsigned resumed_sessions;

static void note(void *argument, int level, const char *text)
{
    (void)argument, (void)level;
    resumed_sessions += strstr(text, "session resumed") != NULL;
}

static nearcall_client *open_as(const char *address, const char *certificate, const char *key)
{
    nearcall_options options = tls_options(0);
    options.attempts_max = 1;
    options.tls_certificate = certificate ? tls_file(certificate) : NULL;
    options.tls_key = key ? tls_file(key) : NULL;
    return test_open_with(address, &options);
}

static void echo(nearcall_client *client, size_t bytes)
{
    static uint8_t data[3 << 20];
    nearcall_reply reply;
    CHECK_CALL(client, nearcall_call(client, "echo", data, bytes, 30000, &reply), NEARCALL_OK);
    CHECK_INT(reply.bytes, bytes);
}

static void is_let_in(const char *address)
{
    nearcall_client *client = open_as(address, "client.pem", "client.key");
    CHECK_CALL(client, nearcall_on_log(client, note, NULL), NEARCALL_OK);
    for (int i = 0; i < 3; i++) {
        echo(client, 64);
        echo(client, 3 << 20);
        CHECK(strcmp(nearcall_transport(client), "tls") == 0);
        nearcall_disconnect(client);
    }
    CHECK_INT(resumed_sessions, 2);
    nearcall_close(client);
}

static void is_refused(const char *address, const char *certificate, const char *key, const char *words)
{
    nearcall_reply reply;
    nearcall_client *client = open_as(address, certificate, key);
    CHECK_CALL(client, nearcall_call(client, "echo", "x", 1, 20000, &reply), NEARCALL_E_UNAUTHENTICATED);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    if (!strstr(nearcall_error_message(client), words))
        fprintf(stderr, "%s\n", nearcall_error_message(client));
    CHECK(strstr(nearcall_error_message(client), words) != NULL);
    nearcall_close(client);
}

/* Calls that are in flight when the server stops: it answers what it has taken, and says of the others that it has
 * not. */
static void the_server_ends(struct server *server)
{
    nearcall_call_id calls[8];
    nearcall_reply reply;
    nearcall_client *client = open_as(server->address, "client.pem", "client.key");
    nearcall_function *nap = test_find(client, "sleep");
    for (int i = 0; i < 8; i++) {
        test_request_int(client, nap, 100);
        CHECK_CALL(client, nearcall_request_send(client, 20000, &calls[i]), NEARCALL_OK);
    }
    server_stop(server);
    for (int i = 0; i < 8; i++) {
        int r = nearcall_wait(client, calls[i], &reply);
        if (r != NEARCALL_OK)
            CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    }
    nearcall_close(client);
}

int main(void)
{
    struct server server;
    test_begin();
    tls_go_start(&server);
    is_let_in(server.address);
    is_refused(server.address, NULL, NULL, "certificate");
    is_refused(server.address, "expired-server.pem", "expired-server.key", "expired");
    is_refused(server.address, "stranger-ca.pem", "stranger-ca.key", "authority");
    the_server_ends(&server);
    return 0;
}
