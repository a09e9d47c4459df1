/* What a caller makes of MEMORY: it uses what is sound, and goes on with the socket and
 * the same answers where anything is not. Nothing stays open. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "memory/sealed.h"
#include "script_memory.h"

#define HUGE_PAGE_BYTES (2u << 20)

enum damage {
    NONE,
    NO_SEALS,
    CALLER_UNSEALED,
    SERVER_UNSEALED,
    TOO_SHORT,
    TOO_LONG,
    NOT_A_FILE,
    NO_DESCRIPTORS,
    ONE_DESCRIPTOR,
    SWAPPED,
    HUGE_PAGES,
};

struct offer_case {
    struct nc_memory_offer offer;
    enum damage damage;
    bool used;
};

static const struct offer_case cases[] = {
    {{128, 512, 1 << 20, 50}, NONE, true},
    {{32, 512, 0, 0}, NONE, true},
    {{16, 512, 0, 0}, NONE, false},
    {{4096, 65536, 4096, 1000000}, NONE, true},
    {{4, 512, 0, 50}, NONE, false},
    {{8192, 512, 0, 50}, NONE, false},
    {{100, 512, 0, 50}, NONE, false},
    {{0, 512, 0, 50}, NONE, false},
    {{128, 256, 0, 50}, NONE, false},
    {{128, 1536, 0, 50}, NONE, false},
    {{128, 131072, 0, 50}, NONE, false},
    {{128, 0, 0, 50}, NONE, false},
    {{128, 512, 100, 50}, NONE, false},
    {{128, 512, (16 << 20) + 4096, 50}, NONE, false},
    {{128, 512, 8192, 50}, NO_SEALS, false},
    {{128, 512, 8192, 50}, CALLER_UNSEALED, false},
    {{128, 512, 8192, 50}, SERVER_UNSEALED, false},
    {{128, 512, 8192, 50}, TOO_SHORT, false},
    {{128, 512, 8192, 50}, TOO_LONG, false},
    {{128, 512, 8192, 50}, NOT_A_FILE, false},
    {{128, 512, 8192, 50}, NO_DESCRIPTORS, false},
    {{128, 512, 8192, 50}, ONE_DESCRIPTOR, false},
    {{128, 1024, 8192, 50}, SWAPPED, false},
    {{64, 512, HUGE_PAGE_BYTES - 4 * 4096, 50}, HUGE_PAGES, false},
};

static void seal(int fd, int seals)
{
    CHECK(fcntl(fd, F_ADD_SEALS, seals) == 0);
}

/* Takes the place of the server's region. The pages that it would have are not needed to find out. */
static void exchange_pages(struct script_memory *memory)
{
    int fd = memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
    CHECK(fd >= 0 && memory->server_bytes == HUGE_PAGE_BYTES && ftruncate(fd, HUGE_PAGE_BYTES) == 0);
    CHECK(dup2(fd, memory->server_fd) >= 0);
    close(fd);
}

/* Where a machine has no such pages, the offer fails anyway; where it has some, this is what refuses it. */
static void check_fault(int fd)
{
    struct stat status;
    const char *fault = nc_memory_file_fault(fd, &status);
    CHECK(fault && strstr(fault, "no file in memory"));
}

static void damage(struct script_memory *memory, enum damage kind)
{
    const int all = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    if (kind == TOO_SHORT)
        CHECK(ftruncate(memory->server_fd, (off_t)memory->server_bytes - 4096) == 0);
    if (kind == TOO_LONG)
        CHECK(ftruncate(memory->caller_fd, (off_t)memory->caller_bytes + 1) == 0);
    if (kind == HUGE_PAGES)
        exchange_pages(memory);
    if (kind != NO_SEALS) {
        seal(memory->caller_fd, kind == CALLER_UNSEALED ? F_SEAL_SHRINK | F_SEAL_SEAL : all);
        seal(memory->server_fd, kind == SERVER_UNSEALED ? F_SEAL_SHRINK | F_SEAL_GROW : all);
    }
    if (kind == HUGE_PAGES)
        check_fault(memory->server_fd);
}

