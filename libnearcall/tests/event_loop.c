/* NEARCALL_NONBLOCKING in a loop of poll(2): connecting, finding, calling, timing
 * out, losing the server, each without a function that blocks. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "script.h"

static unsigned looks;

int __wrap_fstat(int fd, struct stat *ret_status);
int __wrap_fstat(int fd, struct stat *ret_status)
{
    looks++;
    return fstatat(fd, "", ret_status, AT_EMPTY_PATH);
}

int __wrap_fstat64(int fd, struct stat *ret_status);
int __wrap_fstat64(int fd, struct stat *ret_status)
{
    return __wrap_fstat(fd, ret_status);
}

/* The library's hot calls ask the kernel itself, where they can. */
long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    if (number == SYS_fstat)
        return __wrap_fstat((int)a, (struct stat *)b);
    return __real_syscall(number, a, b, c, d, e, f);
}

/* One turn of a loop; what nearcall_process() returned. */
static int turn(nearcall_client *client)
{
    struct pollfd watched = {nearcall_fd(client), (short)nearcall_events(client), 0};
    int64_t timeout_ms = nearcall_timeout_ms(client);
    CHECK(watched.fd >= 0 || timeout_ms >= 0); /* else the loop would sleep for ever */
    poll(&watched, watched.fd >= 0 ? 1 : 0, (int)timeout_ms);
    return nearcall_process(client);
}

static nearcall_function *find(nearcall_client *client, const char *name)
{
    nearcall_call_id call;
    nearcall_function *function;
    int r;
    CHECK_CALL(client, nearcall_find_begin(client, name, strlen(name), 5000, &call), NEARCALL_OK);
    while ((r = nearcall_poll(client, call, NULL)) == NEARCALL_E_AGAIN)
        (void)turn(client);
    CHECK_CALL(client, r, NEARCALL_OK);
    CHECK_CALL(client, nearcall_find(client, name, strlen(name), 1, &function), NEARCALL_OK);
    return function;
}

/* Whether the server is asked or not. */
static void found_twice(nearcall_client *client)
{
    nearcall_function *function = find(client, "echo");
    nearcall_call_id call;
    nearcall_reply reply;
    size_t bytes;
    const uint8_t *description = nearcall_function_schema(function, &bytes);
    CHECK_CALL(client, nearcall_find_begin(client, "echo", 4, 5000, &call), NEARCALL_OK);
    CHECK_CALL(client, nearcall_poll(client, call, &reply), NEARCALL_OK);
    CHECK(bytes > 0 && reply.bytes == bytes && memcmp(reply.data, description, bytes) == 0);
    CHECK_INT(reply.codec, NEARCALL_CODEC_MSGPACK);
}

static nearcall_call_id send_bytes(nearcall_client *client, nearcall_function *function,
                                   size_t bytes, int64_t timeout_ms)
{
    nearcall_call_id call;
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_RAW), NEARCALL_OK);
    void *room = nearcall_put_reserve(client, bytes);
    CHECK(room != NULL);
    memset(room, 'x', bytes);
    CHECK_CALL(client, nearcall_request_send(client, timeout_ms, &call), NEARCALL_OK);
    return call;
}

static void calls_of_all_sizes(nearcall_client *client, nearcall_function *echo)
{
    static const size_t sizes[] = {0, 1, 64, 65536, 1 << 20, 3 << 20, 10};
    enum { COUNT = sizeof(sizes) / sizeof(sizes[0]) };
    nearcall_call_id calls[COUNT], finished;
    nearcall_reply reply;
    int fetched = 0;
    for (int i = 0; i < COUNT; i++)
        calls[i] = send_bytes(client, echo, sizes[i], 20000);
    while (fetched < COUNT) {
        CHECK(turn(client) >= 0);
        while ((finished = nearcall_next_finished(client)) != 0) {
            int i = 0;
            while (calls[i] != finished)
                i++;
            CHECK_CALL(client, nearcall_poll(client, finished, &reply), NEARCALL_OK);
            CHECK_INT(reply.bytes, sizes[i]);
            fetched++;
        }
    }
    /* A turn that took its time leaves the rest of what has come to the next one. */
    for (int i = 0; i < COUNT && nearcall_timeout_ms(client) == 0; i++)
        CHECK(turn(client) >= 0);
    CHECK_INT(nearcall_timeout_ms(client), -1);
    CHECK_INT(nearcall_events(client), POLLIN);
}

