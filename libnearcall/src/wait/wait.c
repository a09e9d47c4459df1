#include "wait/wait.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/clock.h"
#include "base/limits_gen.h"
#include "base/pause.h"
#include "calls/calls.h"
#include "connect/connect.h"
#include "connection/connection.h"
#include "connection/watch.h"
#include "memory/governor.h"
#include "memory/memory.h"
#include "memory/spin.h"
#include "receive/receive.h"
#include "send/send.h"

/* Below this the kernel's timers are exact to a tick; above, they may be late by
 * an eighth of their length (the levels of its timer wheel). */
#define EXACT_TIMER_NS (60 * NC_NS_PER_MS)
#define LONGEST_WAIT_NS (3600 * NC_NS_PER_S)
/* How often a spinner looks at the ring between two looks at the clock: some us. */
#define LOOKS_AT_ONCE 64
/* A longer gap between two looks at the clock is time that the CPU was taken away. */
#define TAKEN_AWAY_NS (50 * 1000LL)
#define SOCKET_LOOK_NS (NC_SOCKET_LOOK_US * 1000LL)
#define SIGNAL_LOOK_NS (NC_SIGNAL_LOOK_MS * NC_NS_PER_MS)

/* Whether SO_RCVTIMEO as it stands wakes us in time, and not too often. A timeout
 * that is shorter than what remains costs one more look at the clock; one that is
 * longer would miss the deadline. */
static bool receive_timeout_suits(int64_t timeout_ns, int64_t remaining_ns)
{
    int64_t longest_ns = remaining_ns > EXACT_TIMER_NS ? remaining_ns - remaining_ns / 8
                                                       : remaining_ns;
    return timeout_ns <= longest_ns && timeout_ns >= remaining_ns / 2;
}

static void set_receive_timeout(struct nc_connection *connection, int64_t remaining_ns)
{
    if (receive_timeout_suits(connection->receive_timeout_ns, remaining_ns))
        return;
    int64_t ns = remaining_ns > EXACT_TIMER_NS ? remaining_ns / 4 * 3 : remaining_ns;
    if (ns < NC_NS_PER_MS)
        ns = NC_NS_PER_MS; /* 0 would mean for ever */
    struct timeval timeout = {(time_t)(ns / NC_NS_PER_S),
                              (suseconds_t)(ns % NC_NS_PER_S / 1000)};
    if (setsockopt(connection->fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) == 0)
        connection->receive_timeout_ns = ns;
    else
        connection->non_blocking = true; /* poll() keeps deadlines then */
}

static bool waiting_is_over(const nearcall_client *client)
{
    return client->waiting && client->waiting->state == NC_CALL_FINISHED;
}

/* Whether a wait ends because of nearcall_wake(). One that has ended by itself leaves it to
 * the next. */
static bool take_wake(nearcall_client *client, short events)
{
    return events && !waiting_is_over(client) && nc_wake_take(client);
}

/* A signal ended a wait. */
static int interrupted(nearcall_client *client)
{
    if (nc_forked_inside(client))
        return NEARCALL_OK;
    return client->options.flags & NEARCALL_INTERRUPTIBLE ? NEARCALL_E_INTERRUPTED : NEARCALL_OK;
}

/* Whether a signal came that the sleep to come would not notice, since its handler has run. */
static bool has_come(const nearcall_client *client)
{
    return client->interrupt_check && client->interrupt_check(client->interrupt_argument) != 0;
}

/* Between the question and the sleep one may come all the same: it is asked again soon. To
 * block signals meanwhile would send those of the process to another thread, and wake nobody. */
static int64_t until_asked(const nearcall_client *client, int64_t until_ns)
{
    return client->interrupt_check ? nc_earlier(until_ns, client->now_ns + SIGNAL_LOOK_NS) : until_ns;
}

/* The hot path: one recv() that ends by the deadline. */
static int receive_until(nearcall_client *client, int64_t until_ns)
{
    struct nc_connection *connection = &client->connection;
    if (__builtin_expect(connection->silence.limit_ns != 0, 0))
        until_ns = nc_earlier(until_ns, nc_silence_timer_ns(client));
    int64_t remaining_ns = until_ns - client->now_ns;
    int flags = remaining_ns > 0 ? 0 : MSG_DONTWAIT;
    if (remaining_ns > LONGEST_WAIT_NS)
        remaining_ns = LONGEST_WAIT_NS;
    if (remaining_ns > 0)
        set_receive_timeout(connection, remaining_ns);
    int r = nc_receive(client, flags);
    if (waiting_is_over(client))
        return NEARCALL_OK;
    client->now_ns = nc_now_ns();
    connection->timed_out = r == NC_NOTHING;
    return r == NEARCALL_E_INTERRUPTED ? interrupted(client) : NEARCALL_OK;
}

