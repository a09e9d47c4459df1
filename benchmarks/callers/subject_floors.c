/*
 * What calls cannot do without:
 *
 * bare: a message with its length before it, and the same back.
 *
 * bare-reconnect: the same with a connection for every call, as short calls of the simple protocol have one.
 *
 * spin: bytes through shared memory; the caller's half of spin.h.
 *
 * memcpy: what copying a payload costs in one process. An echo through shared memory touches four buffers, the caller's,
 * one in each region, and the server's own; so four are copied around in a ring, which keeps them as warm as an echo's.
 *
 * cgo: an empty function of a Go library: what entering Go costs, with nothing around it.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "caller.h"
#include "message.h"
#include "spin.h"

struct bare {
    const char *path;
    int fd;
    size_t bytes; /* of the message with its prefix */
    uint8_t *message;
    struct message_buffer answer;
};

static int call_bare(void *state)
{
    struct bare *bare = state;

    if (message_send(bare->fd, bare->message, bare->bytes) != 0 ||
        message_receive(bare->fd, &bare->answer) != (ssize_t)bare->bytes)
        return subject_failed("bare echo");
    return 0;
}

static int connect_bare(struct bare *bare)
{
    bare->fd = message_connect(bare->path);
    return bare->fd >= 0 ? 0 : subject_failed(bare->path);
}

static int call_bare_reconnecting(void *state)
{
    struct bare *bare = state;
    int failed;

    if (connect_bare(bare) != 0)
        return -1;
    failed = call_bare(bare);
    close(bare->fd);
    return failed;
}

static int open_bare(const struct subject *subject, void *state, const char *address, size_t payload_bytes)
{
    struct bare *bare = state;

    bare->path = subject_path(address);
    if (bare->path == NULL)
        return -1;
    bare->bytes = MESSAGE_PREFIX_BYTES + payload_bytes;
    bare->message = malloc(bare->bytes);
    if (bare->message == NULL)
        return subject_failed(address);
    message_prefix(bare->message, payload_bytes);
    subject_fill(bare->message + MESSAGE_PREFIX_BYTES, payload_bytes);
    if ((subject->call == call_bare && connect_bare(bare) != 0) || subject->call(bare) != 0)
        return -1;
    return subject_compare(bare->answer.data, bare->message, bare->bytes);
}

struct spin {
    int fd;
    struct spin_memory *memory;
    uint32_t sequence;
    size_t bytes;
    uint8_t *payload;
    uint8_t *answer;
};

static void bounce_large(struct spin *spin)
{
    memcpy(spin->memory->large_request, spin->payload, spin->bytes);
    spin_publish(&spin->memory->request, spin->sequence);
    spin_await(&spin->memory->reply, spin->sequence);
    memcpy(spin->answer, spin->memory->large_reply, spin->bytes);
}

static int call_spin(void *state)
{
    struct spin *spin = state;

    spin->sequence++;
    if (spin->bytes > SPIN_BYTES) {
        bounce_large(spin);
        return 0;
    }
    spin_put(&spin->memory->request, spin->sequence, spin->payload);
    spin_take(&spin->memory->reply, spin->sequence, spin->answer);
    return 0;
}

static int begin_spin(void *state)
{
    struct spin *spin = state;
    char byte = 0;

    spin->sequence = 0;
    spin->memory->bytes = (uint32_t)spin->bytes;
    atomic_store(&spin->memory->request.sequence, 0);
    return write(spin->fd, &byte, 1) == 1 && read(spin->fd, &byte, 1) == 1 ? 0 : subject_failed("spin");
}

static int end_spin(void *state)
{
    struct spin *spin = state;
    char byte;

    atomic_store(&spin->memory->request.sequence, SPIN_STOP);
    return read(spin->fd, &byte, 1) == 1 ? 0 : subject_failed("spin");
}

/* Maps the memory whose place the server tells; NULL and errno. */
static struct spin_memory *map_memory(int fd)
{
    char path[SPIN_PATH_BYTES];
    void *memory;
    int memory_fd;

