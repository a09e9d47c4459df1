#include "handoff_test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "c_library.h"

void handoff_check(const char *file, int line, const char *what, const nearcall_handoff *handoff,
                   int actual, int expected)
{
    if (actual == expected)
        return;
    fprintf(stderr, "%s:%d: %s returned %s, expected %s\n  message: %s\n", file, line, what,
            nearcall_code_name(actual), nearcall_code_name(expected),
            nearcall_handoff_error_message(handoff));
    exit(1);
}

const char *handoff_address(void)
{
    static char address[160];
    static int count;
    snprintf(address, sizeof(address), "unix:%s/handoff%d.sock", test_directory(), ++count);
    return address;
}

nearcall_handoff *handoff_listen(const char *address, uint32_t flags)
{
    nearcall_handoff_options options = NEARCALL_HANDOFF_OPTIONS_INIT;
    nearcall_handoff *handoff;
    options.flags = flags;
    CHECK_HANDOFF(handoff, nearcall_handoff_listen(&handoff, address, &options), NEARCALL_OK);
    return handoff;
}

struct connecting {
    const char *address;
    nearcall_handoff_options options;
    nearcall_handoff *handoff;
    int result;
    atomic_bool done;
};

static void *run_connect(void *argument)
{
    struct connecting *c = argument;
    c->result = nearcall_handoff_connect(&c->handoff, c->address, &c->options, PATIENCE_MS);
    c->done = true;
    return NULL;
}

nearcall_handoff *handoff_connect(const char *address, uint32_t flags, nearcall_handoff *taker)
{
    pthread_t thread;
    struct connecting c = {.address = address, .options = NEARCALL_HANDOFF_OPTIONS_INIT};
    c.options.flags = flags;
    CHECK(pthread_create(&thread, NULL, run_connect, &c) == 0);
    while (!c.done)
        CHECK(nearcall_handoff_wait(taker, 5) != NEARCALL_OK);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_HANDOFF(c.handoff, c.result, NEARCALL_OK);
    return c.handoff;
}

void tcp_pair(int *ret_client, int *ret_served)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof(at);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(listener >= 0 && bind(listener, (struct sockaddr *)&at, sizeof(at)) == 0);
    CHECK(listen(listener, 1) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&at, &bytes) == 0);
    *ret_client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(*ret_client >= 0 && connect(*ret_client, (struct sockaddr *)&at, sizeof(at)) == 0);
    *ret_served = accept(listener, NULL, NULL);
    CHECK(*ret_served >= 0);
    close(listener);
}

void expect_bytes(int fd, const char *bytes)
{
    char got[256] = {0};
    size_t count = strlen(bytes), have = 0;
    while (have < count) {
        ssize_t r = read(fd, got + have, count - have);
        CHECK(r > 0);
        have += (size_t)r;
    }
    CHECK(strcmp(got, bytes) == 0);
}

void expect_end(int fd)
{
    char byte;
    CHECK_INT(read(fd, &byte, 1), 0);
}

void send_bytes(int fd, const char *bytes)
{
    CHECK_INT(send(fd, bytes, strlen(bytes), MSG_NOSIGNAL), strlen(bytes));
}

/* ---- The other language ---- */

static void run_testgiver(const char *option, const char *value, int output)
{
    const char *program = getenv("NEARCALL_TESTGIVER");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(output, STDOUT_FILENO);
    if (!program)
        program = "../build/testgiver";
    execl(program, program, option, value, (char *)NULL);
    fprintf(stderr, "cannot run %s: %s; `make build` makes it\n", program, strerror(errno));
    _exit(127);
}

