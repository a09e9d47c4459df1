#include "wire/wire.h"

#include <stdbool.h>
#include <string.h>

#include "base/base.h"
#include "base/limits_gen.h"
#include "nearcall.h"

static const uint8_t hello_magic[NC_MAGIC_BYTES] = {0x89, 'N', 'C', 'H', '\r', '\n', 0x1A, '\n'};
static const uint8_t welcome_magic[NC_MAGIC_BYTES] = {0x89, 'N', 'C', 'W', '\r', '\n', 0x1A, '\n'};

static uint16_t get_u16(const uint8_t *in)
{
    return (uint16_t)(in[0] | in[1] << 8);
}

static void put_u16(uint8_t *out, uint16_t value)
{
    out[0] = (uint8_t)value;
    out[1] = (uint8_t)(value >> 8);
}

/* ---- What a header may say, by type ---- */

enum { ID_ZERO = 1, ID_SET = 2, ID_ANY = 3 };
enum { NO_CODEC, ANY_CODEC, ONLY_MSGPACK };

struct rule {
    const char *name;
    uint8_t senders;
    uint8_t call_id;
    uint8_t codec;
    uint8_t function_id; /* 0: none, 1: may, 2: must, unless it can answer a STORE or an ASK */
    uint8_t deadline;
    uint8_t status;
    uint8_t extensions;
    uint8_t descriptors; /* that come with each */
    uint16_t feature; /* without which the type is illegal; 0: none */
    uint32_t payload_min;
    uint32_t payload_max; /* without limit: UINT32_MAX, the frame's limit holds */
    const char *payload; /* both as text; NULL: any */
};

#define BOTH (NC_FROM_CALLER | NC_FROM_SERVER)

/* The stream types are absent: this version never accepts their feature. */
static const struct rule rules[] = {
    [NC_REQUEST] = {"REQUEST", NC_FROM_CALLER, ID_SET, ANY_CODEC, 1, 1, 0, 1, 0, 0, 0, UINT32_MAX,
                    NULL},
    [NC_REPLY] = {"REPLY", NC_FROM_SERVER, ID_SET, ANY_CODEC, 2, 0, 0, 1, 0, 0, 0, UINT32_MAX,
                    NULL},
    [NC_ERROR] = {"ERROR", NC_FROM_SERVER, ID_ANY, ONLY_MSGPACK, 0, 0, 1, 1, 0, 0, 1, UINT32_MAX,
                  "1 and above"},
    [NC_CANCEL] = {"CANCEL", NC_FROM_CALLER, ID_SET, NO_CODEC, 0, 0, 0, 0, 0, 0, 0, 0, "0"},
    [NC_PING] = {"PING", BOTH, ID_ZERO, NO_CODEC, 0, 0, 0, 0, 0, 0, 0, NC_PING_BYTES_MAX,
                 "at most " NC_TEXT(NC_PING_BYTES_MAX) " (limit ping_bytes_max, which is fixed)"},
    [NC_PONG] = {"PONG", BOTH, ID_ZERO, NO_CODEC, 0, 0, 0, 0, 0, 0, 0, NC_PING_BYTES_MAX,
                 "at most " NC_TEXT(NC_PING_BYTES_MAX) " (limit ping_bytes_max, which is fixed)"},
    [NC_RESOLVE] = {"RESOLVE", NC_FROM_CALLER, ID_SET, NO_CODEC, 0, 1, 0, 0, 0, 0, 1,
                    NC_FUNCTION_NAME_BYTES_MAX,
                    "1 to " NC_TEXT(NC_FUNCTION_NAME_BYTES_MAX) " (limit function_name_bytes_max, "
                    "which is fixed)"},
    [NC_DRAIN] = {"DRAIN", NC_FROM_SERVER, ID_ANY, NO_CODEC, 0, 0, 0, 0, 0, 0, 0, UINT32_MAX, NULL},
    [NC_WAKE] = {"WAKE", BOTH, ID_ZERO, NO_CODEC, 0, 0, 0, 0, 0, NC_FEATURE_SHARED_MEMORY, 0, 0,
                 "0"},
    [NC_MEMORY] = {"MEMORY", NC_FROM_SERVER, ID_ZERO, NO_CODEC, 0, 0, 0, 0, NC_MEMORY_DESCRIPTORS,
                   NC_FEATURE_SHARED_MEMORY, NC_MEMORY_PAYLOAD_BYTES, NC_MEMORY_PAYLOAD_BYTES,
                   NC_TEXT(NC_MEMORY_PAYLOAD_BYTES)},
    [NC_STORE] = {"STORE", NC_FROM_CALLER, ID_SET, NO_CODEC, 0, 1, 0, 0, 0, NC_FEATURE_STORES,
                  NC_STORE_ASK_BYTES, NC_STORE_ASK_BYTES, NC_TEXT(NC_STORE_ASK_BYTES)},
    [NC_RELEASE] = {"RELEASE", NC_FROM_CALLER, ID_ZERO, NO_CODEC, 0, 0, 0, 0, 0, NC_FEATURE_STORES,
                    NC_RELEASE_BYTES, NC_RELEASE_BYTES, NC_TEXT(NC_RELEASE_BYTES)},
    [NC_ASK] = {"ASK", NC_FROM_CALLER, ID_SET, NO_CODEC, 0, 1, 0, 0, 0, NC_FEATURE_ASKS,
                NC_CONNECTION_KEY_BYTES + NC_ASKED_CALL_BYTES,
                NC_CONNECTION_KEY_BYTES + NC_ASKED_CALLS_MAX * NC_ASKED_CALL_BYTES,
                "that of 1 to " NC_TEXT(NC_ASKED_CALLS_MAX) " calls (limit asked_calls_max, which is fixed)"},
};

