/* Connections, listeners and files that one handle gives and another takes. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/limits_gen.h"
#include "handoff_test.h"

#ifndef SO_PASSPIDFD
#define SO_PASSPIDFD 76
#endif

struct ends {
    nearcall_handoff *taker;
    nearcall_handoff *giver;
};

static struct ends connect_both(uint32_t taker_flags, uint32_t giver_flags)
{
    const char *address = handoff_address();
    struct ends ends;
    ends.taker = handoff_listen(address, taker_flags);
    ends.giver = handoff_connect(address, giver_flags, ends.taker);
    return ends;
}

static void close_both(struct ends *ends)
{
    nearcall_handoff_close(ends->giver);
    nearcall_handoff_close(ends->taker);
}

static void a_connection_with_all_that_belongs_to_it(uint32_t flags)
{
    struct ends ends = connect_both(flags, 0);
    struct giving giving = {.item = {.name = "shop", .prefix = (const uint8_t *)"GET ", .prefix_bytes = 4,
                                     .message = (const uint8_t *)"for you", .message_bytes = 7,
                                     .remote = "tcp:192.0.2.1:7"}};
    nearcall_handoff_item item;
    int client, served;
    tcp_pair(&client, &served);
    giving_start(&giving, ends.giver, served, PATIENCE_MS);
    CHECK_HANDOFF(ends.taker, nearcall_handoff_accept(ends.taker, PATIENCE_MS, &item), NEARCALL_OK);
    CHECK_HANDOFF(ends.giver, giving_end(&giving), NEARCALL_OK);
    CHECK(strcmp(item.name, "shop") == 0 && strcmp(item.remote, "tcp:192.0.2.1:7") == 0);
    CHECK(strncmp(item.local, "tcp:127.0.0.1:", 14) == 0);
    CHECK_INT(item.prefix_bytes, 4);
    CHECK(memcmp(item.prefix, "GET ", 4) == 0);
    CHECK_INT(item.message_bytes, 7);
    CHECK(memcmp(item.message, "for you", 7) == 0);
    CHECK_INT(item.kind, NEARCALL_HANDOFF_CONNECTION);
    CHECK_INT(item.process_id, getpid());
    CHECK_INT(fcntl(item.fd, F_GETFD), FD_CLOEXEC);
    CHECK_INT((fcntl(item.fd, F_GETFL) & O_NONBLOCK) != 0, flags & NEARCALL_HANDOFF_NONBLOCKING ? 1 : 0);
    send_bytes(item.fd, "hello");
    expect_bytes(client, "hello");
    close(item.fd);
    expect_end(client); /* the giver has no copy */
    close(client);
    close_both(&ends);
}

/* Its giver may have it linger, or somebody who gave it to the giver; who accepts it closes it alone. */
static void it_does_not_linger(void)
{
    struct ends ends = connect_both(0, 0);
    struct giving giving = {0};
    struct linger linger = {1, TEST_LINGER_S};
    socklen_t bytes = sizeof(linger);
    nearcall_handoff_item item;
    int client, served;
    tcp_pair(&client, &served);
    CHECK(setsockopt(served, SOL_SOCKET, SO_LINGER, &linger, bytes) == 0);
    giving_start(&giving, ends.giver, served, PATIENCE_MS);
    CHECK_HANDOFF(ends.taker, nearcall_handoff_accept(ends.taker, PATIENCE_MS, &item), NEARCALL_OK);
    CHECK_HANDOFF(ends.giver, giving_end(&giving), NEARCALL_OK);
    CHECK(getsockopt(item.fd, SOL_SOCKET, SO_LINGER, &linger, &bytes) == 0);
    CHECK_INT(linger.l_onoff, 0);
    close(item.fd);
    close(client);
    close_both(&ends);
}

