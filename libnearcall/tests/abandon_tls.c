/* Functions over TLS that a signal's handler leaves by siglongjmp(3) while OpenSSL works: what may be half
 * changed there is never touched again, and the handle goes on. Linked with --wrap. */
#include <dlfcn.h>
#include <setjmp.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tls_test.h"

/* More than a handshake and a call have. */
#define MOMENTS 60

/* The child's end says whether there are that many moments. */
#define NO_SUCH_MOMENT 7

struct ssl_st;

static sigjmp_buf back;
static int countdown; /* to the moment at which it is left; 0: none */
static int freed;

/* As a handler would that came while OpenSSL was at work. */
static void maybe_leave(void)
{
    if (countdown > 0 && --countdown == 0)
        siglongjmp(back, 1);
}

#define LEFT(name, parameters, arguments)                                                              \
    static int(*real_##name) parameters;                                                               \
    static int left_##name parameters                                                                  \
    {                                                                                                  \
        maybe_leave();                                                                                 \
        int r = real_##name arguments;                                                                 \
        maybe_leave();                                                                                 \
        return r;                                                                                      \
    }

LEFT(SSL_do_handshake, (struct ssl_st * ssl), (ssl))
LEFT(SSL_read_ex, (struct ssl_st * ssl, void *to, size_t bytes, size_t *ret_bytes), (ssl, to, bytes, ret_bytes))
LEFT(SSL_write_ex, (struct ssl_st * ssl, const void *from, size_t bytes, size_t *ret_bytes), (ssl, from, bytes, ret_bytes))

static void (*real_SSL_free)(struct ssl_st *ssl);
static void left_SSL_free(struct ssl_st *ssl)
{
    freed++;
    real_SSL_free(ssl);
}

#define REPLACE(function)                                           \
    do {                                                            \
        if (strcmp(name, #function) == 0) {                         \
            __typeof__(real_##function) mine = left_##function;     \
            memcpy(&real_##function, &found, sizeof(found));        \
            memcpy(&found, &mine, sizeof(found));                   \
        }                                                           \
    } while (0)

void *__real_dlsym(void *library, const char *name);
void *__wrap_dlsym(void *library, const char *name);
void *__wrap_dlsym(void *library, const char *name)
{
    void *found = __real_dlsym(library, name);
    REPLACE(SSL_do_handshake);
    REPLACE(SSL_read_ex);
    REPLACE(SSL_write_ex);
    REPLACE(SSL_free);
    return found;
}

static void call_echo(nearcall_client *client)
{
    nearcall_reply reply;
    CHECK_CALL(client, nearcall_call(client, "echo", "x", 1, 20000, &reply), NEARCALL_OK);
    CHECK(reply.bytes == 1 && memcmp(reply.data, "x", 1) == 0);
}

/* What it leaves in memory is lost on purpose, so it ends without a leak check. */
static void at_moment(const char *address, bool is_connected, int at)
{
    int before = test_open_descriptors();
    nearcall_client *client = tls_open(address, 0);
    if (is_connected)
        call_echo(client);
    if (sigsetjmp(back, 1) == 0) {
        countdown = at;
        call_echo(client);
        countdown = 0;
        _exit(NO_SUCH_MOMENT);
    }
    CHECK_INT(nearcall_abandon(client), 1);
    CHECK_INT(freed, 0);
    CHECK_INT(test_open_descriptors(), before);
    call_echo(client);
    nearcall_disconnect(client);
    CHECK_INT(freed, 1); /* the new one */
    call_echo(client);
    nearcall_close(client);
    CHECK_INT(test_open_descriptors(), before);
    _exit(0);
}

/* Whether there is such a moment. */
static bool is_survived(const char *address, bool is_connected, int at)
{
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        at_moment(address, is_connected, at);
    CHECK_INT(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == NO_SUCH_MOMENT));
    return WEXITSTATUS(status) == 0;
}

static void at_every_moment(const char *address, bool is_connected, int at_least)
{
    int at = 1;
    while (at < MOMENTS && is_survived(address, is_connected, at))
        at++;
    CHECK(at > at_least && at < MOMENTS);
}

int main(void)
{
    struct tls_server server;
    test_begin();
    tls_server_start(&server);
    at_every_moment(server.relay.address, false, 8);
    at_every_moment(server.relay.address, true, 4);
    tls_server_stop(&server);
    return 0;
}
