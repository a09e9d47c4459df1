/* A resident runs what it is asked to, and each run is a process of its own. */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "resident_test.h"

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static void check_codes(const struct resident *resident)
{
    struct launch launch;
    launch_start(&launch, resident, "exit", "0");
    launch_expect(&launch, NC_RESIDENT_EXITED, 0);
    launch_close(&launch);
    launch_start(&launch, resident, "exit", "200");
    launch_expect(&launch, NC_RESIDENT_EXITED, 200);
    launch_close(&launch);
    launch_start(&launch, resident, "kill", "9");
    launch_expect(&launch, NC_RESIDENT_KILLED, SIGKILL);
    launch_close(&launch);
}

static void expect_text(const char *text, const char *part)
{
    if (!strstr(text, part))
        fprintf(stderr, "no \"%s\" in:\n%s", part, text);
    CHECK(strstr(text, part));
}

/* What a process has is the launcher's: here the test's own. */
static void check_state(const struct resident *resident)
{
    struct rlimit limit, lower = {12345, RLIM_INFINITY};
    struct launch launch;
    char text[16384], errors[64], argument[160];
    CHECK(getrlimit(RLIMIT_CORE, &limit) == 0);
    lower.rlim_max = limit.rlim_max;
    CHECK(setrlimit(RLIMIT_CORE, &lower) == 0);
    launch_in(&launch, resident, test_directory(), "state", NULL);
    read_all(launch.output, text, sizeof(text));
    read_all(launch.errors, errors, sizeof(errors));
    launch_expect(&launch, NC_RESIDENT_EXITED, 0);
    launch_close(&launch);
    CHECK(setrlimit(RLIMIT_CORE, &limit) == 0);
    expect_text(text, test_directory());
    expect_text(text, "umask 27\n");
    expect_text(text, "core 12345\n");
    expect_text(text, "rows 24 columns 80\n");
    expect_text(text, "session 1 group 1\n");
    snprintf(argument, sizeof(argument), "argument %s\nargument state\n", resident->program);
    expect_text(text, argument);
    expect_text(text, "variable NCTEST_ONE=1\n");
    /* Three streams and the connection; and ".", ".." and the listing. */
    expect_text(text, "descriptors 7\n");
    CHECK(strcmp(errors, "to errors\n") == 0);
}

/* A name without a slash, or of another file, is no path of the program. */
static void check_argument_zero(const struct resident *resident)
{
    static const char *const names[] = {"program", "/bin/true"};
    for (int i = 0; i < 2; i++) {
        uint8_t data[4096];
        char text[4096], argument[160];
        int output[2];
        struct frame frame;
        const char *const arguments[] = {names[i], "state", NULL};
        int none = open("/dev/null", O_RDWR | O_CLOEXEC), root = open("/", O_PATH | O_CLOEXEC);
        CHECK(pipe2(output, O_CLOEXEC) == 0 && none >= 0 && root >= 0);
        int connection = resident_connect(resident);
        const int fds[] = {none, output[1], none, root};
        request_send(connection, data, request_make(data, sizeof(data), NC_RESIDENT_RUN, 0, arguments, NULL), fds, 4);
        close(output[1]);
        close(none);
        close(root);
        read_all(output[0], text, sizeof(text));
        frame_expect(connection, NC_RESIDENT_RUNNING, &frame);
        frame_expect(connection, NC_RESIDENT_EXITED, &frame);
        snprintf(argument, sizeof(argument), "argument %s\n", resident->program);
        expect_text(text, argument);
        close(connection);
        close(output[0]);
    }
}

/* Large requests come in pieces. */
static void check_large(const struct resident *resident)
{
    enum { BYTES = 1000000 };
    uint8_t *data = malloc(BYTES + 1000);
    char *argument = malloc(BYTES + 1);
    struct frame frame;
    CHECK(data && argument);
    memset(argument, 'x', BYTES);
    argument[BYTES] = 0;
    const char *const arguments[] = {resident->program, "exit", "3", argument, NULL};
    const int fds[] = {open("/dev/null", O_RDWR | O_CLOEXEC), 1, 2, open("/", O_PATH | O_CLOEXEC)};
    int connection = resident_connect(resident);
    request_send(connection, data, request_make(data, BYTES + 1000, NC_RESIDENT_RUN, 0, arguments, NULL), fds, 4);
    frame_expect(connection, NC_RESIDENT_RUNNING, &frame);
    frame_expect(connection, NC_RESIDENT_EXITED, &frame);
    CHECK_INT(frame.value, 3);
    close(connection);
    close(fds[0]);
    close(fds[3]);
    free(argument);
    free(data);
}

/* Many more at a time than processes wait. */
static void check_many(const struct resident *resident)
{
    enum { COUNT = 20 };
    struct launch launches[COUNT];
    struct frame frame;
    for (int i = 0; i < COUNT; i++)
        launch_start(&launches[i], resident, "wait", NULL);
    for (int i = 0; i < COUNT; i++)
        read_line(launches[i].output, "ready\n");
    resident_await(resident, "\"running\":20");
    for (int i = 0; i < COUNT; i++) {
        frame_expect(launches[i].connection, NC_RESIDENT_RUNNING, &frame);
        CHECK(kill(-(pid_t)frame.value, SIGUSR1) == 0);
        frame_expect(launches[i].connection, NC_RESIDENT_KILLED, &frame);
        CHECK_INT(frame.value, SIGUSR1);
        launch_close(&launches[i]);
    }
}

static void check_reports(const struct resident *resident)
{
    struct frame report;
    resident_await(resident, "\"running\":0,\"waiting\":2");
    resident_ask(resident, NC_RESIDENT_STATUS, &report);
    expect_text(report.text, resident->program);
    expect_text(report.text, "\"mode\":\"pool\"");
    expect_text(report.text, "\"idle_ms\":600000");
    expect_text(report.text, "\"leaving\":false");
    resident_ask(resident, NC_RESIDENT_STOP, &report);
    expect_text(report.text, "\"leaving\":true");
}

int main(void)
{
    struct resident resident;
    test_begin();
    resident_start(&resident, NULL);
    setenv("NCTEST_ONE", "1", 1);
    check_codes(&resident);
    check_state(&resident);
    check_argument_zero(&resident);
    check_large(&resident);
    check_many(&resident);
    check_reports(&resident);
    CHECK_INT(resident_wait(&resident), 0);
    CHECK(!exists(resident.path) && exists(resident.lock) && exists(resident.log));
    return 0;
}