static void the_giver_keeps_what_is_refused(void)
{
    struct ends ends = connect_both(0, 0);
    struct giving giving = {0};
    int client, served;
    tcp_pair(&client, &served);
    CHECK_HANDOFF(ends.taker, nearcall_handoff_refuse(ends.taker, NEARCALL_HANDOFF_BUSY, NULL),
                  NEARCALL_E_AGAIN);
    giving_start(&giving, ends.giver, served, PATIENCE_MS);
    CHECK_HANDOFF(ends.taker, nearcall_handoff_wait(ends.taker, PATIENCE_MS), NEARCALL_OK);
    CHECK_HANDOFF(ends.taker, nearcall_handoff_refuse(ends.taker, NEARCALL_HANDOFF_BUSY, "come later"),
                  NEARCALL_OK);
    CHECK_HANDOFF(ends.giver, giving_end(&giving), NEARCALL_E_RESOURCE_EXHAUSTED);
    CHECK_INT(nearcall_handoff_error_reason(ends.giver), NEARCALL_HANDOFF_BUSY);
    CHECK(strstr(nearcall_handoff_error_message(ends.giver), "come later") != NULL);
    send_bytes(served, "still here");
    expect_bytes(client, "still here");
    close(client);
    close(served);
    close_both(&ends);
}

/* Who waits to be accepted there waits on: the giver goes on listening. */
static void a_listener_that_is_refused_is_left_as_it_is(void)
{
    struct ends ends = connect_both(NEARCALL_HANDOFF_TAKE_LISTENERS, 0);
    struct giving giving = {.item = {.kind = NEARCALL_HANDOFF_LISTENER}};
    struct sockaddr_un at = {.sun_family = AF_UNIX}; /* the kernel names it */
    socklen_t bytes = sizeof(at);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(listener, (struct sockaddr *)&at, sizeof(at.sun_family)) == 0 && listen(listener, 1) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&at, &bytes) == 0);
    CHECK(connect(client, (struct sockaddr *)&at, bytes) == 0);
    giving_start(&giving, ends.giver, listener, PATIENCE_MS);
    CHECK_HANDOFF(ends.taker, nearcall_handoff_wait(ends.taker, PATIENCE_MS), NEARCALL_OK);
    CHECK_HANDOFF(ends.taker, nearcall_handoff_refuse(ends.taker, NEARCALL_HANDOFF_BUSY, ""), NEARCALL_OK);
    CHECK_HANDOFF(ends.giver, giving_end(&giving), NEARCALL_E_RESOURCE_EXHAUSTED);
    CHECK(fcntl(listener, F_SETFL, O_NONBLOCK) == 0);
    int served = accept(listener, NULL, NULL);
    CHECK(served >= 0);
    send_bytes(served, "still here");
    expect_bytes(client, "still here");
    close(client);
    close(served);
    close(listener);
    close_both(&ends);
}

/* The taker looks, so it answers the RECALL; or it does not, and loses its channel. */
static void the_giver_takes_back_what_is_late(bool taker_looks)
{
    struct ends ends = connect_both(0, 0);
    struct giving giving = {0};
    nearcall_handoff_item item;
    int client, served;
    tcp_pair(&client, &served);
    giving_start(&giving, ends.giver, served, 100);
    if (taker_looks) {
        int r = NEARCALL_OK;
        while (r == NEARCALL_OK) /* until what has arrived is gone again */
            r = nearcall_handoff_wait(ends.taker, 1000);
        CHECK_HANDOFF(ends.taker, r, NEARCALL_E_DEADLINE_EXCEEDED);
    }
    double before = test_now_ms();
    CHECK_HANDOFF(ends.giver, giving_end(&giving), NEARCALL_E_DEADLINE_EXCEEDED);
    CHECK(taker_looks || test_now_ms() - before > 500);
    CHECK_INT(nearcall_handoff_error_reason(ends.giver), taker_looks ? NEARCALL_HANDOFF_RECALLED : 0);
    CHECK_HANDOFF(ends.taker, nearcall_handoff_accept(ends.taker, 0, &item), NEARCALL_E_AGAIN);
    send_bytes(served, "mine");
    expect_bytes(client, "mine");
    close(client);
    close(served);
    close_both(&ends);
}