static void offer(struct script *script, struct script_memory *memory, enum damage kind)
{
    int none = kind == NOT_A_FILE ? open("/dev/null", O_RDWR | O_CLOEXEC) : -1;
    int caller = kind == NO_DESCRIPTORS ? -1 : kind == NOT_A_FILE ? none : memory->caller_fd;
    int server = kind == NO_DESCRIPTORS || kind == ONE_DESCRIPTOR ? -1 : memory->server_fd;
    if (kind == SWAPPED)
        memory_send_offer(script, &memory->offer, server, caller);
    else
        memory_send_offer(script, &memory->offer, caller, server);
    if (none >= 0)
        close(none);
}

static void play(struct script *script)
{
    const struct offer_case *c = script->argument;
    struct script_memory memory;
    struct nc_frame frame;
    script->features |= NC_FEATURE_SHARED_MEMORY;
    memory_make(&memory, c->offer);
    damage(&memory, c->damage);
    memory_awake(&memory);
    script_greet(script);
    script_expect(script, NC_REQUEST, &frame);
    offer(script, &memory, c->damage);
    script_reply(script, &frame, "x", 1);
    if (c->used)
        memory_serve(script, &memory);
    else
        script_serve(script);
    CHECK_INT(atomic_load(memory_caller_sleeps(&memory)) != 1, c->used);
    memory_end(&memory);
}

static void check(const struct offer_case *c, uint32_t flags)
{
    struct script script;
    nearcall_reply reply;
    nearcall_client *client;
    int descriptors = test_open_descriptors();
    script_start(&script, play, (void *)(uintptr_t)c);
    client = test_open(script.address, flags);
    CHECK_INT(strlen(nearcall_transport(client)), 0);
    for (int i = 0; i < 50; i++) {
        CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 5000, &reply), NEARCALL_OK);
        CHECK(reply.bytes == 1 && reply.data[0] == 'x');
    }
    CHECK(strcmp(nearcall_transport(client), c->used ? "shared memory" : "unix socket") == 0);
    nearcall_close(client);
    script_end(&script);
    CHECK_INT(test_open_descriptors(), descriptors);
}

/* The kernel cannot give descriptors to a process that has as many as it may. */
static void no_descriptors_left(void)
{
    static const struct offer_case c = {SCRIPT_OFFER, NONE, false};
    struct script script;
    struct rlimit former, limit;
    nearcall_reply reply;
    int open_now = test_open_descriptors();
    script_start(&script, play, (void *)(uintptr_t)&c);
    nearcall_client *client = test_open(script.address, 0);
    CHECK_CALL(client, nearcall_connect(client, 5000), NEARCALL_OK);
    CHECK(getrlimit(RLIMIT_NOFILE, &former) == 0);
    limit = former;
    limit.rlim_cur = 3;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    for (int i = 0; i < 5; i++)
        CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 5000, &reply), NEARCALL_OK);
    CHECK(setrlimit(RLIMIT_NOFILE, &former) == 0);
    CHECK(strcmp(nearcall_transport(client), "unix socket") == 0);
    nearcall_close(client);
    script_end(&script);
    CHECK_INT(test_open_descriptors(), open_now);
}

/* ---- What was not agreed to ---- */

/* The kernel does not refuse it (SO_PASSRIGHTS) to the sender, as before Linux 6.16. */
int __real_setsockopt(int fd, int level, int option, const void *value, socklen_t bytes);
int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t bytes);

int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t bytes)
{
    enum { PASSRIGHTS = 83 };
    if (level != SOL_SOCKET || option != PASSRIGHTS)
        return __real_setsockopt(fd, level, option, value, bytes);
    errno = ENOPROTOOPT;
    return -1;
}

static void send_with_descriptors(struct script *script, const struct nc_frame *frame,
                                  const void *payload)
{
    struct script_memory memory;
    struct nc_memory_offer geometry = SCRIPT_OFFER;
    uint8_t bytes[64];
    union {
        struct cmsghdr header;
        uint8_t bytes[CMSG_SPACE(2 * sizeof(int))];
    } room = {0};
    struct iovec part = {bytes, NC_FRAME_HEADER_BYTES + (size_t)frame->length};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &room,
                             .msg_controllen = sizeof(room)};
    memory_make(&memory, geometry);
    int fds[2] = {memory.caller_fd, memory.server_fd};
    nc_frame_encode(bytes, frame);
    memcpy(bytes + NC_FRAME_HEADER_BYTES, payload, frame->length);
    room.header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS,
                                   .cmsg_len = CMSG_LEN(sizeof(fds))};
    memcpy(CMSG_DATA(&room.header), fds, sizeof(fds));
    CHECK(sendmsg(script->fd, &message, MSG_NOSIGNAL) > 0);
    memory_end(&memory);
}