static int refuse(struct nc_fault *fault, int code, const char *subject, const char *field,
                  uint64_t value, const char *allowed)
{
    *fault = (struct nc_fault){-code, subject, field, value, allowed};
    return -1;
}

static int malformed(struct nc_fault *fault, const char *subject, const char *field,
                     uint64_t value, const char *allowed)
{
    return refuse(fault, NEARCALL_E_INVALID_ARGUMENT, subject, field, value, allowed);
}

static const struct rule *find_rule(uint8_t type, enum nc_sender sender, uint64_t features)
{
    if (type >= sizeof(rules) / sizeof(rules[0]) || !(rules[type].senders & sender) ||
        rules[type].feature & ~features)
        return NULL;
    return &rules[type];
}

static int check_lengths(const struct nc_frame *frame, const struct rule *rule,
                         uint32_t frame_bytes_max, struct nc_fault *fault)
{
    if (frame->length > frame_bytes_max)
        return refuse(fault, NEARCALL_E_RESOURCE_EXHAUSTED, rule->name, "length", frame->length,
                      "what this side announced (option frame_bytes_max, at most "
                      NC_TEXT(NC_FRAME_BYTES_MAX_CEILING) ")");
    if (frame->extension_bytes > NC_EXTENSION_BYTES_MAX)
        return malformed(fault, rule->name, "extension bytes", frame->extension_bytes,
                         "at most " NC_TEXT(NC_EXTENSION_BYTES_MAX) " (limit "
                         "extension_bytes_max, which is fixed)");
    if (frame->extension_bytes > frame->length)
        return malformed(fault, rule->name, "extension bytes", frame->extension_bytes,
                         "at most the length");
    if (frame->extension_bytes && !rule->extensions)
        return malformed(fault, rule->name, "extension bytes", frame->extension_bytes, "0");
    uint32_t payload = frame->length - frame->extension_bytes;
    if (payload < rule->payload_min || payload > rule->payload_max)
        return malformed(fault, rule->name, "payload bytes", payload, rule->payload);
    return 0;
}

/* Whether the descriptor can be that of a store. */
static bool brings_store(const struct nc_frame *frame, uint64_t features)
{
    return features & NC_FEATURE_STORES && frame->type == NC_REPLY &&
           frame->descriptors == NC_STORE_DESCRIPTORS && frame->extension_bytes;
}

/* A call's frames may have some where that was agreed to. */
static int check_descriptors(const struct nc_frame *frame, const struct rule *rule,
                             uint64_t features, struct nc_fault *fault)
{
    bool agreed = features & NC_FEATURE_DESCRIPTORS &&
                  (frame->type == NC_REQUEST || frame->type == NC_REPLY);
    if (agreed && frame->descriptors > NC_FILE_DESCRIPTORS_PER_FRAME_MAX)
        return malformed(fault, rule->name, "fds", frame->descriptors,
                         "at most " NC_TEXT(NC_FILE_DESCRIPTORS_PER_FRAME_MAX) " (limit "
                         "file_descriptors_per_frame_max, which is fixed)");
    if (!agreed && frame->descriptors != rule->descriptors && !brings_store(frame, features))
        return malformed(fault, rule->name, "fds", frame->descriptors,
                         rule->descriptors ? "2" : "0");
    return 0;
}