static void it_goes_back_by_the_way_it_came(void)
{
    struct ends ends = connect_both(0, NEARCALL_HANDOFF_TAKE_CONNECTIONS);
    struct giving giving = {.item = {.prefix = (const uint8_t *)"GET ", .prefix_bytes = 4}}, back;
    nearcall_handoff_item item;
    int client, served;
    tcp_pair(&client, &served);
    giving_start(&giving, ends.giver, served, PATIENCE_MS);
    CHECK_HANDOFF(ends.taker, nearcall_handoff_accept(ends.taker, PATIENCE_MS, &item), NEARCALL_OK);
    CHECK_HANDOFF(ends.giver, giving_end(&giving), NEARCALL_OK);
    back = (struct giving){.item = item, .channel = item.channel};
    giving_start(&back, ends.taker, item.fd, PATIENCE_MS);
    CHECK_HANDOFF(ends.giver, nearcall_handoff_accept(ends.giver, PATIENCE_MS, &item), NEARCALL_OK);
    CHECK_HANDOFF(ends.taker, giving_end(&back), NEARCALL_OK);
    CHECK_INT(item.prefix_bytes, 4);
    send_bytes(item.fd, "back");
    expect_bytes(client, "back");
    close(item.fd);
    expect_end(client);
    close(client);
    close_both(&ends);
}

static void listeners_and_files(void)
{
    struct ends ends = connect_both(NEARCALL_HANDOFF_TAKE_LISTENERS | NEARCALL_HANDOFF_TAKE_FILES, 0);
    struct giving giving = {.item = {.kind = NEARCALL_HANDOFF_LISTENER, .name = "http"}};
    nearcall_handoff_item item;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), pipe_ends[2], client, served;
    CHECK(listen(listener, 1) == 0 && pipe(pipe_ends) == 0);
    giving_start(&giving, ends.giver, listener, PATIENCE_MS);
    CHECK_HANDOFF(ends.taker, nearcall_handoff_accept(ends.taker, PATIENCE_MS, &item), NEARCALL_OK);
    CHECK_HANDOFF(ends.giver, giving_end(&giving), NEARCALL_OK);
    CHECK_INT(item.kind, NEARCALL_HANDOFF_LISTENER);
    CHECK(fcntl(listener, F_GETFD) >= 0); /* it stays the giver's too */
    close(item.fd);
    giving.item.kind = NEARCALL_HANDOFF_FILE;
    giving_start(&giving, ends.giver, pipe_ends[1], PATIENCE_MS);
    CHECK_HANDOFF(ends.taker, nearcall_handoff_accept(ends.taker, PATIENCE_MS, &item), NEARCALL_OK);
    CHECK_HANDOFF(ends.giver, giving_end(&giving), NEARCALL_OK);
    close(pipe_ends[1]);
    CHECK_INT(write(item.fd, "x", 1), 1);
    close(item.fd);
    expect_bytes(pipe_ends[0], "x");
    expect_end(pipe_ends[0]);
    tcp_pair(&client, &served);
    giving.item.kind = NEARCALL_HANDOFF_CONNECTION;
    giving_start(&giving, ends.giver, served, PATIENCE_MS);
    CHECK_HANDOFF(ends.giver, giving_end(&giving), NEARCALL_E_UNIMPLEMENTED);
    close(client);
    close(served);
    close(listener);
    close(pipe_ends[0]);
    close_both(&ends);
}