static void descriptors_with_a_reply(struct script *script)
{
    struct nc_frame frame;
    script->features |= (uint64_t)(uintptr_t)script->argument;
    script_greet(script);
    script_expect(script, NC_REQUEST, &frame);
    struct nc_frame reply = {.type = NC_REPLY, .call_id = frame.call_id, .length = 1,
                             .function_id = SCRIPT_FUNCTION_ID};
    send_with_descriptors(script, &reply, "x");
    (void)script_read_end(script);
}

static void second_memory(struct script *script)
{
    struct script_memory memory;
    struct nc_memory_offer geometry = SCRIPT_OFFER;
    struct nc_frame frame;
    (void)geometry;
    memory_begin(script, &memory, geometry);
    memory_expect(&memory, NC_REQUEST, &frame);
    memory_send_offer(script, &memory.offer, -1, -1);
    (void)script_read_end(script);
    memory_end(&memory);
}

static void memory_without_the_feature(struct script *script)
{
    struct nc_memory_offer geometry = SCRIPT_OFFER;
    struct nc_frame frame;
    script_greet(script);
    script_expect(script, NC_REQUEST, &frame);
    memory_send_offer(script, &geometry, -1, -1);
    (void)script_read_end(script);
}

static void refused(void (*script_play)(struct script *), void *argument, const char *said)
{
    struct script script;
    nearcall_reply reply;
    int descriptors = test_open_descriptors();
    script_start(&script, script_play, argument);
    nearcall_client *client = script_play == second_memory ? memory_client(&script, 0)
                                                           : test_open(script.address, 0);
    int r = nearcall_call(client, "f", "x", 1, 5000, &reply);
    if (r == NEARCALL_OK) /* it had arrived whole before the descriptors were looked at */
        CHECK_INT(nearcall_transport(client)[0], 0);
    else
        CHECK_CALL(client, r, NEARCALL_E_INTERNAL);
    if (r != NEARCALL_OK)
        CHECK(strstr(nearcall_error_message(client), said) != NULL);
    nearcall_close(client);
    script_end(&script);
    CHECK_INT(test_open_descriptors(), descriptors);
}

/* ---- Who does not want it offers nothing ---- */

static void look_at_the_offer(struct script *script)
{
    uint8_t hello[256];
    script_accept(script);
    CHECK(recv(script->fd, hello, sizeof(hello), 0) > 64);
    CHECK_INT(nc_get_u64(hello + 16) & NC_FEATURE_SHARED_MEMORY, script->argument ? 8 : 0);
}

static void offered(const char *parameters, uint32_t flags, bool expected)
{
    struct script script;
    char address[200];
    script_start(&script, look_at_the_offer, expected ? "" : NULL);
    snprintf(address, sizeof(address), "%s%s", script.address, parameters);
    nearcall_client *client = test_open(address, flags);
    CHECK_CALL(client, nearcall_connect(client, 5000), NEARCALL_E_UNAVAILABLE);
    nearcall_close(client);
    script_end(&script);
}

int main(void)
{
    test_begin();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        check(&cases[i], i % 2 ? NEARCALL_NONBLOCKING : 0);
    no_descriptors_left();
    refused(descriptors_with_a_reply, (void *)0, "descriptors");
    refused(descriptors_with_a_reply, (void *)8, "descriptors");
    refused(second_memory, NULL, "MEMORY");
    refused(memory_without_the_feature, NULL, "type");
    offered("", 0, true);
    offered("?shm=auto", 0, true);
    offered("?shm=off", 0, false);
    offered("", NEARCALL_NO_SHARED_MEMORY, false);
    offered("?shm=auto", NEARCALL_NO_SHARED_MEMORY, false);
    return 0;
}
