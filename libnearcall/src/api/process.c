/* For event loops: what to watch, when to come back, and what is done then. */
#include <poll.h>
#include <sys/socket.h>

#include "api/api.h"
#include "base/clock.h"
#include "base/limits_gen.h"
#include "calls/calls.h"
#include "connect/connect.h"
#include "connection/connection.h"
#include "connection/output.h"
#include "connection/stores.h"
#include "connection/watch.h"
#include "memory/memory.h"
#include "receive/receive.h"
#include "send/send.h"
#include "transport/tls.h"
#include "wait/wait.h"

/* One nearcall_process() reads this often at most, and for NC_TURN_NS, so that a flood of replies
 * does not keep a loop from its other descriptors. */
#define READS_MAX 64

static bool is_usable(const nearcall_client *client)
{
    return client && !client->unusable;
}

int nc_poll_now(const nearcall_client *client)
{
    struct pollfd watched = {client->connection.fd, nc_connection_events(client), 0};
    int held = nc_connection_holds(&client->connection) ? POLLIN : 0;
    if (watched.fd < 0 || poll(&watched, 1, 0) <= 0)
        return held;
    return watched.revents | held;
}

/* A program that asks what to watch is promised, from now on, to be woken through that. */
static nearcall_client *promise_to_wake(const nearcall_client *asked)
{
    nearcall_client *client = (nearcall_client *)(uintptr_t)asked; /* no handle is made const */
    struct nc_memory *memory = &client->connection.memory;
    if (nc_is_busy(client))
        return client;
    client->watched = true;
    if (client->calls.used_count && nc_memory_is_used(memory))
        (void)nc_memory_fall_asleep(memory);
    return client;
}

/* Frames came before the handle fell asleep, and its descriptor does not tell. */
static bool frames_wait(const nearcall_client *client)
{
    const struct nc_memory *memory = &client->connection.memory;
    return client->calls.used_count && nc_memory_is_used(memory) && nc_memory_is_ready(memory);
}

/* In a child the same number, or another, is its own from here on. */
NEARCALL_API int nearcall_fd(const nearcall_client *asked)
{
    if (!is_usable(asked))
        return -1;
    if (nc_forked(&asked->guard))
        nc_after_fork((nearcall_client *)(uintptr_t)asked);
    nearcall_client *client = promise_to_wake(asked);
    if (!nc_is_busy(client)) {
        nc_watch_identify(client);
        nc_watch_open(client);
        nc_watch_update(client);
        client->watch.told_fd = client->watch.epoll_fd;
    }
    return client->watch.epoll_fd;
}

NEARCALL_API int nearcall_events(const nearcall_client *client)
{
    return is_usable(client) ? POLLIN : 0;
}

/* One endpoint has failed, and nearcall_connect() goes on to the next one. */
static bool goes_on_connecting(const nearcall_client *client)
{
    return client->endpoints && client->connects && client->connect_code == 0 && client->connection.state == NC_CLOSED;
}

/* What nearcall_process() does at once, without the descriptor having told. */
static bool is_due(const nearcall_client *client)
{
    const struct nc_calls *calls = &client->calls;
    if (frames_wait(client) || client->connection.reading_left || nc_connection_holds(&client->connection) ||
        (calls->unreported && calls->finished.first))
        return true;
    if (goes_on_connecting(client))
        return true;
    if (!calls->pending.first)
        return false;
    return client->connection.state == NC_CLOSED || nc_connection_is_over(client) ||
           nc_may_send_pending(client);
}

/* When nearcall_process() has to be called without the descriptor having told. */
static int64_t timer_ns(const nearcall_client *client, int64_t now_ns)
{
    int64_t timer_ns = nc_earlier(nc_connection_timer_ns(client), client->calls.timer_ns);
    if (client->connection.stores.idle_ns)
        timer_ns = nc_earlier(timer_ns, client->connection.stores.idle_ns);
    if (client->connects && client->connect_until_ns > now_ns) /* a program that gave it up is not woken */
        timer_ns = nc_earlier(timer_ns, client->connect_until_ns);
    if ((client->calls.used_count || client->connection.state != NC_READY) && nc_watch_misses(client))
        timer_ns = nc_earlier(timer_ns, now_ns + NC_UNWATCHED_LOOK_MS * NC_NS_PER_MS);
    return timer_ns;
}

NEARCALL_API int64_t nearcall_timeout_ms(const nearcall_client *client)
{
    if (!is_usable(client))
        return -1;
    if (nc_forked(&client->guard))
        return client->calls.used_count ? 0 : -1;
    promise_to_wake(client);
    if (is_due(client))
        return 0;
    int64_t now_ns = nc_now_ns(), until_ns = timer_ns(client, now_ns);
    if (until_ns == NC_NEVER)
        return -1;
    int64_t remaining_ns = until_ns - now_ns;
    return remaining_ns <= 0 ? 0 : (remaining_ns + NC_NS_PER_MS - 1) / NC_NS_PER_MS;
}

