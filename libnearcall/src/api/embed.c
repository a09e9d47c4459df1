#include "api/embed.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/signals.h"
#include "calls/calls.h"
#include "embed/embed.h"
#include "handle/handle.h"
#include "wire/wire.h"

#define REASON_BYTES 512
/* The coarse clock costs a fifth of the fine one. It moves in steps of up to 10 ms, so
 * only what crosses two of them was long for certain. */
#define COARSE_STEP_NS (10 * NC_NS_PER_MS)
#define OVERRAN_NS (2 * COARSE_STEP_NS)

/* ---- Coming to be ---- */

/* Relative paths are of the directory in which the handle was opened. */
static char *absolute(const char *path, size_t bytes)
{
    char directory[PATH_MAX];
    char *file;
    if (path[0] == '/')
        return strndup(path, bytes);
    if (!getcwd(directory, sizeof(directory)) ||
        asprintf(&file, "%s/%.*s", directory, (int)bytes, path) < 0)
        return NULL;
    return file;
}

/* Loads the library, unless it is one for each process that calls. */
int nc_embed_open(nearcall_client *client)
{
    struct nc_embed *embed = &client->embed;
    embed->file = absolute(client->address.library, client->address.library_bytes);
    if (!embed->file)
        return nc_fail_no_memory(client, "the path of the library");
    embed->reply_bytes_max = client->options.frame_bytes_max;
    embed->blocks_signals = client->options.flags & NEARCALL_BLOCK_SIGNALS;
    return client->address.children == NC_CHILDREN_OWN ? NEARCALL_OK : nc_embed_prepare(client);
}

static int inherited(nearcall_client *client)
{
    struct nc_embed *embed = &client->embed;
    pid_t loader = embed->library->loader;
    bool is_served = embed->library->place->path[0] != '\0';
    if (is_served && client->address.children == NC_CHILDREN_PARENT)
        return NEARCALL_OK;
    embed->library = NULL;
    if (!is_served)
        return nc_fail(client, NEARCALL_E_FAILED_PRECONDITION, NEARCALL_OUTCOME_NOT_EXECUTED,
                       "%.256s cannot be used in this process: it was forked from process %d before "
                       "that had opened the library to the end; fork before or after that",
                       embed->file, (int)loader);
    return nc_fail(client, NEARCALL_E_FAILED_PRECONDITION, NEARCALL_OUTCOME_NOT_EXECUTED,
                   "%.256s cannot be used in this process: it was forked from process %d, which has "
                   "loaded the library, and Go does not survive a fork; make the first call after "
                   "the fork, or let children=parent lead to that process",
                   embed->file, (int)loader);
}

/* Finds or loads the library. Where it is not this process that loaded it, there is
 * only a place to connect to. */
int nc_embed_prepare(nearcall_client *client)
{
    struct nc_embed *embed = &client->embed;
    char reason[REASON_BYTES];
    if (embed->library)
        return NEARCALL_OK;
    embed->library = nc_embed_load(embed->file, reason, sizeof(reason));
    if (!embed->library)
        return nc_fail(client, NEARCALL_E_FAILED_PRECONDITION, NEARCALL_OUTCOME_NOT_EXECUTED, "%s",
                       reason);
    client->address.embedded = embed->library;
    if (*embed->library->is_loader == 0)
        return inherited(client);
    if (embed->library->start(embed->file, reason, sizeof(reason)) < 0) {
        embed->library = NULL;
        return nc_fail(client, NEARCALL_E_FAILED_PRECONDITION, NEARCALL_OUTCOME_NOT_EXECUTED,
                       "%.256s: %s", embed->file, reason);
    }
    embed->is_direct = true;
    return NEARCALL_OK;
}

/* No Go code is entered from here on. */
void nc_embed_after_fork(nearcall_client *client)
{
    struct nc_embed *embed = &client->embed;
    embed->is_direct = false;
    if (client->address.children == NC_CHILDREN_OWN)
        embed->library = NULL;
    if (atomic_load_explicit(&client->busy, memory_order_relaxed))
        memset(&embed->reply, 0, sizeof(embed->reply));
}

void nc_embed_free(struct nc_embed *embed)
{
    nc_buffer_free(&embed->reply);
    free(embed->file);
}

/* ---- Calling ---- */

/* Not more than the handle accepts, however much there is room for. */
static void offer_reply(struct nc_embed *embed)
{
    embed->call.reply = embed->reply.data;
    embed->call.reply_capacity = embed->reply.capacity < embed->reply_bytes_max
                                     ? embed->reply.capacity
                                     : embed->reply_bytes_max;
}

static int grow(struct nearcall_embed_call *call, uint64_t bytes)
{
    struct nc_embed *embed = (struct nc_embed *)((char *)call - offsetof(struct nc_embed, call));
    embed->is_too_large = bytes > embed->reply_bytes_max;
    if (embed->is_too_large || nc_buffer_reserve(&embed->reply, (size_t)bytes) < 0)
        return -1;
    offer_reply(embed);
    return 0;
}

/* For a host whose handlers do not ask for the alternate stack: a function runs on a
 * stack that has no room for them. */
static int call_blocking_signals(const struct nearcall_embed_library *library,
                                 struct nearcall_embed_call *call)
{
    sigset_t former;
    nc_block_signals(&former);
    int r = library->call(call);
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    return r;
}