static void what_the_peer_does_not_take_is_not_sent(void)
{
    struct ends ends = connect_both(0, 0);
    struct giving giving = {0};
    uint8_t *long_message = calloc(1, (NC_HANDOFF_MESSAGE_BYTES_MAX + 1));
    char long_name[400];
    int client, served;
    CHECK(long_message != NULL);
    memset(long_name, 'n', sizeof(long_name));
    long_name[sizeof(long_name) - 1] = '\0';
    tcp_pair(&client, &served);
    giving.item.message = long_message;
    giving.item.message_bytes = (NC_HANDOFF_MESSAGE_BYTES_MAX + 1);
    giving_start(&giving, ends.giver, served, PATIENCE_MS);
    CHECK_HANDOFF(ends.giver, giving_end(&giving), NEARCALL_E_INVALID_ARGUMENT);
    giving.item.message_bytes = 0;
    giving.item.name = long_name;
    giving_start(&giving, ends.giver, served, PATIENCE_MS);
    CHECK_HANDOFF(ends.giver, giving_end(&giving), NEARCALL_E_INVALID_ARGUMENT);
    free(long_message);
    close(client);
    close(served);
    close_both(&ends);
}

static void draining_gives_back(void)
{
    struct ends ends = connect_both(0, 0);
    struct giving giving = {0};
    nearcall_handoff_item item;
    int client, served;
    tcp_pair(&client, &served);
    giving_start(&giving, ends.giver, served, PATIENCE_MS);
    CHECK_HANDOFF(ends.taker, nearcall_handoff_wait(ends.taker, PATIENCE_MS), NEARCALL_OK);
    CHECK_HANDOFF(ends.taker, nearcall_handoff_drain(ends.taker, "a new one comes"), NEARCALL_OK);
    CHECK_HANDOFF(ends.giver, giving_end(&giving), NEARCALL_E_UNAVAILABLE);
    CHECK_INT(nearcall_handoff_error_reason(ends.giver), NEARCALL_HANDOFF_DRAINING);
    CHECK_HANDOFF(ends.giver, nearcall_handoff_give(ends.giver, 0, &giving.item, PATIENCE_MS),
                  NEARCALL_E_UNAVAILABLE);
    CHECK_HANDOFF(ends.taker, nearcall_handoff_accept(ends.taker, PATIENCE_MS, &item),
                  NEARCALL_E_UNAVAILABLE);
    close(client);
    close(served);
    close_both(&ends);
}

static void the_path_is_the_listeners(void)
{
    nearcall_handoff_options options = NEARCALL_HANDOFF_OPTIONS_INIT;
    const char *address = handoff_address();
    const char *path = address + strlen("unix:");
    nearcall_handoff *other;
    struct stat status;
    options.mode = 0600;
    nearcall_handoff *handoff;
    CHECK_HANDOFF(handoff, nearcall_handoff_listen(&handoff, address, &options), NEARCALL_OK);
    CHECK(stat(path, &status) == 0);
    CHECK_INT(status.st_mode & 0777, 0600);
    CHECK_HANDOFF(other, nearcall_handoff_listen(&other, address, NULL), NEARCALL_E_ALREADY_EXISTS);
    CHECK(strstr(nearcall_handoff_error_message(other), "another process listens") != NULL);
    CHECK_HANDOFF(other, nearcall_handoff_wait(other, 0), NEARCALL_E_MISUSE);
    nearcall_handoff_close(other);
    CHECK(stat(path, &status) == 0);
    nearcall_handoff_close(handoff);
    CHECK(stat(path, &status) != 0);
    CHECK_HANDOFF(other, nearcall_handoff_connect(&other, address, NULL, 1000), NEARCALL_E_UNAVAILABLE);
    nearcall_handoff_close(other);
    CHECK_HANDOFF(other, nearcall_handoff_listen(&other, "tcp:127.0.0.1:1", NULL), NEARCALL_E_INVALID_ARGUMENT);
    nearcall_handoff_close(other);
    nearcall_handoff_close(NULL);
}

static void listening_is_refused(const char *address, int code, const char *why)
{
    nearcall_handoff *handoff;
    CHECK_HANDOFF(handoff, nearcall_handoff_listen(&handoff, address, NULL), code);
    CHECK(strstr(nearcall_handoff_error_message(handoff), why) != NULL);
    CHECK(strstr(nearcall_handoff_error_message(handoff), address) != NULL);
    nearcall_handoff_close(handoff);
}