/* Calls that wait while a connection drained get a new one once it is gone. */
static void connect_for_pending(nearcall_client *client)
{
    if (nc_connection_is_over(client))
        nc_connection_close(client);
    if (client->connection.state != NC_CLOSED)
        return;
    if (client->calls.pending.first)
        nc_connection_start(client, nc_calls_pending_deadline_ns(client));
    else if (goes_on_connecting(client))
        nc_connection_start(client, client->connect_until_ns);
}

/* Mostly the second read finds nothing: only then it is worth a look at the clock. */
static bool is_late(int64_t began_ns, int reads)
{
    return reads > 1 && nc_now_ns() - began_ns >= NC_TURN_NS;
}

static void read_all(nearcall_client *client)
{
    int64_t began_ns = client->now_ns;
    client->connection.reading_left = false;
    for (int i = 0; i < READS_MAX && client->connection.state == NC_READY && !is_late(began_ns, i); i++)
        if (nc_receive(client, MSG_DONTWAIT) != NC_RECEIVED)
            return;
    client->connection.reading_left = client->connection.state == NC_READY;
}

static void make_progress(nearcall_client *client)
{
    client->now_ns = nc_now_ns();
    if (nc_is_woken(client))
        (void)nc_wake_take(client);
    else
        (void)nc_wake_identify(client); /* the loop is about to sleep by it */
    if (!nc_connection_is_ours(client))
        return;
    if (nc_memory_is_used(&client->connection.memory) && !nc_forked_inside(client))
        nc_memory_awake(&client->connection.memory);
    if (client->connection.state != NC_READY)
        nc_connection_advance(client, nc_poll_now(client));
    if (client->connection.state == NC_READY && nc_output_waits(&client->connection))
        nc_flush(client);
    read_all(client);
    if (client->connection.silence.limit_ns)
        nc_watch_silence(client);
    nc_send_pending(client);
    if (client->connection.state == NC_READY && nc_output_waits(&client->connection))
        nc_flush(client); /* answers to pings that were just read */
    nc_output_lose_stuck(client);
    nc_go_outside(client);
}

/* The loss that came first, because others follow from it. */
static int tell_loss(nearcall_client *client, int r)
{
    return r == NEARCALL_OK && client->lost_code
               ? nc_fail(client, -client->lost_code, client->lost_outcome, "%s", client->lost_text)
               : r;
}

static int process(nearcall_client *client)
{
    client->lost_code = 0;
    make_progress(client);
    int r = tell_loss(client, NEARCALL_OK);
    nc_call_expire_all(client);
    if (client->connection.stores.idle_ns && client->now_ns >= client->connection.stores.idle_ns)
        nc_stores_expire(client);
    r = tell_loss(client, r);
    connect_for_pending(client);
    if (r < 0)
        return r;
    client->calls.unreported = false;
    return (int)client->calls.finished.count;
}

NEARCALL_API int nearcall_process(nearcall_client *client)
{
    int r = nc_enter(client);
    if (r < 0)
        return r;
    r = nc_leave(client, process(client));
    return client->hooks.finished ? nc_tell_finished(client, r) : r;
}

NEARCALL_API uint32_t nearcall_room(const nearcall_client *client)
{
    if (!is_usable(client) || nc_forked(&client->guard) || client->connection.state != NC_READY ||
        nc_connection_is_over(client))
        return UINT32_MAX;
    if (client->connection.draining)
        return 0;
    uint32_t allowed = client->connection.welcome.calls_in_flight_max;
    if (allowed == 0)
        return UINT32_MAX;
    if (client->calls.pending.first || !nc_connection_has_room(client))
        return 0;
    return allowed - client->connection.unanswered;
}

/* Sealed already. */
static size_t kept_bytes(const struct nc_connection *connection)
{
    size_t bytes = 0;
    if (connection->tls)
        (void)nc_tls_sealed(connection->tls, &bytes);
    return bytes;
}

NEARCALL_API size_t nearcall_unsent_bytes(const nearcall_client *client)
{
    if (!is_usable(client) || nc_forked(&client->guard) || client->connection.state != NC_READY)
        return 0;
    return nc_output_bytes_to_send(&client->connection) + kept_bytes(&client->connection);
}

NEARCALL_API nearcall_call_id nearcall_next_finished(nearcall_client *client)
{
    const struct nc_call *first = is_usable(client) ? client->calls.finished.first : NULL;
    return first ? first->id : 0;
}
