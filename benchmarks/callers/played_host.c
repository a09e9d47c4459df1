/*
 * Plays a host whose hypervisor takes CPUs away: on each CPU that this process may use
 * a thread with real-time priority takes it for 0.2 to 5 ms at random, a tenth of the time.
 *
 *     played_host
 *
 * Prints "ready", then goes on until it is killed. Ends with EX_NOPERM where real-time
 * priorities are not permitted. Each run has the same series of times.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "protocol.h"

enum {
    PRIORITY = 50,
    TAKEN_NS_MIN = 200 * NS_PER_US,
    TAKEN_NS_MAX = 5 * NS_PER_MS,
    /* So that a tenth is taken: nine times the mean of what is taken, in the mean. */
    LEFT_NS_MAX = 9 * (TAKEN_NS_MIN + TAKEN_NS_MAX)
};

static uint64_t between(unsigned *state, uint64_t least, uint64_t most)
{
    return least + (uint64_t)((double)(most - least) * rand_r(state) / RAND_MAX);
}

static void *take(void *seed)
{
    unsigned state = *(unsigned *)seed;

    for (;;) {
        const struct timespec left = {.tv_nsec = (long)between(&state, 0, LEFT_NS_MAX)};
        const uint64_t taken_ns = between(&state, TAKEN_NS_MIN, TAKEN_NS_MAX);
        uint64_t until_ns;

        nanosleep(&left, NULL);
        until_ns = clock_ns(CLOCK_MONOTONIC) + taken_ns;
        while (clock_ns(CLOCK_MONOTONIC) < until_ns)
            ;
    }
    return NULL;
}

/* Starts the thread of a CPU; an error number. */
static int start(int cpu, unsigned *seed)
{
    const struct sched_param parameters = {.sched_priority = PRIORITY};
    pthread_attr_t attributes;
    pthread_t thread;
    cpu_set_t one;
    int r;

    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    r = pthread_attr_init(&attributes);
    if (r != 0)
        return r;
    if ((r = pthread_attr_setaffinity_np(&attributes, sizeof one, &one)) == 0 &&
        (r = pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED)) == 0 &&
        (r = pthread_attr_setschedpolicy(&attributes, SCHED_FIFO)) == 0 &&
        (r = pthread_attr_setschedparam(&attributes, &parameters)) == 0)
        r = pthread_create(&thread, &attributes, take, seed);
    pthread_attr_destroy(&attributes);
    return r;
}

int main(void)
{
    static unsigned seeds[CPU_SETSIZE];
    cpu_set_t allowed;

    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
        perror("played_host");
        return EX_OSERR;
    }
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        int r;

        seeds[cpu] = (unsigned)cpu + 1;
        r = CPU_ISSET(cpu, &allowed) ? start(cpu, &seeds[cpu]) : 0;
        if (r != 0) {
            fprintf(stderr, "played_host: a thread with real-time priority: %s\n", strerror(r));
            return r == EPERM ? EX_NOPERM : EX_OSERR;
        }
    }
    puts("ready");
    fflush(stdout);
    for (;;)
        pause();
}