static void an_option_is_refused(nearcall_handoff_options options, const char *says)
{
    nearcall_handoff *handoff;
    CHECK_HANDOFF(handoff, nearcall_handoff_listen(&handoff, handoff_address(), &options),
                  NEARCALL_E_INVALID_ARGUMENT);
    CHECK(strstr(nearcall_handoff_error_message(handoff), says) != NULL);
    nearcall_handoff_close(handoff);
}

static void options_out_of_range_are_refused(void)
{
    nearcall_handoff_options options = NEARCALL_HANDOFF_OPTIONS_INIT;
    options.window = NC_HANDOFF_WINDOW_CEILING + 1;
    an_option_is_refused(options, "window is");
    options.window = NC_HANDOFF_WINDOW_CEILING;
    options.prefix_bytes_max = UINT32_MAX;
    an_option_is_refused(options, "prefix_bytes_max is");
    options.prefix_bytes_max = 0;
    options.message_bytes_max = UINT32_MAX;
    an_option_is_refused(options, "message_bytes_max is");
    options.message_bytes_max = 0;
    options.channels_max = UINT32_MAX;
    an_option_is_refused(options, "channels_max is");
}

/* Callers that were compiled against another version know fewer options, or more. */
static void options_of_other_versions_are_read(void)
{
    struct {
        nearcall_handoff_options known;
        uint64_t later;
    } longer = {NEARCALL_HANDOFF_OPTIONS_INIT, 0};
    nearcall_handoff_options shorter = {.struct_size = offsetof(nearcall_handoff_options, window), .window = UINT32_MAX};
    nearcall_handoff *handoff;
    longer.known.struct_size = sizeof(longer);
    CHECK_HANDOFF(handoff, nearcall_handoff_listen(&handoff, handoff_address(), &longer.known), NEARCALL_OK);
    nearcall_handoff_close(handoff);
    CHECK_HANDOFF(handoff, nearcall_handoff_listen(&handoff, handoff_address(), &shorter), NEARCALL_OK);
    nearcall_handoff_close(handoff);
    longer.later = 1;
    CHECK_HANDOFF(handoff, nearcall_handoff_listen(&handoff, handoff_address(), &longer.known),
                  NEARCALL_E_INVALID_ARGUMENT);
    CHECK(strstr(nearcall_handoff_error_message(handoff), "struct_size") != NULL);
    nearcall_handoff_close(handoff);
    shorter.struct_size = 1;
    an_option_is_refused(shorter, "struct_size");
}

/* Only a socket on which nobody listens is replaced. */
static void what_is_no_dead_socket_stays(void)
{
    const char *address = handoff_address();
    const char *path = address + strlen("unix:");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    struct stat before, after;
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(file >= 0 && write(file, "valuable", 8) == 8 && fstat(file, &before) == 0);
    listening_is_refused(address, NEARCALL_E_ALREADY_EXISTS, "a regular file");
    CHECK(lstat(path, &after) == 0 && before.st_ino == after.st_ino && after.st_size == 8);
    close(file);
    CHECK(unlink(path) == 0 && symlink("elsewhere", path) == 0);
    listening_is_refused(address, NEARCALL_E_ALREADY_EXISTS, "a symbolic link");
    CHECK(unlink(path) == 0);
    memcpy(to.sun_path, path, strlen(path));
    int other = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(other >= 0 && bind(other, (struct sockaddr *)&to, sizeof(to)) == 0 && listen(other, 1) == 0);
    listening_is_refused(address, NEARCALL_E_ALREADY_EXISTS, "a socket that somebody uses");
    close(other);
    nearcall_handoff *handoff = handoff_listen(address, 0);
    CHECK(unlink(path) == 0 && mkdir(path, 0700) == 0);
    nearcall_handoff_close(handoff);
    CHECK(rmdir(path) == 0);
}

