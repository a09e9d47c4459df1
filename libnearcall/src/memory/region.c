/* Mapping and unmapping the regions. What flows through them: ring.c. */
#include "memory/memory.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/limits_gen.h"
#include "memory/sealed.h"

#define SLEEPS_OFFSET 0
#define SENT_OFFSET 8
#define CPU_OFFSET 16
#define TAKEN_OFFSET 128
#define HEAD_BYTES 4096u
#define MARK_BYTES 8u
#define SLOTS_MIN 32u
#define SLOTS_MAX 4096u
#define MARKS_UNIT 512u
#define MARKS_MAX 65536u
#define ARENA_UNIT 4096u

bool nc_memory_is_possible(void)
{
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && ATOMIC_LLONG_LOCK_FREE == 2 &&
           sizeof(nc_word64) == sizeof(uint64_t);
}

void nc_memory_offer_decode(struct nc_memory_offer *offer, const uint8_t *payload)
{
    offer->slots = nc_get_u32(payload);
    offer->marks = nc_get_u32(payload + 4);
    offer->arena_bytes = nc_get_u32(payload + 8);
    offer->spin_us = nc_get_u32(payload + 12);
}

static bool is_power_of_two(uint32_t number)
{
    return number != 0 && (number & (number - 1)) == 0;
}

static bool geometry_is_legal(const struct nc_memory_offer *offer)
{
    return is_power_of_two(offer->slots) && offer->slots >= SLOTS_MIN &&
           offer->slots <= SLOTS_MAX && is_power_of_two(offer->marks) &&
           offer->marks >= MARKS_UNIT && offer->marks <= MARKS_MAX &&
           offer->arena_bytes % ARENA_UNIT == 0 &&
           offer->arena_bytes <= NC_SHARED_MEMORY_ARENA_BYTES_CEILING;
}

/* A region that could shrink would be a deadly signal one day. */
static bool is_sound(int fd, size_t bytes)
{
    struct stat status;
    return nc_memory_file_fault(fd, &status) == NULL && status.st_size == (off_t)bytes;
}

static void *map(int fd, size_t bytes, int protection)
{
    void *region = is_sound(fd, bytes) ? mmap(NULL, bytes, protection, MAP_SHARED, fd, 0)
                                       : MAP_FAILED;
    return region == MAP_FAILED ? NULL : region;
}

static int map_both(struct nc_memory *memory, int caller_fd, int server_fd)
{
    memory->server = map(server_fd, memory->server_bytes, PROT_READ);
    if (!memory->server)
        return -1;
    memory->caller = map(caller_fd, memory->caller_bytes, PROT_READ | PROT_WRITE);
    return memory->caller && madvise(memory->caller, memory->caller_bytes, MADV_DONTFORK) == 0
               ? 0
               : -1;
}

static void lay_out(struct nc_memory *memory, const struct nc_memory_offer *offer)
{
    size_t marks_bytes = (size_t)offer->marks * MARK_BYTES;
    memory->slots_mask = offer->slots - 1;
    memory->marks_mask = offer->marks - 1;
    memory->requests = memory->caller + HEAD_BYTES;
    memory->replies = memory->server + HEAD_BYTES + marks_bytes;
    memory->arena_offset = (uint32_t)(memory->server_bytes - offer->arena_bytes);
    memory->arena.pages = memory->caller + memory->caller_bytes - offer->arena_bytes;
    memory->arena.bytes = offer->arena_bytes;
    memory->caller_sleeps = (nc_word64 *)(void *)(memory->caller + SLEEPS_OFFSET);
    memory->caller_sent = (nc_word64 *)(void *)(memory->caller + SENT_OFFSET);
    memory->caller_cpu = (nc_word64 *)(void *)(memory->caller + CPU_OFFSET);
    memory->replies_taken = (nc_word32 *)(void *)(memory->caller + TAKEN_OFFSET);
    memory->server_sleeps = (const nc_word64 *)(const void *)(memory->server + SLEEPS_OFFSET);
    memory->server_sent = (const nc_word64 *)(const void *)(memory->server + SENT_OFFSET);
    memory->server_cpu = (const nc_word64 *)(const void *)(memory->server + CPU_OFFSET);
    memory->requests_taken = (const nc_word32 *)(const void *)(memory->server + TAKEN_OFFSET);
    memory->marks = (const nc_word64 *)(const void *)(memory->server + HEAD_BYTES);
    memory->next = (const nc_word32 *)(const void *)memory->replies;
    memory->word = 1;
}

int nc_memory_attach(struct nc_memory *memory, const struct nc_memory_offer *offer,
                     int caller_fd, int server_fd)
{
    if (!geometry_is_legal(offer))
        return -1;
    size_t ring_bytes = (size_t)offer->slots * NC_MEMORY_SLOT_BYTES + offer->arena_bytes;
    memset(memory, 0, sizeof(*memory));
    memory->caller_bytes = HEAD_BYTES + ring_bytes;
    memory->server_bytes = HEAD_BYTES + (size_t)offer->marks * MARK_BYTES + ring_bytes;
    struct nc_lent *lent = calloc(offer->slots, sizeof(*lent));
    if (!lent || map_both(memory, caller_fd, server_fd) < 0) {
        memory->arena.lent = lent;
        nc_memory_close(memory);
        return -1;
    }
    lay_out(memory, offer);
    memory->arena.lent = lent;
    nc_memory_awake(memory);
    return 0;
}

/* The pointers go first: a fork by another thread must find what it may unmap. */
static void unmap_server(struct nc_memory *memory)
{
    void *region = (void *)(uintptr_t)memory->server;
    memory->server = NULL;
    if (region)
        munmap(region, memory->server_bytes);
}

void nc_memory_close(struct nc_memory *memory)
{
    void *region = memory->caller;
    memory->caller = NULL;
    if (region)
        munmap(region, memory->caller_bytes);
    free(memory->arena.lent);
    memory->arena = (struct nc_arena){0};
    if (!memory->held)
        unmap_server(memory);
}

/* The caller region is not there in a child, and other memory of the child's may lie
 * where it was: that address must be forgotten, not unmapped. */
void nc_memory_orphan(struct nc_memory *memory, bool trust_memory)
{
    if (trust_memory) {
        memory->caller = NULL;
        memory->held = false;
        nc_memory_close(memory);
    }
    memset(memory, 0, sizeof(*memory));
}

void nc_memory_abandon(struct nc_memory *memory)
{
    void *region = memory->caller;
    memory->caller = NULL;
    if (region)
        munmap(region, memory->caller_bytes);
    unmap_server(memory);
}

void nc_memory_release(struct nc_memory *memory)
{
    memory->held = false;
    if (nc_memory_is_used(memory))
        nc_memory_done(memory);
    else
        unmap_server(memory);
}
