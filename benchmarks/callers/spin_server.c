/*
 * The server's half of spin.h: echoes through shared memory, one caller at a time.
 *
 *     spin_server PATH
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "message.h"
#include "spin.h"

static struct spin_memory *memory;
static char memory_path[SPIN_PATH_BYTES];

static int map_memory(void)
{
    int fd = memfd_create("spin", MFD_CLOEXEC);

    if (fd < 0 || ftruncate(fd, sizeof *memory) != 0)
        return -1;
    memory = mmap(NULL, sizeof *memory, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return -1;
    snprintf(memory_path, sizeof memory_path, "/proc/%d/fd/%d", (int)getpid(), fd);
    return 0;
}

static void echo_small(struct spin_memory *memory)
{
    uint8_t data[SPIN_BYTES];
    uint32_t sequence = 1;

    while (spin_take(&memory->request, sequence, data) != SPIN_STOP)
        spin_put(&memory->reply, sequence++, data);
}

static void echo_large(struct spin_memory *memory)
{
    uint32_t sequence = 1;

    while (spin_await(&memory->request, sequence) != SPIN_STOP) {
        memcpy(memory->large_reply, memory->large_request, memory->bytes);
        spin_publish(&memory->reply, sequence++);
    }
}

/* Serves runs until the caller closes. */
static int serve(int fd)
{
    char byte;

    if (write(fd, memory_path, sizeof memory_path) != sizeof memory_path)
        return -1;
    while (read(fd, &byte, 1) == 1) {
        atomic_store(&memory->reply.sequence, 0);
        if (write(fd, &byte, 1) != 1)
            return -1;
        if (memory->bytes > SPIN_BYTES)
            echo_large(memory);
        else
            echo_small(memory);
        /* Only now may the caller write over SPIN_STOP. */
        if (write(fd, &byte, 1) != 1)
            return -1;
    }
    return close(fd);
}

int main(int argc, char **argv)
{
    if (map_memory() != 0 || spin_hold(0) != 0) {
        perror("spin_server");
        return 1;
    }
    return message_serve(argc, argv, serve);
}
