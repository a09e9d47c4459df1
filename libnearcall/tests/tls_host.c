/* A program that uses OpenSSL itself, and leaves errors in the queue of its thread: they are its own before and
 * after each call, and mislead nobody. */
#include <dlfcn.h>

#include "tls_test.h"

static struct {
    int (*BIO_free)(void *bio);
    void *(*BIO_new_file)(const char *path, const char *mode);
    void (*ERR_clear_error)(void);
    unsigned long (*ERR_get_error)(void);
    unsigned long (*ERR_peek_error)(void);
    unsigned long (*ERR_peek_last_error)(void);
} host;

static void *function(void *library, const char *name)
{
    void *found = dlsym(library, name);
    CHECK(found != NULL);
    return found;
}

static void load(void)
{
    void *library = dlopen("libssl.so.3", RTLD_NOW | RTLD_GLOBAL);
    CHECK(library != NULL);
    *(void **)&host.BIO_free = function(library, "BIO_free");
    *(void **)&host.BIO_new_file = function(library, "BIO_new_file");
    *(void **)&host.ERR_clear_error = function(library, "ERR_clear_error");
    *(void **)&host.ERR_get_error = function(library, "ERR_get_error");
    *(void **)&host.ERR_peek_error = function(library, "ERR_peek_error");
    *(void **)&host.ERR_peek_last_error = function(library, "ERR_peek_last_error");
}

/* Returns how many errors that leaves. */
static int leave_errors(int times)
{
    int count = 0;
    host.ERR_clear_error();
    for (int i = 0; i < times; i++)
        CHECK(host.BIO_new_file("/none", "r") == NULL);
    while (host.ERR_get_error())
        count++;
    for (int i = 0; i < times; i++)
        CHECK(host.BIO_new_file("/none", "r") == NULL);
    return count;
}

static int count_errors(void)
{
    int count = 0;
    while (host.ERR_get_error())
        count++;
    return count;
}

static void echo(nearcall_client *client, size_t bytes)
{
    static uint8_t data[200000];
    nearcall_reply reply;
    CHECK_CALL(client, nearcall_call(client, "echo", data, bytes, 20000, &reply), NEARCALL_OK);
    CHECK_INT(reply.bytes, bytes);
}

/* On a connection that stands. */
static void calls_leave_errors_alone(nearcall_client *client)
{
    static const size_t sizes[] = {0, 1, 100, 20000, 200000};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        int left = leave_errors(1 + (int)i);
        unsigned long first = host.ERR_peek_error(), last = host.ERR_peek_last_error();
        CHECK(first != 0 && left > 0);
        echo(client, sizes[i]);
        CHECK(host.ERR_peek_error() == first && host.ERR_peek_last_error() == last);
        CHECK_INT(count_errors(), left);
    }
}

/* A handshake, which empties the queue, and one that fails, of which nothing stays. */
static void handshakes_leave_none(struct tls_server *server)
{
    nearcall_options options = tls_options(0);
    nearcall_reply reply;
    (void)leave_errors(3);
    nearcall_client *client = tls_open(server->relay.address, 0);
    (void)leave_errors(3);
    echo(client, 10);
    nearcall_close(client);
    CHECK_INT(host.ERR_peek_error(), 0);
    options.tls_authorities = tls_file("stranger-ca.pem");
    client = test_open_with(server->relay.address, &options);
    (void)leave_errors(3);
    CHECK_CALL(client, nearcall_call(client, "echo", "x", 1, 20000, &reply), NEARCALL_E_UNAUTHENTICATED);
    CHECK(strstr(nearcall_error_message(client), "no authority that this side trusts") != NULL);
    nearcall_close(client);
    CHECK_INT(host.ERR_peek_error(), 0);
}

/* A server that ends is not taken for a failure of TLS that the program has had. */
static void the_end_is_seen_as_such(struct tls_server *server)
{
    nearcall_client *client = tls_open(server->relay.address, 0);
    nearcall_reply reply;
    echo(client, 10);
    server_kill(&server->server);
    (void)leave_errors(3);
    int r = nearcall_call(client, "echo", "x", 1, 20000, &reply);
    CHECK_CALL(client, r, NEARCALL_E_UNAVAILABLE);
    CHECK(strstr(nearcall_error_message(client), "TLS failed") == NULL);
    nearcall_close(client);
}

int main(void)
{
    struct tls_server server;
    test_begin();
    load();
    tls_server_start(&server);
    nearcall_client *client = tls_open(server.relay.address, 0);
    echo(client, 10);
    calls_leave_errors_alone(client);
    nearcall_close(client);
    handshakes_leave_none(&server);
    the_end_is_seen_as_such(&server);
    relay_stop(&server.relay);
    return 0;
}
