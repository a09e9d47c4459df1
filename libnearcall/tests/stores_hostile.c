/* What a server must not do with stores, and what becomes of calls whose stores go wrong: before the
 * request was sent nothing was executed, no descriptor stays, and nobody gets a signal. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "script.h"

#define HEAD 4096
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
/* Larger than a frame of the script's. */
#define VALUE ((size_t)5 << 20)
#define VALUES_MAX ((size_t)16 << 20)
#define NO_FILE (-2)
#define GOOD_FILE (-3)

#ifndef MFD_HUGETLB
#define MFD_HUGETLB 4u
#endif

static int memory_file(size_t size, int seals)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)size) == 0 && fcntl(fd, F_ADD_SEALS, seals) == 0);
    return fd;
}

static int good_file(void) { return memory_file(HEAD + 2 * VALUE, SEALS); }
static int unsealed(void) { return memory_file(HEAD + VALUE, 0); }
static int may_shrink(void) { return memory_file(HEAD + VALUE, F_SEAL_GROW); }
static int empty(void) { return memory_file(0, SEALS); }
static int too_small(void) { return memory_file(HEAD + VALUE - 1, SEALS); }
static int not_writable(void) { return memory_file(HEAD + VALUE, SEALS | F_SEAL_WRITE); }
static int no_file(void) { return NO_FILE; }

static int plain_file(void)
{
    char path[200];
    snprintf(path, sizeof(path), "%s/plain", test_directory());
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)(HEAD + VALUE)) == 0);
    return fd;
}

static int pipe_end(void)
{
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    close(ends[0]);
    return ends[1];
}

/* Some machines have no huge pages, where nobody can send such a file. */
static int huge_pages(void)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
    if (fd < 0 || ftruncate(fd, (off_t)(4 * VALUE)) != 0 || fcntl(fd, F_ADD_SEALS, SEALS) != 0) {
        if (fd >= 0)
            close(fd);
        return unsealed();
    }
    return fd;
}

/* ---- What the script says ---- */

static void stored_reply(struct script *script, const struct nc_frame *to, const struct nc_stored *stored, const int *fds, unsigned count,
                         size_t payload_bytes)
{
    uint8_t bytes[NC_FRAME_HEADER_BYTES + NC_EXTENSION_HEADER_BYTES + NC_STORED_BYTES + 1] = {0}, content[NC_STORED_BYTES];
    struct nc_frame reply = {.type = NC_REPLY, .codec = to->codec, .descriptors = (uint8_t)count, .call_id = to->call_id,
                             .function_id = to->type == NC_STORE ? 0 : SCRIPT_FUNCTION_ID,
                             .extension_bytes = NC_EXTENSION_HEADER_BYTES + NC_STORED_BYTES};
    reply.length = reply.extension_bytes + (uint32_t)payload_bytes;
    nc_frame_encode(bytes, &reply);
    nc_stored_encode(content, stored);
    nc_extension_encode(bytes + NC_FRAME_HEADER_BYTES, NC_EXTENSION_STORED, content, sizeof(content));
    if (count)
        script_send_descriptors(script, bytes, NC_FRAME_HEADER_BYTES + reply.length, fds, count);
    else
        script_send(script, bytes, NC_FRAME_HEADER_BYTES + reply.length);
}

static void with_file(struct script *script, const struct nc_frame *to, struct nc_stored stored, int fd)
{
    stored_reply(script, to, &stored, &fd, fd == NO_FILE ? 0 : 1, 0);
}

static void expect_release(struct script *script, struct nc_stored stored, bool forget)
{
    uint8_t payload[SCRIPT_PAYLOAD_MAX];
    struct nc_frame frame;
    script_read(script, &frame, payload);
    CHECK_INT(frame.type, NC_RELEASE);
    CHECK_INT(nc_get_u32(payload), stored.place);
    CHECK_INT(nc_get_u32(payload + 4), stored.serial);
    CHECK_INT(nc_get_u32(payload + 8), forget);
}

