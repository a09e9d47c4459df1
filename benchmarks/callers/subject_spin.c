/* The floor of shared memory: the caller's half of spin.h. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "caller.h"
#include "message.h"
#include "spin.h"

struct spin {
    int fd;
    struct spin_memory *memory;
    uint32_t sequence;
    uint8_t payload[SPIN_BYTES];
    uint8_t answer[SPIN_BYTES];
};

static int call(void *state)
{
    struct spin *spin = state;

    spin->sequence++;
    spin_put(&spin->memory->request, spin->sequence, spin->payload);
    spin_take(&spin->memory->reply, spin->sequence, spin->answer);
    return 0;
}

static int begin(void *state)
{
    struct spin *spin = state;
    char byte = 0;

    spin->sequence = 0;
    atomic_store(&spin->memory->request.sequence, 0);
    if (write(spin->fd, &byte, 1) != 1 || read(spin->fd, &byte, 1) != 1) {
        perror("caller: spin");
        return -1;
    }
    return 0;
}

static int end(void *state)
{
    struct spin *spin = state;
    char byte;

    atomic_store(&spin->memory->request.sequence, SPIN_STOP);
    if (read(spin->fd, &byte, 1) != 1) {
        perror("caller: spin");
        return -1;
    }
    return 0;
}

/* Maps the memory whose place the server tells. */
static struct spin_memory *map_memory(int fd)
{
    char path[SPIN_PATH_BYTES];
    void *memory;
    int memory_fd;

    if (recv(fd, path, sizeof path, MSG_WAITALL) != sizeof path)
        return NULL;
    memory_fd = open(path, O_RDWR | O_CLOEXEC);
    if (memory_fd < 0)
        return NULL;
    memory = mmap(NULL, sizeof(struct spin_memory), PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd, 0);
    close(memory_fd);
    return memory == MAP_FAILED ? NULL : memory;
}

/* One call whose answer is compared in full. */
static int try(struct spin *spin)
{
    if (begin(spin) != 0)
        return -1;
    call(spin);
    if (end(spin) != 0)
        return -1;
    if (memcmp(spin->answer, spin->payload, SPIN_BYTES) != 0) {
        fprintf(stderr, "caller: spin: the echo differs\n");
        return -1;
    }
    return 0;
}

static void *open_spin(const struct subject *subject, const char *address, size_t payload_bytes)
{
    struct spin *spin = calloc(1, sizeof *spin);
    const char *path = subject_path(address);

    (void)subject;
    if (spin == NULL || path == NULL)
        return NULL;
    if (payload_bytes != SPIN_BYTES) {
        fprintf(stderr, "caller: spin bounces %d bytes, not %zu\n", SPIN_BYTES, payload_bytes);
        return NULL;
    }
    subject_fill(spin->payload, SPIN_BYTES);
    spin->fd = message_connect(path);
    spin->memory = spin->fd < 0 ? NULL : map_memory(spin->fd);
    if (spin->memory == NULL || spin_hold(1) != 0) {
        perror(path);
        return NULL;
    }
    return try(spin) == 0 ? spin : NULL;
}

const struct subject spin_subjects[] = {{.name = "spin", .open = open_spin, .call = call, .begin = begin, .end = end}, {0}};
