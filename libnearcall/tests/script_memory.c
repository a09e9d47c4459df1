#include "script_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEAD_BYTES 4096
#define TAKEN_OFFSET 128
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static uint8_t *make_region(const char *name, size_t bytes, int *ret_fd)
{
    *ret_fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(*ret_fd >= 0);
    CHECK(ftruncate(*ret_fd, (off_t)bytes) == 0);
    uint8_t *region = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *ret_fd, 0);
    CHECK(region != MAP_FAILED);
    return region;
}

static nc_word32 *word32(uint8_t *region, size_t offset)
{
    return (nc_word32 *)(void *)(region + offset);
}

static nc_word64 *word64(uint8_t *region, size_t offset)
{
    return (nc_word64 *)(void *)(region + offset);
}

nc_word64 *memory_caller_sleeps(struct script_memory *memory)
{
    return word64(memory->caller, 0);
}

void memory_make(struct script_memory *memory, struct nc_memory_offer offer)
{
    size_t ring_bytes = (size_t)offer.slots * NC_MEMORY_SLOT_BYTES + offer.arena_bytes;
    *memory = (struct script_memory){.offer = offer, .word = 1};
    memory->caller_bytes = HEAD_BYTES + ring_bytes;
    memory->server_bytes = HEAD_BYTES + 8 * (size_t)offer.marks + ring_bytes;
    memory->caller = make_region("caller", memory->caller_bytes, &memory->caller_fd);
    memory->server = make_region("server", memory->server_bytes, &memory->server_fd);
    atomic_store(memory_caller_sleeps(memory), 1);
    atomic_store(word64(memory->server, 0), 1);
}

void memory_seal(struct script_memory *memory)
{
    CHECK(fcntl(memory->caller_fd, F_ADD_SEALS, SEALS) == 0);
    CHECK(fcntl(memory->server_fd, F_ADD_SEALS, SEALS | F_SEAL_FUTURE_WRITE) == 0);
}

void memory_end(struct script_memory *memory)
{
    munmap(memory->caller, memory->caller_bytes);
    munmap(memory->server, memory->server_bytes);
    close(memory->caller_fd);
    close(memory->server_fd);
}

void memory_send_offer(struct script *script, const struct nc_memory_offer *offer, int caller_fd,
                       int server_fd)
{
    uint8_t bytes[NC_FRAME_HEADER_BYTES + NC_MEMORY_PAYLOAD_BYTES];
    struct nc_frame frame = {.type = NC_MEMORY, .length = NC_MEMORY_PAYLOAD_BYTES,
                             .descriptors = NC_MEMORY_DESCRIPTORS};
    nc_frame_encode(bytes, &frame);
    nc_put_u32(bytes + 32, offer->slots);
    nc_put_u32(bytes + 36, offer->marks);
    nc_put_u32(bytes + 40, offer->arena_bytes);
    nc_put_u32(bytes + 44, offer->spin_us);
    int fds[2];
    size_t count = 0;
    if (caller_fd >= 0)
        fds[count++] = caller_fd;
    if (server_fd >= 0)
        fds[count++] = server_fd;
    union {
        struct cmsghdr header;
        uint8_t bytes[CMSG_SPACE(sizeof(fds))];
    } room = {0};
    struct iovec part = {bytes, sizeof(bytes)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (count) {
        message.msg_control = &room;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        room.header.cmsg_level = SOL_SOCKET;
        room.header.cmsg_type = SCM_RIGHTS;
        room.header.cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(&room.header), fds, count * sizeof(int));
    }
    CHECK_INT(sendmsg(script->fd, &message, MSG_NOSIGNAL), sizeof(bytes));
}

void memory_give(struct script *script, struct script_memory *memory, struct nc_memory_offer offer)
{
    memory_make(memory, offer);
    memory_seal(memory);
    memory_awake(memory);
    memory_send_offer(script, &memory->offer, memory->caller_fd, memory->server_fd);
}

void memory_await_use(struct script_memory *memory)
{
    while (atomic_load(memory_caller_sleeps(memory)) == 1)
        sched_yield();
}

bool memory_caller_is_asleep(struct script_memory *memory)
{
    return atomic_load(memory_caller_sleeps(memory)) & 1;
}

