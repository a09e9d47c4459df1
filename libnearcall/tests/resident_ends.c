/* How runs, launchers and residents end, and what the others learn of it. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "resident/resident.h"
#include "resident_test.h"

static nearcall_resident_options options_of(uint32_t workers, int64_t idle_ms)
{
    nearcall_resident_options options = NEARCALL_RESIDENT_OPTIONS_INIT;
    options.workers = workers;
    options.idle_ms = idle_ms;
    return options;
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static void await_gone(const char *path)
{
    double end_ms = test_now_ms() + PATIENCE_MS;
    while (exists(path)) {
        CHECK(test_now_ms() < end_ms);
        poll(NULL, 0, 2);
    }
}

/* ---- A launcher goes ---- */

static void check_hang_up(void)
{
    struct resident resident;
    struct launch launch;
    struct frame frame;
    char rest[16];
    resident_start(&resident, NULL);
    launch_start(&launch, &resident, "wait", NULL);
    frame_expect(launch.connection, NC_RESIDENT_RUNNING, &frame);
    read_line(launch.output, "ready\n");
    close(launch.connection);
    read_all(launch.output, rest, sizeof(rest));
    CHECK_INT(rest[0], 0);
    resident_await(&resident, "\"runs\":1,\"running\":0");
    close(launch.input);
    close(launch.output);
    close(launch.errors);
    resident_stop(&resident);
}

/* A request that was withdrawn before its RUNNING is not run. */
static void check_withdrawn(void)
{
    nearcall_resident_options options = options_of(1, 0);
    struct resident resident;
    struct launch launch;
    struct frame frame;
    char text[64];
    resident_start(&resident, &options);
    resident_await(&resident, "\"waiting\":1");
    int silent = resident_connect(&resident);
    launch_start(&launch, &resident, "state", NULL);
    shutdown(launch.connection, SHUT_RDWR);
    CHECK_INT(frame_next(launch.connection, &frame), 0);
    close(silent);
    read_all(launch.output, text, sizeof(text));
    CHECK_INT(strlen(text), 0);
    launch_close(&launch);
    resident_await(&resident, "\"runs\":0,\"running\":0,\"waiting\":1");
    resident_stop(&resident);
}

/* What a run leaves behind outlives it, and its launcher. */
static void check_left_behind(void)
{
    struct resident resident;
    struct launch launch;
    resident_start(&resident, NULL);
    launch_start(&launch, &resident, "fork", "4");
    launch_expect(&launch, NC_RESIDENT_EXITED, 4);
    close(launch.connection);
    resident_stop(&resident);
    close(launch.input);
    read_line(launch.output, "left\n");
    close(launch.output);
    close(launch.errors);
}

/* ---- The supervisor goes ---- */

static void check_killed_supervisor(void)
{
    struct resident resident;
    struct launch launch;
    struct frame frame;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    resident_start(&resident, NULL);
    launch_start(&launch, &resident, "ending", "9");
    frame_expect(launch.connection, NC_RESIDENT_RUNNING, &frame);
    read_line(launch.output, "ready\n");
    kill(resident.pid, SIGKILL);
    CHECK_INT(resident_wait(&resident), -SIGKILL);
    close(launch.input);
    frame_expect(launch.connection, NC_RESIDENT_ENDING, &frame);
    CHECK_INT(frame.value, 9);
    CHECK_INT(frame_next(launch.connection, &frame), 0);
    close(launch.connection);
    close(launch.output);
    close(launch.errors);
    /* Those that wait have learned of it, and nobody listens any more. */
    memcpy(address.sun_path, resident.path, strlen(resident.path));
    double end_ms = test_now_ms() + PATIENCE_MS;
    for (int refused = 0; !refused;) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        refused = connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0;
        close(fd);
        CHECK(test_now_ms() < end_ms);
        poll(NULL, 0, 2);
    }
}

/* What is in the backlog when it leaves is run. */
static void check_drain(void)
{
    enum { COUNT = 10 };
    nearcall_resident_options options = options_of(1, 0);
    struct resident resident;
    struct launch running, launches[COUNT];
    struct frame frame;
    char number[16];
    resident_start(&resident, &options);
    launch_start(&running, &resident, "ending", "3");
    read_line(running.output, "ready\n");
    resident_await(&resident, "\"waiting\":1");
    int silent = resident_connect(&resident);
    for (int i = 0; i < COUNT; i++) {
        snprintf(number, sizeof(number), "%d", i);
        launch_start(&launches[i], &resident, "exit", number);
    }
    kill(resident.pid, SIGTERM);
    await_gone(resident.path);
    close(silent);
    for (int i = 0; i < COUNT; i++) {
        launch_expect(&launches[i], NC_RESIDENT_EXITED, (uint32_t)i);
        launch_close(&launches[i]);
    }
    frame_expect(running.connection, NC_RESIDENT_RUNNING, &frame);
    frame_expect(running.connection, NC_RESIDENT_ENDING, &frame);
    close(running.input);
    frame_expect(running.connection, NC_RESIDENT_EXITED, &frame);
    CHECK_INT(frame.value, 3);
    CHECK_INT(resident_wait(&resident), 0);
    close(running.connection);
    close(running.output);
    close(running.errors);
}

