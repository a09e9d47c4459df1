/* The server's side of shared memory, as a script plays it: it makes the regions,
 * hands them over, and takes and puts frames one by one, rightly or wrongly. */
#ifndef SCRIPT_MEMORY_H
#define SCRIPT_MEMORY_H

#include <stdatomic.h>

#include "memory/memory.h"
#include "script.h"

struct script_memory {
    struct nc_memory_offer offer;
    int caller_fd;
    int server_fd;
    size_t caller_bytes; /* what the geometry asks for */
    size_t server_bytes;
    uint8_t *caller;
    uint8_t *server;
    uint32_t taken;
    uint32_t put;
    uint32_t arena_next;
    uint64_t word;
    uint64_t woken;
};

/* A geometry as servers have it, with arenas of 1 MiB. */
#define SCRIPT_OFFER {128, 512, 1 << 20, 50}

/* Makes regions for an offer, also an illegal one, and maps them. They are asleep. */
void memory_make(struct script_memory *memory, struct nc_memory_offer offer);
void memory_seal(struct script_memory *memory);
void memory_end(struct script_memory *memory);

/* Sends MEMORY with these descriptors; fewer where they are -1. */
void memory_send_offer(struct script *script, const struct nc_memory_offer *offer, int caller_fd,
                       int server_fd);

/* Makes, seals, hands over, and is awake. */
void memory_give(struct script *script, struct script_memory *memory, struct nc_memory_offer offer);

/* Waits until the caller uses it: its word is even for the first time. */
void memory_await_use(struct script_memory *memory);

nc_word64 *memory_caller_sleeps(struct script_memory *memory);
void memory_awake(struct script_memory *memory);
bool memory_fall_asleep(struct script_memory *memory); /* false: a frame is there */
bool memory_caller_is_asleep(struct script_memory *memory);
void memory_await_sleep(struct script_memory *memory);

/* The body goes to payload and is at most SCRIPT_PAYLOAD_MAX. */
bool memory_take(struct script_memory *memory, struct nc_frame *frame, uint8_t *payload);
void memory_expect(struct script_memory *memory, enum nc_frame_type type, struct nc_frame *frame);

/* Where the next slot is, and publishing it as it is. */
uint8_t *memory_slot(struct script_memory *memory);
void memory_publish(struct script_memory *memory);

void memory_wake(struct script *script);

/* True: WAKE is to be sent. */
bool memory_put(struct script_memory *memory, const struct nc_frame *frame, const void *payload);
bool memory_reply(struct script_memory *memory, const struct nc_frame *request, const void *data,
                  size_t bytes);
void memory_mark(struct script_memory *memory, uint64_t call_id, enum nc_mark stage);

/* Answers whatever comes either way, as script_serve() does, until the caller closes;
 * sleeps when there is nothing. */
void memory_serve(struct script *script, struct script_memory *memory);

/* Greets, answers one call over the socket and gives memory then; returns when the
 * caller uses it. memory_client() is the test's side of that. */
void memory_begin(struct script *script, struct script_memory *memory,
                  struct nc_memory_offer offer);
nearcall_client *memory_client(const struct script *script, uint32_t flags);

#endif
