/* Client and server of one connection's memory as two threads that call as fast as they
 * can, for ThreadSanitizer: in that build both map a region at the same address, so
 * that it sees what one writes and the other reads. Linked with --wrap. */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "handle/handle.h"
#include "script_memory.h"

/* ---- One mapping a file ---- */

void *__real_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
int __real_munmap(void *address, size_t bytes);
int __wrap_munmap(void *address, size_t bytes);

static struct {
    void *address;
    size_t bytes;
    ino_t inode;
    int users;
} shared[8];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *find_or_map(size_t bytes, int fd)
{
    struct stat status;
    size_t at = 0;
    if (fstat(fd, &status) != 0)
        return MAP_FAILED;
    while (shared[at].users && shared[at].inode != status.st_ino)
        at++;
    CHECK(at < sizeof(shared) / sizeof(shared[0]));
    if (shared[at].users++ == 0) {
        shared[at].address = __real_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        shared[at].bytes = bytes;
        shared[at].inode = status.st_ino;
    }
    return shared[at].address;
}

void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    if (fd < 0)
        return __real_mmap(address, bytes, protection, flags, fd, offset);
    pthread_mutex_lock(&lock);
    void *region = find_or_map(bytes, fd);
    pthread_mutex_unlock(&lock);
    return region;
}

int __wrap_munmap(void *address, size_t bytes)
{
    int r = 0;
    pthread_mutex_lock(&lock);
    size_t at = 0;
    while (at < 8 && !(shared[at].users && shared[at].address == address))
        at++;
    if (at == 8 || --shared[at].users == 0)
        r = __real_munmap(address, bytes);
    pthread_mutex_unlock(&lock);
    return r;
}

/* ---- Calls ---- */

static void serve(struct script *script)
{
    struct script_memory memory;
    struct nc_memory_offer offer = {32, 512, 65536, 50};
    memory_begin(script, &memory, offer);
    memory_serve(script, &memory);
    memory_end(&memory);
}

static void call_all_ways(nearcall_client *client, nearcall_function *function, int round)
{
    static uint8_t data[20000];
    nearcall_call_id calls[32];
    nearcall_reply reply;
    size_t bytes = (size_t)round * 977 % sizeof(data);
    memset(data, round, bytes);
    CHECK_CALL(client, nearcall_call(client, "f", data, bytes, 20000, &reply), NEARCALL_OK);
    CHECK(reply.bytes == bytes && memcmp(reply.data, data, bytes) == 0);
    int count = round % 32;
    for (int i = 0; i < count; i++) {
        CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
        nearcall_put_raw(client, data, (size_t)i * 211);
        CHECK_CALL(client, nearcall_request_send(client, 20000, &calls[i]), NEARCALL_OK);
    }
    for (int i = count - 1; i >= 0; i--) {
        CHECK_CALL(client, nearcall_wait(client, calls[i], &reply), NEARCALL_OK);
        CHECK_INT(reply.bytes, (size_t)i * 211);
        CHECK(reply.bytes == 0 || reply.data[reply.bytes - 1] == data[0] || reply.bytes > bytes);
    }
}

static void race(uint32_t flags, int rounds)
{
    struct script script;
    script_start(&script, serve, NULL);
    nearcall_client *client = memory_client(&script, flags);
    nearcall_function *function = test_find(client, "f");
    for (int round = 0; round < rounds; round++)
        call_all_ways(client, function, round);
    nearcall_close(client);
    script_end(&script);
}

int main(void)
{
    int rounds = (int)test_parameter("NEARCALL_TEST_ROUNDS", 1000);
    test_begin();
    race(0, rounds);
    race(NEARCALL_SPIN_OFF, rounds);
    race(NEARCALL_NONBLOCKING, rounds);
    return 0;
}
