/* Calls by name, requests that were put together, and calls that were sent before. */
#include <string.h>

#include "api/api.h"
#include "api/embed.h"
#include "base/clock.h"
#include "calls/calls.h"
#include "functions/functions.h"
#include "request/request.h"
#include "transport/files.h"
#include "wait/wait.h"

/* ---- Calls that are waited for ---- */

static void hold_files(struct nc_call *call, struct nc_files *files)
{
    if (!files)
        return;
    call->has_more = true;
    call->files = nc_files_hold(files);
}

/* What may be sent again is asked of the server, and what does not fit is refused, in one place. */
static bool is_for_library(const nearcall_view *view, const nearcall_function *function)
{
    return !view || (!(view->flags & NEARCALL_CALL_RETRY_UNKNOWN) && nc_view_fits(view, function));
}

static int call_table_full(nearcall_client *client, nearcall_function *function)
{
    if (function->revision == 0 && function->id == 0)
        nc_function_forget_if_unused(client, function);
    return nc_fail_table_full(client);
}

/* encoding is NULL for bytes that no description is about, files where there are none. */
static int call_with(nearcall_client *client, nearcall_function *function,
                     const struct nc_payload *payload, const struct nc_encoding *encoding,
                     struct nc_files *files, nearcall_reply *ret_reply)
{
    if (client->embed.is_direct && !files && is_for_library(client->view, function) &&
        payload->bytes <= NC_FRAME_BYTES_MAX_CEILING) {
        int r = nc_embed_call(client, function, payload, ret_reply);
        if (r != NC_EMBED_ELSEWHERE)
            return r;
    }
    struct nc_call *call =
        nc_call_new(client, NC_REQUEST, function, nc_deadline(client, payload->timeout_ms));
    if (__builtin_expect(!call, 0))
        return call_table_full(client, function);
    call->codec = (uint8_t)payload->codec;
    call->payload = payload->data;
    call->payload_bytes = payload->bytes;
    hold_files(call, files);
    if (encoding)
        call->encoding = *encoding;
    if (client->view)
        nc_call_use_view(client, call);
    return nc_sync_call(client, call, encoding ? client->request.sendings : 0, ret_reply);
}

static int check_codec(nearcall_client *client, int codec)
{
    if (codec >= NEARCALL_CODEC_RAW && codec <= NEARCALL_CODEC_JSON)
        return NEARCALL_OK;
    return nc_fail(client, NEARCALL_E_MISUSE, NEARCALL_OUTCOME_NOT_EXECUTED,
                   "the codec is %d; allowed: NEARCALL_CODEC_RAW, _MSGPACK and _JSON, and _PACKED for "
                   "nearcall_request()", codec);
}

/* What is wrong with a call whose name or payload was found to be. */
static int refuse_call(nearcall_client *client, const char *name, size_t name_bytes,
                       const struct nc_payload *payload)
{
    if (name_bytes == 0 || name_bytes > NC_FUNCTION_NAME_BYTES_MAX)
        return nc_fail(client, name ? NEARCALL_E_INVALID_ARGUMENT : NEARCALL_E_MISUSE,
                       NEARCALL_OUTCOME_NOT_EXECUTED,
                       "a function's name has 1 to %d bytes (limit function_name_bytes_max, "
                       "which is fixed)",
                       NC_FUNCTION_NAME_BYTES_MAX);
    if (payload->bytes && !payload->data)
        return nc_fail(client, NEARCALL_E_MISUSE, NEARCALL_OUTCOME_NOT_EXECUTED,
                       "%zu bytes of a request at NULL", payload->bytes);
    return nc_fail(client, NEARCALL_E_RESOURCE_EXHAUSTED, NEARCALL_OUTCOME_NOT_EXECUTED, "%s",
                   nc_request_is_too_large(client));
}

static int call_by_name(nearcall_client *client, const char *name, const struct nc_payload *payload,
                        nearcall_reply *ret_reply)
{
    size_t name_bytes = name ? strlen(name) : 0;
    bool is_wrong = name_bytes == 0 || name_bytes > NC_FUNCTION_NAME_BYTES_MAX ||
                    (payload->bytes && !payload->data) || payload->bytes > nc_request_bytes_max(client);
    if (__builtin_expect(is_wrong, 0))
        return refuse_call(client, name, name_bytes, payload);
    int r = nc_check_timeout(client, payload->timeout_ms);
    if (r < 0)
        return r;
    nc_sync_abandon(client);
    nearcall_function *function = nc_function_intern(client, name, name_bytes);
    if (!function)
        return nc_fail_no_memory(client, "a function's name");
    return call_with(client, function, payload, NULL, NULL, ret_reply);
}

