/* Generated code encodes by what it was written for. Whether a function has changed in a
 * way that matters to it is decided by the server, in one place for all languages. */
#include <string.h>

#include "api/api.h"
#include "base/clock.h"
#include "calls/calls.h"
#include "functions/functions.h"
#include "msgpack/msgpack.h"
#include "nearcall_generated.h"
#include "request/request.h"
#include "wait/wait.h"

#define TEXT_BYTES 512

static const char changes_name[] = "nearcall.changes";

/* What a server says of its function and of generated code. */
struct answer {
    bool is_said; /* false: it is too old for the question */
    char function_hash[NC_HASH_DIGITS + 1];
    uint64_t schema_hash; /* the server's */
    uint32_t changes;
    char text[TEXT_BYTES]; /* what they are */
};

static bool is_known_to_fit(const nearcall_function *function, const char *hash)
{
    const struct nc_fit *fit = &function->fit;
    const char *function_hash = nearcall_function_hash(function);
    if (strcmp(function_hash, hash) == 0)
        return true;
    if (strcmp(fit->generated_hash, hash) != 0)
        return false;
    return *fit->function_hash ? strcmp(fit->function_hash, function_hash) == 0
                               : fit->schema_hash == function->description_hash;
}

static void remember(nearcall_function *function, const char *hash, const struct answer *answer)
{
    strncpy(function->fit.generated_hash, hash, NC_HASH_DIGITS);
    memcpy(function->fit.function_hash, answer->function_hash, sizeof(answer->function_hash));
    function->fit.schema_hash = answer->schema_hash;
}

/* Whether a request was refused because of the description that it was encoded by. */
static bool is_outdated(const nearcall_client *client, int r)
{
    return r == NEARCALL_E_ABORTED && client->error.outcome == NEARCALL_OUTCOME_NOT_EXECUTED;
}

/* Of a time limit that all calls of a comparison share; one that has passed ends the
 * next at once. */
static int64_t remaining_ms(int64_t deadline_ns)
{
    if (deadline_ns == NC_NEVER)
        return NEARCALL_NO_TIMEOUT;
    int64_t remaining_ns = deadline_ns - nc_now_ns();
    return remaining_ns > NC_NS_PER_MS ? remaining_ns / NC_NS_PER_MS : 1;
}

/* What the server is asked here is no call of the program's, so it has none of the options of its
 * view. */
static int call(nearcall_client *client, const nearcall_function *function,
                const char *description, int64_t deadline_ns, nearcall_reply *ret_reply)
{
    nearcall_function *changes;
    nearcall_view *view = client->view;
    int r = nearcall_find(client, changes_name, sizeof(changes_name) - 1,
                          remaining_ms(deadline_ns), &changes);
    if (r == NEARCALL_OK)
        r = nearcall_request(client, changes, NEARCALL_CODEC_MSGPACK);
    if (r < 0)
        return r;
    nearcall_put_array(client, 2);
    nearcall_put_string(client, function->name, function->name_bytes);
    nearcall_put_string(client, description, strlen(description));
    client->view = NULL;
    r = nearcall_request_call(client, remaining_ms(deadline_ns), ret_reply);
    client->view = view;
    return r;
}

/* Joins the sentences of a list, as many as there is room for. */
static bool read_changes(nearcall_reader *reader, struct answer *answer)
{
    nearcall_value list, change;
    size_t used = 0;
    if (nearcall_read(reader, &list) < 0 || list.type != NEARCALL_ARRAY)
        return false;
    for (uint32_t i = 0; i < list.count; i++) {
        if (nearcall_read(reader, &change) < 0 || change.type != NEARCALL_STRING)
            return false;
        if (used + change.count + 3 > TEXT_BYTES)
            continue;
        memcpy(answer->text + used, i ? "; " : "", i ? 2 : 0);
        used += i ? 2 : 0;
        memcpy(answer->text + used, change.as.data, change.count);
        used += change.count;
    }
    answer->text[used] = '\0';
    answer->changes = list.count;
    return true;
}

static bool read_hash(nearcall_reader *reader, struct answer *answer)
{
    nearcall_value hash;
    if (nearcall_read(reader, &hash) < 0 || hash.type != NEARCALL_STRING || hash.count > NC_HASH_DIGITS)
        return false;
    memcpy(answer->function_hash, hash.as.data, hash.count);
    return true;
}

static bool is_named(const nearcall_value *key, const char *name)
{
    return key->type == NEARCALL_STRING && key->count == strlen(name) &&
           memcmp(key->as.data, name, key->count) == 0;
}

