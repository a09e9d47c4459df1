/* Every field of every frame type at its boundaries, both directions; extensions;
 * the deadline field. */
#include "test.h"
#include "wire/wire.h"

#define FRAME_MAX 65536

static struct nc_frame legal(uint8_t type)
{
    struct nc_frame frame = {.type = type};
    if (type != NC_PING && type != NC_PONG && type != NC_WAKE && type != NC_MEMORY)
        frame.call_id = 5;
    if (type == NC_MEMORY) {
        frame.length = NC_MEMORY_PAYLOAD_BYTES;
        frame.descriptors = NC_MEMORY_DESCRIPTORS;
    }
    if (type == NC_REPLY)
        frame.function_id = 1;
    if (type == NC_ERROR) {
        frame.codec = NEARCALL_CODEC_MSGPACK;
        frame.status = 3 | 1 << 8;
        frame.length = 3;
    }
    if (type == NC_RESOLVE)
        frame.length = 4;
    return frame;
}

static bool accepted(const struct nc_frame *frame, enum nc_sender sender)
{
    struct nc_fault fault = {0};
    int r = nc_frame_check(frame, sender, NC_FEATURE_SHARED_MEMORY, FRAME_MAX, &fault);
    CHECK((r == 0) == (fault.code == 0));
    CHECK(r == 0 || (fault.field && fault.allowed && fault.subject));
    return r == 0;
}

struct permission {
    uint8_t type;
    int senders;
    bool codec, function_id, deadline, status, extensions, call_id_zero, call_id_set;
    uint32_t payload_min, payload_max;
};

static const struct permission permissions[] = {
    {NC_REQUEST, NC_FROM_CALLER, true, true, true, false, true, false, true, 0, FRAME_MAX},
    {NC_REPLY, NC_FROM_SERVER, true, true, false, false, true, false, true, 0, FRAME_MAX},
    {NC_ERROR, NC_FROM_SERVER, false, false, false, true, true, true, true, 1, FRAME_MAX},
    {NC_CANCEL, NC_FROM_CALLER, false, false, false, false, false, false, true, 0, 0},
    {NC_PING, 3, false, false, false, false, false, true, false, 0, 64},
    {NC_PONG, 3, false, false, false, false, false, true, false, 0, 64},
    {NC_RESOLVE, NC_FROM_CALLER, false, false, true, false, false, false, true, 1, 255},
    {NC_DRAIN, NC_FROM_SERVER, false, false, false, false, false, true, true, 0, FRAME_MAX},
    {NC_WAKE, 3, false, false, false, false, false, true, false, 0, 0},
    {NC_MEMORY, NC_FROM_SERVER, false, false, false, false, false, true, false, 16, 16},
};

#define EXPECT(change, expected)                                                          \
    do {                                                                                  \
        struct nc_frame frame = legal(p->type);                                           \
        frame.change;                                                                     \
        CHECK_INT(accepted(&frame, sender), (expected));                                  \
    } while (0)

static void check_type(const struct permission *p, enum nc_sender sender)
{
    static const uint32_t lengths[] = {0, 1, 63, 64, 65, 254, 255, 256, FRAME_MAX - 1, FRAME_MAX,
                                       FRAME_MAX + 1, 0x7FFFFFFF, 0x80000000, UINT32_MAX};
    EXPECT(flags = 1, false);
    EXPECT(flags = 0x80, false);
    EXPECT(descriptors = 1, false);
    EXPECT(descriptors = 2, p->type == NC_MEMORY);
    EXPECT(codec = 2, p->codec);
    EXPECT(function_id = UINT32_MAX, p->function_id);
    EXPECT(deadline_ms = 1, p->deadline);
    EXPECT(deadline_ms = UINT32_MAX, p->deadline);
    EXPECT(status = 0x0304, p->status);
    EXPECT(status = 0xFF63, p->status);
    EXPECT(status = 0x0364, false);
    EXPECT(status = 0x03FF, false);
    EXPECT(status = 0x10003, false);
    EXPECT(call_id = 0, p->call_id_zero);
    EXPECT(call_id = 1, p->call_id_set);
    EXPECT(call_id = UINT64_MAX, p->call_id_set);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
        EXPECT(length = lengths[i],
               lengths[i] >= p->payload_min && lengths[i] <= p->payload_max);
    if (p->payload_max != FRAME_MAX)
        return;
    EXPECT(length = 5000; frame.extension_bytes = 4096, p->extensions);
    EXPECT(length = 5000; frame.extension_bytes = 4097, false);
    EXPECT(length = 4; frame.extension_bytes = 5, false);
    EXPECT(length = 4; frame.extension_bytes = UINT32_MAX, false);
}

static void every_type(void)
{
    for (int type = 0; type < 256; type++)
        for (int sender = NC_FROM_CALLER; sender <= NC_FROM_SERVER; sender++) {
            const struct permission *p = NULL;
            struct nc_frame frame = legal((uint8_t)type);
            for (size_t i = 0; i < sizeof(permissions) / sizeof(permissions[0]); i++)
                if (permissions[i].type == type && permissions[i].senders & sender)
                    p = &permissions[i];
            CHECK_INT(accepted(&frame, (enum nc_sender)sender), p != NULL);
            if (p)
                check_type(p, (enum nc_sender)sender);
        }
}

