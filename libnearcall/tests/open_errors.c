/* Addresses and options that are wrong are refused by nearcall_open() with words
 * that say what would be right, and the handle tells them until it is closed. */
#include "base/limits_gen.h"
#include "test.h"

struct address_case {
    const char *address;
    uint32_t flags;
    int expected;
    const char *said;
};

#define A_53 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define PATH_107 "/" A_53 A_53

static const struct address_case addresses[] = {
    {"unix:/run/x.sock", 0, NEARCALL_OK, ""},
    {"unix:/run/x.sock?", 0, NEARCALL_OK, ""},
    {"unix:" PATH_107, 0, NEARCALL_OK, ""},
    {"unix:" PATH_107 "b", 0, NEARCALL_E_INVALID_ARGUMENT, "107"},
    {"unix:@name", NEARCALL_ALLOW_ABSTRACT, NEARCALL_OK, ""},
    {"unix:@name", 0, NEARCALL_E_INVALID_ARGUMENT, "NEARCALL_ALLOW_ABSTRACT (in Perl and Python allow_abstract)"},
    {"unix:@", NEARCALL_ALLOW_ABSTRACT, NEARCALL_E_INVALID_ARGUMENT, "absolute path"},
    {"unix:run/x.sock", 0, NEARCALL_E_INVALID_ARGUMENT, "absolute path"},
    {"unix:", 0, NEARCALL_E_INVALID_ARGUMENT, "absolute path"},
    {"unix:/x?spin=1", 0, NEARCALL_E_INVALID_ARGUMENT, "parameter"},
    {"unix:/x?shm", 0, NEARCALL_E_INVALID_ARGUMENT, "parameter"},
    {"unix:/x?shm=off&", 0, NEARCALL_E_INVALID_ARGUMENT, "parameter"},
    {"unix:/x?shm=off", 0, NEARCALL_OK, ""},
    {"unix:/x?shm=auto&spin=dedicated", 0, NEARCALL_OK, ""},
    {"unix:/x?spin=off&spin=auto", 0, NEARCALL_OK, ""},
    {"unix:@name?spin=off", NEARCALL_ALLOW_ABSTRACT, NEARCALL_OK, ""},
    {"tcp:localhost:7000?shm=off", 0, NEARCALL_E_INVALID_ARGUMENT, "unix:"},
    {"tcp:localhost:7000", 0, NEARCALL_OK, ""},
    {"tcp:127.0.0.1:7000", 0, NEARCALL_OK, ""},
    {"tcp:[::1]:7000", 0, NEARCALL_OK, ""},
    {"tcp:::1:7000", 0, NEARCALL_E_INVALID_ARGUMENT, "brackets"},
    {"tcp:localhost", 0, NEARCALL_E_INVALID_ARGUMENT, "host and port"},
    {"tcp::7000", 0, NEARCALL_E_INVALID_ARGUMENT, "host and port"},
    {"tcp:[]:7000", 0, NEARCALL_E_INVALID_ARGUMENT, "host"},
    {"tcp:localhost:0", 0, NEARCALL_E_INVALID_ARGUMENT, "65535"},
    {"tcp:localhost:65536", 0, NEARCALL_E_INVALID_ARGUMENT, "65535"},
    {"tcp:localhost:http", 0, NEARCALL_E_INVALID_ARGUMENT, "65535"},
    {"unix:/a | unix:/b", 0, NEARCALL_OK, ""},
    {"unix:/a?shm=off|tcp:b:7000?plain=quiet  |  unix:/c", 0, NEARCALL_OK, ""},
    {"tcp:a:7000, b:7000 ,[::1]:7000?silence=500", 0, NEARCALL_OK, ""},
    {"tcp:a:7000,b", 0, NEARCALL_E_INVALID_ARGUMENT, "tcp:b is no address"},
    {"tcp:a:7000,", 0, NEARCALL_E_INVALID_ARGUMENT, "tcp: is no address"},
    {"tcp:a:7000,tcp:b:7000", 0, NEARCALL_E_INVALID_ARGUMENT, "tcp:tcp:b:7000 is no address"},
    {"tcp:a:7000|unix:b", 0, NEARCALL_E_INVALID_ARGUMENT, "unix:b is no address"},
    {"unix:/a | tcp:b:7000?shm=off", 0, NEARCALL_E_INVALID_ARGUMENT, "tcp:b:7000?shm=off is no address"},
    {"tcp:a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1", 0, NEARCALL_OK, ""},
    {"tcp:a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1|unix:/b", 0, NEARCALL_E_INVALID_ARGUMENT,
     "it has 17 endpoints (at most 16, limit address_endpoints_max, which is fixed)"},
    {"embed:/x.so | unix:/b", 0, NEARCALL_E_INVALID_ARGUMENT, "embed:/x.so: a library of this process stands alone"},
    {"unix:/b | embed:/x.so", 0, NEARCALL_E_INVALID_ARGUMENT, "embed:/x.so: a library of this process stands alone"},
    {"unix:/a,b", 0, NEARCALL_OK, ""},
    {"unix:/a|b", 0, NEARCALL_OK, ""},
    {"unix:/a | b,c", 0, NEARCALL_OK, ""},
    {"tcp:localhost:7000?silence=100&plain=refuse", 0, NEARCALL_OK, ""},
    {"tcp:localhost:7000?silence=off&plain=quiet", 0, NEARCALL_OK, ""},
    {"tcp:localhost:7000?silence=99", 0, NEARCALL_E_INVALID_ARGUMENT, "silence"},
    {"tcp:localhost:7000?silence=300001", 0, NEARCALL_E_INVALID_ARGUMENT, "silence"},
    {"tcp:localhost:7000?silence=99999999999999999999", 0, NEARCALL_E_INVALID_ARGUMENT, "silence"},
    {"tcp:localhost:7000?silence=", 0, NEARCALL_E_INVALID_ARGUMENT, "silence"},
    {"tcp:localhost:7000?plain=no", 0, NEARCALL_E_INVALID_ARGUMENT, "plain"},
    {"tcp:localhost:7000?ca=/x", 0, NEARCALL_E_INVALID_ARGUMENT, "parameters of tcp:"},
    {"unix:/x?silence=1000", 0, NEARCALL_E_INVALID_ARGUMENT, "parameter"},
    {"tls:localhost", 0, NEARCALL_E_INVALID_ARGUMENT, "tls:shop.example.com:7000"},
    {"tls:localhost:7000?plain=warn", 0, NEARCALL_E_INVALID_ARGUMENT, "parameters of tls:"},
    {"tls:localhost:7000?ca=", 0, NEARCALL_E_INVALID_ARGUMENT, "parameters of tls:"},
    {"tls:localhost:7000?key=/k", 0, NEARCALL_E_INVALID_ARGUMENT, "name the certificate too, by cert="},
    {"tls:localhost:7000?key=/k&ca=/c", 0, NEARCALL_E_INVALID_ARGUMENT, "name the certificate too, by cert="},
    {"tls:localhost:7000?shm=off", 0, NEARCALL_E_INVALID_ARGUMENT, "parameters of tls:"},
    {"http://localhost", 0, NEARCALL_E_INVALID_ARGUMENT, "unix:, tcp:, tls: or embed:"},
    {"", 0, NEARCALL_E_INVALID_ARGUMENT, "unix:, tcp:, tls: or embed:"},
    {NULL, 0, NEARCALL_E_MISUSE, "NULL"},
};