pid_t testgiver_start(const char *option, const char *value, char *line, size_t line_bytes)
{
    int output[2];
    char text[256];
    CHECK(pipe2(output, O_CLOEXEC) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        run_testgiver(option, value, output[1]);
    close(output[1]);
    FILE *lines = fdopen(output[0], "r");
    CHECK(lines != NULL && fgets(text, sizeof(text), lines) != NULL);
    CHECK(strncmp(text, "ready ", 6) == 0);
    fclose(lines);
    text[strcspn(text, "\n")] = '\0';
    snprintf(line, line_bytes, "%s", text + 6);
    return pid;
}

void testgiver_stop(pid_t pid)
{
    kill(pid, SIGKILL);
    CHECK_INT(waitpid(pid, NULL, 0), pid);
}

/* ---- Giving beside the test ---- */

static void *run_give(void *argument)
{
    struct giving *g = argument;
    g->result = nearcall_handoff_give(g->handoff, g->channel, &g->item, g->timeout_ms);
    return NULL;
}

void giving_start(struct giving *g, nearcall_handoff *handoff, int fd, int64_t timeout_ms)
{
    g->handoff = handoff;
    g->timeout_ms = timeout_ms;
    g->item.fd = fd;
    if (g->item.kind == 0)
        g->item.kind = NEARCALL_HANDOFF_CONNECTION;
    CHECK(pthread_create(&g->thread, NULL, run_give, g) == 0);
}

int giving_end(struct giving *g)
{
    CHECK(pthread_join(g->thread, NULL) == 0);
    return g->result;
}

/* ---- By hand ---- */

static void read_all(int fd, uint8_t *into, size_t bytes)
{
    size_t have = 0;
    while (have < bytes) {
        ssize_t r = read(fd, into + have, bytes - have);
        CHECK(r > 0);
        have += (size_t)r;
    }
}

int raw_connect(const char *address, bool greet)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    struct nc_handoff_hello hello = {.total_bytes = NC_HANDOFF_HELLO_BYTES,
                                     .lowest = NC_HANDOFF_VERSION, .highest = NC_HANDOFF_VERSION,
                                     .window = 8, .message_bytes_max = 1000};
    uint8_t bytes[NC_HANDOFF_HELLO_BYTES];
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(to.sun_path, sizeof(to.sun_path), "%s", address + strlen("unix:"));
    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0);
    if (greet) {
        nc_handoff_hello_encode(bytes, &hello);
        raw_send(fd, bytes, sizeof(bytes), NULL, 0);
    }
    return fd;
}

void raw_send(int fd, const void *bytes, size_t count, const int *fds, unsigned fds_count)
{
    union {
        struct cmsghdr header;
        uint8_t bytes[CMSG_SPACE(NC_HANDOFF_FDS_MAX * sizeof(int))];
    } control;
    struct iovec part = {(void *)(uintptr_t)bytes, count};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    memset(&control, 0, sizeof(control));
    if (fds_count) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(fds_count * sizeof(int));
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(fds_count * sizeof(int));
        memcpy(CMSG_DATA(&control.header), fds, fds_count * sizeof(int));
    }
    CHECK_INT(test_send_message(fd, &message, MSG_NOSIGNAL), count);
}

size_t raw_frame(uint8_t *out, const struct nc_handoff_frame *frame)
{
    struct nc_buffer buffer = {0};
    CHECK_INT(nc_handoff_frame_append(&buffer, frame), NEARCALL_OK);
    size_t bytes = buffer.end;
    memcpy(out, buffer.data, bytes);
    nc_buffer_free(&buffer);
    return bytes;
}

size_t raw_give(uint8_t *out, uint64_t id)
{
    struct nc_handoff_frame frame = {.type = NC_HANDOFF_GIVE, .kind = NEARCALL_HANDOFF_CONNECTION, .id = id};
    frame.parts[NC_HANDOFF_NAME].data = (const uint8_t *)"hostile";
    frame.parts[NC_HANDOFF_NAME].bytes = strlen("hostile");
    return raw_frame(out, &frame);
}

void raw_expect(int fd, int type, int reason)
{
    const struct nc_handoff_limits limits = {0, 1000};
    struct nc_handoff_fault fault;
    struct nc_handoff_frame frame;
    uint8_t bytes[1000];
    read_all(fd, bytes, NC_HANDOFF_HEADER_BYTES);
    CHECK_INT(nc_handoff_header_decode(&frame, bytes, &limits, &fault), 0);
    read_all(fd, bytes, frame.length);
    CHECK_INT(frame.type, type);
    CHECK_INT(frame.reason, reason);
}
