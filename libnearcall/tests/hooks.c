/* What a handle tells its program: each finished call once, in order, from nearcall_process()
 * alone, whatever the program does meanwhile; and what happens to the connection. */
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "script.h"

#define CHAIN 200
#define LINE_BYTES 1024
#define LINES_MAX 64

struct teller {
    nearcall_client *client;
    nearcall_function *echo;
    uint32_t told;          /* of so many calls */
    nearcall_call_id first; /* of these */
    bool seen[CHAIN + 8];     /* by the numbers that the calls carry */
    uint32_t begun;
    uint32_t limit;
    bool fetches;
    bool nested; /* turns the loop from within the hook */
    bool closes;
    bool forks;
};

static nearcall_client *open_telling(const struct server *server, struct teller *teller)
{
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    options.flags = NEARCALL_NONBLOCKING;
    teller->client = test_open_with(server->address, &options);
    teller->echo = test_find(teller->client, "echo");
    return teller->client;
}

static nearcall_call_id begin(struct teller *teller)
{
    nearcall_call_id call;
    uint32_t number = teller->begun++;
    CHECK_CALL(teller->client, nearcall_request(teller->client, teller->echo, NEARCALL_CODEC_RAW), NEARCALL_OK);
    nearcall_put_raw(teller->client, &number, sizeof(number));
    CHECK_CALL(teller->client, nearcall_request_send(teller->client, 20000, &call), NEARCALL_OK);
    return call;
}

static int turn(nearcall_client *client)
{
    struct pollfd watched = {nearcall_fd(client), (short)nearcall_events(client), 0};
    poll(&watched, 1, (int)nearcall_timeout_ms(client));
    return nearcall_process(client);
}

/* A server may answer one call before another that came earlier. */
static void fetch(struct teller *teller, nearcall_call_id call)
{
    nearcall_reply reply;
    uint32_t number;
    CHECK_CALL(teller->client, nearcall_poll(teller->client, call, &reply), NEARCALL_OK);
    CHECK_INT(reply.bytes, sizeof(number));
    memcpy(&number, reply.data, sizeof(number));
    CHECK(number < teller->begun && !teller->seen[number]);
    teller->seen[number] = true;
}

