/* The bytes behind a ring in which large bodies lie. They are lent in the order of
 * the frames and come back in the same order. Only what this side did is known
 * here; nothing of it lies in the region. */
#ifndef NC_ARENA_H
#define NC_ARENA_H

#include <stdbool.h>
#include <stdint.h>

struct nc_lent {
    uint32_t start;
    uint32_t bytes; /* 0: the frame's body lies in its slot */
};

struct nc_arena {
    uint8_t *pages;
    uint32_t bytes;
    uint32_t populated; /* bytes from the start whose pages exist */
    uint32_t head; /* where the next body may begin */
    uint32_t tail; /* where the oldest body begins */
    uint32_t live; /* bodies lent */
    bool wrapped;
    bool open; /* a body is being written whose length is not known yet */
    uint32_t open_start;
    uint32_t open_end; /* how far it may grow */
    struct nc_lent *lent; /* by slot; owned */
};

/* Room for a body, to be lent by nc_arena_lend(); NULL: there is none. */
uint8_t *nc_arena_find(struct nc_arena *arena, uint32_t bytes);
void nc_arena_lend(struct nc_arena *arena, const uint8_t *body, uint32_t bytes, uint32_t slot);
void nc_arena_give_back(struct nc_arena *arena, uint32_t slot);

/* Begins a body of at least that many bytes. Until it is lent or dropped there is
 * room for no other. NULL: there is none. */
uint8_t *nc_arena_open(struct nc_arena *arena, uint32_t bytes);

/* Makes sure that the open body has room for that many bytes in all. */
bool nc_arena_grow(struct nc_arena *arena, uint32_t bytes);

static inline bool nc_arena_is_open_at(const struct nc_arena *arena, const uint8_t *body)
{
    return arena->open && body == arena->pages + arena->open_start;
}

static inline void nc_arena_drop(struct nc_arena *arena)
{
    arena->open = false;
}

#endif
