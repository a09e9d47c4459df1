#include "endpoints_test.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* A caller that takes no interest in an answer may have gone. */
static void refuse_with_limit(struct script *script, uint64_t call_id)
{
    static const uint8_t payload[] = "\x92\xa4" "full" "\x91\x92\xae" "nearcall.limit" "\xa5" "calls";
    struct nc_frame error = {.length = sizeof(payload) - 1,
                             .type = NC_ERROR,
                             .codec = NEARCALL_CODEC_MSGPACK,
                             .call_id = call_id,
                             .status = 8 | NEARCALL_OUTCOME_NOT_EXECUTED << 8};
    script_send_frame(script, &error, payload);
}

static void take_request(struct host *host, const struct nc_frame *frame, const uint8_t *payload)
{
    struct script *script = &host->script;
    atomic_fetch_add(&host->requests, 1);
    switch (atomic_load(&host->way)) {
    case HOST_LACKS:
        script_error(script, frame->call_id, 12, NEARCALL_OUTCOME_NOT_EXECUTED, "there is no such function");
        break;
    case HOST_FULL:
        refuse_with_limit(script, frame->call_id);
        break;
    case HOST_REFUSES_ARGUMENTS:
        script_error(script, frame->call_id, 3, NEARCALL_OUTCOME_NOT_EXECUTED, "the arguments are wrong");
        break;
    case HOST_DRAINS:
        script_drain(script, frame->call_id - 1);
        break;
    case HOST_ENDS:
        script_hang_up(script);
        break;
    default:
        script_reply(script, frame, payload + frame->extension_bytes, frame->length - frame->extension_bytes);
    }
}

static void take_frame(struct host *host, const struct nc_frame *frame, const uint8_t *payload)
{
    static const uint8_t description[] = "\x81\xa4name\xa4" "echo";
    struct script *script = &host->script;
    struct nc_frame pong = {.type = NC_PONG, .length = frame->length};
    if (atomic_load(&host->way) == HOST_IS_GONE)
        return;
    if (frame->type == NC_REQUEST && atomic_load(&host->way) == HOST_IS_SLOW) {
        host->late = *frame;
    } else if (frame->type == NC_REQUEST) {
        take_request(host, frame, payload);
    } else if (frame->type == NC_RESOLVE) {
        atomic_fetch_add(&host->resolves, 1);
        script_reply(script, frame, description, sizeof(description) - 1);
    } else if (frame->type == NC_PING) {
        atomic_fetch_add(&host->pings, 1);
        script_send_frame(script, &pong, payload);
    }
}

static void refuse_caller(struct script *script, uint16_t code, const char *reason)
{
    uint8_t welcome[NC_HELLO_HEADER_BYTES + 64] = "\x89NCW\r\n\x1a\n";
    script_read_hello(script);
    size_t bytes =
        nc_extension_encode(welcome + NC_HELLO_HEADER_BYTES, NC_EXTENSION_REFUSAL, reason, (uint16_t)strlen(reason));
    nc_put_u32(welcome + 8, (uint32_t)(NC_HELLO_HEADER_BYTES + bytes));
    nc_put_u32(welcome + 12, (uint32_t)code << 16);
    script_send(script, welcome, NC_HELLO_HEADER_BYTES + bytes);
}

static void say_nothing(struct host *host)
{
    while (atomic_load(&host->way) == HOST_SAYS_NOTHING && !atomic_load(&host->stops))
        usleep(500);
}

/* A frame of any size, a little at a time. False at the end of the stream. */
static bool read_slowly(struct script *script)
{
    static uint8_t some[64 << 10];
    uint8_t header[NC_FRAME_HEADER_BYTES];
    struct nc_frame frame;
    if (recv(script->fd, header, sizeof(header), MSG_WAITALL) != sizeof(header))
        return false;
    nc_frame_decode(&frame, header);
    for (size_t left = frame.length, bytes; left > 0; left -= bytes) {
        bytes = left < sizeof(some) ? left : sizeof(some);
        if (recv(script->fd, some, bytes, MSG_WAITALL) != (ssize_t)bytes)
            return false;
        usleep(20000);
    }
    script_reply(script, &frame, "again", 5);
    return true;
}

static void serve_one(struct host *host)
{
    static _Thread_local uint8_t payload[SCRIPT_PAYLOAD_MAX];
    struct script *script = &host->script;
    struct nc_frame frame;
    if (atomic_load(&host->way) == HOST_REFUSES_CALLER) {
        refuse_caller(script, 7, "strangers are not served");
        return;
    }
    if (atomic_load(&host->way) == HOST_REFUSES) {
        refuse_caller(script, 14, "not now");
        return;
    }
    say_nothing(host);
    if (atomic_load(&host->stops))
        return;
    script_read_hello(script);
    script_welcome(script);
    for (;;) {
        if (atomic_load(&host->way) == HOST_RESETS) {
            CHECK_INT(recv(script->fd, payload, 1, MSG_PEEK), 1);
            atomic_fetch_add(&host->requests, 1);
            return;
        }
        if (atomic_load(&host->way) == HOST_READS_SLOWLY) {
            if (!read_slowly(script))
                return;
            continue;
        }
        if (script->fd < 0 || !script_try_read(script, &frame, payload))
            return;
        take_frame(host, &frame, payload);
    }
}

static void serve(struct script *script)
{
    struct host *host = script->argument;
    int yes = 1;
    for (;;) {
        script_hang_up(script);
        int fd = accept(script->listener, NULL, NULL);
        if (fd < 0 && errno == EINTR)
            continue;
        if (fd < 0)
            return;
        script->fd = fd;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)); /* fails for local ones */
        atomic_fetch_add(&host->connections, 1);
        serve_one(host);
    }
}

void host_start(struct host *host, const char *address)
{
    memset(host, 0, sizeof(*host));
    if (strcmp(address, "unix:") == 0)
        script_start(&host->script, serve, host);
    else
        script_start_tcp(&host->script, serve, host);
    host->is_up = true;
}

void host_start_beside(struct host *host, const struct host *other, const char *number)
{
    memset(host, 0, sizeof(*host));
    snprintf(host->script.address, sizeof(host->script.address), "tcp:%s%s", number, strrchr(other->script.address, ':'));
    host->script.play = serve;
    host->script.argument = host;
    host_start_again(host);
}

void host_stop(struct host *host)
{
    atomic_store(&host->stops, true);
    CHECK(shutdown(host->script.listener, SHUT_RDWR) == 0);
    if (host->script.fd >= 0)
        (void)shutdown(host->script.fd, SHUT_RDWR);
    script_end(&host->script);
    host->is_up = false;
}

void host_start_again(struct host *host)
{
    atomic_store(&host->stops, false);
    script_start_again(&host->script);
    host->is_up = true;
}

void host_end(struct host *host)
{
    if (host->is_up)
        host_stop(host);
}

void host_answer_late(struct host *host)
{
    script_reply(&host->script, &host->late, "again", 5);
}

int host_requests(struct host *host)
{
    return atomic_exchange(&host->requests, 0);
}

const char *two_hosts(const struct host *first, const char *between, const struct host *second)
{
    static char address[400];
    const char *other = second->script.address;
    if (strchr(between, ','))
        other += strlen("tcp:");
    snprintf(address, sizeof(address), "%s%s%s", first->script.address, between, other);
    return address;
}

void call_it(nearcall_client *client)
{
    nearcall_reply reply;
    CHECK_CALL(client, nearcall_call(client, "f", "again", 5, 20000, &reply), NEARCALL_OK);
    CHECK_INT(reply.bytes, 5);
    CHECK(memcmp(reply.data, "again", 5) == 0);
}
