/* A handle in libuv's loop: uv_poll_t is given the descriptor once, and is not told of
 * the connections that come and go behind it. */
#include <uv.h>

#include "script.h"

#define CALLS 200
#define TIMEOUT_MS 20000

struct user {
    nearcall_client *client;
    nearcall_function *block;
    uv_poll_t watched;
    uv_timer_t timer;
    int in_flight;
    int begun;
    int ended;
};

static void progress(struct user *user);

static void on_events(uv_poll_t *watched, int status, int events)
{
    (void)events;
    CHECK_INT(status, 0);
    progress(watched->data);
}

static void on_time(uv_timer_t *timer)
{
    progress(timer->data);
}

static void fetch(struct user *user, nearcall_call_id call)
{
    nearcall_reply reply;
    int r = nearcall_poll(user->client, call, &reply);
    CHECK(r == NEARCALL_OK || r == NEARCALL_E_UNAVAILABLE); /* never by its deadline */
    user->ended++;
    user->in_flight--;
}

static void begin(struct user *user)
{
    nearcall_call_id call;
    test_request_int(user->client, user->block, user->begun % 5);
    CHECK_CALL(user->client, nearcall_request_send(user->client, TIMEOUT_MS, &call), NEARCALL_OK);
    user->begun++;
    user->in_flight++;
}

static void progress(struct user *user)
{
    nearcall_call_id call;
    (void)nearcall_process(user->client);
    while ((call = nearcall_next_finished(user->client)) != 0)
        fetch(user, call);
    while (user->begun < CALLS && user->in_flight < 8)
        begin(user);
    if (user->ended == CALLS) {
        uv_close((uv_handle_t *)&user->watched, NULL);
        uv_close((uv_handle_t *)&user->timer, NULL);
        return;
    }
    int64_t timeout_ms = nearcall_timeout_ms(user->client);
    if (timeout_ms < 0)
        uv_timer_stop(&user->timer);
    else
        uv_timer_start(&user->timer, on_time, (uint64_t)timeout_ms, 0);
}

/* Kills the server and starts it anew while calls are made. */
struct restarts {
    struct server server;
    uv_timer_t timer;
    int left;
};

static void restart(uv_timer_t *timer)
{
    struct restarts *restarts = timer->data;
    char address[160];
    strcpy(address, restarts->server.address);
    server_kill(&restarts->server);
    server_start_at(&restarts->server, address);
    if (--restarts->left == 0)
        uv_close((uv_handle_t *)timer, NULL);
}

int main(void)
{
    struct restarts restarts = {.left = 10};
    struct user user = {0};
    uv_loop_t loop;
    test_begin();
    server_start(&restarts.server);
    user.client = test_open(restarts.server.address, 0);
    user.block = test_find(user.client, "block");
    CHECK_INT(uv_loop_init(&loop), 0);
    CHECK_INT(uv_poll_init(&loop, &user.watched, nearcall_fd(user.client)), 0);
    CHECK_INT(uv_timer_init(&loop, &user.timer), 0);
    CHECK_INT(uv_timer_init(&loop, &restarts.timer), 0);
    user.watched.data = user.timer.data = &user;
    restarts.timer.data = &restarts;
    CHECK_INT(uv_poll_start(&user.watched, UV_READABLE, on_events), 0);
    CHECK_INT(uv_timer_start(&restarts.timer, restart, 5, 5), 0);
    progress(&user);
    CHECK_INT(uv_run(&loop, UV_RUN_DEFAULT), 0);
    CHECK_INT(uv_loop_close(&loop), 0);
    CHECK_INT(user.ended, CALLS);
    nearcall_close(user.client);
    server_stop(&restarts.server);
    return 0;
}