/* By sending nobody is woken: the socket alone is looked at. A turn looks at what wakes it as well, at both ends. */
static void few_looks(nearcall_client *client, nearcall_function *echo)
{
    unsigned turns = 0, looks_of_turns = 0;
    looks = 0;
    for (int i = 0; i < 50; i++) {
        nearcall_call_id call = send_bytes(client, echo, 5, 20000);
        while (nearcall_poll(client, call, NULL) == NEARCALL_E_AGAIN) {
            unsigned before = looks;
            poll(NULL, 0, 1);
            CHECK(nearcall_process(client) >= 0);
            looks_of_turns += looks - before;
            turns++;
        }
    }
    CHECK(looks_of_turns <= 4 * turns);
    CHECK(looks - looks_of_turns <= 50);
}

static bool a_deadline_passes(nearcall_client *client)
{
    nearcall_call_id call;
    nearcall_reply reply;
    nearcall_function *block = find(client, "block");
    test_request_int(client, block, 400);
    CHECK_CALL(client, nearcall_request_send(client, 100, &call), NEARCALL_OK);
    double before_ms = test_now_ms();
    while (nearcall_next_finished(client) != call)
        CHECK(turn(client) >= 0);
    double took_ms = test_now_ms() - before_ms;
    CHECK_CALL(client, nearcall_poll(client, call, &reply), NEARCALL_E_DEADLINE_EXCEEDED);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_UNKNOWN);
    return test_in_time(took_ms + 1, 100); /* the clock was read after the sending */
}

static void with_the_real_server(void)
{
    struct server server;
    int r;
    server_start(&server);
    nearcall_client *client = test_open(server.address, NEARCALL_NONBLOCKING);
    int fd = nearcall_fd(client);
    CHECK(fd >= 0);
    CHECK_INT(nearcall_timeout_ms(client), -1);
    while ((r = nearcall_connect(client, 5000)) == NEARCALL_E_AGAIN)
        (void)turn(client);
    CHECK_CALL(client, r, NEARCALL_OK);
    nearcall_function *echo = find(client, "echo");
    found_twice(client);
    calls_of_all_sizes(client, echo);
    few_looks(client, echo);
    for (int tries = 0; !a_deadline_passes(client); tries++)
        CHECK(tries < TEST_TRIES);
    nearcall_call_id call = send_bytes(client, echo, 5, 5000);
    server_kill(&server);
    while (nearcall_next_finished(client) != call)
        (void)turn(client);
    nearcall_reply reply;
    r = nearcall_poll(client, call, &reply); /* answered, or lost */
    CHECK(r == NEARCALL_OK || r == NEARCALL_E_UNAVAILABLE);
    while (nearcall_server_process_id(client) != 0) /* the end of the connection is reported once */
        if (nearcall_process(client) < 0)
            CHECK_INT(nearcall_error_code(client), -NEARCALL_E_UNAVAILABLE);
    CHECK_INT(nearcall_process(client), 0);
    CHECK_INT(nearcall_fd(client), fd);
    nearcall_close(client);
}

/* A call that finds the connection gone, and of which nothing was sent, goes over the next one. */
static void the_connection_had_ended(void)
{
    struct server server;
    nearcall_call_id call = 0;
    nearcall_reply reply;
    server_start_generation(&server, "1");
    nearcall_client *client = test_open(server.address, NEARCALL_NONBLOCKING | NEARCALL_NO_SHARED_MEMORY);
    nearcall_function *echo = find(client, "echo");
    for (int i = 0; i < 3; i++) {
        call = send_bytes(client, echo, 5, 20000);
        while (nearcall_next_finished(client) != call)
            CHECK(turn(client) >= 0);
        CHECK_CALL(client, nearcall_poll(client, call, &reply), NEARCALL_OK);
        CHECK_INT(reply.bytes, 5);
        server_replace(&server, "1");
    }
    server_kill(&server);
    test_request_int(client, echo, 1);
    CHECK_CALL(client, nearcall_request_send(client, 20000, &call), NEARCALL_E_UNAVAILABLE);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    nearcall_close(client);
}

