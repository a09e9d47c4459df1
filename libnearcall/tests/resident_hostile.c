/* What is no request ends the connection, and nothing else. */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits_gen.h"
#include "resident_test.h"

enum { BYTES = 4096 };

static size_t valid(const struct resident *resident, uint8_t *data)
{
    const char *const arguments[] = {resident->program, "exit", "1", NULL};
    return request_make(data, BYTES, NC_RESIDENT_RUN, 0, arguments, NULL);
}

static void expect_end(const struct resident *resident, const uint8_t *data, size_t bytes)
{
    struct frame frame;
    const int fds[] = {0, 1, 2, open("/", O_PATH | O_CLOEXEC)};
    int connection = resident_connect(resident);
    request_send(connection, data, bytes, fds, NC_RESIDENT_FDS);
    shutdown(connection, SHUT_WR);
    CHECK_INT(frame_next(connection, &frame), 0);
    close(connection);
    close(fds[3]);
}

/* A byte of a good request is another. */
static void check_byte(const struct resident *resident, size_t at, uint8_t value)
{
    uint8_t data[BYTES];
    size_t bytes = valid(resident, data);
    data[at] = value;
    expect_end(resident, data, bytes);
}

static void check_headers(const struct resident *resident)
{
    check_byte(resident, 0, 'G');
    check_byte(resident, 1, 'X');   /* magic */
    check_byte(resident, 8, 47);    /* shorter than its header */
    check_byte(resident, 8, 49);    /* and than its strings */
    check_byte(resident, 11, 0x7F); /* too long */
    check_byte(resident, 14, 0);    /* kind */
    check_byte(resident, 14, 4);
    check_byte(resident, 14, 2); /* status with arguments */
    check_byte(resident, 28, 0); /* no arguments */
    check_byte(resident, 28, 4);
    check_byte(resident, 28, 2);
    check_byte(resident, 31, 0xFF);
    check_byte(resident, 32, 1);
    check_byte(resident, 21, 2); /* umask 01000 */
}

/* What later versions may send is no attack. */
static void check_later(const struct resident *resident)
{
    struct frame frame;
    uint8_t data[BYTES];
    const int fds[] = {0, 1, 2, open("/", O_PATH | O_CLOEXEC)};
    for (int is_version = 0; is_version < 2; is_version++) {
        size_t bytes = valid(resident, data);
        data[is_version ? 12 : 47] = 2; /* or a reserved field */
        int connection = resident_connect(resident);
        request_send(connection, data, bytes, fds, NC_RESIDENT_FDS);
        frame_expect(connection, is_version ? NC_RESIDENT_PLAINLY : NC_RESIDENT_RUNNING, &frame);
        CHECK(!is_version || strstr(frame.text, "version"));
        if (!is_version)
            frame_expect(connection, NC_RESIDENT_EXITED, &frame);
        CHECK_INT(frame_next(connection, &frame), 0);
        close(connection);
    }
    close(fds[3]);
}

/* What comes with a run is its launcher's, which runs the program itself with it when the request cannot
 * be read: of a later version, or cut off. Its input may be a socket in which something waits. */
static void check_input_is_left(const struct resident *resident)
{
    struct frame frame;
    uint8_t data[BYTES];
    char text[16];
    for (int is_version = 0; is_version < 2; is_version++) {
        int input[2];
        CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, input), 0);
        const int fds[] = {input[0], 1, 2, open("/", O_PATH | O_CLOEXEC)};
        CHECK_INT(write(input[1], "first\n", 6), 6);
        size_t bytes = valid(resident, data);
        data[12] = is_version ? 2 : data[12];
        int connection = resident_connect(resident);
        request_send(connection, data, is_version ? bytes : bytes - 1, fds, NC_RESIDENT_FDS);
        shutdown(connection, SHUT_WR);
        while (frame_next(connection, &frame))
            CHECK_INT(frame.type, NC_RESIDENT_PLAINLY);
        CHECK_INT(send(input[1], "later\n", 6, MSG_NOSIGNAL), 6);
        close(input[1]);
        read_all(input[0], text, sizeof(text));
        CHECK(strcmp(text, "first\nlater\n") == 0);
        close(input[0]);
        close(connection);
        close(fds[3]);
    }
}

