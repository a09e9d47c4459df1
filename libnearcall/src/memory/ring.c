/* Putting frames into the ring of requests, taking them from that of replies, and
 * the words by which both sides say that they sleep. Every word of the server's is
 * read once, and what was read is checked. */
#include <string.h>

#include "base/prefetch.h"
#include "memory/memory.h"
#include "nearcall.h"

#define PLACE_OFFSET 4
#define PLACE_ALIGNMENT 64u
#define MARK_BITS 2
#define LINE_BYTES 64

/* ---- Sending ---- */

/* Takes back what the server says it has taken. A number that cannot be counts as
 * nothing: it is the server's own damage. */
static void reclaim(struct nc_memory *memory)
{
    uint32_t taken = atomic_load_explicit(memory->requests_taken, memory_order_acquire);
    if (taken - memory->free > memory->put - memory->free)
        return;
    for (; memory->free != taken; memory->free++)
        nc_arena_give_back(&memory->arena, memory->free & memory->slots_mask);
}

/* Bodies at the arena's start again are in memory that is warm, so what came back
 * since is worth a look. */
static uint8_t *find_room(struct nc_memory *memory, uint32_t bytes)
{
    if (memory->arena.live > 0)
        reclaim(memory);
    return nc_arena_find(&memory->arena, bytes);
}

uint8_t *nc_memory_open_body(struct nc_memory *memory, uint32_t bytes)
{
    if (memory->arena.live > 0)
        reclaim(memory);
    return nc_arena_open(&memory->arena, bytes);
}

bool nc_memory_begin(struct nc_memory *memory, size_t body_bytes, const uint8_t *held,
                     uint8_t **ret_header, uint8_t **ret_body)
{
    uint32_t place = 0;
    if (memory->put - memory->free > memory->slots_mask) {
        reclaim(memory);
        if (memory->put - memory->free > memory->slots_mask)
            return false;
    }
    uint32_t index = memory->put & memory->slots_mask;
    uint8_t *slot = memory->requests + (size_t)index * NC_MEMORY_SLOT_BYTES;
    uint8_t *body = slot + NC_MEMORY_BODY_OFFSET;
    if (held || body_bytes > NC_MEMORY_INLINE_BYTES) {
        if (body_bytes > memory->arena.bytes)
            return false;
        body = held ? (uint8_t *)(uintptr_t)held : find_room(memory, (uint32_t)body_bytes);
        if (!body)
            return false;
        nc_arena_drop(&memory->arena);
        nc_arena_lend(&memory->arena, body, (uint32_t)body_bytes, index);
        place = (uint32_t)(body - memory->caller);
    }
    if (place == 0) /* early: the line takes its time to come from the server's processor */
        nc_put_u32(slot + PLACE_OFFSET, 0);
    memory->begun = slot;
    memory->begun_place = place;
    *ret_header = slot + NC_MEMORY_HEADER_OFFSET;
    *ret_body = body;
    return true;
}

void nc_memory_expect(const struct nc_memory *memory)
{
    uint32_t next = memory->put & memory->slots_mask, second = (memory->put + 1) & memory->slots_mask;
    nc_prefetch_to_write(memory->requests + (size_t)next * NC_MEMORY_SLOT_BYTES + LINE_BYTES);
    nc_prefetch_to_write(memory->requests + (size_t)second * NC_MEMORY_SLOT_BYTES);
}

bool nc_memory_publish(struct nc_memory *memory)
{
    nc_word32 *sequence = (nc_word32 *)(void *)memory->begun;
    if (memory->begun_place)
        nc_put_u32(memory->begun + PLACE_OFFSET, memory->begun_place);
    atomic_store_explicit(sequence, ++memory->put, memory_order_release);
    /* Either the server sees the frame when it looks once more before it sleeps, or
     * it is seen here that it sleeps. */
    atomic_thread_fence(memory_order_seq_cst);
    uint64_t word = atomic_load_explicit(memory->server_sleeps, memory_order_relaxed);
    if ((word & 1) == 0 || word == memory->woken)
        return false;
    memory->woken = word;
    return true;
}

