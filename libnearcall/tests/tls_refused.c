/* Who is not who was meant is refused, in words, and nothing was executed. Runs as root, because one of the tests
 * becomes another user. */
#include <sys/stat.h>
#include <unistd.h>

#include "script.h"
#include "tls_test.h"

#define STRANGER 54321

struct refusal {
    const char *option; /* of the relay */
    const char *other;
    const char *authorities; /* NULL: ca.pem; "": those of the system */
    const char *name;
    int code;
    const char *words;
};

static const struct refusal refusals[] = {
    {"certificate=expired-server", NULL, NULL, NULL, NEARCALL_E_UNAUTHENTICATED, "certificate has expired"},
    {"certificate=other-name", NULL, NULL, NULL, NEARCALL_E_UNAUTHENTICATED, "tls_server_name"},
    {NULL, NULL, NULL, "other.example.org", NEARCALL_E_UNAUTHENTICATED, "not accepted for other.example.org"},
    {NULL, NULL, "stranger-ca.pem", NULL, NEARCALL_E_UNAUTHENTICATED, "no authority that this side trusts has signed it"},
    {"certificate=issued", NULL, NULL, NULL, NEARCALL_E_UNAUTHENTICATED, "no authority that this side trusts has signed it"},
    {NULL, NULL, "", NULL, NEARCALL_E_UNAUTHENTICATED, "no authority that this side trusts has signed it"},
    {"version=1.2", NULL, NULL, NULL, NEARCALL_E_UNAUTHENTICATED, "speaks no TLS 1.3"},
    {"clients=required", NULL, NULL, NULL, NEARCALL_E_UNAUTHENTICATED, "wants a certificate of this side"},
    {"closes", NULL, NULL, NULL, NEARCALL_E_UNAVAILABLE, "closed the connection during the handshake"},
};

static nearcall_client *open_for(const struct refusal *refusal, const char *address)
{
    nearcall_options options = tls_options(0);
    if (refusal->authorities)
        options.tls_authorities = *refusal->authorities ? tls_file(refusal->authorities) : NULL;
    options.tls_server_name = refusal->name;
    options.attempts_max = 1;
    return test_open_with(address, &options);
}

static void expect_refusal(const struct refusal *refusal, const char *address)
{
    nearcall_reply reply;
    nearcall_client *client = open_for(refusal, address);
    for (int i = 0; i < 2; i++) {
        CHECK_CALL(client, nearcall_call(client, "echo", "x", 1, 20000, &reply), refusal->code);
        CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
        if (!strstr(nearcall_error_message(client), refusal->words))
            fprintf(stderr, "%s\n", nearcall_error_message(client));
        CHECK(strstr(nearcall_error_message(client), refusal->words) != NULL);
        CHECK(strstr(nearcall_error_message(client), address) != NULL);
    }
    nearcall_close(client);
}

static void the_table(const struct server *server)
{
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        struct relay relay;
        relay_start(&relay, server->address, refusals[i].option, refusals[i].other);
        expect_refusal(&refusals[i], relay.address);
        relay_stop(&relay);
    }
}

/* Certificates that hold. */
static void who_is_meant_is_let_in(const struct server *server)
{
    struct relay relay;
    nearcall_reply reply;
    nearcall_options options = tls_options(0);
    options.tls_certificate = tls_file("client.pem");
    options.tls_key = tls_file("client.key");
    relay_start(&relay, server->address, "clients=required", NULL);
    nearcall_client *client = test_open_with(relay.address, &options);
    CHECK_CALL(client, nearcall_call(client, "echo", "x", 1, 20000, &reply), NEARCALL_OK);
    nearcall_close(client);
    relay_stop(&relay);
    options = tls_options(0);
    options.tls_server_name = "other.example.org";
    relay_start(&relay, server->address, "certificate=other-name", NULL);
    client = test_open_with(relay.address, &options);
    CHECK_CALL(client, nearcall_call(client, "echo", "x", 1, 20000, &reply), NEARCALL_OK);
    nearcall_close(client);
    relay_stop(&relay);
}

/* Nobody has to trust whoever has signed it. */
static void an_authority_in_between_is_enough(const struct server *server)
{
    struct relay relay;
    nearcall_reply reply;
    nearcall_options options = tls_options(0);
    options.tls_authorities = tls_file("issuer.pem");
    relay_start(&relay, server->address, "certificate=issued", NULL);
    nearcall_client *client = test_open_with(relay.address, &options);
    CHECK_CALL(client, nearcall_call(client, "echo", "x", 1, 20000, &reply), NEARCALL_OK);
    nearcall_close(client);
    relay_stop(&relay);
}

/* A server that says nothing costs no more than the call's time. */
static bool silence_costs_the_deadline(void)
{
    struct relay relay;
    nearcall_reply reply;
    relay_start(&relay, "unix:/none", "silent", NULL);
    nearcall_client *client = tls_open(relay.address, 0);
    double before_ms = test_now_ms();
    CHECK_CALL(client, nearcall_call(client, "echo", "x", 1, 300, &reply), NEARCALL_E_DEADLINE_EXCEEDED);
    bool in_time = test_in_time(test_now_ms() - before_ms, 300);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK(strstr(nearcall_error_message(client), "handshake of TLS") != NULL);
    nearcall_close(client);
    relay_stop(&relay);
    return in_time;
}