static void fork_here(struct teller *teller)
{
    pid_t child = fork();
    int status;
    CHECK(child >= 0);
    if (child == 0)
        teller->limit = 0; /* goes on in the loop, and is told of nothing that is the parent's */
    else
        CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void on_finished(void *argument, nearcall_call_id call)
{
    struct teller *teller = argument;
    if (teller->told++ == 0)
        teller->first = call;
    if (teller->fetches) {
        CHECK_INT(nearcall_next_finished(teller->client), call); /* in the order in which they finish */
        fetch(teller, call);
    }
    if (teller->nested)
        CHECK(nearcall_process(teller->client) >= 0);
    if (teller->forks)
        fork_here(teller);
    if (teller->closes)
        nearcall_close(teller->client);
    else if (teller->begun < teller->limit)
        (void)begin(teller);
}

/* Each answer sends the next request. */
static void each_is_told_once(const struct server *server, bool nested)
{
    struct teller teller = {.limit = CHAIN, .fetches = true, .nested = nested};
    nearcall_client *client = open_telling(server, &teller);
    CHECK_INT(nearcall_on_finished(client, on_finished, &teller), NEARCALL_OK);
    for (int i = 0; i < 8; i++)
        (void)begin(&teller);
    while (teller.told < CHAIN)
        CHECK(turn(client) >= 0);
    CHECK_INT(nearcall_process(client), 0);
    CHECK_INT(teller.told, CHAIN);
    nearcall_close(client);
}

/* Those that are not fetched are told of once all the same, and stay. */
static void unfetched_ones_stay(const struct server *server)
{
    struct teller teller = {.limit = 3};
    nearcall_client *client = open_telling(server, &teller);
    for (int i = 0; i < 3; i++)
        (void)begin(&teller);
    while (turn(client) < 3)
        ;
    CHECK_INT(teller.told, 0); /* nobody was to be told */
    CHECK_INT(nearcall_on_finished(client, on_finished, &teller), NEARCALL_OK);
    CHECK_INT(nearcall_process(client), 3);
    CHECK_INT(nearcall_process(client), 3);
    CHECK_INT(teller.told, 3);
    CHECK_INT(nearcall_next_finished(client), teller.first);
    fetch(&teller, teller.first);
    CHECK_INT(nearcall_on_finished(client, NULL, NULL), NEARCALL_OK);
    (void)begin(&teller);
    while (turn(client) < 3)
        ;
    CHECK_INT(teller.told, 3);
    nearcall_close(client);
}

/* The loop does not sleep over what finished while nobody was told: before there was a hook,
 * or while there was none for a time. */
static void a_hook_that_comes_late_is_told(const struct server *server)
{
    struct teller teller = {.limit = 0};
    nearcall_client *client = open_telling(server, &teller);
    for (int round = 1; round <= 2; round++) {
        for (int i = 0; i < 3; i++)
            (void)begin(&teller);
        while (turn(client) < 3 * round)
            ;
        CHECK_INT(nearcall_on_finished(client, on_finished, &teller), NEARCALL_OK);
        CHECK_INT(nearcall_timeout_ms(client), 0);
        CHECK_INT(nearcall_process(client), 3 * round);
        CHECK_INT(teller.told, 3 * round);
        CHECK(nearcall_timeout_ms(client) != 0);
        CHECK_INT(nearcall_on_finished(client, NULL, NULL), NEARCALL_OK);
    }
    nearcall_close(client);
}

static void calls_that_are_waited_for_are_not_told(const struct server *server)
{
    struct teller teller = {.limit = 0};
    nearcall_reply reply;
    nearcall_client *client = open_telling(server, &teller);
    CHECK_INT(nearcall_on_finished(client, on_finished, &teller), NEARCALL_OK);
    CHECK_CALL(client, nearcall_call(client, "echo", "x", 1, 20000, &reply), NEARCALL_OK);
    nearcall_call_id call = begin(&teller);
    CHECK_CALL(client, nearcall_wait(client, call, &reply), NEARCALL_OK);
    CHECK_INT(nearcall_process(client), 0);
    CHECK_INT(teller.told, 0);
    nearcall_close(client);
}

/* A valgrind or ASan run would see what is used after it was freed. */
static void a_hook_may_close(const struct server *server)
{
    struct teller teller = {.limit = 2, .closes = true};
    nearcall_client *client = open_telling(server, &teller);
    CHECK_INT(nearcall_on_finished(client, on_finished, &teller), NEARCALL_OK);
    (void)begin(&teller);
    (void)begin(&teller);
    for (int r = 0; teller.told == 0; r = turn(client))
        CHECK(r >= 0);
    CHECK_INT(teller.told, 1);
}

/* Another program takes the child's place: what it has open here is the parent's to close. */
static void leave(bool passed)
{
    if (passed)
        execl("/bin/true", "true", (char *)NULL);
    _exit(1);
}

static void a_hook_may_fork(const struct server *server)
{
    struct teller teller = {.limit = 2, .fetches = true, .forks = true};
    pid_t parent = getpid();
    nearcall_client *client = open_telling(server, &teller);
    CHECK_INT(nearcall_on_finished(client, on_finished, &teller), NEARCALL_OK);
    (void)begin(&teller);
    (void)begin(&teller);
    while (teller.told < 2 && getpid() == parent)
        CHECK(turn(client) >= 0);
    if (getpid() != parent)
        leave(teller.told == 1 || teller.told == 2);
    nearcall_close(client);
}

/* ---- The log ---- */

struct lines {
    nearcall_client *client;
    unsigned count;
    int levels[LINES_MAX];
    char texts[LINES_MAX][LINE_BYTES];
};

static void on_log(void *argument, int level, const char *text)
{
    struct lines *lines = argument;
    CHECK(lines->count < LINES_MAX && strlen(text) < LINE_BYTES && !strchr(text, '\n'));
    lines->levels[lines->count] = level;
    strcpy(lines->texts[lines->count++], text);
    if (lines->client) /* the handle is in use */
        CHECK_INT(nearcall_ping(lines->client, 1000, NULL), NEARCALL_E_MISUSE);
}

static bool logged(const struct lines *lines, int level, const char *part)
{
    for (unsigned i = 0; i < lines->count; i++)
        if (lines->levels[i] == level && strstr(lines->texts[i], part))
            return true;
    return false;
}

static void check_logged(const struct lines *lines, int level, const char *part)
{
    if (logged(lines, level, part))
        return;
    for (unsigned i = 0; i < lines->count; i++)
        fprintf(stderr, "%d %s\n", lines->levels[i], lines->texts[i]);
    test_failed(__FILE__, __LINE__, part);
}

static void a_connection_is_logged(struct server *server)
{
    static struct lines lines;
    nearcall_reply reply;
    char process[32];
    nearcall_client *client = lines.client = test_open(server->address, 0);
    CHECK_INT(nearcall_on_log(client, on_log, &lines), NEARCALL_OK);
    while (strcmp(nearcall_transport(client), "shared memory") != 0)
        CHECK_CALL(client, nearcall_call(client, "echo", "secret", 6, 20000, &reply), NEARCALL_OK);
    snprintf(process, sizeof(process), "process %d", (int)server->pid);
    check_logged(&lines, NEARCALL_LOG_INFO, process);
    check_logged(&lines, NEARCALL_LOG_DEBUG, "shared memory");
    CHECK_INT(lines.count, 2);
    nearcall_disconnect(client);
    check_logged(&lines, NEARCALL_LOG_WARNING, "dropped by this program");
    CHECK(!logged(&lines, NEARCALL_LOG_INFO, "secret"));
    CHECK_INT(nearcall_on_log(client, NULL, NULL), NEARCALL_OK);
    unsigned count = lines.count;
    CHECK_CALL(client, nearcall_call(client, "echo", "x", 1, 20000, &reply), NEARCALL_OK);
    CHECK_INT(lines.count, count);
    nearcall_close(client);
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

static void sending_again_is_logged(void)
{
    static struct lines lines;
    struct script script;
    nearcall_reply reply;
    script_start(&script, drain_then_serve, NULL);
    nearcall_client *client = test_open(script.address, 0);
    CHECK_INT(nearcall_on_log(client, on_log, &lines), NEARCALL_OK);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 20000, &reply), NEARCALL_OK);
    check_logged(&lines, NEARCALL_LOG_INFO, "is stopping");
    check_logged(&lines, NEARCALL_LOG_INFO, "f is sent again in ");
    check_logged(&lines, NEARCALL_LOG_INFO, "UNAVAILABLE, not executed");
    nearcall_close(client);
    script_end(&script);
}

