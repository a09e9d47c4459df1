/* Files and connections in calls, against the real server: what goes there, what comes
 * back, who closes it, and what is left of thousands of calls: nothing. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test.h"

static struct server server;

static int file_with(const char *text)
{
    char path[200];
    snprintf(path, sizeof(path), "%s/file", test_directory());
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    return fd;
}

static void begin(nearcall_client *client, const char *name, uint32_t arguments)
{
    CHECK_CALL(client, nearcall_request(client, test_find(client, name), NEARCALL_CODEC_MSGPACK),
               NEARCALL_OK);
    nearcall_put_array(client, arguments);
}

static int call(nearcall_client *client, nearcall_reply *reply)
{
    return nearcall_request_call(client, 10000, reply);
}

/* The file that is the whole reply, or an element of it. */
static int64_t read_number(nearcall_reader *reader)
{
    nearcall_value value;
    CHECK_INT(nearcall_read(reader, &value), NEARCALL_OK);
    CHECK_INT(value.type, NEARCALL_FILE);
    return value.as.integer;
}

static int taken(nearcall_client *client, const nearcall_reply *reply)
{
    nearcall_reader reader = {reply->data, reply->data + reply->bytes};
    int fd = nearcall_take_file(client, read_number(&reader));
    CHECK(fd >= 0);
    CHECK_INT(fcntl(fd, F_GETFD), FD_CLOEXEC);
    return fd;
}

static void check_text(int fd, const char *text)
{
    char buffer[200];
    ssize_t bytes = read(fd, buffer, sizeof(buffer));
    CHECK_INT(bytes, strlen(text));
    CHECK(memcmp(buffer, text, strlen(text)) == 0);
    close(fd);
}

static void files_go_and_come(nearcall_client *client)
{
    nearcall_reply reply;
    int fd = file_with("there and back");
    begin(client, "file_same", 1);
    nearcall_put_file(client, fd);
    close(fd); /* the request has its own */
    CHECK_CALL(client, call(client, &reply), NEARCALL_OK);
    check_text(taken(client, &reply), "there and back");
    CHECK_INT(nearcall_take_file(client, 0), NEARCALL_E_INVALID_ARGUMENT); /* not twice */
    CHECK_INT(nearcall_take_file(client, 1), NEARCALL_E_INVALID_ARGUMENT);

    int ends[2];
    CHECK(pipe(ends) == 0);
    begin(client, "file_write", 2);
    nearcall_put_file(client, ends[1]);
    nearcall_put_bytes(client, "through a pipe", 14);
    CHECK_CALL(client, call(client, &reply), NEARCALL_OK);
    CHECK_INT(test_read_int(&reply), 14);
    close(ends[1]);
    check_text(ends[0], "through a pipe");
}

static void both_ends_of_a_pipe(nearcall_client *client)
{
    nearcall_reply reply;
    nearcall_value value;
    begin(client, "file_pipe", 0);
    CHECK_CALL(client, call(client, &reply), NEARCALL_OK);
    nearcall_reader reader = {reply.data, reply.data + reply.bytes};
    CHECK_INT(nearcall_read(&reader, &value), NEARCALL_OK);
    int out = nearcall_take_file(client, read_number(&reader));
    int in = nearcall_take_file(client, read_number(&reader));
    CHECK(write(in, "both ends", 9) == 9);
    close(in);
    check_text(out, "both ends");
}

static void connections(nearcall_client *client)
{
    nearcall_reply reply;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(at);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(listener, (struct sockaddr *)&at, sizeof(at)) == 0 && listen(listener, 1) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&at, &bytes) == 0);
    char address[40];
    snprintf(address, sizeof(address), "127.0.0.1:%d", ntohs(at.sin_port));
    begin(client, "connection_dial", 1);
    nearcall_put_string(client, address, strlen(address));
    CHECK_CALL(client, call(client, &reply), NEARCALL_OK);
    int made = taken(client, &reply);
    int accepted = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    CHECK(fcntl(made, F_SETFL, 0) == 0);

    begin(client, "connection_greet", 2);
    nearcall_put_file(client, accepted);
    nearcall_put_string(client, "hello", 5);
    CHECK_CALL(client, call(client, &reply), NEARCALL_OK);
    close(accepted);
    check_text(made, "hello");
    close(listener);

    int fd = file_with("");
    begin(client, "connection_greet", 2);
    nearcall_put_file(client, fd);
    nearcall_put_string(client, "hello", 5);
    CHECK_CALL(client, call(client, &reply), NEARCALL_E_INVALID_ARGUMENT);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    close(fd);
}

static void wrong_files(nearcall_client *client)
{
    nearcall_reply reply;
    begin(client, "file_read", 1);
    nearcall_put_file(client, 9999);
    CHECK_CALL(client, call(client, &reply), NEARCALL_E_INVALID_ARGUMENT);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    begin(client, "file_join", 1);
    nearcall_put_array(client, 17);
    for (int i = 0; i < 17; i++)
        nearcall_put_file(client, STDIN_FILENO);
    CHECK_CALL(client, call(client, &reply), NEARCALL_E_RESOURCE_EXHAUSTED);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
}

/* Many at once, behind each other in the output, some with large payloads. */
static void many_in_flight(nearcall_client *client)
{
    static uint8_t large[200000];
    nearcall_call_id calls[30];
    nearcall_reply reply;
    int sink = open("/dev/null", O_WRONLY | O_CLOEXEC);
    for (int i = 0; i < 30; i++) {
        begin(client, i % 3 ? "file_write" : "echo", i % 3 ? 2 : 1);
        if (i % 3)
            nearcall_put_file(client, sink);
        nearcall_put_bytes(client, large, i % 2 ? 10 : sizeof(large));
        CHECK_CALL(client, nearcall_request_send(client, 10000, &calls[i]), NEARCALL_OK);
    }
    for (int i = 29; i >= 0; i--) {
        CHECK_CALL(client, nearcall_wait(client, calls[i], &reply), NEARCALL_OK);
        if (i % 3)
            CHECK_INT(test_read_int(&reply), i % 2 ? 10 : (int)sizeof(large));
    }
    close(sink);
}