static void check_address(const struct address_case *c)
{
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    nearcall_client *client;
    nearcall_reply reply;
    options.flags = c->flags;
    CHECK_CALL(client, nearcall_open(&client, c->address, &options), c->expected);
    CHECK(strstr(nearcall_error_message(client), c->said) != NULL);
    if (c->expected != NEARCALL_OK) {
        CHECK_CALL(client, nearcall_call(client, "one", NULL, 0, 0, &reply), c->expected);
        CHECK(strstr(nearcall_error_message(client), c->said) != NULL);
        CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    }
    nearcall_close(client);
}

static void check_options(const nearcall_options *options, int expected)
{
    nearcall_client *client;
    CHECK_CALL(client, nearcall_open(&client, "unix:/x", options), expected);
    nearcall_close(client);
}

int main(void)
{
    const nearcall_options defaults = NEARCALL_OPTIONS_INIT;
    nearcall_options options;
    uint32_t user = 0;
    struct {
        nearcall_options known;
        uint64_t later;
    } longer = {NEARCALL_OPTIONS_INIT, 0};
    char name[300];
    test_begin();
    for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++)
        check_address(&addresses[i]);
#define REFUSED(member, value) \
    (options = defaults, options.member = (value), check_options(&options, NEARCALL_E_INVALID_ARGUMENT))
#define ACCEPTED(member, value) \
    (options = defaults, options.member = (value), check_options(&options, NEARCALL_OK))
    REFUSED(struct_size, 1);
    ACCEPTED(struct_size, sizeof(size_t));
    REFUSED(timeout_ms, -2);
    ACCEPTED(timeout_ms, NEARCALL_NO_TIMEOUT);
    ACCEPTED(timeout_ms, INT64_MAX);
    REFUSED(connect_timeout_ms, -1);
    REFUSED(silence_ms, -1);
    REFUSED(silence_ms, 99);
    REFUSED(silence_ms, 300001);
    ACCEPTED(silence_ms, 100);
    REFUSED(flags, NEARCALL_NO_PLAIN_TCP << 1); /* the last there is */
    ACCEPTED(flags, NEARCALL_NO_SHARED_MEMORY | NEARCALL_SPIN_OFF | NEARCALL_SPIN_DEDICATED);
    REFUSED(frame_bytes_max, 65535);
    ACCEPTED(frame_bytes_max, 65536);
    ACCEPTED(frame_bytes_max, NC_FRAME_BYTES_MAX_CEILING);
    REFUSED(frame_bytes_max, NC_FRAME_BYTES_MAX_CEILING + 1);
    REFUSED(attempts_max, 17);
    REFUSED(server_user_ids_count, 1);
    options = defaults;
    options.server_user_ids = &user;
    options.server_user_ids_count = 1;
    check_options(&options, NEARCALL_OK);
    memset(name, 'n', sizeof(name));
    name[256] = '\0';
    REFUSED(name, name);
    name[255] = '\0';
    ACCEPTED(name, name);
    longer.known.struct_size = sizeof(longer);
    check_options(&longer.known, NEARCALL_OK);
    longer.later = 1;
    check_options(&longer.known, NEARCALL_E_INVALID_ARGUMENT);
    return 0;
}