/* A loop watches one descriptor for the listening socket and all channels. */
static void one_descriptor_tells_of_everything(void)
{
    const char *address = handoff_address();
    nearcall_handoff *taker = handoff_listen(address, 0);
    nearcall_handoff_item item;
    struct pollfd watched = {nearcall_handoff_fd(taker), POLLIN, 0};
    uint8_t give[100];
    int client, served;
    CHECK_INT(poll(&watched, 1, 0), 0);
    CHECK_INT(nearcall_handoff_timeout_ms(taker), -1);
    int giver = raw_connect(address, true);
    CHECK_INT(poll(&watched, 1, PATIENCE_MS), 1);
    CHECK(nearcall_handoff_wait(taker, 0) == NEARCALL_E_AGAIN); /* it is admitted by that */
    tcp_pair(&client, &served);
    for (uint64_t id = 1; id <= 3; id++)
        raw_send(giver, give, raw_give(give, id), &served, 1);
    for (int accepted = 0; accepted < 3;) { /* one each time, as some loops do */
        CHECK_INT(poll(&watched, 1, PATIENCE_MS), 1);
        int r = nearcall_handoff_accept(taker, 0, &item);
        if (r == NEARCALL_E_AGAIN)
            continue;
        CHECK_HANDOFF(taker, r, NEARCALL_OK);
        close(item.fd);
        accepted++;
    }
    CHECK_HANDOFF(taker, nearcall_handoff_accept(taker, 0, &item), NEARCALL_E_AGAIN);
    CHECK_INT(poll(&watched, 1, 0), 0);
    close(client);
    close(served);
    close(giver);
    nearcall_handoff_close(taker);
}

/* A service manager may have made the socket so that the kernel tells with each read who
 * sent: nobody would close what it tells it by. */
static void a_socket_that_tells_who_sends(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const char *address = handoff_address();
    int on = 1, fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct ends ends;
    snprintf(at.sun_path, sizeof(at.sun_path), "%s", address + strlen("unix:"));
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0 && listen(fd, 1) == 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) == 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_PASSPIDFD, &on, sizeof(on)) == 0 || errno == ENOPROTOOPT);
    CHECK_HANDOFF(ends.taker, nearcall_handoff_listen_fd(&ends.taker, fd, NULL), NEARCALL_OK);
    ends.giver = handoff_connect(address, 0, ends.taker);
    int descriptors = test_open_descriptors();
    for (int i = 0; i < 3; i++) {
        struct giving giving = {0};
        nearcall_handoff_item item;
        int client, served;
        tcp_pair(&client, &served);
        giving_start(&giving, ends.giver, served, PATIENCE_MS);
        CHECK_HANDOFF(ends.taker, nearcall_handoff_accept(ends.taker, PATIENCE_MS, &item), NEARCALL_OK);
        CHECK_HANDOFF(ends.giver, giving_end(&giving), NEARCALL_OK);
        close(item.fd);
        close(client);
    }
    CHECK_INT(test_open_descriptors(), descriptors);
    close_both(&ends);
    close(fd);
    unlink(at.sun_path);
}

int main(void)
{
    test_begin();
    a_connection_with_all_that_belongs_to_it(0);
    int descriptors = test_open_descriptors();
    a_connection_with_all_that_belongs_to_it(NEARCALL_HANDOFF_NONBLOCKING);
    it_does_not_linger();
    the_giver_keeps_what_is_refused();
    a_listener_that_is_refused_is_left_as_it_is();
    the_giver_takes_back_what_is_late(true);
    the_giver_takes_back_what_is_late(false);
    it_goes_back_by_the_way_it_came();
    listeners_and_files();
    what_the_peer_does_not_take_is_not_sent();
    draining_gives_back();
    the_path_is_the_listeners();
    what_is_no_dead_socket_stays();
    options_out_of_range_are_refused();
    options_of_other_versions_are_read();
    one_descriptor_tells_of_everything();
    a_socket_that_tells_who_sends();
    CHECK_INT(test_open_descriptors(), descriptors);
    return 0;
}
