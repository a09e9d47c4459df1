/* By which description a request was encoded, so that it never runs on a server that
 * has another one: parameters may have changed their order or their types. */
#include "functions/functions.h"

#include <stdlib.h>
#include <string.h>

#include "handle/handle.h"
#include "msgpack/msgpack.h"
#include "wire/wire.h"

#define CHECK_BYTES 4

static bool is_hash(const nearcall_value *value)
{
    return value->type == NEARCALL_STRING && nc_is_hash(value->as.data, value->count);
}

/* A member of a description; false where there is none, or no description. */
static bool find_member(const uint8_t *data, size_t bytes, const char *name, nearcall_value *ret_value)
{
    nearcall_reader reader = {data, data + bytes};
    nearcall_value map, key;
    if (nearcall_read(&reader, &map) < 0 || map.type != NEARCALL_MAP)
        return false;
    for (uint32_t i = 0; i < map.count; i++) {
        if (nearcall_read(&reader, &key) < 0 || key.type != NEARCALL_STRING)
            return false;
        if (key.count == strlen(name) && memcmp(key.as.data, name, key.count) == 0)
            return nearcall_read(&reader, ret_value) == NEARCALL_OK;
        if (nearcall_skip(&reader) < 0)
            return false;
    }
    return false;
}

/* The first four bytes of the hash, little-endian; 0 is left to what has no hash. */
static uint32_t check_of(const char *hash)
{
    uint32_t check = 0;
    for (unsigned i = 0; i < CHECK_BYTES; i++) {
        int byte = nc_hex_value((uint8_t)hash[2 * i]) << 4 | nc_hex_value((uint8_t)hash[2 * i + 1]);
        check |= (uint32_t)byte << (8 * i);
    }
    return check ? check : 1;
}

struct nc_description *nc_description_new(const uint8_t *data, size_t bytes)
{
    struct nc_description *description = malloc(sizeof(*description) + bytes);
    nearcall_value hash, idempotent;
    if (!description)
        return NULL;
    description->check = 0;
    memset(description->hash, 0, sizeof(description->hash));
    description->bytes = bytes;
    memcpy(description->data, data, bytes);
    description->is_idempotent = find_member(data, bytes, "idempotent", &idempotent) &&
                                 idempotent.type == NEARCALL_BOOL && idempotent.as.boolean;
    if (find_member(data, bytes, "hash", &hash) && is_hash(&hash)) {
        memcpy(description->hash, hash.as.data, NC_HASH_DIGITS);
        description->check = check_of(description->hash);
    }
    return description;
}

bool nc_encoding_is_outdated(const nearcall_client *client, const struct nc_encoding *encoding)
{
    const struct nc_welcome *welcome = &client->connection.welcome;
    if (encoding->has_blocks && !(welcome->features & NC_FEATURE_PACKED_LISTS))
        return true;
    bool is_checked = encoding->check && welcome->features & NC_FEATURE_DESCRIPTIONS;
    return encoding->by_description && !is_checked && encoding->schema_hash != welcome->schema_hash;
}

void nc_description_refused(const nearcall_client *client, const struct nc_call *call)
{
    nearcall_function *function = call->function;
    bool of_description = call->code == -NEARCALL_E_ABORTED && call->encoding.check != 0;
    bool of_codec = call->code == -NEARCALL_E_INVALID_ARGUMENT && call->type == NC_REQUEST &&
                    call->codec == NEARCALL_CODEC_RAW;
    if (call->outcome != NEARCALL_OUTCOME_NOT_EXECUTED || !function || !function->description)
        return;
    if (!of_codec && !(of_description && call->encoding.check == function->description->check))
        return;
    function->is_refused = true;
    function->refused_schema_hash = client->connection.welcome.schema_hash;
    nc_log(client, NEARCALL_LOG_INFO, "the server at %s has another description of %.*s and refused a request",
           client->address_text, (int)function->name_bytes, function->name);
}