static int check_codec(uint8_t codec, const struct rule *rule, struct nc_fault *fault)
{
    if (rule->codec == NO_CODEC && codec != 0)
        return malformed(fault, rule->name, "codec", codec, "0");
    if (rule->codec == ONLY_MSGPACK && codec != NEARCALL_CODEC_MSGPACK)
        return malformed(fault, rule->name, "codec", codec, "1");
    return 0;
}

static int check_call_id(uint64_t call_id, const struct rule *rule, struct nc_fault *fault)
{
    if (rule->call_id == ID_ZERO && call_id != 0)
        return malformed(fault, rule->name, "call id", call_id, "0");
    if (rule->call_id == ID_SET && call_id == 0)
        return malformed(fault, rule->name, "call id", call_id, "1 and above");
    return 0;
}

/* Codes from here on are a library's own: a frame that carries one is illegal. */
#define CODE_NEVER_SENT (-NEARCALL_E_INTERRUPTED)

static int check_status(const struct nc_frame *frame, const struct rule *rule,
                        uint64_t features, struct nc_fault *fault)
{
    if (frame->type == NC_REQUEST && features & NC_FEATURE_DESCRIPTIONS)
        return 0; /* any number may be a description's check */
    if (!rule->status)
        return frame->status ? malformed(fault, rule->name, "status", frame->status, "0") : 0;
    uint32_t code = frame->status & 0xFF;
    if (code == 0 || code >= CODE_NEVER_SENT || frame->status >> 16)
        return malformed(fault, rule->name, "status", frame->status,
                         "a code in bits 0 to 7, an outcome in bits 8 to 15");
    return 0;
}

int nc_frame_check(const struct nc_frame *frame, enum nc_sender sender, uint64_t features,
                   uint32_t frame_bytes_max, struct nc_fault *fault)
{
    const struct rule *rule = find_rule(frame->type, sender, features);
    if (!rule)
        return malformed(fault, "frame", "type", frame->type,
                         "the types this side may send with the features agreed to");
    if (frame->flags)
        return malformed(fault, rule->name, "flags", frame->flags, "0");
    if (check_descriptors(frame, rule, features, fault) < 0)
        return -1;
    if (frame->function_id && !rule->function_id)
        return malformed(fault, rule->name, "function id", frame->function_id, "0");
    if (!frame->function_id && rule->function_id == 2 && !frame->extension_bytes &&
        !(features & NC_FEATURE_ASKS))
        return malformed(fault, rule->name, "function id", 0, "1 and above");
    if (frame->deadline_ms && !rule->deadline)
        return malformed(fault, rule->name, "deadline", frame->deadline_ms, "0");
    if (check_call_id(frame->call_id, rule, fault) < 0 ||
        check_codec(frame->codec, rule, fault) < 0 || check_status(frame, rule, features, fault) < 0)
        return -1;
    return check_lengths(frame, rule, frame_bytes_max, fault);
}

/* ---- Extensions ---- */

static int is_known(uint16_t type, uint64_t features)
{
    if (type == NC_EXTENSION_STORED)
        return (features & NC_FEATURE_STORES) != 0;
    return type == NC_EXTENSION_SOFTWARE || type == NC_EXTENSION_REFUSAL ||
           type == NC_EXTENSION_FUNCTION_NAME;
}

int nc_extensions_check(const uint8_t *data, size_t bytes, uint64_t features, const char *subject,
                        struct nc_fault *fault)
{
    size_t offset = 0;
    while (offset < bytes) {
        if (bytes - offset < NC_EXTENSION_HEADER_BYTES)
            return malformed(fault, subject, "extension header bytes", bytes - offset, "4");
        uint16_t type = get_u16(data + offset);
        uint16_t length = get_u16(data + offset + 2);
        offset += NC_EXTENSION_HEADER_BYTES;
        if (length > bytes - offset)
            return malformed(fault, subject, "extension bytes", length, "what is left of them");
        if ((type & NC_EXTENSION_REQUIRED) && !is_known(type, features))
            return refuse(fault, NEARCALL_E_UNIMPLEMENTED, subject, "required extension", type,
                          "those this version knows");
        offset += length;
    }
    return 0;
}

