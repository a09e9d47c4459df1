/*
 * The server's half of spin.h: echoes 64 bytes through shared memory, one caller
 * at a time.
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

static struct spin_memory *map_memory(char ret_path[SPIN_PATH_BYTES])
{
    int fd = memfd_create("spin", MFD_CLOEXEC);
    void *memory;

    if (fd < 0 || ftruncate(fd, sizeof(struct spin_memory)) != 0)
        return NULL;
    memory = mmap(NULL, sizeof(struct spin_memory), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return NULL;
    snprintf(ret_path, SPIN_PATH_BYTES, "/proc/%d/fd/%d", (int)getpid(), fd);
    return memory;
}

static void echo(struct spin_memory *memory)
{
    uint8_t data[SPIN_BYTES];
    uint32_t sequence = 1;

    while (spin_take(&memory->request, sequence, data) != SPIN_STOP)
        spin_put(&memory->reply, sequence++, data);
}

/* Serves runs until the caller closes. */
static int serve(int fd, struct spin_memory *memory, const char *path)
{
    char byte;

    if (write(fd, path, SPIN_PATH_BYTES) != SPIN_PATH_BYTES)
        return -1;
    while (read(fd, &byte, 1) == 1) {
        atomic_store(&memory->reply.sequence, 0);
        if (write(fd, &byte, 1) != 1)
            return -1;
        echo(memory);
        /* Only now may the caller write over SPIN_STOP. */
        if (write(fd, &byte, 1) != 1)
            return -1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    char path[SPIN_PATH_BYTES] = "";
    struct spin_memory *memory;
    int listener;

    if (argc != 2) {
        fprintf(stderr, "usage: spin_server PATH\n");
        return 2;
    }
    memory = map_memory(path);
    listener = memory == NULL || spin_hold(0) != 0 ? -1 : message_listen(argv[1]);
    if (listener < 0) {
        perror(argv[1]);
        return 1;
    }
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

        if (fd < 0 || serve(fd, memory, path) != 0) {
            perror("spin_server");
            return 1;
        }
        close(fd);
    }
}
