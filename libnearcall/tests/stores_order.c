/* A request whose payload lies in a store is sent later than it was begun, and draws another id then. The ids
 * of all requests rise in the order of sending all the same, also where some wait for the server's leave. */
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "script.h"

#define HEAD 4096
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
/* Larger than a frame of the script's. */
#define VALUE ((size_t)5 << 20)
#define SMALL_CALLS 3
#define IN_FLIGHT_MAX 2

static void give_store(struct script *script, const struct nc_frame *ask)
{
    uint8_t bytes[NC_FRAME_HEADER_BYTES + NC_EXTENSION_HEADER_BYTES + NC_STORED_BYTES], content[NC_STORED_BYTES];
    struct nc_stored stored = {.place = 1, .serial = 7, .bytes = VALUE};
    struct nc_frame reply = {.type = NC_REPLY, .descriptors = NC_STORE_DESCRIPTORS, .call_id = ask->call_id,
                             .extension_bytes = NC_EXTENSION_HEADER_BYTES + NC_STORED_BYTES};
    reply.length = reply.extension_bytes;
    nc_frame_encode(bytes, &reply);
    nc_stored_encode(content, &stored);
    nc_extension_encode(bytes + NC_FRAME_HEADER_BYTES, NC_EXTENSION_STORED, content, sizeof(content));
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)(HEAD + VALUE)) == 0 && fcntl(fd, F_ADD_SEALS, SEALS) == 0);
    script_send_descriptors(script, bytes, sizeof(bytes), &fd, 1);
    close(fd);
}

static struct nc_frame expect_next(struct script *script, enum nc_frame_type type, uint64_t *last_id)
{
    struct nc_frame frame;
    script_expect(script, type, &frame);
    CHECK(frame.call_id > *last_id);
    *last_id = frame.call_id;
    return frame;
}

static void play(struct script *script)
{
    uint64_t last_id = 0;
    struct nc_frame in_flight[IN_FLIGHT_MAX];
    script->calls_in_flight_max = IN_FLIGHT_MAX;
    script_greet(script);
    in_flight[0] = expect_next(script, NC_RESOLVE, &last_id);
    script_reply(script, &in_flight[0], "\x80", 1);
    in_flight[0] = expect_next(script, NC_REQUEST, &last_id);
    in_flight[1] = expect_next(script, NC_STORE, &last_id);
    script_await(script); /* others wait by now */
    give_store(script, &in_flight[1]);
    in_flight[1] = expect_next(script, NC_REQUEST, &last_id);
    for (int i = 2; i <= SMALL_CALLS; i++) {
        script_reply(script, &in_flight[0], "x", 1);
        in_flight[0] = in_flight[1];
        in_flight[1] = expect_next(script, NC_REQUEST, &last_id);
    }
    for (int i = 0; i < IN_FLIGHT_MAX; i++)
        script_reply(script, &in_flight[i], "x", 1);
    script_await(script);
}

static nearcall_call_id begin(nearcall_client *client, const uint8_t *data, size_t bytes)
{
    nearcall_call_id call;
    CHECK_CALL(client, nearcall_request(client, test_find(client, "f"), NEARCALL_CODEC_RAW), NEARCALL_OK);
    nearcall_put_raw(client, data, bytes);
    CHECK_CALL(client, nearcall_request_send(client, NEARCALL_NO_TIMEOUT, &call), NEARCALL_OK);
    return call;
}

static void await(nearcall_client *client, nearcall_call_id call)
{
    nearcall_reply reply;
    int r;
    while ((r = nearcall_poll(client, call, &reply)) == NEARCALL_E_AGAIN) {
        struct pollfd watched = {nearcall_fd(client), POLLIN, 0};
        CHECK(poll(&watched, 1, (int)nearcall_timeout_ms(client)) >= 0);
        CHECK_CALL(client, nearcall_process(client) < 0 ? nearcall_error_code(client) : 0, 0);
    }
    CHECK_CALL(client, r, NEARCALL_OK);
}

int main(void)
{
    struct script script;
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    nearcall_call_id calls[1 + SMALL_CALLS];
    test_begin();
    script_start(&script, play, NULL);
    script.features |= NC_FEATURE_STORES;
    script.value_bytes_max = 2 * VALUE;
    options.flags = NEARCALL_NONBLOCKING;
    options.value_bytes_max = 2 * VALUE;
    nearcall_client *client = test_open_with(script.address, &options);
    uint8_t *value = calloc(1, VALUE);
    CHECK(value != NULL && test_find(client, "f") != NULL);
    calls[0] = begin(client, value, 1);
    calls[1] = begin(client, value, VALUE);
    for (int i = 2; i <= SMALL_CALLS; i++)
        calls[i] = begin(client, value, 1);
    script_signal(&script);
    for (int i = 0; i <= SMALL_CALLS; i++)
        await(client, calls[i]);
    script_signal(&script);
    nearcall_close(client);
    script_end(&script);
    free(value);
    return 0;
}