static void answer_plainly(struct script *script)
{
    script_accept(script);
    script_send(script, "HTTP/1.1 400 Bad Request\r\n\r\n", 28);
    script_hang_up(script);
}

/* A server for tcp: addresses, or of another kind. */
static void no_tls_at_all(void)
{
    struct script script;
    char address[160];
    struct refusal refusal = {.code = NEARCALL_E_UNAVAILABLE, .words = "speaks no TLS"};
    nearcall_reply reply;
    script_start_tcp(&script, answer_plainly, NULL);
    snprintf(address, sizeof(address), "tls:%.100s", script.address + strlen("tcp:"));
    nearcall_client *client = open_for(&refusal, address);
    CHECK_CALL(client, nearcall_call(client, "echo", "x", 1, 20000, &reply), refusal.code);
    CHECK(strstr(nearcall_error_message(client), refusal.words) != NULL);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    nearcall_close(client);
    script_end(&script);
}

/* And plain frames to a server that speaks TLS. */
static void no_tls_to_tls(const struct server *server)
{
    struct relay relay;
    char address[160];
    nearcall_reply reply;
    relay_start(&relay, server->address, NULL, NULL);
    snprintf(address, sizeof(address), "tcp:%.70s", relay.address + strlen("tls:"));
    nearcall_client *client = test_open(address, 0);
    int r = nearcall_call(client, "echo", "x", 1, 20000, &reply);
    CHECK(r == NEARCALL_E_UNAVAILABLE || r == NEARCALL_E_INTERNAL);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    nearcall_close(client);
    relay_stop(&relay);
}

static void open_fails(const nearcall_options *options, const char *words)
{
    nearcall_client *client;
    int r = nearcall_open(&client, "tls:localhost:7000", options);
    CHECK_CALL(client, r, NEARCALL_E_INVALID_ARGUMENT);
    if (!strstr(nearcall_error_message(client), words))
        fprintf(stderr, "%s\n", nearcall_error_message(client));
    CHECK(strstr(nearcall_error_message(client), words) != NULL);
    nearcall_close(client);
}

/* What is wrong at once is said at once. */
static void settings_that_cannot_be_used(void)
{
    nearcall_options options = tls_options(0);
    options.tls_authorities = tls_file("none.pem");
    open_fails(&options, "none.pem: No such file");
    options.tls_authorities = tls_file("server.key");
    open_fails(&options, "tls_authorities");
    options = tls_options(0);
    options.tls_key = tls_file("client.key");
    open_fails(&options, "tls_certificate");
    options.tls_certificate = tls_file("client.pem");
    options.tls_key = NULL;
    open_fails(&options, "client.pem"); /* which has no key */
    options.tls_key = tls_file("server.key");
    open_fails(&options, "tls_key");
    options.tls_key = tls_file("locked.key");
    open_fails(&options, "locked.key");
    options.tls_key = tls_file("ca.pem");
    open_fails(&options, "tls_key");
}

static void append_file(FILE *to, const char *name)
{
    char buffer[8192];
    FILE *from = fopen(tls_file(name), "r");
    CHECK(from != NULL);
    size_t bytes = fread(buffer, 1, sizeof(buffer), from);
    CHECK(bytes > 0 && fwrite(buffer, 1, bytes, to) == bytes);
    fclose(from);
}

/* One that the address names is not put together with the key of an option, which belongs to another one. */
static void a_certificate_has_its_own_key(void)
{
    char address[512];
    nearcall_client *client;
    nearcall_options options = tls_options(0);
    FILE *both = fopen(tls_file("both.pem"), "w");
    CHECK(both != NULL);
    append_file(both, "client.pem");
    append_file(both, "client.key");
    CHECK(fclose(both) == 0);
    options.tls_certificate = tls_file("server.pem");
    options.tls_key = tls_file("server.key");
    snprintf(address, sizeof(address), "tls:localhost:7000?cert=%s", tls_file("both.pem"));
    int r = nearcall_open(&client, address, &options);
    CHECK_CALL(client, r, NEARCALL_OK);
    nearcall_close(client);
}

/* A program whose effective user is another than the one that has started it. */
static void open_as_stranger(void *unused)
{
    nearcall_options options = tls_options(0);
    (void)unused;
    options.tls_certificate = tls_file("client.pem");
    options.tls_key = tls_file("client.key");
    CHECK(seteuid(STRANGER) == 0);
    open_fails(&options, "client.key: Permission denied");
    _exit(0); /* a search for leaks needs the former user */
}

static void the_effective_user_counts(void)
{
    if (geteuid() != 0)
        test_failed(__FILE__, __LINE__, "this test needs root, to be another user for a while");
    CHECK(chmod(tls_folder(), 0755) == 0 && chmod(tls_file("ca.pem"), 0644) == 0);
    CHECK(chmod(tls_file("client.pem"), 0644) == 0 && chmod(tls_file("client.key"), 0600) == 0);
    test_join(test_fork(open_as_stranger, NULL));
}

int main(void)
{
    struct server server;
    test_begin();
    server_start(&server);
    settings_that_cannot_be_used();
    a_certificate_has_its_own_key();
    the_effective_user_counts();
    the_table(&server);
    who_is_meant_is_let_in(&server);
    an_authority_in_between_is_enough(&server);
    for (int tries = 0; !silence_costs_the_deadline(); tries++)
        CHECK(tries < TEST_TRIES);
    no_tls_at_all();
    no_tls_to_tls(&server);
    server_stop(&server);
    return 0;
}
