/* The caller's end of the memory that a connection shares with its server, as
 * spec/transports.md has it under "Shared memory": two regions, each written by one
 * side alone. Sizes and positions are kept here and never read back from there.
 *
 * The caller region is not inherited by a child (MADV_DONTFORK), so that a child can
 * never write what is its parent's: whoever writes it has made sure before that this
 * process is no child.
 *
 * May include: base, wire. */
#ifndef NC_MEMORY_H
#define NC_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/arena.h"
#include "wire/wire.h"

#define NC_MEMORY_SLOT_BYTES 128
#define NC_MEMORY_HEADER_OFFSET 8
#define NC_MEMORY_BODY_OFFSET (NC_MEMORY_HEADER_OFFSET + NC_FRAME_HEADER_BYTES)
#define NC_MEMORY_INLINE_BYTES (NC_MEMORY_SLOT_BYTES - NC_MEMORY_BODY_OFFSET)

typedef _Atomic uint32_t nc_word32;
typedef _Atomic uint64_t nc_word64;

/* The payload of MEMORY. */
struct nc_memory_offer {
    uint32_t slots;
    uint32_t marks;
    uint32_t arena_bytes;
    uint32_t spin_us;
};

struct nc_memory {
    uint8_t *caller; /* NULL: there is no memory to use */
    const uint8_t *server; /* NULL: nothing is mapped */
    size_t caller_bytes;
    size_t server_bytes;
    uint32_t slots_mask;
    uint32_t marks_mask;
    uint32_t arena_offset; /* of the server region */

    uint8_t *requests; /* slots */
    uint32_t put; /* frames put so far, modulo 2^32 */
    uint32_t free; /* of those, the ones that are known to be taken */
    uint8_t *begun; /* the slot that is being filled */
    uint32_t begun_place; /* of its body in the region; 0: in the slot */
    const nc_word32 *requests_taken;
    struct nc_arena arena;

    const uint8_t *replies; /* slots */
    const nc_word32 *next; /* the sequence of the slot that is expected */
    uint32_t seen; /* frames handled so far */
    bool held; /* the last of them is read in place still, so none is given back */
    nc_word32 *replies_taken;

    nc_word64 *caller_sleeps;
    nc_word64 *caller_sent; /* when this side last sent to a server that slept */
    nc_word64 *caller_cpu; /* where it runs, counted from 1 */
    const nc_word64 *server_sleeps;
    const nc_word64 *server_sent;
    const nc_word64 *server_cpu;
    uint64_t word; /* what caller_sleeps holds */
    uint64_t woken; /* the server's word for which WAKE was sent */
    const nc_word64 *marks;
    uint64_t first_id; /* of the calls that the marks tell about with certainty */
};

enum nc_mark { NC_MARK_NONE, NC_MARK_RECEIVED, NC_MARK_STARTED, NC_MARK_FINISHED, NC_MARK_UNKNOWN };

/* Whether this machine's words are those of the regions. */
bool nc_memory_is_possible(void);

void nc_memory_offer_decode(struct nc_memory_offer *offer, const uint8_t *payload);

/* Maps what MEMORY brought, after checking that it can neither shrink nor be smaller
 * than announced. The descriptors stay the caller's. 0, or -1: nothing is mapped. */
int nc_memory_attach(struct nc_memory *memory, const struct nc_memory_offer *offer,
                     int caller_fd, int server_fd);

/* Ends the use. A reply that is held stays readable until nc_memory_release(). */
void nc_memory_close(struct nc_memory *memory);

/* In a child. Where mappings may be half-way, they are left where they are. */
void nc_memory_orphan(struct nc_memory *memory, bool trust_memory);

/* Unmaps the regions of one that may be half changed, and touches nothing else of it. */
void nc_memory_abandon(struct nc_memory *memory);

static inline bool nc_memory_is_used(const struct nc_memory *memory)
{
    return memory->caller != NULL;
}

/* ---- Sending ---- */

static inline bool nc_memory_peer_sleeps(const struct nc_memory *memory)
{
    return atomic_load_explicit(memory->server_sleeps, memory_order_relaxed) & 1;
}

static inline bool nc_memory_peer_was_awake(const struct nc_memory *memory)
{
    return atomic_load_explicit(memory->server_sleeps, memory_order_relaxed) > 1;
}

/* Begins a body in the arena whose length is not known yet; NULL: there is no room. */
uint8_t *nc_memory_open_body(struct nc_memory *memory, uint32_t bytes);

/* Where header and body of the next frame go; false: there is no room. What is begun
 * is to be published. held: the body lies in the arena already, as
 * nc_memory_open_body() gave it. For a body in the arena the kernel may be asked for pages, and
 * nothing is written to the region yet: whoever fills it asks for a fork before and after this. */
bool nc_memory_begin(struct nc_memory *memory, size_t body_bytes, const uint8_t *held,
                     uint8_t **ret_header, uint8_t **ret_body);

/* Publishes the frame that was begun. True: the server may have fallen asleep without
 * seeing it, and WAKE is to be sent. */
bool nc_memory_publish(struct nc_memory *memory);

/* For a side that puts one frame after the other: the server has read what was in the next slots
 * before, and its processor takes some time to give their lines up. */
void nc_memory_expect(const struct nc_memory *memory);

/* ---- Taking ---- */

static inline bool nc_memory_is_ready(const struct nc_memory *memory)
{
    return atomic_load_explicit(memory->next, memory_order_acquire) == memory->seen + 1;
}

/* Reads the header of the frame that is there; the body stays where it is and may
 * be changed by a server that breaks the rules. The features are those of the
 * connection. 0, or -1 with *fault filled. */
int nc_memory_take(struct nc_memory *memory, uint64_t features, uint32_t frame_bytes_max,
                   struct nc_frame *ret_frame, const uint8_t **ret_body, struct nc_fault *fault);

/* Gives back what was taken, and the mapping if its use has ended meanwhile. */
void nc_memory_release(struct nc_memory *memory);

/* The same for a frame whose body is needed no longer; others may be held. */
static inline void nc_memory_done(struct nc_memory *memory)
{
    if (!memory->held)
        atomic_store_explicit(memory->replies_taken, memory->seen, memory_order_release);
}

/* ---- Sleeping ---- */

static inline bool nc_memory_is_awake(const struct nc_memory *memory)
{
    return (memory->word & 1) == 0;
}

/* From now on the socket is what wakes this side. False: a frame is there, which is
 * to be taken before anything is waited for. */
bool nc_memory_fall_asleep(struct nc_memory *memory);

/* From now on this side looks at its ring. */
static inline void nc_memory_awake(struct nc_memory *memory)
{
    if (!nc_memory_is_awake(memory))
        atomic_store_explicit(memory->caller_sleeps, ++memory->word, memory_order_release);
}

/* ---- Start marks ---- */

/* How far a call came. NC_MARK_NONE: the server has not received it.
 * NC_MARK_UNKNOWN: the marks do not tell. */
enum nc_mark nc_memory_mark(const struct nc_memory *memory, uint64_t call_id);

#endif