NEARCALL_API int nearcall_call(nearcall_client *client, const char *name, const void *data,
                               size_t bytes, int64_t timeout_ms, nearcall_reply *ret_reply)
{
    const struct nc_payload payload = {NEARCALL_CODEC_RAW, data, bytes, timeout_ms};
    int r = nc_enter(client);
    if (r < 0)
        return r;
    return nc_leave(client, call_by_name(client, name, &payload, ret_reply));
}

NEARCALL_API int nearcall_call_codec(nearcall_client *client, const char *name, int codec,
                                     const void *data, size_t bytes, int64_t timeout_ms,
                                     nearcall_reply *ret_reply)
{
    const struct nc_payload payload = {codec, data, bytes, timeout_ms};
    int r = nc_enter(client);
    if (r < 0)
        return r;
    r = check_codec(client, codec);
    if (r == NEARCALL_OK)
        r = call_by_name(client, name, &payload, ret_reply);
    return nc_leave(client, r);
}

/* ---- Requests that were put together ---- */

/* This and request_call() are a part of both of those that use it: every call goes through them. */
static inline __attribute__((always_inline)) int begin_request(nearcall_client *client,
                                                               nearcall_function *function, int codec)
{
    nc_sync_abandon(client); /* it may send from the buffer that is used again now */
    nc_begin_abandon(client);
    if (!function)
        return nc_fail(client, NEARCALL_E_MISUSE, NEARCALL_OUTCOME_NOT_EXECUTED,
                       "the function is NULL; nearcall_find() gives one");
    int r = codec == NEARCALL_CODEC_PACKED ? NEARCALL_OK : check_codec(client, codec);
    if (r == NEARCALL_OK)
        nc_writer_begin(client, function, codec);
    return r;
}

NEARCALL_API int nearcall_request(nearcall_client *client, nearcall_function *function, int codec)
{
    int r = nc_enter(client);
    if (r < 0)
        return r;
    return nc_leave(client, begin_request(client, function, codec));
}

static void exchange(struct nc_writer *one, struct nc_writer *other)
{
    struct nc_writer former = *one;
    *one = *other;
    *other = former;
}

/* The memory of the handle's last request becomes the writer's, and nothing else of it. */
static int take_written(nearcall_client *client, nearcall_writer *writer)
{
    if (!writer->values.function)
        return nc_fail(client, NEARCALL_E_MISUSE, NEARCALL_OUTCOME_NOT_EXECUTED,
                       "the writer was begun for no function; nearcall_writer_begin() takes one");
    if (!nc_function_is_of(client, writer->values.function))
        return nc_fail(client, NEARCALL_E_MISUSE, NEARCALL_OUTCOME_NOT_EXECUTED,
                       "the writer was begun for a function of another handle");
    nc_sync_abandon(client); /* it may send from the buffer that goes away */
    nc_begin_abandon(client);
    nc_writer_drop(client);
    exchange(&client->request, &writer->values);
    client->request.owner = client;
    writer->values.owner = NULL;
    nc_writer_reset(&writer->values, NULL, NEARCALL_CODEC_MSGPACK);
    return NEARCALL_OK;
}

NEARCALL_API int nearcall_request_written(nearcall_client *client, nearcall_writer *writer)
{
    if (!writer)
        return NEARCALL_E_MISUSE;
    int r = nc_enter(client);
    if (r < 0)
        return r;
    return nc_leave(client, take_written(client, writer));
}

/* What lies in a connection's memory cannot leave it. */
static int swap_requests(nearcall_client *client, nearcall_client *other)
{
    nc_sync_abandon(client); /* it may send from what goes away */
    nc_sync_abandon(other);
    nc_begin_abandon(client); /* the next one that is sent is the one that came */
    nc_begin_abandon(other);
    if (nc_request_own(client) < 0 || nc_request_own(other) < 0)
        return nc_fail_no_memory(client, "a request");
    exchange(&client->request, &other->request);
    client->request.owner = client;
    other->request.owner = other;
    return NEARCALL_OK;
}

NEARCALL_API int nearcall_request_swap(nearcall_client *client, nearcall_client *other)
{
    int r = nc_enter(client);
    if (r < 0)
        return r;
    r = nc_enter(other);
    if (r == NEARCALL_OK)
        r = nc_leave(other, swap_requests(client, other));
    return nc_leave(client, r);
}

static int check_request(nearcall_client *client, int64_t timeout_ms)
{
    int r = nc_check_timeout(client, timeout_ms);
    return r == NEARCALL_OK ? nc_writer_check(client) : r;
}