static bool read_answer(const nearcall_reply *reply, struct answer *answer)
{
    nearcall_reader reader = {reply->data, reply->data + reply->bytes};
    nearcall_value map, key;
    bool has_changes = false, has_hash = false;
    if (nearcall_read(&reader, &map) < 0 || map.type != NEARCALL_MAP)
        return false;
    for (uint32_t i = 0; i < map.count; i++) {
        if (nearcall_read(&reader, &key) < 0)
            return false;
        if (is_named(&key, "changes"))
            has_changes = read_changes(&reader, answer);
        else if (is_named(&key, "hash"))
            has_hash = read_hash(&reader, answer);
        else if (nearcall_skip(&reader) < 0)
            return false;
    }
    return has_changes && has_hash;
}

static int fail(nearcall_client *client, int code, const char *format, const char *name, const char *text)
{
    int r = nc_enter(client);
    if (r < 0)
        return r;
    r = nc_fail(client, code, NEARCALL_OUTCOME_NOT_EXECUTED, format, name, text);
    return nc_leave(client, r);
}

static int refuse(nearcall_client *client, const nearcall_function *function, const char *text)
{
    int r = fail(client, NEARCALL_E_FAILED_PRECONDITION,
                 "%s has changed since this code was generated: %s; generate it again",
                 function->name, text);
    if (r == NEARCALL_E_FAILED_PRECONDITION)
        client->error.changed = function;
    return r;
}

/* Whatever became of the question, the function that it is about did not run. True: the question
 * went down with its connection, and may be asked again. */
static bool is_lost(nearcall_client *client, int r)
{
    int outcome = client->error.outcome;
    if (r >= 0 || r == NEARCALL_E_INTERRUPTED)
        return false;
    client->error.outcome = NEARCALL_OUTCOME_NOT_EXECUTED;
    return r == NEARCALL_E_UNAVAILABLE && (outcome == NEARCALL_OUTCOME_UNKNOWN ||
                                           outcome == NEARCALL_OUTCOME_EXECUTED_RESULT_LOST);
}

static int ask(nearcall_client *client, const nearcall_function *function,
               const char *description, int64_t deadline_ns, struct answer *ret_answer)
{
    nearcall_reply reply;
    int r = call(client, function, description, deadline_ns, &reply);
    for (unsigned tries = 1; is_lost(client, r) && tries < NC_ATTEMPTS_MAX && nc_now_ns() < deadline_ns; tries++)
        r = call(client, function, description, deadline_ns, &reply);
    *ret_answer = (struct answer){.is_said = r == NEARCALL_OK,
                                  .schema_hash = client->connection.welcome.schema_hash};
    if (r == NEARCALL_OK && !read_answer(&reply, ret_answer))
        return refuse(client, function, "the server does not say how");
    return r == NEARCALL_E_UNIMPLEMENTED ? NEARCALL_OK : r;
}

/* The description that is known now may have come from another server than the answer. */
static bool is_of(const struct answer *answer, const nearcall_function *function)
{
    return answer->is_said ? strcmp(answer->function_hash, nearcall_function_hash(function)) == 0
                           : answer->schema_hash == function->description_hash;
}

static int judge(nearcall_client *client, nearcall_function *function, const char *hash,
                 const struct answer *answer)
{
    if (answer->changes > 0)
        return refuse(client, function, answer->text);
    remember(function, hash, answer);
    return NEARCALL_OK;
}

static int compare(nearcall_client *client, nearcall_function *function, const char *hash,
                   const char *description, int64_t timeout_ms)
{
    int64_t limit_ms = timeout_ms ? timeout_ms : client->timeout_ms;
    int64_t deadline_ns = nc_after_ms(nc_now_ns(), limit_ms);
    for (unsigned tries = 0; tries < NC_ATTEMPTS_MAX; tries++) {
        struct answer answer;
        int64_t left_ms = tries ? remaining_ms(deadline_ns) : timeout_ms;
        int r = nearcall_find(client, function->name, function->name_bytes, left_ms, &function);
        if (r < 0 || is_known_to_fit(function, hash))
            return r;
        r = ask(client, function, description, deadline_ns, &answer);
        if (r == NEARCALL_OK && is_of(&answer, function))
            return judge(client, function, hash, &answer);
        if (r < 0 && !is_outdated(client, r))
            return r;
    }
    return fail(client, NEARCALL_E_ABORTED, "%s could not be compared with generated code: %s",
                function->name, "servers that describe it otherwise take each other's place");
}

NEARCALL_API int nearcall_compare(nearcall_client *client, nearcall_function *function,
                                  const char *hash, const char *description, int64_t timeout_ms)
{
    if (!client || !function || !hash || !description)
        return NEARCALL_E_MISUSE;
    if (is_known_to_fit(function, hash))
        return NEARCALL_OK;
    return compare(client, function, hash, description, timeout_ms);
}

/* ---- Generated functions of C ---- */

