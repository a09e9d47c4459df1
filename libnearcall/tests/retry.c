/* What was certainly not executed is sent again, within attempts_max and the
 * deadline; nothing else is. */
#include <sys/socket.h>

#include "script.h"

static void reset_twice(struct script *script)
{
    uint8_t byte;
    for (int i = 0; i < 2; i++) {
        script_greet(script);
        CHECK_INT(recv(script->fd, &byte, 1, MSG_PEEK), 1);
    }
    script_greet(script);
    script_serve(script);
}

static void reset_thrice(struct script *script)
{
    uint8_t byte;
    for (int i = 0; i < 3; i++) {
        script_greet(script);
        CHECK_INT(recv(script->fd, &byte, 1, MSG_PEEK), 1);
    }
}

static void drain_then_serve(struct script *script)
{
    struct nc_frame frame;
    script_greet(script);
    script_expect(script, NC_REQUEST, &frame);
    script_drain(script, frame.call_id - 1);
    CHECK(script_read_end(script));
    script_greet(script);
    script_serve(script);
}

static void refuse_as_draining_then_serve(struct script *script)
{
    struct nc_frame frame;
    script_greet(script);
    script_expect(script, NC_REQUEST, &frame);
    script_error(script, frame.call_id, 14, NEARCALL_OUTCOME_NOT_EXECUTED, "draining");
    script_serve(script);
}

static void end_of_file(struct script *script)
{
    struct nc_frame frame;
    script_greet(script);
    script_expect(script, NC_REQUEST, &frame);
}

static void refuse_by_limit(struct script *script)
{
    struct nc_frame frame;
    script_greet(script);
    script_expect(script, NC_REQUEST, &frame);
    script_error(script, frame.call_id, 8, NEARCALL_OUTCOME_NOT_EXECUTED, "too many calls");
    CHECK(script_read_end(script));
}

static void check(void (*play)(struct script *), uint32_t attempts_max, int code, int outcome)
{
    struct script script;
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    nearcall_reply reply;
    options.attempts_max = attempts_max;
    script_start(&script, play, NULL);
    nearcall_client *client = test_open_with(script.address, &options);
    CHECK_CALL(client, nearcall_call(client, "f", "again", 5, 5000, &reply), code);
    CHECK_OUTCOME(client, outcome);
    if (code == NEARCALL_OK)
        CHECK(reply.bytes == 5 && memcmp(reply.data, "again", 5) == 0);
    nearcall_close(client);
    script_end(&script);
}

/* A connection that ended while idle costs nothing, not even the only attempt. */
static void close_when_told_then_serve(struct script *script)
{
    struct nc_frame frame;
    script_greet(script);
    script_expect(script, NC_REQUEST, &frame);
    script_reply(script, &frame, NULL, 0);
    script_await(script);
    script_hang_up(script);
    script_signal((struct script *)script->argument);
    script_greet(script);
    script_serve(script);
}

static void idle_connection_is_replaced(int attempts_max)
{
    struct script script, told = {.fd = -1};
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    nearcall_reply reply;
    options.attempts_max = (uint32_t)attempts_max;
    CHECK(sem_init(&told.signals, 0, 0) == 0);
    script_start(&script, close_when_told_then_serve, &told);
    nearcall_client *client = test_open_with(script.address, &options);
    CHECK_CALL(client, nearcall_call(client, "f", NULL, 0, 5000, &reply), NEARCALL_OK);
    script_signal(&script);
    script_await(&told);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 5000, &reply), NEARCALL_OK);
    nearcall_close(client);
    script_end(&script);
}

/* A server that comes back within the attempts is met by them. */
static void restart(void)
{
    struct server server;
    char address[160];
    nearcall_reply reply;
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    options.attempts_max = 16;
    server_start(&server);
    strcpy(address, server.address);
    nearcall_client *client = test_open_with(address, &options);
    CHECK_CALL(client, nearcall_call(client, "echo", "a", 1, 0, &reply), NEARCALL_OK);
    server_stop(&server);
    server_start_at(&server, address);
    CHECK_CALL(client, nearcall_call(client, "echo", "b", 1, 0, &reply), NEARCALL_OK);
    CHECK_INT(nearcall_server_process_id(client), server.pid);
    server_kill(&server);
    server_start_at(&server, address);
    CHECK_CALL(client, nearcall_call(client, "echo", "c", 1, 0, &reply), NEARCALL_OK);
    nearcall_close(client);
    server_stop(&server);
}

int main(void)
{
    test_begin();
    check(reset_twice, 3, NEARCALL_OK, NEARCALL_OUTCOME_NONE);
    check(reset_thrice, 3, NEARCALL_E_UNAVAILABLE, NEARCALL_OUTCOME_NOT_EXECUTED);
    check(drain_then_serve, 3, NEARCALL_OK, NEARCALL_OUTCOME_NONE);
    check(refuse_as_draining_then_serve, 3, NEARCALL_OK, NEARCALL_OUTCOME_NONE);
    check(end_of_file, 3, NEARCALL_E_UNAVAILABLE, NEARCALL_OUTCOME_UNKNOWN);
    check(refuse_by_limit, 3, NEARCALL_E_RESOURCE_EXHAUSTED, NEARCALL_OUTCOME_NOT_EXECUTED);
    idle_connection_is_replaced(1);
    idle_connection_is_replaced(3);
    restart();
    return 0;
}