static void expect_ask(struct script *script, struct nc_frame *ret_ask)
{
    uint8_t payload[SCRIPT_PAYLOAD_MAX];
    script_read(script, ret_ask, payload);
    CHECK_INT(ret_ask->type, NC_STORE);
    CHECK_INT(nc_get_u64(payload), VALUE);
}

/* A request that names a store, which is found where it was given. */
static void check_named(const struct nc_frame *request, const uint8_t *body, struct nc_stored given)
{
    struct nc_extension extension;
    struct nc_stored said = {0};
    size_t offset = 0;
    CHECK_INT(request->type, NC_REQUEST);
    CHECK_INT(request->length, request->extension_bytes);
    while (nc_extension_next(body, request->extension_bytes, &offset, &extension))
        if (extension.type == NC_EXTENSION_STORED)
            CHECK(nc_stored_decode(&said, &extension));
    CHECK(said.place == given.place && said.serial == given.serial && said.bytes == VALUE);
}

static void expect_named(struct script *script, struct nc_frame *ret_request, struct nc_stored given)
{
    uint8_t body[SCRIPT_PAYLOAD_MAX];
    script_read(script, ret_request, body);
    check_named(ret_request, body, given);
}

/* The same of one that the caller has had before. It may have closed that a second after its last use, and then asks
 * once more. */
static void expect_named_again(struct script *script, struct nc_frame *ret_request, struct nc_stored given, int fd)
{
    uint8_t body[SCRIPT_PAYLOAD_MAX];
    struct nc_frame ask;
    script_read(script, ret_request, body);
    if (ret_request->type != NC_RELEASE) {
        check_named(ret_request, body, given);
        return;
    }
    CHECK_INT(nc_get_u32(body + 8), 1);
    expect_ask(script, &ask);
    with_file(script, &ask, given, fd);
    expect_named(script, ret_request, given);
}

static bool is_filled(const uint8_t *data, uint8_t byte)
{
    return data[0] == byte && memcmp(data, data + 1, VALUE - 1) == 0;
}

static void expect_bytes(int fd, uint8_t byte)
{
    uint8_t *got = malloc(VALUE);
    CHECK(got && pread(fd, got, VALUE, HEAD) == (ssize_t)VALUE);
    CHECK(is_filled(got, byte));
    free(got);
}

static void start(struct script *script, void (*play)(struct script *), void *argument)
{
    script_start(script, play, argument);
    script->features |= NC_FEATURE_STORES;
    script->value_bytes_max = VALUES_MAX;
}

static nearcall_client *open_to(const struct script *script)
{
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    options.attempts_max = 1;
    options.value_bytes_max = VALUES_MAX;
    return test_open_with(script->address, &options);
}

static uint8_t *value;

static int64_t patience_ms(void)
{
    return (int64_t)(20000 * test_slowness());
}

static int call_large(nearcall_client *client, int64_t timeout_ms, nearcall_reply *reply)
{
    return nearcall_call(client, "f", value, VALUE, timeout_ms, reply);
}

/* ---- A call by hand ---- */

static void by_hand(struct script *script)
{
    struct nc_frame ask, request;
    struct nc_stored given = {.place = 1, .serial = 7, .bytes = VALUE}, replied = {.place = 3, .serial = 9, .bytes = VALUE};
    static const uint8_t serial[8] = {9};
    int file = good_file(), answer = good_file();
    script_greet(script);
    for (int round = 0; round < 2; round++) {
        expect_ask(script, &ask);
        with_file(script, &ask, given, round ? NO_FILE : file);
        expect_named_again(script, &request, given, file);
        expect_bytes(file, 0x5A);
        uint8_t *back = malloc(VALUE);
        memset(back, 0x40 + round, VALUE);
        CHECK(pwrite(answer, back, VALUE, HEAD) == (ssize_t)VALUE && pwrite(answer, serial, 8, 0) == 8);
        free(back);
        with_file(script, &request, replied, round ? NO_FILE : answer);
        expect_release(script, replied, false);
    }
    close(file);
    close(answer);
    CHECK(script_read_end(script));
}

