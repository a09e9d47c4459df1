#include "memory/spin.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NS_PER_US 1000LL

void nc_spinning_start(struct nc_spinning *spinning, enum nc_spin mode, int64_t limit_us)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    *spinning = (struct nc_spinning){.mode = mode, .machine_cpus = cpus > 0 ? cpus : 0};
    nc_governor_start(&spinning->governor, true, limit_us * NS_PER_US);
}

/* ---- CPUs ---- */

/* Counted from 1; 0: not known. */
static int64_t this_cpu(void)
{
    return sched_getcpu() + 1;
}

static int64_t peer_cpu(const struct nc_memory *memory)
{
    return (int64_t)atomic_load_explicit(memory->server_cpu, memory_order_relaxed);
}

static int64_t count_processors(void)
{
    cpu_set_t usable;
    return sched_getaffinity(0, sizeof(usable), &usable) == 0 ? CPU_COUNT(&usable) : 2;
}

void nc_spinning_publish_cpu(const struct nc_memory *memory)
{
    uint64_t cpu = (uint64_t)this_cpu();
    if (atomic_load_explicit(memory->caller_cpu, memory_order_relaxed) != cpu)
        atomic_store_explicit(memory->caller_cpu, cpu, memory_order_relaxed);
}

/* The kernel places whoever is woken through a socket on the waker's CPU, because it
 * expects the waker to sleep soon. One that spins instead keeps the other from
 * running. Once both are apart they stay so while both are busy. */
static void change_cpu(void)
{
    cpu_set_t allowed, others;
    int cpu = sched_getcpu();
    if (cpu < 0 || sched_getaffinity(0, sizeof(allowed), &allowed) != 0 ||
        CPU_COUNT(&allowed) < 2 || !CPU_ISSET((size_t)cpu, &allowed))
        return;
    others = allowed;
    CPU_CLR((size_t)cpu, &others);
    if (sched_setaffinity(0, sizeof(others), &others) == 0)
        (void)sched_setaffinity(0, sizeof(allowed), &allowed);
}

/* Meanwhile nothing is known of where this side runs, or both might move to the same. A
 * signal's handler may fork in any system call: a child does not have the memory. */
static void move_away(const struct nc_memory *memory, const struct nc_fork_guard *guard)
{
    atomic_store_explicit(memory->caller_cpu, 0, memory_order_relaxed);
    change_cpu();
    if (!nc_forked(guard))
        nc_spinning_publish_cpu(memory);
}

void nc_spinning_took_turn(struct nc_spinning *spinning, const struct nc_memory *memory,
                           const struct nc_fork_guard *guard, int64_t now_ns)
{
    if (spinning->mode == NC_SPIN_AUTO && peer_cpu(memory) == this_cpu() &&
        nc_governor_took_turn(&spinning->governor, now_ns))
        move_away(memory, guard);
}

bool nc_spinning_shares_cpu(struct nc_spinning *spinning, const struct nc_memory *memory,
                            const struct nc_fork_guard *guard, int64_t now_ns)
{
    if (spinning->mode != NC_SPIN_AUTO || nc_memory_peer_sleeps(memory) ||
        peer_cpu(memory) != this_cpu())
        return false;
    if (count_processors() < 2 || !nc_governor_together(&spinning->governor, now_ns))
        return true;
    move_away(memory, guard);
    return false;
}

/* ---- The machine ---- */

/* The text of a small file of the kernel's; it is empty if there is none to be had. */
static void read_file(const char *path, char *text, size_t bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, bytes - 1);
    if (fd >= 0)
        close(fd);
    text[got < 0 ? 0 : got] = 0;
}

/* "0.20 0.18 0.12 1/80 11206": the fourth is the threads that run or want to, of all. */
static int64_t count_runnable(void)
{
    char text[128], *slash;
    read_file("/proc/loadavg", text, sizeof(text));
    slash = strchr(text, '/');
    while (slash && slash > text && slash[-1] >= '0' && slash[-1] <= '9')
        slash--;
    return slash ? strtoll(slash, NULL, 10) : 0;
}

/* "528409 2050098 9": the second is what the thread waited to run. */
static int64_t waited_ns(void)
{
    char text[128], *end;
    read_file("/proc/thread-self/schedstat", text, sizeof(text));
    (void)strtoll(text, &end, 10);
    return strtoll(end, NULL, 10);
}

void nc_spinning_look(struct nc_spinning *spinning, const struct nc_memory *memory, int64_t now_ns)
{
    struct nc_facts facts = {
        .processors = count_processors(),
        .cpu = this_cpu(),
        .peer_cpu = peer_cpu(memory),
        .peer_awake = !nc_memory_peer_sleeps(memory),
        .machine = spinning->machine_cpus,
        .runnable = count_runnable(),
        .thread = (int64_t)syscall(SYS_gettid),
        .waited_ns = waited_ns(),
    };
    nc_governor_look(&spinning->governor, now_ns, &facts);
}

int64_t nc_spinning_limit_ns(const struct nc_spinning *spinning)
{
    return spinning->mode == NC_SPIN_DEDICATED ? INT64_MAX
                                               : nc_governor_limit_ns(&spinning->governor);
}

/* A call that sleeps costs two wakes, of which one is this. What cannot be a time of this
 * sleep says nothing: the clock of another time namespace, or damage. */
void nc_spinning_slept(struct nc_spinning *spinning, const struct nc_memory *memory,
                       int64_t since_ns, int64_t now_ns)
{
    int64_t sent_ns = (int64_t)atomic_load_explicit(memory->server_sent, memory_order_relaxed);
    if (spinning->mode == NC_SPIN_AUTO && sent_ns >= since_ns && sent_ns <= now_ns)
        nc_governor_slept(&spinning->governor, 2 * (now_ns - sent_ns));
}
