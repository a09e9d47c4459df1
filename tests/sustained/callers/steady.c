/*
 * Calls echo with 64 bytes without a pause, for one window to warm up and so many others, each
 * of so many milliseconds, and prints a line for each: how many calls ended in it, how many
 * nanoseconds the longest of them took, and so far: how often the caller slept, how often it
 * lost its CPU, how many microseconds of CPU it used, how many hundredths of a second the
 * machine's CPUs were busy and how many the hypervisor had them, and what the server's
 * statistics say of its sleeps. It keeps all lines until the end, so that nobody is woken
 * meanwhile.
 *
 *     steady ADDRESS WINDOWS WINDOW_MS
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <nearcall.h>

enum { TIMEOUT_MS = 10000, SLEEPS_BYTES = 300 };

struct window {
    uint64_t calls;
    int64_t longest_ns;
    long slept;
    long lost_cpu;
    long used_us;
    long busy, stolen;
    char server_sleeps[SLEEPS_BYTES];
};

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void expect(nearcall_client *client, int result, const char *what)
{
    if (result >= 0)
        return;
    fprintf(stderr, "steady: %s: %s\n", what, nearcall_error_message(client));
    exit(1);
}

/* The JSON object of that name in the server's statistics; they have no other within it. */
static void copy_sleeps(char *to, const char *text, size_t bytes)
{
    static const char name[] = "\"shared_memory_sleeps\":";
    const char *found = memmem(text, bytes, name, sizeof(name) - 1);
    size_t left = found ? bytes - (size_t)(found - text) - (sizeof(name) - 1) : 0;
    const char *begin = found ? found + sizeof(name) - 1 : NULL, *end = found ? memchr(begin, '}', left) : NULL;
    if (end && end - begin + 2 <= SLEEPS_BYTES)
        memcpy(to, begin, (size_t)(end - begin) + 1);
}

/* On the connection of the calls: a server with one CPU looks only while it has no other. */
static void ask_server(nearcall_client *client, struct window *w)
{
    nearcall_function *stats;
    nearcall_reply reply;
    nearcall_value text;
    expect(client, nearcall_find(client, "nearcall.stats", strlen("nearcall.stats"), TIMEOUT_MS, &stats), "stats");
    expect(client, nearcall_request(client, stats, NEARCALL_CODEC_MSGPACK), "stats");
    nearcall_put_array(client, 0);
    expect(client, nearcall_request_call(client, TIMEOUT_MS, &reply), "stats");
    nearcall_reader reader = {reply.data, reply.data + reply.bytes};
    expect(client, nearcall_read(&reader, &text), "stats");
    if (text.type == NEARCALL_STRING)
        copy_sleeps(w->server_sleeps, (const char *)text.as.data, text.count);
}

static void note_switches(struct window *w)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    w->slept = used.ru_nvcsw;
    w->lost_cpu = used.ru_nivcsw;
    w->used_us = (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 + used.ru_utime.tv_usec + used.ru_stime.tv_usec;
}

/* "cpu  10 0 5 1000 2 0 1 30 0 0": user, nice, system, idle, waiting for a disk, interrupts of
 * two kinds, stolen. */
static void note_machine(struct window *w)
{
    long t[8] = {0};
    FILE *file = fopen("/proc/stat", "re");
    if (!file || fscanf(file, "cpu %ld %ld %ld %ld %ld %ld %ld %ld", &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7]) != 8)
        fprintf(stderr, "steady: /proc/stat cannot be read\n");
    w->busy = t[0] + t[1] + t[2] + t[5] + t[6];
    w->stolen = t[7];
    if (file)
        fclose(file);
}

/* Windows follow each other without a gap: what a call, or asking the server, takes beyond the
 * end of one is the next one's time. A call that lasts longer than a window leaves those before
 * its end empty. There is room for one window more than are counted. */
static void call_steadily(nearcall_client *client, struct window *windows, long count, int64_t length_ns)
{
    static const uint8_t payload[64] = "steady";
    nearcall_reply reply;
    int64_t before = now_ns(), edge = before + length_ns;
    for (struct window *w = windows, *end = windows + count;;) {
        expect(client, nearcall_call(client, "echo", payload, sizeof(payload), TIMEOUT_MS, &reply), "echo");
        int64_t now = now_ns(), took = now - before;
        before = now;
        if (now >= edge) {
            note_switches(w);
            note_machine(w);
            ask_server(client, w);
            before = now_ns();
            struct window empty = *w;
            empty.calls = 0;
            empty.longest_ns = 0;
            for (; now >= edge && w < end; edge += length_ns)
                *++w = empty;
            if (w == end)
                return;
        }
        w->calls++;
        if (took > w->longest_ns)
            w->longest_ns = took;
    }
}

static void print(const struct window *w)
{
    printf("%llu %lld %ld %ld %ld %ld %ld %s\n", (unsigned long long)w->calls, (long long)w->longest_ns, w->slept, w->lost_cpu,
           w->used_us, w->busy, w->stolen, w->server_sleeps[0] ? w->server_sleeps : "{}");
}

int main(int count, char **arguments)
{
    long windows = count == 4 ? strtol(arguments[2], NULL, 10) : 0;
    int64_t length_ns = count == 4 ? strtoll(arguments[3], NULL, 10) * 1000000 : 0;
    if (windows < 1 || length_ns < 1) {
        fprintf(stderr, "steady ADDRESS WINDOWS WINDOW_MS\n");
        return 2;
    }
    struct window *all = calloc((size_t)windows + 2, sizeof(*all));
    nearcall_client *client = NULL;
    if (!all || nearcall_open(&client, arguments[1], NULL) < 0) {
        fprintf(stderr, "steady: no memory, or %s is no address\n", arguments[1]);
        return 1;
    }
    /* In the first the server gives memory, and both sides find each other awake. */
    call_steadily(client, all, 1, length_ns);
    call_steadily(client, all + 1, windows, length_ns);
    for (long i = 0; i <= windows; i++)
        print(&all[i]);
    nearcall_close(client);
    free(all);
    return 0;
}