int nc_extension_next(const uint8_t *data, size_t bytes, size_t *offset,
                      struct nc_extension *extension)
{
    if (*offset >= bytes)
        return 0;
    extension->type = get_u16(data + *offset);
    extension->bytes = get_u16(data + *offset + 2);
    extension->data = data + *offset + NC_EXTENSION_HEADER_BYTES;
    *offset += NC_EXTENSION_HEADER_BYTES + (size_t)extension->bytes;
    return 1;
}

size_t nc_extension_encode(uint8_t *out, uint16_t type, const void *data, uint16_t bytes)
{
    put_u16(out, type);
    put_u16(out + 2, bytes);
    memcpy(out + NC_EXTENSION_HEADER_BYTES, data, bytes);
    return NC_EXTENSION_HEADER_BYTES + (size_t)bytes;
}

/* ---- Stores ---- */

void nc_stored_encode(uint8_t out[NC_STORED_BYTES], const struct nc_stored *stored)
{
    nc_put_u32(out, stored->place);
    nc_put_u32(out + 4, stored->serial);
    nc_put_u64(out + 8, stored->bytes);
}

bool nc_stored_decode(struct nc_stored *stored, const struct nc_extension *extension)
{
    if (extension->bytes != NC_STORED_BYTES)
        return false;
    stored->place = nc_get_u32(extension->data);
    stored->serial = nc_get_u32(extension->data + 4);
    stored->bytes = nc_get_u64(extension->data + 8);
    return stored->place < NC_STORE_PLACES && stored->serial != 0 && stored->bytes <= NC_VALUE_BYTES_MAX_CEILING;
}

void nc_release_encode(uint8_t out[NC_RELEASE_BYTES], const struct nc_stored *stored, bool forget)
{
    nc_put_u32(out, stored->place);
    nc_put_u32(out + 4, stored->serial);
    nc_put_u32(out + 8, forget);
}

/* ---- Hello and welcome ---- */

void nc_hello_encode(uint8_t out[NC_HELLO_HEADER_BYTES], const struct nc_hello *hello,
                     size_t extension_bytes)
{
    memcpy(out, hello_magic, NC_MAGIC_BYTES);
    nc_put_u32(out + 8, (uint32_t)(NC_HELLO_HEADER_BYTES + extension_bytes));
    put_u16(out + 12, hello->version_lowest);
    put_u16(out + 14, hello->version_highest);
    nc_put_u64(out + 16, hello->features_offered);
    nc_put_u64(out + 24, hello->features_required);
    nc_put_u32(out + 32, hello->process_id);
    nc_put_u32(out + 36, hello->frame_bytes_max);
    nc_put_u64(out + 40, hello->clock_ns);
    nc_put_u32(out + 48, hello->stream_credit_bytes);
    nc_put_u32(out + 52, 0);
    nc_put_u64(out + 56, 0);
}

static void read_welcome(struct nc_welcome *welcome, const uint8_t *in)
{
    welcome->total_bytes = nc_get_u32(in + 8);
    welcome->version = get_u16(in + 12);
    welcome->status = get_u16(in + 14);
    welcome->features = nc_get_u64(in + 16);
    welcome->server_instance = nc_get_u64(in + 24);
    welcome->process_id = nc_get_u32(in + 32);
    welcome->frame_bytes_max = nc_get_u32(in + 36);
    welcome->clock_ns = nc_get_u64(in + 40);
    welcome->stream_credit_bytes = nc_get_u32(in + 48);
    welcome->calls_in_flight_max = nc_get_u32(in + 52);
    welcome->schema_hash = nc_get_u64(in + 56);
}

static int check_welcome(const struct nc_welcome *welcome, uint64_t features_offered,
                         struct nc_fault *fault)
{
    if (welcome->version == 0)
        return welcome->status ? 0 : malformed(fault, "welcome", "status", 0, "a code, as it refuses");
    if (welcome->version != NC_PROTOCOL_VERSION)
        return malformed(fault, "welcome", "version", welcome->version, "1");
    if (welcome->status != 0)
        return malformed(fault, "welcome", "status", welcome->status, "0, as it accepts");
    if (welcome->features & ~features_offered)
        return malformed(fault, "welcome", "features", welcome->features, "those that were offered");
    if (welcome->frame_bytes_max < NC_PEER_FRAME_BYTES_MIN)
        return malformed(fault, "welcome", "largest frame", welcome->frame_bytes_max,
                         "65536 and above");
    if (welcome->server_instance == 0)
        return malformed(fault, "welcome", "server instance", 0, "any other number");
    return 0;
}