static int64_t open_in_server(nearcall_client *client)
{
    nearcall_reply reply;
    begin(client, "descriptors_open", 0);
    CHECK_CALL(client, call(client, &reply), NEARCALL_OK);
    return test_read_int(&reply);
}

static void all_ways_to_end(nearcall_client *client, int fd)
{
    nearcall_reply reply;
    nearcall_call_id id;
    begin(client, "file_same", 1); /* taken by nobody */
    nearcall_put_file(client, fd);
    CHECK_CALL(client, call(client, &reply), NEARCALL_OK);
    begin(client, "file_same", 1);
    nearcall_put_file(client, fd);
    CHECK_CALL(client, nearcall_request_send(client, 10000, &id), NEARCALL_OK);
    nearcall_cancel(client, id);
    begin(client, "file_same", 1); /* never sent */
    nearcall_put_file(client, fd);
    begin(client, "file_hold", 2);
    nearcall_put_file(client, fd);
    nearcall_put_int(client, 500); /* far longer than this process is ever kept waiting */
    CHECK(nearcall_request_call(client, 1, &reply) < 0);
    begin(client, "file_join", 1); /* after some were taken */
    nearcall_put_array(client, 3);
    nearcall_put_file(client, fd);
    nearcall_put_file(client, fd);
    nearcall_put_int(client, 7);
    CHECK_CALL(client, call(client, &reply), NEARCALL_E_INVALID_ARGUMENT);
    begin(client, "file_many", 1);
    nearcall_put_int(client, 17);
    CHECK_CALL(client, call(client, &reply), NEARCALL_E_INTERNAL);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_EXECUTED_RESULT_LOST);
}

static void nothing_is_left(uint32_t flags)
{
    nearcall_client *client = test_open(server.address, flags);
    int fd = file_with("x");
    all_ways_to_end(client, fd);
    int64_t there = open_in_server(client);
    int here = test_open_descriptors();
    for (int i = 0; i < 300; i++)
        all_ways_to_end(client, fd);
    for (int tries = 0; open_in_server(client) > there; tries++) {
        CHECK(tries < 20000); /* functions that were given up may run yet, longer where others run */
        usleep(1000);
    }
    CHECK_INT(test_open_descriptors(), here);
    close(fd);
    nearcall_close(client);
}

/* A child has copies of all that its parent had: of a request that was put together and
 * of a reply that was handed out. What it does with them does not touch the parent's. */
static void fork_between(nearcall_client *client)
{
    nearcall_reply reply;
    int fd = file_with("for both");
    begin(client, "file_same", 1);
    nearcall_put_file(client, fd);
    pid_t pid = fork();
    CHECK(pid >= 0);
    CHECK_CALL(client, call(client, &reply), NEARCALL_OK);
    int got = taken(client, &reply);
    if (pid == 0) {
        nearcall_close(client);
        _exit(0);
    }
    test_join(pid);
    check_text(got, "for both");

    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    begin(client, "file_same", 1);
    nearcall_put_file(client, fd);
    CHECK_CALL(client, call(client, &reply), NEARCALL_OK);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        got = taken(client, &reply);
        nearcall_close(client);
        check_text(got, "for both");
        _exit(0);
    }
    test_join(pid);
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    check_text(taken(client, &reply), "for both");
    close(fd);
}

/* Without room for the reply's files the call ends so, and the connection goes on. */
static void no_room(nearcall_client *client)
{
    nearcall_reply reply;
    struct rlimit former, tight;
    CHECK(getrlimit(RLIMIT_NOFILE, &former) == 0);
    begin(client, "file_many", 1);
    tight = former;
    tight.rlim_cur = (rlim_t)test_open_descriptors() + 3;
    CHECK(setrlimit(RLIMIT_NOFILE, &tight) == 0);
    nearcall_put_int(client, 12);
    CHECK_CALL(client, call(client, &reply), NEARCALL_E_RESOURCE_EXHAUSTED);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_EXECUTED_RESULT_LOST);
    CHECK(setrlimit(RLIMIT_NOFILE, &former) == 0);
    begin(client, "file_many", 1);
    nearcall_put_int(client, 12);
    CHECK_CALL(client, call(client, &reply), NEARCALL_OK);
}

static void not_allowed(void)
{
    struct server strict;
    nearcall_reply reply;
    server_start(&strict);
    nearcall_client *client = test_open(strict.address, 0);
    begin(client, "identity", 1);
    nearcall_put_file(client, STDIN_FILENO);
    CHECK_CALL(client, call(client, &reply), NEARCALL_E_PERMISSION_DENIED);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    nearcall_close(client);
    server_stop(&strict);
}

int main(void)
{
    test_begin();
    server_start_with_files(&server);
    nearcall_client *client = test_open(server.address, 0);
    int before = test_open_descriptors();
    for (int i = 0; i < 3; i++) { /* over the socket, then beside shared memory */
        files_go_and_come(client);
        both_ends_of_a_pipe(client);
        connections(client);
        wrong_files(client);
        many_in_flight(client);
        fork_between(client);
    }
    CHECK(strcmp(nearcall_transport(client), "shared memory") == 0);
    no_room(client);
    nearcall_close(client);
    CHECK(test_open_descriptors() <= before);
    nothing_is_left(0);
    nothing_is_left(NEARCALL_NO_SHARED_MEMORY);
    not_allowed();
    server_stop(&server);
    return 0;
}