/* False: something has to be asked first. */
static bool begin_at_once(nearcall_client *client, const char *name, size_t name_bytes, const char *hash)
{
    nearcall_function *function = nc_function_known(client, name, name_bytes);
    if (!function || (hash && !is_known_to_fit(function, hash)))
        return false;
    nc_sync_abandon(client); /* it may send from the buffer that is used again now */
    nc_writer_begin(client, function, NEARCALL_CODEC_MSGPACK);
    return true;
}

static int ask_and_begin(nearcall_client *client, const char *name, size_t name_bytes, const char *hash,
                         const char *description, int64_t *timeout_ms)
{
    int64_t limit_ms = *timeout_ms ? *timeout_ms : client->timeout_ms;
    int64_t deadline_ns = nc_after_ms(nc_now_ns(), limit_ms);
    nearcall_function *function;
    int r = nearcall_find(client, name, name_bytes, *timeout_ms, &function);
    if (r == NEARCALL_OK && hash)
        r = nearcall_compare(client, function, hash, description, remaining_ms(deadline_ns));
    if (r == NEARCALL_OK)
        r = nearcall_request(client, function, NEARCALL_CODEC_MSGPACK);
    *timeout_ms = remaining_ms(deadline_ns);
    return r;
}

/* What a signal has interrupted is a question of the library's. If it could be resumed, its answer would
 * be taken for the function's. */
static int give_up_question(nearcall_client *client)
{
    int r = nc_enter_beside(client);
    if (r < 0)
        return r;
    nc_sync_abandon(client);
    r = nc_fail(client, NEARCALL_E_INTERRUPTED, NEARCALL_OUTCOME_NOT_EXECUTED,
                "a signal arrived before anything was sent; call again");
    return nc_leave(client, r);
}

NEARCALL_API int nearcall_generated_request(nearcall_client *client, const char *name,
                                            size_t name_bytes, const char *hash,
                                            const char *description, uint32_t sendings,
                                            int64_t *timeout_ms)
{
    if (!client || !name || !timeout_ms || (hash && !description))
        return NEARCALL_E_MISUSE;
    int r = nc_enter(client);
    if (r < 0)
        return r;
    bool has_begun = begin_at_once(client, name, name_bytes, hash);
    nc_leave(client, r);
    if (!has_begun)
        r = ask_and_begin(client, name, name_bytes, hash, description, timeout_ms);
    if (r == NEARCALL_OK) {
        client->request.sendings = sendings;
        client->functions.begun_anew = 0;
    }
    return r == NEARCALL_E_INTERRUPTED ? give_up_question(client) : r;
}

static int go_on(nearcall_client *client, nearcall_function *function, const char *hash)
{
    struct answer answer = {.schema_hash = function->description_hash};
    strcpy(answer.function_hash, nearcall_function_hash(function));
    nc_log(client, NEARCALL_LOG_WARNING, "%s; it is called all the same", client->error.message);
    remember(function, hash, &answer);
    return NEARCALL_OK;
}

/* The connection that described the function ends. The next one may describe another, which is asked
 * about then: what has changed here is told to nobody. A server that has nothing but connections that end
 * is not followed beyond all time limits. */
static bool begins_anew(nearcall_client *client, const char *name, size_t name_bytes)
{
    const nearcall_function *changed = client->error.changed;
    return changed && changed->name_bytes == name_bytes && memcmp(changed->name, name, name_bytes) == 0 &&
           !nc_function_is_described(client, changed) && ++client->functions.begun_anew < NC_ATTEMPTS_MAX;
}

NEARCALL_API int nearcall_generated_go_on(nearcall_client *client, const char *name,
                                          size_t name_bytes, const char *hash)
{
    if (!client || !name || !hash)
        return NEARCALL_E_MISUSE;
    int r = nc_enter_beside(client); /* what is wrong stays for the warning */
    if (r < 0)
        return r;
    nearcall_function *function = nc_function_known(client, name, name_bytes);
    if (function && function == client->error.changed)
        r = go_on(client, function, hash);
    else if (!begins_anew(client, name, name_bytes))
        r = NEARCALL_E_FAILED_PRECONDITION;
    return nc_leave(client, r);
}

NEARCALL_API int nearcall_generated_is_outdated(const nearcall_client *client, int r,
                                                uint32_t *sendings, int64_t *timeout_ms)
{
    if (!client || !sendings || !timeout_ms)
        return 0;
    if (!is_outdated(client, r))
        return 0;
    *sendings = client->sync.attempts > *sendings ? client->sync.attempts : *sendings + 1;
    if (*sendings >= nc_attempts_max(client, client->view))
        return 0;
    *timeout_ms = remaining_ms(client->error.deadline_ns);
    return 1;
}
