#include "script.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define STACK_BYTES ((size_t)1 << 20)

static void *run(void *argument)
{
    struct script *script = argument;
    script->play(script);
    script_hang_up(script);
    return NULL;
}

static void begin(struct script *script, void (*play)(struct script *), void *argument)
{
    bool is_local = strncmp(script->address, "unix:", strlen("unix:")) == 0;
    script->play = play;
    script->argument = argument;
    script->fd = -1;
    script->schema_hash = 0x1122334455667788;
    script->features = is_local ? NC_FEATURE_SHARED_CLOCK : 0;
    script->calls_in_flight_max = 1024;
    script->value_bytes_max = 0;
    script->server_instance = 99;
    script->key = 0;
    script->clock_ahead_ns = 0;
    CHECK(sem_init(&script->signals, 0, 0) == 0);
    CHECK(listen(script->listener, 16) == 0);
    /* musl gives a thread less than the payloads of a script take. */
    pthread_attr_t attributes;
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0);
    CHECK(pthread_create(&script->thread, &attributes, run, script) == 0);
    CHECK(pthread_attr_destroy(&attributes) == 0);
}

void script_start(struct script *script, void (*play)(struct script *), void *argument)
{
    static int count;
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof(at.sun_path), "%s/script%d.sock", test_directory(), ++count);
    snprintf(script->address, sizeof(script->address), "unix:%s", at.sun_path);
    script->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(script->listener >= 0);
    CHECK(bind(script->listener, (struct sockaddr *)&at, sizeof(at)) == 0);
    begin(script, play, argument);
}

/* Also where connections to a script that has ended are not over yet. */
static void listen_at(struct script *script, const struct sockaddr_in *at)
{
    int yes = 1;
    script->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(script->listener >= 0);
    CHECK(setsockopt(script->listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) == 0);
    CHECK(bind(script->listener, (const struct sockaddr *)at, sizeof(*at)) == 0);
}

void script_start_tcp(struct script *script, void (*play)(struct script *), void *argument)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(at);
    listen_at(script, &at);
    CHECK(getsockname(script->listener, (struct sockaddr *)&at, &bytes) == 0);
    snprintf(script->address, sizeof(script->address), "tcp:127.0.0.1:%d", ntohs(at.sin_port));
    begin(script, play, argument);
}

static void listen_at_path(struct script *script)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof(at.sun_path), "%s", script->address + strlen("unix:"));
    unlink(at.sun_path);
    script->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(script->listener >= 0);
    CHECK(bind(script->listener, (struct sockaddr *)&at, sizeof(at)) == 0);
}

static void listen_at_port(struct script *script)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    char host[sizeof(script->address)];
    snprintf(host, sizeof(host), "%s", script->address + strlen("tcp:"));
    *strchr(host, ':') = '\0';
    CHECK_INT(inet_pton(AF_INET, host, &at.sin_addr), 1);
    at.sin_port = htons((uint16_t)atoi(strrchr(script->address, ':') + 1));
    listen_at(script, &at);
}

void script_start_again(struct script *script)
{
    if (strncmp(script->address, "unix:", strlen("unix:")) == 0)
        listen_at_path(script);
    else
        listen_at_port(script);
    begin(script, script->play, script->argument);
}

void script_end(struct script *script)
{
    CHECK(pthread_join(script->thread, NULL) == 0);
    close(script->listener);
    sem_destroy(&script->signals);
}

void script_signal(struct script *script)
{
    sem_post(&script->signals);
}

void script_await(struct script *script)
{
    while (sem_wait(&script->signals) != 0)
        CHECK(errno == EINTR);
}

void script_hang_up(struct script *script)
{
    if (script->fd >= 0)
        close(script->fd);
    script->fd = -1;
}

void script_accept(struct script *script)
{
    script_hang_up(script);
    do
        script->fd = accept(script->listener, NULL, NULL);
    while (script->fd < 0 && errno == EINTR);
    CHECK(script->fd >= 0);
}