/* What has another size says nothing, and more than there may be is as much as there may be. */
static void read_value_bytes_max(struct nc_welcome *welcome, const uint8_t *extensions)
{
    size_t bytes = welcome->total_bytes - NC_HELLO_HEADER_BYTES, offset = 0;
    struct nc_extension extension;
    welcome->value_bytes_max = 0;
    if (!(welcome->features & NC_FEATURE_STORES))
        return;
    while (nc_extension_next(extensions, bytes, &offset, &extension))
        if (extension.type == NC_EXTENSION_VALUE_BYTES_MAX && extension.bytes == NC_VALUE_BYTES_MAX_BYTES) {
            uint64_t said = nc_get_u64(extension.data);
            welcome->value_bytes_max = said < NC_VALUE_BYTES_MAX_CEILING ? said : NC_VALUE_BYTES_MAX_CEILING;
        }
}

/* A key of another size is none. */
static void read_key(struct nc_welcome *welcome, const uint8_t *extensions)
{
    size_t bytes = welcome->total_bytes - NC_HELLO_HEADER_BYTES, offset = 0;
    struct nc_extension extension;
    welcome->has_key = false;
    if (!(welcome->features & NC_FEATURE_ASKS))
        return;
    while (nc_extension_next(extensions, bytes, &offset, &extension))
        if (extension.type == NC_EXTENSION_CONNECTION_KEY && extension.bytes == NC_CONNECTION_KEY_BYTES) {
            memcpy(welcome->key, extension.data, NC_CONNECTION_KEY_BYTES);
            welcome->has_key = true;
        }
}

int nc_welcome_decode(struct nc_welcome *welcome, const uint8_t *data, size_t bytes,
                      uint64_t features_offered, struct nc_fault *fault)
{
    for (size_t i = 0; i < bytes && i < NC_MAGIC_BYTES; i++)
        if (data[i] != welcome_magic[i])
            return malformed(fault, "welcome", "magic byte", data[i],
                             "89 4E 43 57 0D 0A 1A 0A; is this a Nearcall server?");
    if (bytes < NC_HELLO_HEADER_BYTES)
        return 0;
    read_welcome(welcome, data);
    if (welcome->total_bytes < NC_HELLO_HEADER_BYTES || welcome->total_bytes > NC_HELLO_BYTES_MAX)
        return malformed(fault, "welcome", "total bytes", welcome->total_bytes,
                         "64 to the limit hello_bytes_max");
    if (check_welcome(welcome, features_offered, fault) < 0)
        return -1;
    if (bytes < welcome->total_bytes)
        return 0;
    if (nc_extensions_check(data + NC_HELLO_HEADER_BYTES,
                            welcome->total_bytes - NC_HELLO_HEADER_BYTES, 0, "welcome", fault) < 0)
        return -1;
    read_value_bytes_max(welcome, data + NC_HELLO_HEADER_BYTES);
    read_key(welcome, data + NC_HELLO_HEADER_BYTES);
    return 1;
}

int64_t nc_clock_ahead_ns(uint64_t sample_ns, int64_t hello_ns, int64_t welcome_ns)
{
    const int64_t near_ns = (int64_t)NC_CLOCK_DISTANCE_MS_MAX * 1000000;
    int64_t after_hello_ns = (int64_t)(sample_ns - (uint64_t)hello_ns);
    int64_t after_welcome_ns = (int64_t)(sample_ns - (uint64_t)welcome_ns);
    return after_hello_ns >= -near_ns && after_welcome_ns <= near_ns ? 0 : after_welcome_ns;
}

uint32_t nc_deadline_encode(int64_t deadline_ms, int64_t remaining_ms, int shared_clock)
{
    /* Beyond half the field's range the comparison would wrap: the caller's own
     * clock ends such a call. */
    if (remaining_ms > INT32_MAX)
        return 0;
    if (remaining_ms < 1)
        remaining_ms = 1;
    uint32_t field = shared_clock ? (uint32_t)deadline_ms : (uint32_t)remaining_ms;
    return field ? field : 1;
}