/* What is let through without the table is what the table lets through, with any features. */
static void plain_replies_are_legal(void)
{
    static const uint32_t numbers[] = {0, 1, 7, FRAME_MAX, FRAME_MAX + 1, UINT32_MAX};
    enum { NUMBERS = sizeof(numbers) / sizeof(numbers[0]), FIELDS = 10 };
    unsigned plain = 0;
    uint32_t random = 1;
    for (int i = 0; i < 2000000; i++) {
        uint32_t field[FIELDS];
        for (int j = 0; j < FIELDS; j++) {
            random = random * 1664525 + 1013904223;
            field[j] = random >> 28 < 12 ? 0 : numbers[(random >> 8) % NUMBERS];
        }
        struct nc_frame frame = {field[0], (uint8_t)(i % 4 ? NC_REPLY : field[1]), (uint8_t)field[2], (uint8_t)field[3],
                                 (uint8_t)field[4], field[5] | 1u, field[6] | (uint32_t)(i % 2), field[7], field[8], field[9]};
        if (i % 8 == 0)
            frame.call_id = field[5];
        struct nc_fault fault;
        if (!nc_frame_is_plain_reply(&frame, FRAME_MAX))
            continue;
        plain++;
        CHECK_INT(nc_frame_check(&frame, NC_FROM_SERVER, 0, FRAME_MAX, &fault), 0);
        CHECK_INT(nc_frame_check(&frame, NC_FROM_SERVER, UINT64_MAX, FRAME_MAX, &fault), 0);
    }
    CHECK(plain > 1000);
}

static void types_of_features(void)
{
    static const uint8_t types[] = {NC_WAKE, NC_MEMORY};
    for (size_t i = 0; i < sizeof(types); i++) {
        struct nc_frame frame = legal(types[i]);
        struct nc_fault fault;
        CHECK_INT(nc_frame_check(&frame, NC_FROM_SERVER, NC_FEATURE_SHARED_MEMORY, FRAME_MAX, &fault), 0);
        CHECK_INT(nc_frame_check(&frame, NC_FROM_SERVER, ~8ull, FRAME_MAX, &fault), -1);
    }
}

static void header_round_trip(void)
{
    struct nc_frame frame = {0x01020304, 5, 6, 7, 8, 0x0910111213141516, 0x17181920,
                             0x21222324, 0x25262728, 0x29303132};
    static const uint8_t expected[] = {4, 3, 2, 1, 5, 6, 7, 8, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11,
                                       0x10, 9, 0x20, 0x19, 0x18, 0x17, 0x24, 0x23, 0x22, 0x21,
                                       0x28, 0x27, 0x26, 0x25, 0x32, 0x31, 0x30, 0x29};
    uint8_t bytes[NC_FRAME_HEADER_BYTES];
    struct nc_frame back;
    nc_frame_encode(bytes, &frame);
    CHECK(memcmp(bytes, expected, sizeof(bytes)) == 0);
    nc_frame_decode(&back, bytes);
    CHECK(back.length == frame.length && back.type == frame.type && back.flags == frame.flags &&
          back.codec == frame.codec && back.descriptors == frame.descriptors &&
          back.call_id == frame.call_id && back.function_id == frame.function_id &&
          back.deadline_ms == frame.deadline_ms && back.status == frame.status &&
          back.extension_bytes == frame.extension_bytes);
}

static void check_extensions(const char *bytes, size_t count, int code)
{
    struct nc_fault fault = {0};
    int r = nc_extensions_check((const uint8_t *)bytes, count, 0, "REPLY", &fault);
    CHECK_INT(r, code ? -1 : 0);
    CHECK_INT(fault.code, code);
}

static void extensions(void)
{
    check_extensions("", 0, 0);
    check_extensions("\x10\0\0\0", 4, 0);
    check_extensions("\x10\0\2\0ab", 6, 0);
    check_extensions("\x10\0\2\0ab\x12\0\0\0", 10, 0);
    check_extensions("\x12\0\0\0\x12\0\0\0", 8, 0);
    check_extensions("\x10\0\0\0\x10\0\0\0", 8, 0);
    check_extensions("\xff\x7f\1\0a", 5, 0);
    check_extensions("\xff\xff\1\0a", 5, 12);
    check_extensions("\x10\0\3\0ab", 6, 3);
    check_extensions("\x10\0\xff\xff", 4, 3);
    check_extensions("\x10\0\0", 3, 3);
    check_extensions("\x10\0\0\0\1", 5, 3);
}

static void deadlines(void)
{
    CHECK_INT(nc_deadline_encode(1000, 10, 1), 1000);
    CHECK_INT(nc_deadline_encode(1000, 10, 0), 10);
    CHECK_INT(nc_deadline_encode((int64_t)1 << 32, 10, 1), 1);
    CHECK_INT(nc_deadline_encode(((int64_t)1 << 32) + 5, 10, 1), 5);
    CHECK_INT(nc_deadline_encode(1000, 0, 0), 1);
    CHECK_INT(nc_deadline_encode(1000, -5, 0), 1);
    CHECK_INT(nc_deadline_encode(1000, INT32_MAX, 0), INT32_MAX);
    CHECK_INT(nc_deadline_encode(1000, (int64_t)INT32_MAX + 1, 0), 0);
    CHECK_INT(nc_deadline_encode(1000, (int64_t)INT32_MAX + 1, 1), 0);
}

int main(void)
{
    test_begin();
    every_type();
    types_of_features();
    plain_replies_are_legal();
    header_round_trip();
    extensions();
    deadlines();
    return 0;
}
