/* Opens a handle, forks workers that use it, and measures: workers ADDRESS */
#define _GNU_SOURCE
#include <nearcall.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WORKERS = 4, CALLS = 20000 };

static nearcall_client *go;

static void fail(void)
{
    fprintf(stderr, "workers: %s\n", nearcall_error_message(go));
    exit(1);
}

/* Calls a function of one text and returns what it answered. */
static nearcall_value call(const char *name, const char *text)
{
    nearcall_function *function;
    nearcall_reply reply;
    nearcall_reader reader;
    nearcall_value value;

    if (nearcall_find(go, name, strlen(name), 0, &function) != NEARCALL_OK ||
        nearcall_request(go, function, NEARCALL_CODEC_MSGPACK) != NEARCALL_OK)
        fail();
    nearcall_put_array(go, 1);
    nearcall_put_string(go, text, strlen(text));
    if (nearcall_request_call(go, 0, &reply) != NEARCALL_OK)
        fail();
    reader = (nearcall_reader){reply.data, reply.data + reply.bytes};
    if (nearcall_read(&reader, &value) != NEARCALL_OK)
        fail();
    return value;
}

static void greet_and_count(const char *who)
{
    nearcall_value text = call("greet", who);

    /* The text is in the handle's buffer until the next call. */
    printf("  C      %-9s %6d: %.*s", who, (int)getpid(), (int)text.count, (const char *)text.as.data);
    printf(" visit %lld\n", (long long)call("visit", "/demo").as.integer);
    fflush(stdout);
}

static void fork_worker(int number)
{
    char who[32];
    pid_t worker = fork();

    if (worker < 0) {
        perror("fork");
        exit(1);
    }
    if (worker > 0)
        return;
    snprintf(who, sizeof who, "worker %d", number);
    greet_and_count(who);
    nearcall_close(go);
    exit(0);
}

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;

    return (a > b) - (a < b);
}

static void measure(void)
{
    static double times_us[CALLS];

    for (int i = 0; i < CALLS; i++) {
        double begin = now_us();

        call("greet", "World");
        times_us[i] = now_us() - begin;
    }
    qsort(times_us, CALLS, sizeof times_us[0], ascending);
    printf("measured C %.1f %.1f\n", times_us[CALLS / 2], times_us[CALLS / 100 * 99]);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: workers ADDRESS\n");
        return 2;
    }
    if (nearcall_open(&go, argv[1], NULL) != NEARCALL_OK)
        fail();
    greet_and_count("parent");
    for (int number = 1; number <= WORKERS; number++)
        fork_worker(number);
    for (int number = 1; number <= WORKERS; number++) {
        int status;

        if (wait(&status) < 0 || status != 0) {
            fprintf(stderr, "workers: a worker failed\n");
            return 1;
        }
    }
    greet_and_count("parent");
    measure();
    nearcall_close(go);
    return 0;
}