static int poll_until(nearcall_client *client, int64_t until_ns)
{
    struct pollfd watched[] = {{client->connection.fd, nc_connection_events(client), 0},
                               {client->watch.wake.fd, POLLIN, 0}}; /* a negative one is ignored */
    bool holds = nc_connection_holds(&client->connection);
    int64_t remaining_ns =
        nc_earlier(until_ns, nc_connection_timer_ns(client)) - client->now_ns;
    if (remaining_ns < 0 || holds)
        remaining_ns = 0;
    if (remaining_ns > LONGEST_WAIT_NS)
        remaining_ns = LONGEST_WAIT_NS;
    struct timespec timeout = nc_timespec(remaining_ns);
    nc_fall_asleep(client);
    int r = ppoll(watched, 2, &timeout, NULL);
    int error = errno;
    nc_wake_up(client);
    client->now_ns = nc_now_ns();
    if (r < 0 && error == EINTR)
        return interrupted(client);
    if (nc_forked_inside(client))
        return NEARCALL_OK;
    nc_connection_advance(client, (r > 0 ? watched[0].revents : 0) | (holds ? POLLIN : 0));
    return r > 0 && take_wake(client, watched[1].revents) ? NEARCALL_E_INTERRUPTED : NEARCALL_OK;
}

/* One recv() is the cheapest wait; where it cannot be had, or once a reply is late
 * and the end of the wait is near, poll() is the more exact. */
static bool may_wait_by_receiving(const nearcall_client *client, int64_t until_ns)
{
    const struct nc_connection *connection = &client->connection;
    return connection->state == NC_READY && !connection->non_blocking &&
           client->watch.wake.fd < 0 && !nc_output_waits(connection) &&
           !(connection->timed_out && until_ns - client->now_ns <= EXACT_TIMER_NS);
}

static int wait_for_socket(nearcall_client *client, int64_t until_ns)
{
    if (until_ns > client->now_ns) {
        if (has_come(client))
            return interrupted(client);
        until_ns = until_asked(client, until_ns);
    }
    if (client->connection.identity.seen_ns != client->now_ns)
        (void)nc_wake_identify(client);
    if (!nc_connection_is_ours(client))
        return NEARCALL_OK;
    return may_wait_by_receiving(client, until_ns) ? receive_until(client, until_ns)
                                                   : poll_until(client, until_ns);
}

/* ---- With shared memory: look at the ring for a while, then sleep ---- */

void nc_choose_waiting(nearcall_client *client)
{
    struct nc_connection *connection = &client->connection;
    if (!nc_memory_is_used(&connection->memory))
        return;
    connection->spun_since_ns = 0;
    connection->spins = nc_spinning_choose(&connection->spinning, &connection->memory, client->now_ns);
    if (nc_forked_inside(client))
        return;
    if (connection->spins)
        nc_memory_awake(&connection->memory);
    else /* or the server spins for one that is about to sleep */
        (void)nc_memory_fall_asleep(&connection->memory);
}

/* What is half sent or half received goes on over the socket only. */
static bool may_spin(const nearcall_client *client)
{
    const struct nc_connection *connection = &client->connection;
    return connection->spins && nc_output_bytes(connection) == 0 &&
           nc_buffer_bytes(&connection->in) == 0 && connection->skip_bytes == 0;
}

/* The clock was read while spinning. True: go on. */
static bool may_spin_on(nearcall_client *client, int64_t until_ns)
{
    struct nc_connection *connection = &client->connection;
    struct nc_spinning *spinning = &connection->spinning;
    int64_t spun_ns = client->now_ns - connection->spun_since_ns;
    if (nc_forked(&client->guard) || client->now_ns >= until_ns || nc_is_woken(client))
        return false;
    if (spun_ns >= nc_spinning_limit_ns(spinning)) {
        nc_governor_missed(&spinning->governor, spun_ns, client->now_ns);
        connection->spins = false;
        return false;
    }
    return true;
}