/* Requests given before there is a connection wait for it, in order. */
static void serve_slowly(struct script *script)
{
    struct nc_frame frame;
    script_accept(script);
    script_read_hello(script);
    script_await(script);
    script_welcome(script);
    script_expect(script, NC_RESOLVE, &frame);
    script_reply(script, &frame, "\x80", 1);
    script_serve(script);
}

static void before_the_welcome(void)
{
    struct script script;
    nearcall_call_id call;
    script_start(&script, serve_slowly, NULL);
    nearcall_client *client = test_open(script.address, NEARCALL_NONBLOCKING);
    CHECK_CALL(client, nearcall_find_begin(client, "f", 1, 5000, &call), NEARCALL_OK);
    CHECK(nearcall_fd(client) >= 0);
    CHECK_INT(nearcall_process(client), 0);
    CHECK_CALL(client, nearcall_poll(client, call, NULL), NEARCALL_E_AGAIN);
    script_signal(&script);
    while (nearcall_next_finished(client) != call)
        CHECK(turn(client) >= 0);
    CHECK_CALL(client, nearcall_poll(client, call, NULL), NEARCALL_OK);
    nearcall_close(client);
    script_end(&script);
}

static void no_server(void)
{
    nearcall_call_id call;
    char address[160];
    snprintf(address, sizeof(address), "unix:%s/none", test_directory());
    nearcall_client *client = test_open(address, NEARCALL_NONBLOCKING);
    CHECK_CALL(client, nearcall_find_begin(client, "f", 1, 5000, &call), NEARCALL_E_UNAVAILABLE);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK_CALL(client, nearcall_connect(client, 5000), NEARCALL_E_UNAVAILABLE);
    nearcall_close(client);
}

/* A port that is taken and where nobody listens; the returned socket holds it. */
static int refused_address(char *address, size_t bytes)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t name_bytes = sizeof(name);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&name, sizeof(name)) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&name, &name_bytes) == 0);
    snprintf(address, bytes, "tcp:127.0.0.1:%d", ntohs(name.sin_port));
    return fd;
}

static void say_no_welcome(struct script *script)
{
    script_accept(script);
    script_read_hello(script);
    CHECK(script_read_end(script));
}

/* Connecting ends, though nearcall_process() was told of the failure before; the next try
 * begins anew. */
static void connecting_fails(const char *address, int code)
{
    nearcall_client *client = test_open(address, NEARCALL_NONBLOCKING);
    for (int tries = 0; tries < 2; tries++) {
        int r, failures = 0;
        while ((r = nearcall_connect(client, 100)) == NEARCALL_E_AGAIN) {
            failures += turn(client) < 0;
            CHECK(failures <= 1);
        }
        CHECK_CALL(client, r, code);
        CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
        CHECK(strstr(nearcall_error_message(client), address) != NULL);
        if (code == NEARCALL_E_DEADLINE_EXCEEDED)
            break; /* the script has ended */
    }
    nearcall_close(client);
}

static void connecting_ends(void)
{
    struct script script;
    char address[64];
    int port = refused_address(address, sizeof(address));
    connecting_fails(address, NEARCALL_E_UNAVAILABLE);
    close(port);
    script_start(&script, say_no_welcome, NULL);
    connecting_fails(script.address, NEARCALL_E_DEADLINE_EXCEEDED);
    script_end(&script);
}

int main(void)
{
    test_begin();
    connecting_ends();
    with_the_real_server();
    the_connection_had_ended();
    before_the_welcome();
    no_server();
    return 0;
}