static void stores_by_hand(void)
{
    struct script script;
    nearcall_reply reply;
    start(&script, by_hand, NULL);
    nearcall_client *client = open_to(&script);
    for (int round = 0; round < 2; round++) {
        CHECK_CALL(client, call_large(client, patience_ms(), &reply), NEARCALL_OK);
        CHECK_INT(reply.bytes, VALUE);
        CHECK(is_filled(reply.data, (uint8_t)(0x40 + round)));
    }
    nearcall_close(client);
    script_end(&script);
}

/* ---- Stores that no request can be written to ---- */

struct bad_store {
    const char *name;
    int (*file)(void);
    struct nc_stored said;
    bool forget;
};

static const struct bad_store bad_stores[] = {
    {"without seals", unsealed, {0, 1, VALUE}, true},
    {"that may shrink", may_shrink, {0, 1, VALUE}, true},
    {"a plain file", plain_file, {0, 1, VALUE}, true},
    {"a pipe", pipe_end, {0, 1, VALUE}, true},
    {"of huge pages", huge_pages, {0, 1, VALUE}, true},
    {"empty", empty, {0, 1, VALUE}, true},
    {"too small", too_small, {0, 1, 1}, false},
    {"not writable", not_writable, {0, 1, VALUE}, false},
    {"without a file", no_file, {0, 1, VALUE}, true},
    {"of a reply", good_file, {2, 1, VALUE}, false},
};

static void give_bad_store(struct script *script)
{
    const struct bad_store *bad = script->argument;
    struct nc_frame frame;
    int fd = bad->file();
    script_greet(script);
    expect_ask(script, &frame);
    with_file(script, &frame, bad->said, fd);
    expect_release(script, bad->said, bad->forget);
    for (unsigned count = 0; fd == NO_FILE && count < NC_STORES_PER_DIRECTION; count++) {
        /* it may have been closed because nobody used it */
        expect_ask(script, &frame);
        with_file(script, &frame, bad->said, fd);
        expect_release(script, bad->said, bad->forget);
    }
    if (fd != NO_FILE)
        close(fd);
    script_expect(script, NC_REQUEST, &frame);
    script_reply(script, &frame, "small", 5);
    CHECK(script_read_end(script));
}

static void stores_that_cannot_be_written(const struct bad_store *bad)
{
    struct script script;
    nearcall_reply reply;
    int before = test_open_descriptors();
    start(&script, give_bad_store, (void *)(uintptr_t)bad);
    nearcall_client *client = open_to(&script);
    int r = call_large(client, patience_ms(), &reply);
    if (r != NEARCALL_E_RESOURCE_EXHAUSTED)
        fprintf(stderr, "%s\n", bad->name);
    CHECK_CALL(client, r, NEARCALL_E_RESOURCE_EXHAUSTED);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, patience_ms(), &reply), NEARCALL_OK);
    CHECK_INT(reply.bytes, 5);
    nearcall_close(client);
    script_end(&script);
    CHECK_INT(test_open_descriptors(), before);
}

/* ---- Replies that lie where they do not ---- */

struct bad_reply {
    const char *name;
    int (*file)(void);
    struct nc_stored said;
    uint8_t serial;
    int code;
    bool forget;
};

static const struct bad_reply bad_replies[] = {
    {"taken back", good_file, {2, 5, VALUE}, 0, NEARCALL_E_UNAVAILABLE, false},
    {"used again", good_file, {2, 5, VALUE}, 6, NEARCALL_E_UNAVAILABLE, false},
    {"more than it has", good_file, {2, 5, 2 * VALUE + 1}, 5, NEARCALL_E_RESOURCE_EXHAUSTED, false},
    {"too large", good_file, {2, 5, VALUES_MAX + 1}, 5, NEARCALL_E_RESOURCE_EXHAUSTED, false},
    {"without a file", no_file, {2, 5, VALUE}, 5, NEARCALL_E_RESOURCE_EXHAUSTED, true},
    {"without seals", unsealed, {2, 5, VALUE}, 5, NEARCALL_E_RESOURCE_EXHAUSTED, true},
    {"a pipe", pipe_end, {2, 5, VALUE}, 5, NEARCALL_E_RESOURCE_EXHAUSTED, true},
};