static void refuse_in_lines(struct script *script)
{
    script_refuse(script, 7, "no\r\nroom \x1b[1m\x7f\xff!");
}

/* What a server says cannot pass for another line, or command a terminal. */
static void one_line_stays_one(void)
{
    static struct lines lines;
    struct script script;
    script_start(&script, refuse_in_lines, NULL);
    nearcall_client *client = test_open(script.address, 0);
    CHECK_INT(nearcall_on_log(client, on_log, &lines), NEARCALL_OK);
    CHECK_CALL(client, nearcall_ping(client, 20000, NULL), NEARCALL_E_PERMISSION_DENIED);
    check_logged(&lines, NEARCALL_LOG_WARNING, "no  room  [1m ?!");
    nearcall_close(client);
    script_end(&script);
}

int main(void)
{
    struct server server;
    test_begin();
    server_start(&server);
    each_is_told_once(&server, false);
    each_is_told_once(&server, true);
    unfetched_ones_stay(&server);
    a_hook_that_comes_late_is_told(&server);
    calls_that_are_waited_for_are_not_told(&server);
    a_hook_may_close(&server);
    a_hook_may_fork(&server);
    a_connection_is_logged(&server);
    server_stop(&server);
    sending_again_is_logged();
    one_line_stays_one();
    return 0;
}