void memory_await_sleep(struct script_memory *memory)
{
    while (!memory_caller_is_asleep(memory))
        sched_yield();
}

void memory_awake(struct script_memory *memory)
{
    if (memory->word & 1)
        atomic_store(word64(memory->server, 0), ++memory->word);
}

static uint8_t *request_slot(struct script_memory *memory)
{
    return memory->caller + HEAD_BYTES +
           (size_t)(memory->taken % memory->offer.slots) * NC_MEMORY_SLOT_BYTES;
}

static bool is_ready(struct script_memory *memory)
{
    return atomic_load(word32(request_slot(memory), 0)) == memory->taken + 1;
}

bool memory_fall_asleep(struct script_memory *memory)
{
    if ((memory->word & 1) == 0)
        atomic_store(word64(memory->server, 0), ++memory->word);
    atomic_thread_fence(memory_order_seq_cst);
    if (!is_ready(memory))
        return true;
    memory_awake(memory);
    return false;
}

bool memory_take(struct script_memory *memory, struct nc_frame *frame, uint8_t *payload)
{
    struct nc_fault fault = {0};
    if (!is_ready(memory))
        return false;
    const uint8_t *slot = request_slot(memory);
    uint32_t place = nc_get_u32(slot + 4);
    nc_frame_decode(frame, slot + NC_MEMORY_HEADER_OFFSET);
    CHECK_INT(nc_frame_check(frame, NC_FROM_CALLER, 0, SCRIPT_PAYLOAD_MAX << 8, &fault), 0);
    if (place == 0) {
        CHECK(frame->length <= NC_MEMORY_INLINE_BYTES);
    } else {
        CHECK_INT(place % 64, 0);
        CHECK(place >= memory->caller_bytes - memory->offer.arena_bytes);
        CHECK(place + (size_t)frame->length <= memory->caller_bytes);
    }
    if (payload)
        memcpy(payload, place ? memory->caller + place : slot + NC_MEMORY_BODY_OFFSET,
               frame->length < SCRIPT_PAYLOAD_MAX ? frame->length : SCRIPT_PAYLOAD_MAX);
    memory->taken++;
    atomic_store_explicit(word32(memory->server, TAKEN_OFFSET), memory->taken, memory_order_release);
    return true;
}

void memory_expect(struct script_memory *memory, enum nc_frame_type type, struct nc_frame *frame)
{
    while (!memory_take(memory, frame, NULL))
        sched_yield();
    CHECK_INT(frame->type, type);
}

uint8_t *memory_slot(struct script_memory *memory)
{
    return memory->server + HEAD_BYTES + 8 * (size_t)memory->offer.marks +
           (size_t)(memory->put % memory->offer.slots) * NC_MEMORY_SLOT_BYTES;
}

void memory_publish(struct script_memory *memory)
{
    uint8_t *slot = memory_slot(memory);
    atomic_store_explicit(word32(slot, 0), ++memory->put, memory_order_release);
}

/* Waits for what a server would send over the socket: room, for a script's replies
 * come in its own order. */
static uint32_t lend(struct script_memory *memory, size_t bytes)
{
    CHECK(bytes <= memory->offer.arena_bytes);
    if (memory->arena_next + bytes > memory->offer.arena_bytes) {
        while (atomic_load(word32(memory->caller, TAKEN_OFFSET)) != memory->put)
            sched_yield();
        memory->arena_next = 0;
    }
    uint32_t start = memory->arena_next;
    memory->arena_next = (start + (uint32_t)bytes + 63) & ~63u;
    return (uint32_t)(memory->server_bytes - memory->offer.arena_bytes) + start;
}

bool memory_put(struct script_memory *memory, const struct nc_frame *frame, const void *payload)
{
    while (memory->put - atomic_load(word32(memory->caller, TAKEN_OFFSET)) >= memory->offer.slots)
        sched_yield();
    uint8_t *slot = memory_slot(memory);
    uint32_t place = frame->length > NC_MEMORY_INLINE_BYTES ? lend(memory, frame->length) : 0;
    nc_put_u32(slot + 4, place);
    nc_frame_encode(slot + NC_MEMORY_HEADER_OFFSET, frame);
    if (frame->length)
        memcpy(place ? memory->server + place : slot + NC_MEMORY_BODY_OFFSET, payload, frame->length);
    memory_publish(memory);
    atomic_thread_fence(memory_order_seq_cst);
    uint64_t word = atomic_load(memory_caller_sleeps(memory));
    if ((word & 1) == 0 || word == memory->woken)
        return false;
    memory->woken = word;
    return true;
}