static void give_bad_reply(struct script *script)
{
    const struct bad_reply *bad = script->argument;
    struct nc_frame request;
    uint8_t word[8] = {bad->serial};
    int fd = bad->file();
    if (bad->file == good_file)
        CHECK(pwrite(fd, word, sizeof(word), 0) == sizeof(word));
    script_greet(script);
    script_expect(script, NC_REQUEST, &request);
    with_file(script, &request, bad->said, fd);
    expect_release(script, bad->said, bad->forget);
    if (fd != NO_FILE)
        close(fd);
    CHECK(script_read_end(script));
}

static void replies_that_cannot_be_read(const struct bad_reply *bad)
{
    struct script script;
    nearcall_reply reply;
    int before = test_open_descriptors();
    start(&script, give_bad_reply, (void *)(uintptr_t)bad);
    nearcall_client *client = open_to(&script);
    int r = nearcall_call(client, "f", "x", 1, patience_ms(), &reply);
    if (r != bad->code)
        fprintf(stderr, "%s\n", bad->name);
    CHECK_CALL(client, r, bad->code);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_EXECUTED_RESULT_LOST);
    nearcall_close(client);
    script_end(&script);
    CHECK_INT(test_open_descriptors(), before);
}

/* ---- Calls that fail on their way ---- */

static void refused(struct script *script)
{
    struct nc_frame ask;
    script_greet(script);
    expect_ask(script, &ask);
    script_error(script, ask.call_id, -NEARCALL_E_RESOURCE_EXHAUSTED, NEARCALL_OUTCOME_UNKNOWN, "no room");
    CHECK(script_read_end(script));
}

/* An error that names a limit. */
static void crowd(struct script *script, uint64_t call_id)
{
    static const uint8_t payload[] = "\x92\xA5later\x91\x92\xAEnearcall.limit\xB4stores_per_direction";
    struct nc_frame error = {.length = sizeof(payload) - 1, .type = NC_ERROR, .codec = NEARCALL_CODEC_MSGPACK, .call_id = call_id,
                             .status = (uint32_t)(-NEARCALL_E_RESOURCE_EXHAUSTED | NEARCALL_OUTCOME_NOT_EXECUTED << 8)};
    script_send_frame(script, &error, payload);
}

/* There is no place, and then the server names stores that the caller has closed meanwhile. */
static void crowded_at_first(struct script *script)
{
    struct nc_frame ask, request;
    struct nc_stored given = {.place = 0, .serial = 9, .bytes = VALUE};
    uint64_t former = 0;
    int fd = good_file();
    script_greet(script);
    for (uint32_t i = 0; i < 3 + NC_STORES_PER_DIRECTION; i++) {
        struct nc_stored closed = {.place = i - 3, .serial = 1 + i, .bytes = VALUE};
        expect_ask(script, &ask);
        CHECK(ask.call_id > former);
        former = ask.call_id;
        if (i < 3) {
            crowd(script, ask.call_id);
            continue;
        }
        with_file(script, &ask, closed, NO_FILE);
        expect_release(script, closed, true);
    }
    expect_ask(script, &ask);
    former = ask.call_id;
    with_file(script, &ask, given, fd);
    expect_named(script, &request, given);
    CHECK(request.call_id > former);
    script_reply(script, &request, "small", 5);
    CHECK(script_read_end(script));
    close(fd);
}