/* False at the end of the stream; a reset counts as one. */
static bool read_fully(struct script *script, uint8_t *to, size_t bytes)
{
    while (bytes > 0) {
        ssize_t n = read(script->fd, to, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        to += n;
        bytes -= (size_t)n;
    }
    return true;
}

void script_read_hello(struct script *script)
{
    uint8_t hello[4096];
    CHECK(read_fully(script, hello, NC_HELLO_HEADER_BYTES));
    CHECK(memcmp(hello, "\x89NCH\r\n\x1a\n", 8) == 0);
    uint32_t total = nc_get_u32(hello + 8);
    CHECK(total >= NC_HELLO_HEADER_BYTES && total <= sizeof(hello));
    CHECK(read_fully(script, hello + NC_HELLO_HEADER_BYTES, total - NC_HELLO_HEADER_BYTES));
}

void script_send(struct script *script, const void *data, size_t bytes)
{
    const uint8_t *from = data;
    while (bytes > 0) {
        ssize_t n = send(script->fd, from, bytes, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return; /* the caller has gone; tests look at their own side */
        from += n;
        bytes -= (size_t)n;
    }
}

void script_welcome(struct script *script)
{
    uint8_t welcome[NC_HELLO_HEADER_BYTES + 32] = "\x89NCW\r\n\x1a\n";
    size_t bytes = NC_HELLO_HEADER_BYTES;
    if (script->value_bytes_max) {
        uint8_t most[NC_VALUE_BYTES_MAX_BYTES];
        nc_put_u64(most, script->value_bytes_max);
        bytes += nc_extension_encode(welcome + bytes, NC_EXTENSION_VALUE_BYTES_MAX, most, sizeof(most));
    }
    if (script->key) {
        uint8_t key[NC_CONNECTION_KEY_BYTES];
        memset(key, script->key, sizeof(key));
        bytes += nc_extension_encode(welcome + bytes, NC_EXTENSION_CONNECTION_KEY, key, sizeof(key));
    }
    nc_put_u32(welcome + 8, (uint32_t)bytes);
    nc_put_u32(welcome + 12, NC_PROTOCOL_VERSION); /* status 0 behind it */
    nc_put_u64(welcome + 16, script->features);
    nc_put_u64(welcome + 24, script->server_instance);
    nc_put_u32(welcome + 32, (uint32_t)getpid());
    nc_put_u32(welcome + 36, 4 << 20);
    nc_put_u64(welcome + 40, (uint64_t)(nc_now_ns() + script->clock_ahead_ns));
    nc_put_u32(welcome + 52, script->calls_in_flight_max);
    nc_put_u64(welcome + 56, script->schema_hash);
    script_send(script, welcome, bytes);
}

void script_refuse(struct script *script, uint16_t code, const char *reason)
{
    uint8_t welcome[NC_HELLO_HEADER_BYTES + 64] = "\x89NCW\r\n\x1a\n";
    script_accept(script);
    script_read_hello(script);
    size_t bytes = nc_extension_encode(welcome + NC_HELLO_HEADER_BYTES, NC_EXTENSION_REFUSAL,
                                       reason, (uint16_t)strlen(reason));
    nc_put_u32(welcome + 8, (uint32_t)(NC_HELLO_HEADER_BYTES + bytes));
    nc_put_u32(welcome + 12, (uint32_t)code << 16);
    script_send(script, welcome, NC_HELLO_HEADER_BYTES + bytes);
}

void script_greet(struct script *script)
{
    script_accept(script);
    script_read_hello(script);
    script_welcome(script);
}

bool script_try_read(struct script *script, struct nc_frame *frame, uint8_t *payload)
{
    uint8_t header[NC_FRAME_HEADER_BYTES];
    struct nc_fault fault = {0};
    if (!read_fully(script, header, sizeof(header)))
        return false;
    nc_frame_decode(frame, header);
    if (nc_frame_check(frame, NC_FROM_CALLER, script->features, SCRIPT_PAYLOAD_MAX, &fault) < 0)
        fprintf(stderr, "the caller's %s: %s\n", fault.subject, fault.field);
    CHECK(fault.code == 0);
    return read_fully(script, payload, frame->length);
}

void script_read(struct script *script, struct nc_frame *frame, uint8_t *payload)
{
    CHECK(script_try_read(script, frame, payload));
}

void script_expect(struct script *script, enum nc_frame_type type, struct nc_frame *frame)
{
    uint8_t payload[SCRIPT_PAYLOAD_MAX];
    script_read(script, frame, payload);
    CHECK_INT(frame->type, type);
}

void script_expect_filled(struct script *script, struct nc_frame *frame, uint8_t byte)
{
    uint8_t header[NC_FRAME_HEADER_BYTES], bytes[4096];
    CHECK(read_fully(script, header, sizeof(header)));
    nc_frame_decode(frame, header);
    CHECK_INT(frame->type, NC_REQUEST);
    CHECK(frame->extension_bytes <= sizeof(bytes));
    CHECK(read_fully(script, bytes, frame->extension_bytes));
    for (size_t left = frame->length - frame->extension_bytes, some; left > 0; left -= some) {
        some = left < sizeof(bytes) ? left : sizeof(bytes);
        CHECK(read_fully(script, bytes, some));
        for (size_t i = 0; i < some; i++)
            CHECK_INT(bytes[i], byte);
    }
}

bool script_read_end(struct script *script)
{
    uint8_t byte;
    bool sent = false;
    while (read_fully(script, &byte, 1))
        sent = true;
    return !sent;
}

void script_send_descriptors(struct script *script, const void *data, size_t bytes, const int *fds, unsigned count)
{
    union {
        struct cmsghdr header;
        uint8_t bytes[CMSG_SPACE(64 * sizeof(int))];
    } room = {0};
    struct iovec part = {(void *)(uintptr_t)data, bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &room,
                             .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    room.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(count * sizeof(int)), .cmsg_level = SOL_SOCKET,
                                   .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&room.header), fds, count * sizeof(int));
    CHECK(sendmsg(script->fd, &message, MSG_NOSIGNAL) == (ssize_t)bytes);
}

void script_send_files(struct script *script, const void *data, size_t bytes, unsigned count)
{
    int fds[64] = {0};
    for (unsigned i = 0; i < count; i++)
        CHECK((fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0);
    script_send_descriptors(script, data, bytes, fds, count);
    for (unsigned i = 0; i < count; i++)
        close(fds[i]);
}

void script_send_frame(struct script *script, const struct nc_frame *frame, const void *payload)
{
    uint8_t header[NC_FRAME_HEADER_BYTES];
    nc_frame_encode(header, frame);
    script_send(script, header, sizeof(header));
    script_send(script, payload, frame->length);
}

void script_reply(struct script *script, const struct nc_frame *request, const void *data,
                  size_t bytes)
{
    struct nc_frame reply = {.length = (uint32_t)bytes,
                             .type = NC_REPLY,
                             .codec = request->type == NC_RESOLVE ? NEARCALL_CODEC_MSGPACK
                                                                  : request->codec,
                             .call_id = request->call_id,
                             .function_id = SCRIPT_FUNCTION_ID};
    script_send_frame(script, &reply, data);
}

void script_error(struct script *script, uint64_t call_id, int code, int outcome,
                  const char *message)
{
    uint8_t payload[256] = {0x92, 0xD9, (uint8_t)strlen(message)};
    size_t bytes = 3 + strlen(message);
    memcpy(payload + 3, message, strlen(message));
    payload[bytes++] = 0x90;
    struct nc_frame error = {.length = (uint32_t)bytes,
                             .type = NC_ERROR,
                             .codec = NEARCALL_CODEC_MSGPACK,
                             .call_id = call_id,
                             .status = (uint32_t)(code | outcome << 8)};
    script_send_frame(script, &error, payload);
}

void script_drain(struct script *script, uint64_t last_id)
{
    struct nc_frame drain = {.type = NC_DRAIN, .call_id = last_id};
    script_send_frame(script, &drain, NULL);
}

void script_serve(struct script *script)
{
    static const uint8_t description[] = "\x81\xa4name\xa4" "echo";
    uint8_t *payload = malloc(SCRIPT_PAYLOAD_MAX);
    struct nc_frame frame;
    CHECK(payload != NULL);
    while (script_try_read(script, &frame, payload)) {
        struct nc_frame pong = {.type = NC_PONG, .length = frame.length};
        if (frame.type == NC_REQUEST)
            script_reply(script, &frame, payload + frame.extension_bytes,
                         frame.length - frame.extension_bytes);
        else if (frame.type == NC_RESOLVE)
            script_reply(script, &frame, description, sizeof(description) - 1);
        else if (frame.type == NC_PING)
            script_send_frame(script, &pong, payload);
    }
    free(payload);
}
