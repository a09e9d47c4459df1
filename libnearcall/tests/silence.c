/* A server of another machine that says nothing while a call waits is asked, and given up when nothing comes at all. */
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "base/limits_gen.h"
#include "endpoints_test.h"

#define SILENCE_MS 300

static const char *with_silence(const struct host *host)
{
    static char address[200];
    snprintf(address, sizeof(address), "%s?silence=%d", host->script.address, SILENCE_MS);
    return address;
}

/* How long a call takes that is lost. */
static double lose_a_call(nearcall_client *client)
{
    nearcall_reply reply;
    double begun_ms = test_now_ms();
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 20000, &reply), NEARCALL_E_UNAVAILABLE);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_UNKNOWN);
    CHECK(strstr(nearcall_error_message(client), "nothing came from tcp:127.0.0.1:") != NULL);
    return test_now_ms() - begun_ms;
}

static void gone(void)
{
    struct host host;
    bool in_time = false;
    host_start(&host, "tcp:");
    nearcall_client *client = test_open(with_silence(&host), 0);
    for (int i = 0; i < TEST_TRIES && !in_time; i++) {
        atomic_store(&host.way, HOST_SERVES);
        call_it(client);
        atomic_store(&host.way, HOST_IS_GONE);
        in_time = test_in_time(lose_a_call(client) + 1, SILENCE_MS); /* it had waited for some us before it was sent */
    }
    CHECK(in_time);
    nearcall_close(client);
    host_end(&host);
}

static void *answer_after_pings(void *argument)
{
    struct host *host = argument;
    while (atomic_load(&host->pings) < 5)
        usleep(1000);
    host_answer_late(host);
    return NULL;
}

/* A function may take as long as it does, as long as the server answers pings. */
static void slow(void)
{
    struct host host;
    pthread_t thread;
    host_start(&host, "tcp:");
    atomic_store(&host.way, HOST_IS_SLOW);
    nearcall_client *client = test_open(with_silence(&host), 0);
    CHECK(pthread_create(&thread, NULL, answer_after_pings, &host) == 0);
    call_it(client);
    CHECK(pthread_join(thread, NULL) == 0);
    nearcall_close(client);
    host_end(&host);
}

/* A server that reads a large request says nothing meanwhile. */
static void slow_way(void)
{
    enum { BYTES = 3 << 20 };
    struct host host;
    nearcall_reply reply;
    uint8_t *data = calloc(1, BYTES);
    CHECK(data != NULL);
    host_start(&host, "tcp:");
    atomic_store(&host.way, HOST_READS_SLOWLY);
    nearcall_client *client = test_open(with_silence(&host), 0);
    double begun_ms = test_now_ms();
    CHECK_CALL(client, nearcall_call(client, "f", data, BYTES, 20000, &reply), NEARCALL_OK);
    CHECK(test_now_ms() - begun_ms > 2 * SILENCE_MS);
    nearcall_close(client);
    host_end(&host);
    free(data);
}

/* In a loop; an idle connection is not asked. */
static void in_a_loop(void)
{
    struct host host;
    nearcall_function *function;
    nearcall_call_id call;
    host_start(&host, "tcp:");
    nearcall_client *client = test_open(with_silence(&host), NEARCALL_NONBLOCKING);
    CHECK_CALL(client, nearcall_find(client, "f", 1, 20000, &function), NEARCALL_OK);
    CHECK_INT(nearcall_timeout_ms(client), -1);
    atomic_store(&host.way, HOST_IS_GONE);
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
    CHECK_CALL(client, nearcall_request_send(client, 20000, &call), NEARCALL_OK);
    int r;
    do {
        struct pollfd watched = {nearcall_fd(client), (short)nearcall_events(client), 0};
        poll(&watched, 1, (int)nearcall_timeout_ms(client));
        r = nearcall_process(client);
    } while (r == 0);
    CHECK_CALL(client, r, NEARCALL_E_UNAVAILABLE);
    CHECK_CALL(client, nearcall_poll(client, call, NULL), NEARCALL_E_UNAVAILABLE);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_UNKNOWN);
    nearcall_close(client);
    host_end(&host);
}

/* With others in the address that takes a second; further calls go there at once. */
static void several(void)
{
    struct host near, far;
    host_start(&near, "tcp:");
    host_start(&far, "tcp:");
    nearcall_client *client = test_open(two_hosts(&near, "|", &far), 0);
    call_it(client);
    atomic_store(&near.way, HOST_IS_GONE);
    CHECK(lose_a_call(client) >= NC_TCP_SILENCE_MS - 1);
    for (int i = 0; i < 100; i++)
        call_it(client);
    CHECK_INT(host_requests(&far), 100);
    CHECK(strcmp(nearcall_endpoint(client), far.script.address) == 0);
    atomic_store(&near.way, HOST_SERVES);
    (void)host_requests(&near);
    while (host_requests(&near) == 0)
        call_it(client);
    nearcall_close(client);
    host_end(&near);
    host_end(&far);
}

int main(void)
{
    test_begin();
    gone();
    slow();
    slow_way();
    in_a_loop();
    several();
    return 0;
}