static void check_idle(void)
{
    /* Long enough for a busy machine to come to the launch before it is over. */
    nearcall_resident_options options = options_of(0, 1000);
    struct resident resident;
    struct launch launch;
    struct frame frame;
    resident_start(&resident, &options);
    launch_start(&launch, &resident, "wait", NULL);
    frame_expect(launch.connection, NC_RESIDENT_RUNNING, &frame);
    struct pollfd end = {.fd = launch.connection, .events = POLLIN};
    CHECK_INT(poll(&end, 1, 1500), 0);
    CHECK(exists(resident.path));
    kill(-(pid_t)frame.value, SIGTERM);
    frame_expect(launch.connection, NC_RESIDENT_KILLED, &frame);
    CHECK_INT(resident_wait(&resident), 0);
    CHECK(!exists(resident.path) && exists(resident.log));
    launch_close(&launch);
}

/* Reaps a process that was in a state, and tells whether the idle time began anew. */
static bool is_renewed_by(enum nc_resident_worker_state state)
{
    nearcall_resident resident = {.supervisor = getpid()};
    siginfo_t ended;
    struct nc_resident_worker *worker = calloc(1, sizeof(*worker));
    CHECK(worker);
    *worker = (struct nc_resident_worker){.state = state, .pidfd = -1, .lease = -1, .connection = -1};
    worker->process_id = fork();
    if (worker->process_id == 0)
        _exit(0);
    CHECK(waitid(P_PID, (id_t)worker->process_id, &ended, WEXITED | WNOWAIT) == 0);
    resident.workers = worker;
    nc_resident_worker_reap(&resident, worker);
    CHECK(!resident.workers);
    return resident.idle_since_ns != 0;
}

/* A process that ends without a run, as who refuses one does, is no reason to stay. */
static void check_idle_is_without_runs(void)
{
    CHECK(is_renewed_by(NC_RESIDENT_BUSY));
    CHECK(!is_renewed_by(NC_RESIDENT_WAITING));
    CHECK(!is_renewed_by(NC_RESIDENT_STARTING));
}

/* A launcher was stopped while it held the lock. */
static void check_held_lock(void)
{
    struct resident resident;
    struct launch launch;
    resident_start(&resident, NULL);
    resident_await(&resident, "\"waiting\":2");
    int lock = open(resident.lock, O_RDWR | O_CLOEXEC);
    CHECK(lock >= 0 && flock(lock, LOCK_EX) == 0);
    kill(resident.pid, SIGTERM);
    launch_start(&launch, &resident, "exit", "8");
    launch_expect(&launch, NC_RESIDENT_EXITED, 8);
    launch_close(&launch);
    CHECK_INT(resident_wait(&resident), 0);
    CHECK(!exists(resident.path));
    close(lock);
}

/* ---- A file changes ---- */

static void touch(const char *path)
{
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    CHECK(file >= 0 && write(file, "x", 1) == 1);
    close(file);
}

static void check_changed(void)
{
    struct resident resident;
    resident_start(&resident, NULL);
    resident_await(&resident, "\"waiting\":2");
    touch(resident.program);
    CHECK_INT(resident_wait(&resident), 0);
    CHECK(!exists(resident.path) && !exists(resident.lock) && !exists(resident.log));
    resident_start(&resident, NULL);
    resident_await(&resident, "\"waiting\":2");
    CHECK(unlink(resident.program) == 0);
    CHECK_INT(resident_wait(&resident), 0);
    CHECK(!exists(resident.path));
}

/* Also by a worker that takes a run before the supervisor has seen it. */
static void check_changed_unseen(bool is_served_before)
{
    struct resident resident;
    struct launch launch;
    struct frame frame;
    resident_start(&resident, NULL);
    if (is_served_before) {
        launch_start(&launch, &resident, "exit", "6");
        launch_expect(&launch, NC_RESIDENT_EXITED, 6);
        launch_close(&launch);
    }
    resident_await(&resident, "\"waiting\":2");
    CHECK(kill(resident.pid, SIGSTOP) == 0);
    touch(resident.program);
    launch_start(&launch, &resident, "exit", "6");
    frame_expect(launch.connection, NC_RESIDENT_PLAINLY, &frame);
    CHECK(strstr(frame.text, "has changed"));
    launch_close(&launch);
    CHECK(kill(resident.pid, SIGCONT) == 0);
    CHECK_INT(resident_wait(&resident), 0);
}