static int run(struct nc_embed *embed, int64_t begun_ns)
{
    const struct nearcall_embed_library *library = embed->library;
    int r = __builtin_expect(embed->blocks_signals, 0)
                ? call_blocking_signals(library, &embed->call)
                : library->call(&embed->call);
    if (__builtin_expect(nc_coarse_now_ns() - begun_ns > OVERRAN_NS, 0))
        library->overran(embed->call.function);
    return r;
}

static int reply_lost(nearcall_client *client)
{
    const struct nc_embed *embed = &client->embed;
    if (!embed->is_too_large)
        return nc_fail(client, NEARCALL_E_RESOURCE_EXHAUSTED, NEARCALL_OUTCOME_EXECUTED_RESULT_LOST,
                       "no memory for the reply");
    return nc_fail(client, NEARCALL_E_RESOURCE_EXHAUSTED, NEARCALL_OUTCOME_EXECUTED_RESULT_LOST,
                   "the reply is larger than the %llu bytes this handle accepts; its option "
                   "frame_bytes_max raises that to at most %d",
                   (unsigned long long)embed->reply_bytes_max, NC_FRAME_BYTES_MAX_CEILING);
}

/* The reply's metadata, as those of one that has travelled. */
static int lend_metadata(nearcall_client *client)
{
    const struct nearcall_embed_call *call = &client->embed.call;
    client->lends_more = true;
    if (nc_metadata_keep(&client->lent_metadata, call->reply, (size_t)call->reply_extension_bytes) || call->code)
        return NEARCALL_OK;
    return nc_fail(client, NEARCALL_E_RESOURCE_EXHAUSTED, NEARCALL_OUTCOME_EXECUTED_RESULT_LOST,
                   "no memory to keep the metadata of the reply");
}

/* Apart, because the room for a call that it takes would be every call's. */
static __attribute__((noinline)) int failed(nearcall_client *client, const uint8_t *error, size_t bytes)
{
    const struct nearcall_embed_call *call = &client->embed.call;
    struct nc_call failed = {
        .code = call->code,
        .outcome = call->outcome,
        .data = error,
        .data_bytes = bytes,
        .deadline_ns = call->deadline_ns ? (int64_t)call->deadline_ns : NC_NEVER,
    };
    return nc_fail_as_call(client, &failed);
}

static int deliver(nearcall_client *client, int codec, nearcall_reply *ret_reply)
{
    const struct nearcall_embed_call *call = &client->embed.call;
    if (__builtin_expect(call->reply_bytes > call->reply_capacity, 0))
        return reply_lost(client);
    if (__builtin_expect(call->reply_extension_bytes != 0, 0) && lend_metadata(client) < 0)
        return NEARCALL_E_RESOURCE_EXHAUSTED;
    const uint8_t *payload = call->reply + call->reply_extension_bytes;
    size_t payload_bytes = (size_t)(call->reply_bytes - call->reply_extension_bytes);
    if (__builtin_expect(call->code != 0, 0))
        return failed(client, payload, payload_bytes);
    if (ret_reply) {
        ret_reply->data = payload;
        ret_reply->bytes = payload_bytes;
        ret_reply->codec = codec;
    }
    return NEARCALL_OK;
}

/* Late by a step of the coarse clock at most, and never early; 0 for none. */
static uint64_t deadline_ns(const nearcall_client *client, int64_t begun_ns, int64_t timeout_ms)
{
    int64_t ms = timeout_ms ? timeout_ms : client->timeout_ms;
    int64_t deadline_ns = nc_after_ms(begun_ns + COARSE_STEP_NS, ms);
    return deadline_ns == NC_NEVER ? 0 : (uint64_t)deadline_ns;
}

int nc_embed_call(nearcall_client *client, nearcall_function *function,
                  const struct nc_payload *payload, nearcall_reply *ret_reply)
{
    struct nc_embed *embed = &client->embed;
    struct nearcall_embed_call *call = &embed->call;
    int64_t begun_ns = nc_coarse_now_ns();
    if (__builtin_expect(embed->reply.capacity > NC_BUFFER_KEEP_BYTES, 0))
        nc_buffer_trim(&embed->reply);
    if (__builtin_expect(embed->reply.data == NULL, 0) &&
        nc_buffer_reserve(&embed->reply, NC_PEER_FRAME_BYTES_MIN) < 0)
        return nc_fail_no_memory(client, "a reply");
    call->name = function->name;
    call->name_bytes = function->name_bytes;
    call->function = function->library_number;
    call->payload = payload->data;
    call->payload_bytes = payload->bytes;
    call->deadline_ns = deadline_ns(client, begun_ns, payload->timeout_ms);
    call->extensions = client->view ? client->view->extensions : NULL;
    call->extension_bytes = client->view ? client->view->extension_bytes : 0;
    call->codec = (uint32_t)payload->codec;
    call->reply_bytes = 0;
    call->grow = grow;
    embed->is_too_large = false;
    offer_reply(embed);
    if (run(embed, begun_ns) != NEARCALL_EMBED_DONE)
        return NC_EMBED_ELSEWHERE;
    function->library_number = call->function;
    return deliver(client, payload->codec, ret_reply);
}

/* ---- Public ---- */

NEARCALL_API void nearcall_block_signals(nearcall_client *client, int block)
{
    if (client)
        client->embed.blocks_signals = block != 0;
}