static inline __attribute__((always_inline)) int request_call(nearcall_client *client, int64_t timeout_ms,
                                                             nearcall_reply *ret_reply)
{
    struct nc_writer *request = &client->request;
    nc_sync_abandon(client);
    int r = check_request(client, timeout_ms);
    if (r < 0)
        return r;
    const struct nc_payload payload = {nc_writer_codec(request), request->buffer.data,
                                       nc_buffer_bytes(&request->buffer), timeout_ms};
    r = call_with(client, request->function, &payload, &request->encoding, request->files, ret_reply);
    if (r == NEARCALL_E_INTERRUPTED)
        nc_writer_lend(client);
    else
        nc_writer_drop(client);
    return r;
}

NEARCALL_API int nearcall_request_call(nearcall_client *client, int64_t timeout_ms,
                                       nearcall_reply *ret_reply)
{
    int r = nc_enter(client);
    if (r < 0)
        return r;
    return nc_leave(client, request_call(client, timeout_ms, ret_reply));
}

/* What was begun in a parent is not sent by a child, which has a request of its own to begin. */
static int tell_forked(nearcall_client *client)
{
    return nc_fail(client, NEARCALL_E_FAILED_PRECONDITION, NEARCALL_OUTCOME_NOT_EXECUTED,
                   "this process was forked while the request was put together; call again");
}

static int call_values(nearcall_client *client, nearcall_function *function, int codec,
                       const nearcall_value *values, size_t count, int64_t timeout_ms,
                       nearcall_reply *ret_reply)
{
    int r = begin_request(client, function, codec);
    if (r < 0)
        return r;
    nc_writer_put_values(client, values, count);
    if (nc_forked_inside(client))
        return tell_forked(client);
    return request_call(client, timeout_ms, ret_reply);
}

NEARCALL_API int nearcall_call_values(nearcall_client *client, nearcall_function *function, int codec,
                                      const nearcall_value *values, size_t count,
                                      int64_t timeout_ms, nearcall_reply *ret_reply)
{
    int r = nc_enter(client);
    if (r < 0)
        return r;
    return nc_leave(client, call_values(client, function, codec, values, count, timeout_ms, ret_reply));
}

/* A signal's handler that uses the handle gives up what it has interrupted, and another request
 * may have taken that one's place. */
static int tell_given_up(nearcall_client *client)
{
    client->half_given_up = false;
    return nc_fail(client, NEARCALL_E_CANCELLED, NEARCALL_OUTCOME_UNKNOWN,
                   "the request that was interrupted when a part of it was sent was given up, as another took its place");
}

static int request_send(nearcall_client *client, int64_t timeout_ms, nearcall_call_id *ret_call)
{
    struct nc_writer *request = &client->request;
    nc_sync_abandon(client);
    if (client->half_begun)
        return nc_begin_go_on(client, ret_call);
    if (client->half_given_up && !request->function)
        return tell_given_up(client);
    int r = check_request(client, timeout_ms);
    if (r < 0)
        return r;
    struct nc_call *call =
        nc_call_new(client, NC_REQUEST, request->function, nc_deadline(client, timeout_ms));
    if (!call)
        return nc_fail_table_full(client);
    call->codec = (uint8_t)nc_writer_codec(request);
    call->encoding = request->encoding;
    call->payload = request->buffer.data;
    call->payload_bytes = nc_buffer_bytes(&request->buffer);
    hold_files(call, request->files);
    if (client->view)
        nc_call_use_view(client, call);
    r = call->state == NC_CALL_FINISHED ? nc_call_deliver(client, call, NULL) : nc_begin(client, call, ret_call);
    if (r != NEARCALL_E_INTERRUPTED || client->half_begun)
        nc_writer_drop(client);
    return r;
}

NEARCALL_API int nearcall_request_send(nearcall_client *client, int64_t timeout_ms,
                                       nearcall_call_id *ret_call)
{
    int r = nc_enter(client);
    if (r < 0)
        return r;
    if (!ret_call)
        r = nc_fail(client, NEARCALL_E_MISUSE, NEARCALL_OUTCOME_NOT_EXECUTED, "ret_call is NULL");
    else
        r = request_send(client, timeout_ms, ret_call);
    return nc_leave(client, r);
}

NEARCALL_API int nearcall_request_sent(nearcall_client *client, uint32_t sendings)
{
    int r = nc_enter(client);
    if (r < 0)
        return r;
    client->request.sendings = sendings;
    return nc_leave(client, NEARCALL_OK);
}

NEARCALL_API size_t nearcall_request_bytes_max(const nearcall_client *client)
{
    return client ? nc_request_bytes_max(client) : NC_FRAME_BYTES_MAX_CEILING;
}

NEARCALL_API uint32_t nearcall_sendings(const nearcall_client *client)
{
    return client ? client->sync.attempts : 0;
}