static void given_too_late(struct script *script)
{
    struct nc_frame ask, frame;
    struct nc_stored given = {.place = 1, .serial = 3, .bytes = VALUE};
    int fd = good_file();
    script_greet(script);
    expect_ask(script, &ask);
    script_expect(script, NC_CANCEL, &frame);
    CHECK_INT(frame.call_id, ask.call_id);
    with_file(script, &ask, given, fd);
    script_expect(script, NC_PING, &frame); /* whose answer shows that what came before was read */
    struct nc_frame pong = {.type = NC_PONG, .length = frame.length};
    uint8_t payload[8];
    nc_put_u64(payload, *(uint64_t *)script->argument);
    script_send_frame(script, &pong, payload);
    expect_release(script, given, false);
    CHECK(script_read_end(script));
    close(fd);
}

static void gone_before(struct script *script)
{
    struct nc_frame ask;
    script_greet(script);
    expect_ask(script, &ask);
}

static void gone_afterwards(struct script *script)
{
    struct nc_frame ask, request;
    struct nc_stored given = {.place = 0, .serial = 4, .bytes = VALUE};
    int fd = good_file();
    script_greet(script);
    expect_ask(script, &ask);
    with_file(script, &ask, given, fd);
    expect_named(script, &request, given);
    close(fd);
}

static void drained_before(struct script *script)
{
    struct nc_frame ask;
    script_greet(script);
    expect_ask(script, &ask);
    script_drain(script, ask.call_id);
    CHECK(script_read_end(script));
}

static void illegal_answer(struct script *script)
{
    struct nc_frame ask;
    script_greet(script);
    expect_ask(script, &ask);
    struct nc_stored none = {.place = 9, .serial = 1, .bytes = VALUE};
    stored_reply(script, &ask, &none, NULL, 0, 0);
    CHECK(script_read_end(script));
}

static void answered_without_one(struct script *script)
{
    struct nc_frame ask;
    script_greet(script);
    expect_ask(script, &ask);
    script_reply(script, &ask, "x", 1);
    CHECK(script_read_end(script));
}

/* The request named the store, and the server says that it did not run it. */
static void refused_afterwards(struct script *script)
{
    struct nc_frame ask, request;
    struct nc_stored given = {.place = 0, .serial = 4, .bytes = VALUE};
    int fd = good_file();
    script_greet(script);
    expect_ask(script, &ask);
    with_file(script, &ask, given, fd);
    expect_named(script, &request, given);
    script_error(script, request.call_id, -NEARCALL_E_UNAVAILABLE, NEARCALL_OUTCOME_NOT_EXECUTED, "taken back");
    expect_release(script, given, false);
    CHECK(script_read_end(script));
    close(fd);
}

static void fails(void (*play)(struct script *), int code, int outcome)
{
    struct script script;
    nearcall_reply reply;
    int before = test_open_descriptors();
    start(&script, play, NULL);
    nearcall_client *client = open_to(&script);
    CHECK_CALL(client, call_large(client, patience_ms(), &reply), code);
    if (code != NEARCALL_OK)
        CHECK_OUTCOME(client, outcome);
    nearcall_close(client);
    script_end(&script);
    CHECK_INT(test_open_descriptors(), before);
}

static void comes_too_late(void)
{
    struct script script;
    nearcall_reply reply;
    uint64_t next_id = 0;
    start(&script, given_too_late, &next_id);
    nearcall_client *client = open_to(&script);
    CHECK_CALL(client, call_large(client, 50, &reply), NEARCALL_E_DEADLINE_EXCEEDED);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    next_id = 2; /* of the ping, the second that this handle draws */
    CHECK_CALL(client, nearcall_ping(client, patience_ms(), NULL), NEARCALL_OK);
    nearcall_close(client);
    script_end(&script);
}

/* ---- A server that breaks the format loses the connection ---- */

static void no_such_place(struct script *script, const struct nc_frame *request, const int *fds)
{
    stored_reply(script, request, &(struct nc_stored){4, 1, 1}, fds, 1, 0);
}

static void no_serial(struct script *script, const struct nc_frame *request, const int *fds)
{
    stored_reply(script, request, &(struct nc_stored){2, 0, 1}, fds, 1, 0);
}

