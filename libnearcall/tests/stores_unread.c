/* A server that names stores to nobody and reads nothing loses the connection before much waits for it. What the
 * program itself sends meanwhile is none of that. */
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <linux/sockios.h>

#include "base/clock.h"
#include "script.h"

#define NAMES_AT_ONCE 1024
#define NAMES_MAX (128 * NAMES_AT_ONCE) /* far more than may wait, and than sockets hold */
#define NAME_BYTES (NC_FRAME_HEADER_BYTES + NC_EXTENSION_HEADER_BYTES + NC_STORED_BYTES)
#define OWN_BYTES ((size_t)3 << 20) /* more than may wait of RELEASEs, and less than a frame may have */

/* A reply to the request, which has been answered, that names a store. */
static void make_name(uint8_t bytes[NAME_BYTES], const struct nc_frame *request)
{
    struct nc_frame reply = {.type = NC_REPLY, .function_id = SCRIPT_FUNCTION_ID, .call_id = request->call_id,
                             .length = NC_EXTENSION_HEADER_BYTES + NC_STORED_BYTES,
                             .extension_bytes = NC_EXTENSION_HEADER_BYTES + NC_STORED_BYTES};
    uint8_t content[NC_STORED_BYTES];
    nc_frame_encode(bytes, &reply);
    nc_stored_encode(content, &(struct nc_stored){2, 1, 1});
    nc_extension_encode(bytes + NC_FRAME_HEADER_BYTES, NC_EXTENSION_STORED, content, sizeof(content));
}

static void answer_one(struct script *script, struct nc_frame *ret_request)
{
    script_greet(script);
    script_expect(script, NC_REQUEST, ret_request);
    script_reply(script, ret_request, "small", 5);
}

static void name_to_nobody(struct script *script)
{
    uint8_t *many = malloc(NAMES_AT_ONCE * NAME_BYTES);
    struct nc_frame request;
    CHECK(many != NULL);
    answer_one(script, &request);
    for (size_t i = 0; i < NAMES_AT_ONCE; i++)
        make_name(many + i * NAME_BYTES, &request);
    for (int sent = 0; sent < NAMES_MAX; sent += NAMES_AT_ONCE) /* after the end it goes nowhere */
        script_send(script, many, NAMES_AT_ONCE * NAME_BYTES);
    free(many);
}

static void await_input(const struct script *script)
{
    struct pollfd watched = {.fd = script->fd, .events = POLLIN};
    CHECK_INT(poll(&watched, 1, (int)(20000 * test_slowness())), 1);
}

/* The caller then handles it before it sends anything more. */
static void await_that_all_is_read(const struct script *script)
{
    int64_t limit_ns = nc_now_ns() + (int64_t)(20e9 * test_slowness());
    int unread = 1;
    while (unread > 0) {
        CHECK(ioctl(script->fd, SIOCOUTQ, &unread) == 0 && nc_now_ns() < limit_ns);
        sched_yield();
    }
}

/* While a large request is on its way, of which it has read nothing yet. */
static void name_one_late(struct script *script)
{
    uint8_t name[NAME_BYTES];
    struct nc_frame request, frame;
    answer_one(script, &request);
    make_name(name, &request);
    await_input(script);
    script_send(script, name, sizeof(name));
    await_that_all_is_read(script);
    script_expect_filled(script, &request, 'x');
    script_expect(script, NC_RELEASE, &frame);
    script_reply(script, &request, "large", 5);
    CHECK(script_read_end(script));
}

/* A small call, and then one of so many bytes, which ends like that. */
static void calls(void (*play)(struct script *), size_t bytes, int end)
{
    struct script script;
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    nearcall_reply reply;
    const int64_t timeout_ms = (int64_t)(20000 * test_slowness());
    uint8_t *data = malloc(bytes);
    CHECK(data != NULL);
    memset(data, 'x', bytes);
    script_start(&script, play, NULL);
    script.features |= NC_FEATURE_STORES;
    options.attempts_max = 1;
    options.value_bytes_max = (size_t)16 << 20;
    nearcall_client *client = test_open_with(script.address, &options);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, timeout_ms, &reply), NEARCALL_OK);
    CHECK_CALL(client, nearcall_call(client, "f", data, bytes, timeout_ms, &reply), end);
    nearcall_close(client);
    script_end(&script);
    free(data);
}

int main(void)
{
    test_begin();
    calls(name_to_nobody, 1, NEARCALL_E_INTERNAL);
    calls(name_one_late, OWN_BYTES, NEARCALL_OK);
    return 0;
}