static struct nc_frame reply_to(const struct nc_frame *request, size_t bytes)
{
    return (struct nc_frame){.length = (uint32_t)bytes,
                             .type = NC_REPLY,
                             .codec = request->type == NC_RESOLVE ? NEARCALL_CODEC_MSGPACK
                                                                  : request->codec,
                             .call_id = request->call_id,
                             .function_id = SCRIPT_FUNCTION_ID};
}

bool memory_reply(struct script_memory *memory, const struct nc_frame *request, const void *data,
                  size_t bytes)
{
    struct nc_frame reply = reply_to(request, bytes);
    return memory_put(memory, &reply, data);
}

void memory_mark(struct script_memory *memory, uint64_t call_id, enum nc_mark stage)
{
    nc_word64 *mark = word64(memory->server, HEAD_BYTES + 8 * (size_t)(call_id % memory->offer.marks));
    atomic_store(mark, call_id << 2 | (uint64_t)stage);
}

/* ---- Serving ---- */

void memory_wake(struct script *script)
{
    struct nc_frame wake = {.type = NC_WAKE};
    script_send_frame(script, &wake, NULL);
}

static void answer(struct script *script, struct script_memory *memory, struct nc_frame *frame,
                   const uint8_t *payload)
{
    struct nc_frame answer = {.type = NC_PONG, .length = frame->length};
    if (frame->type == NC_REQUEST) {
        answer = reply_to(frame, frame->length - frame->extension_bytes);
        payload += frame->extension_bytes;
    } else if (frame->type == NC_RESOLVE) {
        answer = reply_to(frame, 1);
        payload = (const uint8_t *)"\x80";
    } else if (frame->type != NC_PING) {
        return;
    }
    if (memory_caller_is_asleep(memory) || answer.length > memory->offer.arena_bytes)
        script_send_frame(script, &answer, payload);
    else if (memory_put(memory, &answer, payload))
        memory_wake(script);
}

static bool has_input(struct script *script, int timeout_ms)
{
    struct pollfd watched = {script->fd, POLLIN, 0};
    return poll(&watched, 1, timeout_ms) > 0;
}

void memory_serve(struct script *script, struct script_memory *memory)
{
    uint8_t *payload = malloc(SCRIPT_PAYLOAD_MAX);
    struct nc_frame frame;
    int idle = 0;
    CHECK(payload != NULL);
    for (;;) {
        if (memory_take(memory, &frame, payload)) {
            answer(script, memory, &frame, payload);
            idle = 0;
        } else if (++idle < 50) {
            sched_yield();
        } else if (memory_fall_asleep(memory)) {
            (void)has_input(script, -1);
            memory_awake(memory);
        }
        if (idle % 10 == 0 && has_input(script, 0)) {
            if (!script_try_read(script, &frame, payload))
                break;
            answer(script, memory, &frame, payload);
            idle = 0;
        }
    }
    free(payload);
}

void memory_begin(struct script *script, struct script_memory *memory,
                  struct nc_memory_offer offer)
{
    struct nc_frame frame;
    script->features |= NC_FEATURE_SHARED_MEMORY;
    script_greet(script);
    script_expect(script, NC_RESOLVE, &frame);
    script_reply(script, &frame, "\x80", 1);
    script_expect(script, NC_PING, &frame);
    memory_give(script, memory, offer);
    struct nc_frame pong = {.type = NC_PONG, .length = frame.length};
    uint8_t id[8];
    nc_put_u64(id, 2); /* a caller's second call; its id is its payload */
    script_send_frame(script, &pong, id);
    memory_await_use(memory);
}

nearcall_client *memory_client(const struct script *script, uint32_t flags)
{
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    options.flags = flags;
    options.attempts_max = 1;
    nearcall_client *client = test_open_with(script->address, &options);
    CHECK(test_find(client, "f") != NULL);
    CHECK_CALL(client, nearcall_ping(client, 5000, NULL), NEARCALL_OK);
    CHECK(strcmp(nearcall_transport(client), "shared memory") == 0);
    return client;
}