/* It was another file that its launcher had in mind. */
static void check_outdated_start(void)
{
    struct resident resident;
    struct launch launch;
    struct frame frame;
    resident_start_as(&resident, NULL, 0x1234);
    launch_start(&launch, &resident, "exit", "6");
    frame_expect(launch.connection, NC_RESIDENT_PLAINLY, &frame);
    CHECK_INT(resident_wait(&resident), 0);
    CHECK(!exists(resident.path) && !exists(resident.lock));
    launch_close(&launch);
}

/* Another one's socket is left alone. */
static void check_replaced_socket(void)
{
    struct resident resident;
    resident_start(&resident, NULL);
    resident_await(&resident, "\"waiting\":2");
    char other[128];
    snprintf(other, sizeof(other), "%s.other", resident.path);
    touch(other);
    CHECK(rename(other, resident.path) == 0);
    CHECK_INT(resident_wait(&resident), 0);
    CHECK(exists(resident.path) && exists(resident.lock));
}

/* ---- It does not start ---- */

static void ask_without_argument(int log)
{
    char self[16];
    snprintf(self, sizeof(self), "%d", (int)getpid());
    setenv("LISTEN_FDS", "1", 1);
    setenv("LISTEN_PID", "1", 1);
    setenv("LISTEN_FDNAMES", "nearcall-resident", 1);
    CHECK_INT(nearcall_resident_started("--other"), 0);
    setenv("LISTEN_PID", self, 1);
    CHECK_INT(nearcall_resident_started("--nearcall-resident"), 1);
    CHECK(dup2(log, 2) == 2);
    (void)nearcall_resident_started(NULL);
    _exit(0);
}

/* A program that has taken its first argument away does not do its work instead. */
static void check_arguments_gone(void)
{
    char said[256];
    int log[2], status;
    CHECK(pipe(log) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        ask_without_argument(log[1]);
    close(log[1]);
    read_all(log[0], said, sizeof(said));
    close(log[0]);
    CHECK(strstr(said, "arguments were read before"));
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 125);
}

static void check_lock(void)
{
    struct resident resident;
    struct stat status;
    resident_start(&resident, NULL);
    resident_await(&resident, "\"waiting\":2");
    CHECK(stat(resident.lock, &status) == 0);
    CHECK_INT(status.st_size, 0);
    resident_stop(&resident);
    setenv("NCTEST_CRASH", "1", 1);
    resident_start(&resident, NULL);
    CHECK_INT(resident_wait(&resident), 1);
    unsetenv("NCTEST_CRASH");
    CHECK(stat(resident.lock, &status) == 0);
    CHECK_INT(status.st_size, 1);
}

/* A launcher has given up the start, and another one listens: that is left alone, and the
 * start goes on to count. */
static void check_given_up(void)
{
    struct resident resident;
    struct stat status;
    setenv("NEARCALL_RESIDENT_SOCKET", "1:1", 1);
    resident_start(&resident, NULL);
    unsetenv("NEARCALL_RESIDENT_SOCKET");
    CHECK_INT(resident_wait(&resident), 0);
    CHECK(stat(resident.lock, &status) == 0);
    CHECK_INT(status.st_size, 1);
    CHECK(exists(resident.path));
}

/* It does not fork for ever. */
static void check_lost(void)
{
    struct resident resident;
    char said[65536];
    setenv("NCTEST_LOST", "1", 1);
    resident_start(&resident, NULL);
    unsetenv("NCTEST_LOST");
    CHECK_INT(resident_wait(&resident), 1);
    int log = open(resident.log, O_RDONLY | O_CLOEXEC);
    read_all(log, said, sizeof(said));
    close(log);
    CHECK(strstr(said, "processes in a row ended while they waited for a run"));
}

int main(void)
{
    test_begin();
    check_hang_up();
    check_withdrawn();
    check_left_behind();
    check_killed_supervisor();
    check_drain();
    check_idle();
    check_idle_is_without_runs();
    check_held_lock();
    check_changed();
    check_changed_unseen(false);
    check_changed_unseen(true);
    check_outdated_start();
    check_arguments_gone();
    check_replaced_socket();
    check_lock();
    check_lost();
    check_given_up();
    return 0;
}