static void two_descriptors(struct script *script, const struct nc_frame *request, const int *fds)
{
    stored_reply(script, request, &(struct nc_stored){2, 1, 1}, fds, 2, 0);
}

static void a_payload_too(struct script *script, const struct nc_frame *request, const int *fds)
{
    (void)fds;
    stored_reply(script, request, &(struct nc_stored){2, 1, 1}, NULL, 0, 1);
}

static void a_descriptor_alone(struct script *script, const struct nc_frame *request, const int *fds)
{
    uint8_t bytes[NC_FRAME_HEADER_BYTES + NC_EXTENSION_HEADER_BYTES];
    struct nc_frame reply = {.type = NC_REPLY, .codec = request->codec, .descriptors = 1, .call_id = request->call_id,
                             .function_id = SCRIPT_FUNCTION_ID, .length = NC_EXTENSION_HEADER_BYTES, .extension_bytes = NC_EXTENSION_HEADER_BYTES};
    nc_frame_encode(bytes, &reply);
    nc_extension_encode(bytes + NC_FRAME_HEADER_BYTES, 99, "", 0);
    script_send_descriptors(script, bytes, sizeof(bytes), fds, 1);
}

static void (*const breakers[])(struct script *, const struct nc_frame *, const int *) = {no_such_place, no_serial, two_descriptors, a_payload_too, a_descriptor_alone};

static void break_format(struct script *script)
{
    struct nc_frame request;
    int fds[2] = {good_file(), good_file()};
    script_greet(script);
    script_expect(script, NC_REQUEST, &request);
    (*(void (*const *)(struct script *, const struct nc_frame *, const int *))script->argument)(script, &request, fds);
    close(fds[0]);
    close(fds[1]);
    CHECK(script_read_end(script));
}

static void broken(size_t which)
{
    struct script script;
    nearcall_reply reply;
    int before = test_open_descriptors();
    start(&script, break_format, (void *)(uintptr_t)&breakers[which]);
    nearcall_client *client = open_to(&script);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, patience_ms(), &reply), NEARCALL_E_INTERNAL);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_EXECUTED_RESULT_LOST);
    nearcall_close(client);
    script_end(&script);
    CHECK_INT(test_open_descriptors(), before);
}

int main(void)
{
    test_begin();
    value = malloc(VALUE);
    CHECK(value != NULL);
    memset(value, 0x5A, VALUE);
    stores_by_hand();
    for (size_t i = 0; i < sizeof(bad_stores) / sizeof(bad_stores[0]); i++)
        stores_that_cannot_be_written(&bad_stores[i]);
    for (size_t i = 0; i < sizeof(bad_replies) / sizeof(bad_replies[0]); i++)
        replies_that_cannot_be_read(&bad_replies[i]);
    fails(refused, NEARCALL_E_RESOURCE_EXHAUSTED, NEARCALL_OUTCOME_NOT_EXECUTED);
    fails(crowded_at_first, NEARCALL_OK, NEARCALL_OUTCOME_NONE);
    fails(gone_before, NEARCALL_E_UNAVAILABLE, NEARCALL_OUTCOME_NOT_EXECUTED);
    fails(gone_afterwards, NEARCALL_E_UNAVAILABLE, NEARCALL_OUTCOME_UNKNOWN);
    fails(drained_before, NEARCALL_E_UNAVAILABLE, NEARCALL_OUTCOME_NOT_EXECUTED);
    fails(illegal_answer, NEARCALL_E_INTERNAL, NEARCALL_OUTCOME_NOT_EXECUTED);
    fails(answered_without_one, NEARCALL_E_INTERNAL, NEARCALL_OUTCOME_NOT_EXECUTED);
    fails(refused_afterwards, NEARCALL_E_UNAVAILABLE, NEARCALL_OUTCOME_NOT_EXECUTED);
    comes_too_late();
    for (size_t i = 0; i < sizeof(breakers) / sizeof(breakers[0]); i++)
        broken(i);
    free(value);
    return 0;
}