static void check_cut(const struct resident *resident)
{
    uint8_t data[BYTES];
    size_t bytes = valid(resident, data);
    for (size_t cut = 1; cut < bytes; cut += 7)
        expect_end(resident, data, cut);
    data[bytes - 1] = 'x';
    expect_end(resident, data, bytes); /* the last string has no end */
    valid(resident, data);
    data[bytes] = 0;
    expect_end(resident, data, bytes + 1);
}

/* Who says nothing, or not all, keeps nobody from it: there are more than wait. */
static void check_silence(const struct resident *resident, size_t bytes_sent)
{
    enum { SILENT = 5 };
    struct launch launch;
    uint8_t data[BYTES];
    int silent[SILENT];
    int64_t began_ns = nc_now_ns();
    (void)valid(resident, data);
    for (int i = 0; i < SILENT; i++) {
        silent[i] = resident_connect(resident);
        CHECK(send(silent[i], data, bytes_sent, MSG_NOSIGNAL) == (ssize_t)bytes_sent);
    }
    launch_start(&launch, resident, "exit", "5");
    launch_expect(&launch, NC_RESIDENT_EXITED, 5);
    CHECK(nc_now_ns() - began_ns < NC_HELLO_TIMEOUT_MS / 2 * NC_NS_PER_MS);
    launch_close(&launch);
    for (int i = 0; i < SILENT; i++)
        close(silent[i]);
}

/* And is heard when it says the rest. */
static void check_late(const struct resident *resident)
{
    struct frame frame;
    uint8_t data[BYTES];
    size_t bytes = valid(resident, data);
    const int fds[] = {0, 1, 2, open("/", O_PATH | O_CLOEXEC)};
    int connection = resident_connect(resident);
    request_send(connection, data, NC_RESIDENT_HEADER_BYTES, fds, NC_RESIDENT_FDS);
    resident_await(resident, "\"running\":0,\"waiting\":2");
    request_send(connection, data + NC_RESIDENT_HEADER_BYTES, bytes - NC_RESIDENT_HEADER_BYTES, NULL, 0);
    frame_expect(connection, NC_RESIDENT_RUNNING, &frame);
    frame_expect(connection, NC_RESIDENT_EXITED, &frame);
    close(connection);
    close(fds[3]);
}

static int descriptors_of(pid_t pid)
{
    char path[64];
    int count = 0;
    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    DIR *directory = opendir(path);
    CHECK(directory != NULL);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

/* What the resident has just answered, it may still be about to close. */
static void await_descriptors(pid_t pid, int most)
{
    double end_ms = test_now_ms() + PATIENCE_MS;
    while (descriptors_of(pid) > most) {
        CHECK(test_now_ms() < end_ms);
        poll(NULL, 0, 2);
    }
}

int main(void)
{
    struct resident resident;
    struct launch launch;
    test_begin();
    resident_start(&resident, NULL);
    resident_await(&resident, "\"waiting\":2");
    int before = descriptors_of(resident.pid);
    check_headers(&resident);
    check_cut(&resident);
    check_silence(&resident, 0);
    check_silence(&resident, NC_RESIDENT_HEADER_BYTES);
    check_late(&resident);
    check_later(&resident);
    check_input_is_left(&resident);
    launch_start(&launch, &resident, "exit", "7");
    launch_expect(&launch, NC_RESIDENT_EXITED, 7);
    launch_close(&launch);
    resident_await(&resident, "\"runs\":5,\"running\":0,\"waiting\":2");
    await_descriptors(resident.pid, before + 1); /* the first count may have one that a report was just written on */
    resident_stop(&resident);
    return 0;
}