/* Some us. */
static bool look(const struct nc_memory *memory)
{
    for (int i = 0; i < LOOKS_AT_ONCE; i++) {
        if (nc_memory_is_ready(memory))
            return true;
        nc_pause_cpu();
    }
    return false;
}

/* The server that was woken through the socket may wait for this very CPU. True: spin on. */
static bool give_way(nearcall_client *client)
{
    struct nc_connection *connection = &client->connection;
    const struct nc_memory *memory = &connection->memory;
    if (nc_governor_yields(&connection->spinning.governor))
        (void)sched_yield();
    client->now_ns = nc_now_ns();
    connection->spun_since_ns = client->now_ns;
    if (nc_forked(&client->guard))
        return false;
    if (nc_memory_is_ready(memory))
        nc_spinning_took_turn(&connection->spinning, memory, &client->guard, client->now_ns);
    else if (nc_spinning_shares_cpu(&connection->spinning, memory, &client->guard, client->now_ns))
        connection->spins = false;
    return connection->spins;
}

/* True: there is a frame in the ring, or there may be something on the socket, which
 * is looked at now and then. False: sleep, or the wait is over. */
static bool spin(nearcall_client *client, int64_t until_ns)
{
    struct nc_connection *connection = &client->connection;
    struct nc_governor *governor = &connection->spinning.governor;
    if (look(&connection->memory)) {
        nc_governor_hit(governor);
        return true;
    }
    if (connection->spun_since_ns == 0 && !give_way(client))
        return false;
    while (may_spin_on(client, until_ns)) {
        if (client->now_ns - connection->looked_ns >= SOCKET_LOOK_NS) {
            connection->looked_ns = client->now_ns;
            (void)nc_receive_socket(client, MSG_DONTWAIT);
            return true;
        }
        if (look(&connection->memory)) {
            nc_governor_hit_late(governor, client->now_ns - connection->spun_since_ns,
                                 client->now_ns);
            connection->spun_since_ns = 0;
            return true;
        }
        int64_t before_ns = client->now_ns;
        client->now_ns = nc_now_ns();
        if (client->now_ns - before_ns > TAKEN_AWAY_NS)
            connection->spun_since_ns += client->now_ns - before_ns;
    }
    return false;
}

/* Other frames came than the one that is waited for. */
static void look_at_clock_and_socket(nearcall_client *client)
{
    struct nc_connection *connection = &client->connection;
    client->now_ns = nc_now_ns();
    if (client->now_ns - connection->looked_ns < SOCKET_LOOK_NS)
        return;
    connection->looked_ns = client->now_ns;
    (void)nc_receive_socket(client, MSG_DONTWAIT);
}

static int pump_memory(nearcall_client *client, int64_t until_ns)
{
    struct nc_connection *connection = &client->connection;
    struct nc_memory *memory = &connection->memory;
    bool came = nc_memory_is_ready(memory) || (may_spin(client) && spin(client, until_ns));
    if (nc_forked_inside(client))
        return NEARCALL_OK;
    if (came || !nc_memory_fall_asleep(memory)) {
        if (nc_memory_is_used(memory))
            (void)nc_receive_memory(client);
        if (!waiting_is_over(client))
            look_at_clock_and_socket(client);
        return NEARCALL_OK;
    }
    int64_t since_ns = client->now_ns;
    int r = wait_for_socket(client, until_ns);
    int64_t now_ns = nc_now_ns();
    if (nc_memory_is_used(memory) && !nc_forked_inside(client)) {
        nc_spinning_slept(&connection->spinning, memory, since_ns, now_ns);
        nc_memory_awake(memory); /* a WAKE is sent once for each sleep */
    }
    return r;
}

static int pump(nearcall_client *client, int64_t until_ns)
{
    if (nc_memory_is_used(&client->connection.memory))
        return pump_memory(client, until_ns);
    if (nc_forked_inside(client))
        return NEARCALL_OK;
    return wait_for_socket(client, until_ns);
}

static void end_silence(nearcall_client *client)
{
    struct nc_loss loss = {-NEARCALL_E_UNAVAILABLE, true, NC_ENDED_HERE};
    if (client->endpoints)
        client->endpoints->was_silent = true;
    nc_connection_lost(client, &loss,
                       "nothing came from %s for %lld ms while a call waited; the server, its machine or the way there is "
                       "gone",
                       client->address_text, (long long)(client->connection.silence.limit_ns / NC_NS_PER_MS));
}