/* ---- Taking ---- */

static uint64_t read_once(const uint8_t *word)
{
    return atomic_load_explicit((const nc_word64 *)(const void *)word, memory_order_relaxed);
}

static void read_header(const uint8_t *slot, struct nc_frame *frame)
{
    uint64_t words[NC_FRAME_HEADER_BYTES / 8];
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        words[i] = read_once(slot + NC_MEMORY_HEADER_OFFSET + 8 * i);
    nc_frame_decode(frame, (const uint8_t *)words);
}

static int refuse(struct nc_fault *fault, const char *field, uint64_t value, const char *allowed)
{
    *fault = (struct nc_fault){-NEARCALL_E_INVALID_ARGUMENT, "shared memory", field, value, allowed};
    return -1;
}

/* Where the body lies; its length was checked against the frame's limit. */
static int find_body(const struct nc_memory *memory, const uint8_t *slot, uint32_t length,
                     const uint8_t **ret_body, struct nc_fault *fault)
{
    uint32_t place = (uint32_t)(read_once(slot) >> 32);
    if (place == 0) {
        *ret_body = slot + NC_MEMORY_BODY_OFFSET;
        return length <= NC_MEMORY_INLINE_BYTES
                   ? 0
                   : refuse(fault, "length", length, "88 bytes of body in a slot");
    }
    if (place % PLACE_ALIGNMENT || place < memory->arena_offset || place > memory->server_bytes ||
        length > memory->server_bytes - place)
        return refuse(fault, "place", place, "a multiple of 64, the body within the arena");
    *ret_body = memory->server + place;
    return 0;
}

int nc_memory_take(struct nc_memory *memory, uint64_t features, uint32_t frame_bytes_max,
                   struct nc_frame *ret_frame, const uint8_t **ret_body, struct nc_fault *fault)
{
    uint32_t index = memory->seen++ & memory->slots_mask;
    const uint8_t *slot = memory->replies + (size_t)index * NC_MEMORY_SLOT_BYTES;
    uint32_t next = memory->seen & memory->slots_mask;
    memory->next = (const nc_word32 *)(const void *)(memory->replies +
                                                     (size_t)next * NC_MEMORY_SLOT_BYTES);
    read_header(slot, ret_frame);
    if (!nc_frame_is_plain_reply(ret_frame, frame_bytes_max) &&
        nc_frame_check(ret_frame, NC_FROM_SERVER, features & NC_FEATURE_ASKS, frame_bytes_max, fault) < 0)
        return -1;
    return find_body(memory, slot, ret_frame->length, ret_body, fault);
}

/* ---- Sleeping ---- */

bool nc_memory_fall_asleep(struct nc_memory *memory)
{
    if (nc_memory_is_awake(memory)) {
        atomic_store_explicit(memory->caller_sleeps, ++memory->word, memory_order_release);
        /* Either the server sees that this side sleeps, or its frame is seen here. */
        atomic_thread_fence(memory_order_seq_cst);
    }
    if (!nc_memory_is_ready(memory))
        return true;
    /* The server may have sent its WAKE for this number: the next sleep has another. */
    nc_memory_awake(memory);
    return false;
}

/* ---- Start marks ---- */

enum nc_mark nc_memory_mark(const struct nc_memory *memory, uint64_t call_id)
{
    uint64_t mark = atomic_load_explicit(&memory->marks[call_id & memory->marks_mask],
                                         memory_order_acquire);
    uint64_t marked = mark >> MARK_BITS;
    enum nc_mark stage = (enum nc_mark)(mark & ((1u << MARK_BITS) - 1));
    if (marked == call_id && stage != NC_MARK_NONE)
        return stage;
    return marked < call_id && call_id >= memory->first_id ? NC_MARK_NONE : NC_MARK_UNKNOWN;
}
