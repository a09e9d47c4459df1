#include "memory/arena.h"

#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALIGNMENT 64u
/* Pages come in steps of this size: few calls, and little that is never used. */
#define GROWTH_BYTES 65536u

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static uint32_t align(uint32_t offset)
{
    return (offset + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
}

/* A page that the machine cannot provide would otherwise be a deadly signal. */
static bool populate(struct nc_arena *arena, uint32_t end)
{
    if (end <= arena->populated)
        return true;
    uint32_t until = (end + GROWTH_BYTES - 1) & ~(GROWTH_BYTES - 1);
    if (until > arena->bytes)
        until = arena->bytes;
    uintptr_t from = (uintptr_t)(arena->pages + arena->populated);
    uintptr_t in_page = from % (uintptr_t)sysconf(_SC_PAGESIZE); /* small rings end within a page */
    if (madvise((void *)(from - in_page), in_page + until - arena->populated, MADV_POPULATE_WRITE) != 0)
        return false;
    arena->populated = until;
    return true;
}

/* Where a body of that many bytes may begin, and how far it may reach. */
static bool find(struct nc_arena *arena, uint32_t bytes, uint32_t *ret_start, uint32_t *ret_end)
{
    if (arena->live == 0) {
        arena->head = arena->tail = 0;
        arena->wrapped = false;
    }
    *ret_start = arena->head;
    *ret_end = arena->wrapped ? arena->tail : arena->bytes;
    if (*ret_start <= *ret_end && bytes <= *ret_end - *ret_start)
        return true;
    *ret_start = 0;
    *ret_end = arena->tail;
    return !arena->wrapped && arena->live > 0 && bytes <= arena->tail;
}

uint8_t *nc_arena_find(struct nc_arena *arena, uint32_t bytes)
{
    uint32_t start, end;
    if (arena->open || bytes > arena->bytes || !find(arena, bytes, &start, &end) ||
        !populate(arena, start + bytes))
        return NULL;
    return arena->pages + start;
}

void nc_arena_lend(struct nc_arena *arena, const uint8_t *body, uint32_t bytes, uint32_t slot)
{
    uint32_t start = (uint32_t)(body - arena->pages);
    if (arena->live == 0) {
        arena->tail = start;
        arena->wrapped = false;
    } else if (start < arena->head) {
        arena->wrapped = true;
    }
    arena->head = align(start + bytes);
    arena->live++;
    arena->lent[slot] = (struct nc_lent){start, bytes};
}

void nc_arena_give_back(struct nc_arena *arena, uint32_t slot)
{
    struct nc_lent *lent = &arena->lent[slot];
    if (lent->bytes == 0)
        return;
    if (lent->start < arena->tail)
        arena->wrapped = false;
    arena->tail = align(lent->start + lent->bytes);
    arena->live--;
    lent->bytes = 0;
}

uint8_t *nc_arena_open(struct nc_arena *arena, uint32_t bytes)
{
    uint32_t start, end;
    if (arena->open || bytes > arena->bytes || !find(arena, bytes, &start, &end) ||
        !populate(arena, start + bytes))
        return NULL;
    arena->open = true;
    arena->open_start = start;
    arena->open_end = end;
    return arena->pages + start;
}

bool nc_arena_grow(struct nc_arena *arena, uint32_t bytes)
{
    return bytes <= arena->open_end - arena->open_start &&
           populate(arena, arena->open_start + bytes);
}