void nc_watch_silence(nearcall_client *client)
{
    enum nc_silence_step step = nc_forked_inside(client) ? NC_SILENCE_NONE : nc_silence_look(client);
    if (step == NC_SILENCE_ASK)
        nc_send_ping(client);
    else if (step == NC_SILENCE_END)
        end_silence(client);
}

int nc_pump(nearcall_client *client, int64_t until_ns)
{
    int r = pump(client, until_ns);
    if (__builtin_expect(client->connection.silence.limit_ns != 0, 0))
        nc_watch_silence(client);
    nc_send_pending(client);
    return r;
}

/* One that is only begun gets in line by itself; others wait for their turn. */
static bool is_ready_for(const nearcall_client *client, const struct nc_call *call)
{
    return call->synchronous || call->queue ? nc_may_send(client, call)
                                            : nc_connection_usable(client);
}

/* One step towards a connection with room. One that drains first answers what it
 * carries, and one that is full some of it, each call within its own deadline. */
static int make_ready_once(nearcall_client *client, const struct nc_call *call)
{
    struct nc_connection *connection = &client->connection;
    int64_t until_ns = call->deadline_ns;
    if (nc_connection_is_over(client))
        nc_connection_close(client);
    if (connection->state == NC_CLOSED) {
        nc_connection_start(client, call->deadline_ns);
        return NEARCALL_OK;
    }
    if (connection->state != NC_READY)
        return nc_pump(client, until_ns);
    int r = nc_pump(client, nc_earlier(until_ns, client->calls.timer_ns));
    nc_call_expire_all(client);
    return r;
}

int nc_make_ready(nearcall_client *client, struct nc_call *call)
{
    nc_send_pending(client);
    while (call->state == NC_CALL_PENDING && !is_ready_for(client, call)) {
        int r = make_ready_once(client, call);
        if (r < 0)
            return r;
        if (client->now_ns >= call->deadline_ns && call->state == NC_CALL_PENDING &&
            !is_ready_for(client, call))
            nc_call_expire(client, call);
    }
    return NEARCALL_OK;
}

int nc_wait(nearcall_client *client, struct nc_call *call)
{
    client->waiting = call;
    client->connection.timed_out = false;
    while (call->state != NC_CALL_FINISHED) {
        int64_t until_ns = nc_call_timer_ns(call);
        if (__builtin_expect(client->calls.looks_at_all, 0))
            until_ns = nc_earlier(until_ns, client->calls.timer_ns);
        int r = nc_pump(client, until_ns);
        if (r < 0) {
            client->waiting = NULL;
            return r;
        }
        if (call->state == NC_CALL_FINISHED)
            break;
        if (client->now_ns >= until_ns)
            nc_call_expire_all(client); /* others wait for their grace meanwhile */
        if (__builtin_expect(call->state == NC_CALL_ASKING, 0))
            nc_ask_go_on(client);
    }
    client->waiting = NULL;
    return NEARCALL_OK;
}

bool nc_wait_at_once(nearcall_client *client, struct nc_call *call)
{
    const struct nc_memory *memory = &client->connection.memory;
    if (!nc_memory_is_used(memory) || !nc_memory_is_awake(memory) || !nc_memory_is_ready(memory) ||
        client->calls.pending.first)
        return false;
    client->waiting = call;
    (void)nc_receive_memory(client);
    client->waiting = NULL;
    nc_send_pending(client);
    return call->state == NC_CALL_FINISHED;
}

int nc_pause(nearcall_client *client, int64_t until_ns)
{
    struct pollfd wake = {client->watch.wake.fd, POLLIN, 0};
    if (has_come(client))
        return interrupted(client);
    int64_t remaining_ns = until_asked(client, until_ns) - client->now_ns;
    struct timespec timeout = nc_timespec(remaining_ns);
    nc_fall_asleep(client);
    int r = remaining_ns > 0 ? ppoll(&wake, 1, &timeout, NULL) : 0;
    int error = errno;
    nc_wake_up(client);
    client->now_ns = nc_now_ns();
    if (r > 0 && nc_wake_take(client))
        return NEARCALL_E_INTERRUPTED;
    return r < 0 && error == EINTR ? interrupted(client) : NEARCALL_OK;
}