/* ---- Going on ---- */

/* There is no such call any more. What became of one that gave way long ago is not kept. */
static int resume_nothing(nearcall_client *client, uint64_t token)
{
    const struct nc_sync *sync = &client->sync;
    bool gave_way = token == sync->abandoned_token || token < sync->token;
    if (token == 0 || token > sync->token || !gave_way)
        return nc_fail(client, NEARCALL_E_MISUSE, NEARCALL_OUTCOME_NOT_EXECUTED,
                       "there is no interrupted call to resume; nearcall_interrupted() names it");
    return nc_fail(client, NEARCALL_E_CANCELLED,
                   token == sync->abandoned_token ? sync->abandoned_outcome
                                                  : NEARCALL_OUTCOME_UNKNOWN,
                   "the interrupted call was given up, as another took its place");
}

static int resume(nearcall_client *client, uint64_t token, nearcall_reply *ret_reply)
{
    if (!client->sync.call || token != client->sync.token)
        return resume_nothing(client, token);
    bool sends_request = client->sync.sends_request;
    client->now_ns = nc_now_ns();
    int r = nc_sync_run(client, ret_reply);
    if (r != NEARCALL_E_INTERRUPTED && sends_request)
        nc_writer_drop(client);
    return r;
}

NEARCALL_API uint64_t nearcall_interrupted(const nearcall_client *client)
{
    return client && client->sync.call ? client->sync.token : 0;
}

NEARCALL_API int nearcall_resume(nearcall_client *client, uint64_t interrupted,
                                 nearcall_reply *ret_reply)
{
    int r = nc_enter(client);
    if (r < 0)
        return r;
    return nc_leave(client, resume(client, interrupted, ret_reply));
}

/* ---- Calls that were sent before ---- */

/* The call as its user knows it; NULL with the error set. */
static struct nc_call *find_call(nearcall_client *client, nearcall_call_id id)
{
    struct nc_call *call = nc_call_by_known_id(client, id);
    if (call && !call->synchronous)
        return call;
    nc_fail(client, NEARCALL_E_MISUSE, NEARCALL_OUTCOME_UNKNOWN,
            "this handle has no call %llu; it was fetched or cancelled before",
            (unsigned long long)id);
    return NULL;
}

static int wait_for(nearcall_client *client, nearcall_call_id id, nearcall_reply *ret_reply)
{
    struct nc_call *call = find_call(client, id);
    if (!call)
        return NEARCALL_E_MISUSE;
    if (call->state == NC_CALL_FINISHED || nc_wait_at_once(client, call))
        return nc_call_deliver(client, call, ret_reply);
    client->now_ns = nc_now_ns();
    nc_choose_waiting(client);
    int r = call->state == NC_CALL_PENDING ? nc_make_ready(client, call) : NEARCALL_OK;
    if (r == NEARCALL_OK)
        r = nc_wait(client, call);
    if (r < 0)
        return nc_fail(client, r, NEARCALL_OUTCOME_NONE,
                       "a signal arrived while waiting; nearcall_wait() goes on");
    return nc_call_deliver(client, call, ret_reply);
}

NEARCALL_API int nearcall_wait(nearcall_client *client, nearcall_call_id call,
                               nearcall_reply *ret_reply)
{
    int r = nc_enter(client);
    if (r < 0)
        return r;
    return nc_leave(client, wait_for(client, call, ret_reply));
}

NEARCALL_API int nearcall_poll(nearcall_client *client, nearcall_call_id id,
                               nearcall_reply *ret_reply)
{
    int r = nc_enter(client);
    if (r < 0)
        return r;
    struct nc_call *call = find_call(client, id);
    if (!call)
        r = NEARCALL_E_MISUSE;
    else if (call->state == NC_CALL_FINISHED)
        r = nc_call_deliver(client, call, ret_reply);
    else
        r = nc_fail(client, NEARCALL_E_AGAIN, NEARCALL_OUTCOME_NONE, "the call has not finished");
    return nc_leave(client, r);
}

NEARCALL_API void nearcall_cancel(nearcall_client *client, nearcall_call_id id)
{
    if (nc_enter(client) < 0)
        return;
    struct nc_call *call = nc_call_by_known_id(client, id);
    if (call && !call->synchronous)
        nc_call_give_up(client, call);
    nc_leave(client, NEARCALL_OK);
}

NEARCALL_API int nearcall_is_unsent(const nearcall_client *client, nearcall_call_id id)
{
    const struct nc_call *call = client && !nc_forked(&client->guard) ? nc_call_by_known_id(client, id) : NULL;
    return call && !call->synchronous && call->state == NC_CALL_PENDING;
}
