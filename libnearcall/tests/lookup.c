/* Names of hosts in an address with several endpoints: each answer of the system is an endpoint. Linked with --wrap so that
 * the test is the system. */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include "base/limits_gen.h"
#include "endpoints_test.h"

#define NAME "shop.example"
#define ANSWERS_MAX 20
#define CALLS 200

static struct {
    const char *answers[ANSWERS_MAX + 1];
    int failure;
    int takes_ms;
    int lookups;
} names;

int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **ret_list);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **ret_list);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **ret_list)
{
    struct addrinfo **end = ret_list;
    if (strcmp(host, NAME) != 0)
        return __real_getaddrinfo(host, port, hints, ret_list);
    names.lookups++;
    usleep((useconds_t)names.takes_ms * 1000);
    if (names.failure)
        return names.failure;
    for (int i = 0; names.answers[i]; i++) {
        CHECK_INT(__real_getaddrinfo(names.answers[i], port, hints, end), 0);
        while (*end)
            end = &(*end)->ai_next;
    }
    return 0;
}

static const char *numbers[] = {"127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"};

/* So many hosts at the same port, of which one address has the name. */
static const char *start(struct host *hosts, int count)
{
    static char address[400];
    memset(&names, 0, sizeof(names));
    host_start(&hosts[0], "tcp:");
    const char *port = strrchr(hosts[0].script.address, ':') + 1;
    for (int i = 1; i < count; i++)
        host_start_beside(&hosts[i], &hosts[0], numbers[i]);
    for (int i = 0; i < count; i++)
        names.answers[i] = numbers[i];
    snprintf(address, sizeof(address), "tcp:" NAME ":%s | unix:/nonexistent/nearcall.sock", port);
    return address;
}

static void end(struct host *hosts, int count)
{
    for (int i = 0; i < count; i++)
        host_end(&hosts[i]);
}

static void each_answer_counts(void)
{
    struct host hosts[3];
    nearcall_client *client = test_open(start(hosts, 3), 0);
    CHECK_INT(names.lookups, 0); /* until it is needed */
    for (int i = 0; i < CALLS; i++)
        call_it(client);
    for (int i = 0; i < 3; i++) {
        CHECK(host_requests(&hosts[i]) > CALLS / 8);
        CHECK_INT(atomic_load(&hosts[i].connections), 1);
    }
    CHECK_INT(names.lookups, 1);
    CHECK(strstr(nearcall_endpoint(client), "tcp:127.0.0.") == nearcall_endpoint(client));
    nearcall_close(client);
    end(hosts, 3);
}

/* When one has failed the name is looked up again, after a second: there are others now. */
static void answers_change(void)
{
    struct host hosts[4];
    nearcall_client *client = test_open(start(hosts, 4), 0);
    names.answers[3] = NULL;
    for (int i = 0; i < CALLS; i++)
        call_it(client);
    CHECK_INT(host_requests(&hosts[3]), 0);
    names.answers[0] = numbers[3];
    host_stop(&hosts[1]);
    host_stop(&hosts[2]);
    int descriptors = test_open_descriptors();
    while (host_requests(&hosts[3]) == 0) { /* the test has a bound */
        nearcall_reply reply;
        (void)nearcall_call(client, "f", "again", 5, 20000, &reply); /* TCP does not say what became of the first one */
        usleep(1000);
    }
    CHECK_INT(names.lookups, 2);
    (void)host_requests(&hosts[0]);
    for (int i = 0; i < CALLS; i++)
        call_it(client);
    CHECK_INT(host_requests(&hosts[0]), 0); /* it is none of them any more */
    CHECK(test_open_descriptors() <= descriptors + 1);
    nearcall_close(client);
    end(hosts, 4);
}

/* The name stands for as many hosts as an address may have, then for as many others. The call that learns of that reaches
 * the only one that is there. */
static void all_answers_change(void)
{
    enum { COUNT = NC_ADDRESS_ENDPOINTS_MAX - 1 };
    struct host hosts[2];
    nearcall_reply reply;
    static char before[COUNT][24], after[COUNT][24];
    nearcall_client *client = test_open(start(hosts, 2), 0);
    for (int i = 0; i < COUNT; i++) {
        snprintf(before[i], sizeof(before[i]), "127.0.1.%d", i + 1);
        snprintf(after[i], sizeof(after[i]), "127.0.2.%d", i + 1);
        names.answers[i] = i > 0 ? before[i] : numbers[0];
    }
    call_it(client);
    CHECK_INT(host_requests(&hosts[0]), 1);
    for (int i = 0; i < COUNT; i++)
        names.answers[i] = i < COUNT - 1 ? after[i] : numbers[1];
    host_stop(&hosts[0]);
    int r;
    do { /* the test has a bound */
        usleep(1000);
        r = nearcall_call(client, "f", "again", 5, 20000, &reply);
    } while (names.lookups < 2);
    CHECK_CALL(client, r, NEARCALL_OK);
    CHECK_INT(host_requests(&hosts[1]), 1);
    nearcall_close(client);
    end(hosts, 2);
}

static void other_family_is_farther(void)
{
    struct host hosts[1];
    nearcall_client *client = test_open(start(hosts, 1), 0);
    names.answers[1] = "::1";
    for (int i = 0; i < CALLS; i++)
        call_it(client);
    CHECK_INT(host_requests(&hosts[0]), CALLS);
    nearcall_close(client);
    end(hosts, 1);
    client = test_open(start(hosts, 1), 0);
    names.answers[0] = "::1"; /* where nobody listens */
    names.answers[1] = numbers[0];
    call_it(client);
    CHECK_INT(host_requests(&hosts[0]), 1);
    nearcall_close(client);
    end(hosts, 1);
}

static void too_many(void)
{
    struct host hosts[1];
    nearcall_reply reply;
    static char more[ANSWERS_MAX][24];
    nearcall_client *client = test_open(start(hosts, 1), 0);
    for (int i = 0; i < ANSWERS_MAX; i++) {
        snprintf(more[i], sizeof(more[i]), "127.0.1.%d", i + 1);
        names.answers[i] = more[i];
    }
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 20000, &reply), NEARCALL_E_UNAVAILABLE);
    CHECK(strstr(nearcall_error_message(client), "tcp:127.0.1.15:") != NULL); /* one is the socket's */
    nearcall_close(client);
    end(hosts, 1);
}

/* A resolver that does not answer takes a tenth of the time at most. */
static void no_answer(void)
{
    struct host hosts[1], local;
    char address[400];
    nearcall_reply reply;
    nearcall_client *client = test_open(start(hosts, 1), 0);
    names.failure = EAI_NONAME;
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 20000, &reply), NEARCALL_E_UNAVAILABLE);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK(strstr(nearcall_error_message(client), "the name " NAME " cannot be looked up") != NULL);
    CHECK(strstr(nearcall_error_message(client), "/nonexistent/nearcall.sock") != NULL);
    nearcall_close(client);
    host_start(&local, "unix:");
    snprintf(address, sizeof(address), "tcp:" NAME ":7 | %s", local.script.address);
    client = test_open(address, 0);
    names.failure = EAI_AGAIN;
    names.takes_ms = 100;
    names.lookups = 0;
    double begun_ms = test_now_ms();
    while (test_now_ms() - begun_ms < 800)
        call_it(client);
    CHECK_INT(names.lookups, 1);
    nearcall_close(client);
    host_end(&local);
    end(hosts, 1);
}

int main(void)
{
    test_begin();
    each_answer_counts();
    answers_change();
    all_answers_change();
    other_family_is_farther();
    too_many();
    no_answer();
    return 0;
}
