/* What functions a server has: asked for by a call of its built-in function. */
#include "api/api.h"
#include "msgpack/msgpack.h"
#include "schema/schema.h"

static const char schema_name[] = "nearcall.schema";

static int fail(nearcall_client *client, int code, const char *problem)
{
    int r = nc_enter(client);
    if (r < 0)
        return r;
    r = nc_fail(client, code, NEARCALL_OUTCOME_EXECUTED_RESULT_LOST, "the schema of the server cannot be understood: %s", problem);
    return nc_leave(client, r);
}

/* The document is a string of JSON. */
static int compile(const nearcall_reply *reply, nearcall_schema **ret_schema, const char **ret_problem)
{
    nearcall_reader reader = {reply->data, reply->data + reply->bytes};
    struct nc_buffer document = {0};
    nearcall_value text;
    *ret_problem = "it is no text of JSON";
    if (nearcall_read(&reader, &text) < 0 || text.type != NEARCALL_STRING)
        return NEARCALL_E_INVALID_ARGUMENT;
    int r = nc_json_to_msgpack(text.as.data, text.count, &document);
    if (r == NEARCALL_OK)
        r = nc_schema_compile(document.data, document.end, true, ret_schema, ret_problem);
    nc_buffer_free(&document);
    return r;
}

static int call(nearcall_client *client, int64_t timeout_ms, nearcall_reply *ret_reply)
{
    static const uint8_t no_arguments[] = {0x90};
    return nearcall_call_codec(client, schema_name, NEARCALL_CODEC_MSGPACK, no_arguments, sizeof(no_arguments),
                               timeout_ms, ret_reply);
}

NEARCALL_API int nearcall_schema_fetch(nearcall_client *client, int64_t timeout_ms, nearcall_schema **ret_schema)
{
    const char *problem = "";
    nearcall_reply reply;
    if (!client || !ret_schema)
        return NEARCALL_E_MISUSE;
    int r = call(client, timeout_ms, &reply);
    if (r < 0)
        return r;
    r = compile(&reply, ret_schema, &problem);
    if (r == NEARCALL_E_RESOURCE_EXHAUSTED)
        return fail(client, r, "no memory");
    return r < 0 ? fail(client, NEARCALL_E_INTERNAL, problem) : r;
}
