/* Plain TCP to another machine is said once, or refused before a byte is sent. Linked with --wrap, so that the
 * peer of a connection is whoever the test says. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "nearcall_hooks.h"
#include "script.h"

static const char *peer;
static unsigned warnings;

int __wrap_getpeername(int fd, struct sockaddr *name, socklen_t *bytes);
int __wrap_getpeername(int fd, struct sockaddr *name, socklen_t *bytes)
{
    struct sockaddr_in four = {.sin_family = AF_INET};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    bool is_six = strchr(peer, ':') != NULL;
    (void)fd;
    CHECK_INT(inet_pton(is_six ? AF_INET6 : AF_INET, peer, is_six ? (void *)&six.sin6_addr : (void *)&four.sin_addr), 1);
    CHECK(*bytes >= sizeof(six));
    if (is_six)
        memcpy(name, &six, sizeof(six));
    else
        memcpy(name, &four, sizeof(four));
    *bytes = (socklen_t)(is_six ? sizeof(six) : sizeof(four));
    return 0;
}

static void note(void *argument, int level, const char *text)
{
    (void)argument;
    warnings += level == NEARCALL_LOG_WARNING && strstr(text, "use a tls: address") != NULL;
}

static void serve_twice(struct script *script)
{
    for (int i = 0; i < 2; i++) {
        script_greet(script);
        script_serve(script);
    }
}

static unsigned warnings_with(const char *server, const char *parameters)
{
    struct script script;
    char address[200];
    nearcall_reply reply;
    peer = server;
    warnings = 0;
    script_start_tcp(&script, serve_twice, NULL);
    snprintf(address, sizeof(address), "%s%s", script.address, parameters);
    nearcall_client *client = test_open(address, 0);
    CHECK_CALL(client, nearcall_on_log(client, note, NULL), NEARCALL_OK);
    for (int i = 0; i < 2; i++) {
        CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 10000, &reply), NEARCALL_OK);
        CHECK_INT(nearcall_is_exposed(client), warnings);
        nearcall_disconnect(client);
        CHECK_INT(nearcall_is_exposed(client), 0);
    }
    nearcall_close(client);
    script_end(&script);
    return warnings;
}

/* A hook that comes after the first connection. */
static void told_when_somebody_hears_it(void)
{
    struct script script;
    nearcall_reply reply;
    peer = "192.0.2.1";
    warnings = 0;
    script_start_tcp(&script, serve_twice, NULL);
    nearcall_client *client = test_open(script.address, 0);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 10000, &reply), NEARCALL_OK);
    nearcall_disconnect(client);
    CHECK_CALL(client, nearcall_on_log(client, note, NULL), NEARCALL_OK);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 10000, &reply), NEARCALL_OK);
    CHECK_INT(warnings, 1);
    nearcall_close(client);
    script_end(&script);
}

static void hear_nothing(struct script *script)
{
    script_accept(script);
    CHECK(script_read_end(script));
}

static void expect_refusal(const char *parameters, uint32_t flags)
{
    struct script script;
    char address[200];
    nearcall_reply reply;
    peer = "192.0.2.1";
    script_start_tcp(&script, hear_nothing, NULL);
    snprintf(address, sizeof(address), "%s%s", script.address, parameters);
    nearcall_client *client = test_open(address, flags);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 10000, &reply), NEARCALL_E_FAILED_PRECONDITION);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK(strstr(nearcall_error_message(client), "is not on this machine") != NULL);
    nearcall_close(client);
    script_end(&script);
}

int main(void)
{
    test_begin();
    CHECK_INT(warnings_with("127.0.0.5", "?plain=refuse"), 0);
    CHECK_INT(warnings_with("::1", "?plain=refuse"), 0);
    CHECK_INT(warnings_with("::ffff:127.0.0.1", "?plain=refuse"), 0);
    CHECK_INT(warnings_with("192.0.2.1", ""), 1);
    CHECK_INT(warnings_with("2001:db8::1", ""), 1);
    CHECK_INT(warnings_with("::ffff:192.0.2.1", ""), 1);
    CHECK_INT(warnings_with("192.0.2.1", "?plain=quiet"), 0);
    told_when_somebody_hears_it();
    expect_refusal("?plain=refuse", 0);
    expect_refusal("", NEARCALL_NO_PLAIN_TCP);
    expect_refusal("?plain=quiet", NEARCALL_NO_PLAIN_TCP);
    return 0;
}