    if (recv(fd, path, sizeof path, MSG_WAITALL) != sizeof path || (memory_fd = open(path, O_RDWR | O_CLOEXEC)) < 0)
        return NULL;
    memory = mmap(NULL, sizeof(struct spin_memory), PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd, 0);
    close(memory_fd);
    return memory == MAP_FAILED ? NULL : memory;
}

static int open_spin(const struct subject *subject, void *state, const char *address, size_t payload_bytes)
{
    struct spin *spin = state;
    const char *path = subject_path(address);

    (void)subject;
    if (path == NULL)
        return -1;
    if (payload_bytes < SPIN_BYTES || payload_bytes > SPIN_LARGE_BYTES_MAX) {
        fprintf(stderr, "caller: spin bounces %d to %d bytes, not %zu\n", SPIN_BYTES, SPIN_LARGE_BYTES_MAX, payload_bytes);
        return -1;
    }
    spin->bytes = payload_bytes;
    spin->payload = subject_payload(payload_bytes);
    spin->answer = calloc(1, payload_bytes);
    if (spin->payload == NULL || spin->answer == NULL)
        return -1;
    spin->fd = message_connect(path);
    spin->memory = spin->fd < 0 ? NULL : map_memory(spin->fd);
    if (spin->memory == NULL || spin_hold(1) != 0)
        return subject_failed(path);
    if (begin_spin(spin) != 0 || call_spin(spin) != 0 || end_spin(spin) != 0)
        return -1;
    return subject_compare(spin->answer, spin->payload, payload_bytes);
}

enum { BUFFERS = 4 };

struct copies {
    size_t bytes;
    unsigned next;
    uint8_t *buffers[BUFFERS];
};

static int call_memcpy(void *state)
{
    struct copies *copies = state;
    uint8_t *from = copies->buffers[copies->next % BUFFERS];
    uint8_t *to = copies->buffers[++copies->next % BUFFERS];

    memcpy(to, from, copies->bytes);
    /* The copy must be made although nobody here reads it. */
    __asm__ volatile("" : : "r"(to) : "memory");
    return 0;
}

static int open_memcpy(const struct subject *subject, void *state, const char *address, size_t payload_bytes)
{
    struct copies *copies = state;

    (void)subject;
    (void)address;
    copies->bytes = payload_bytes;
    for (int i = 0; i < BUFFERS; i++) {
        if ((copies->buffers[i] = subject_payload(payload_bytes)) == NULL)
            return -1;
    }
    return 0;
}

struct library {
    void (*empty)(void);
};

static int call_cgo(void *state)
{
    const struct library *library = state;

    library->empty();
    return 0;
}

/* address is "embed:" and the library's path. */
static int open_cgo(const struct subject *subject, void *state, const char *address, size_t payload_bytes)
{
    struct library *library = state;
    void *handle = dlopen(strchr(address, ':') + 1, RTLD_NOW);

    (void)subject;
    (void)payload_bytes;
    if (handle != NULL)
        *(void **)&library->empty = dlsym(handle, "empty");
    if (library->empty == NULL) {
        fprintf(stderr, "caller: %s\n", dlerror());
        return -1;
    }
    return call_cgo(library);
}

const struct subject floor_subjects[] = {
    {.name = "bare", .state_bytes = sizeof(struct bare), .open = open_bare, .call = call_bare},
    {.name = "bare-reconnect", .state_bytes = sizeof(struct bare), .open = open_bare, .call = call_bare_reconnecting},
    {.name = "spin", .state_bytes = sizeof(struct spin), .open = open_spin, .call = call_spin, .begin = begin_spin, .end = end_spin},
    {.name = "memcpy", .state_bytes = sizeof(struct copies), .open = open_memcpy, .call = call_memcpy},
    {.name = "cgo", .state_bytes = sizeof(struct library), .open = open_cgo, .call = call_cgo},
    {0}};
