/* Forks of a process that has loaded a library and is calling it in several threads. */
#include "embed_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 2

/* Threads that call without a pause take both processors of a small machine from the
 * forks, which then last two to three times as long: a hundred thousand would take a
 * quarter of an hour. So they do it during 50 forks of a thousand. */
#define PAUSE_US 50
#define PERIOD_FORKS 1000
#define PERIOD_FORKS_WITHOUT_PAUSE 50

static nearcall_client *client;
static atomic_bool stop, pauses;
static atomic_long calls_of_threads;

static void *caller(void *unused)
{
    (void)unused;
    nearcall_client *own = test_open(embed_address(""), 0);
    uint8_t data[128] = {0};
    nearcall_reply reply;
    for (unsigned i = 0; !atomic_load(&stop); i++) {
        size_t bytes = i % sizeof(data);
        data[0] = (uint8_t)i;
        CHECK_CALL(own, nearcall_call(own, "echo", data, bytes, 10000, &reply), NEARCALL_OK);
        CHECK(reply.bytes == bytes && memcmp(reply.data, data, bytes) == 0);
        if (i % 128 == 0)
            CHECK_INT(embed_call_none(own, "goroutine"), 1);
        atomic_fetch_add(&calls_of_threads, 1);
        if (atomic_load(&pauses))
            usleep(PAUSE_US);
    }
    nearcall_close(own);
    return NULL;
}

static void child(void *number)
{
    long i = *(long *)number;
    embed_echo(client, (size_t)(i % 300));
    CHECK_INT(embed_call_none(client, "goroutine"), 1);
    if (i % 64 == 0)
        for (int k = 0; k < 40; k++)
            embed_echo(client, 64); /* far enough for shared memory */
    CHECK(strcmp(nearcall_transport(client), "same process") != 0);
}

int main(void)
{
    pthread_t threads[THREADS];
    test_begin();
    long forks = test_parameter("NEARCALL_TEST_FORKS", 500);
    alarm((unsigned)(300 + (double)forks / 50 * test_slowness()));
    client = test_open(embed_address(""), 0);
    embed_echo(client, 1);
    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, caller, NULL), 0);
    int descriptors = 0;
    for (long i = 0; i < forks; i++) {
        atomic_store(&pauses, i % PERIOD_FORKS >= PERIOD_FORKS_WITHOUT_PAUSE);
        pid_t pid = test_fork(child, &i);
        CHECK_INT(embed_call_int(client, "deep", i % 300), i % 300);
        test_join(pid);
        if (i == forks / 10)
            descriptors = test_open_descriptors();
    }
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK(atomic_load(&calls_of_threads) > forks);
    /* Connections of children that have just ended may still be open. */
    for (double until = test_now_ms() + 60000; test_open_descriptors() > descriptors && test_now_ms() < until;)
        usleep(1000);
    CHECK(test_open_descriptors() <= descriptors);
    embed_expect_transport(client, "same process");
    nearcall_close(client);
    return 0;
}
