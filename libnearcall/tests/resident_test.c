#include "resident_test.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "resident/resident.h"

extern char **environ;

int (*resident_check)(void *argument);

/* ---- What runs do ---- */

static void write_state(const nearcall_resident_run *run)
{
    char directory[512];
    struct rlimit limit;
    mode_t mask = umask(0);
    getrlimit(RLIMIT_CORE, &limit);
    dprintf(1, "directory %s\numask %o\ncore %llu\nrows %u columns %u\nsession %d group %d\n",
            getcwd(directory, sizeof(directory)) ? directory : "?", (unsigned)mask,
            (unsigned long long)limit.rlim_cur, run->terminal_rows, run->terminal_columns,
            getsid(0) == getpid(), getpgrp() == getpid());
    for (char **argument = run->arguments; *argument; argument++)
        dprintf(1, "argument %s\n", *argument);
    for (char **variable = run->environment; *variable; variable++)
        if (strncmp(*variable, "NCTEST", 6) == 0)
            dprintf(1, "variable %s\n", *variable);
    dprintf(1, "descriptors %d\n", test_open_descriptors());
    dprintf(2, "to errors\n");
}

static void leave_child_behind(void)
{
    char byte;
    if (fork() == 0) {
        while (read(0, &byte, 1) > 0)
            ;
        dprintf(1, "left\n");
        _exit(0);
    }
}

static int run_program(nearcall_resident *resident, const nearcall_resident_run *run)
{
    const char *what = run->arguments_count > 1 ? run->arguments[1] : "";
    int number = run->arguments_count > 2 ? atoi(run->arguments[2]) : 0;
    char byte;
    if (strcmp(what, "kill") == 0)
        raise(number);
    if (strcmp(what, "state") == 0)
        write_state(run);
    if (strcmp(what, "fork") == 0)
        leave_child_behind();
    if (strcmp(what, "ending") == 0)
        nearcall_resident_ending(resident, number);
    if (strcmp(what, "wait") == 0 || strcmp(what, "ending") == 0)
        dprintf(1, "ready\n");
    if (strcmp(what, "ending") == 0)
        while (read(0, &byte, 1) > 0)
            ;
    if (strcmp(what, "wait") == 0)
        pause();
    return number;
}

/* ---- The resident ---- */

static void supervise(const nearcall_resident_options *options)
{
    nearcall_resident *resident;
    nearcall_resident_run run;
    int r = nearcall_resident_open(&resident, options);
    if (r >= 0)
        r = nearcall_resident_interruptible_check(resident, resident_check, NULL);
    while (r >= 0 && (r = nearcall_resident_next(resident)) == NEARCALL_RESIDENT_FORK) {
        pid_t pid = fork();
        if (pid == 0) {
            nearcall_resident_child(resident);
            if (getenv("NCTEST_CRASH"))
                _exit(9);
            if (getenv("NCTEST_LOST"))
                ualarm(50000, 0);
            if (nearcall_resident_accept(resident, &run) != NEARCALL_RESIDENT_RUN)
                _exit(0);
            _exit(run_program(resident, &run));
        }
        nearcall_resident_forked(resident, pid);
    }
    dprintf(2, "%s\n", nearcall_resident_error_message(resident));
    nearcall_resident_close(resident);
    _exit(r == NEARCALL_RESIDENT_LEAVE ? 0 : 1);
}

/* As a launcher binds where a path is too long for an address: by a name that means
 * nothing in another process. */
static int listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int directory = open(test_directory(), O_PATH | O_CLOEXEC);
    snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d%s", directory, strrchr(path, '/'));
    CHECK(directory >= 0 && fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 && listen(fd, 1024) == 0);
    close(directory);
    return fd;
}

void resident_drop(int capability)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    CHECK(syscall(SYS_capget, &header, data) == 0);
    data[0].effective &= ~(1U << capability);
    data[0].permitted &= ~(1U << capability);
    CHECK(syscall(SYS_capset, &header, data) == 0);
}

/* A hard limit that root too cannot raise again. */
static void lower_limit(void)
{
    const struct rlimit limit = {0, 0};
    CHECK(setrlimit(RLIMIT_CORE, &limit) == 0);
    resident_drop(CAP_SYS_RESOURCE);
}

/* May have few descriptors on the way though it is root. */
static void lower_files(void)
{
    const struct rlimit limit = {RESIDENT_TEST_FILES, RESIDENT_TEST_FILES};
    resident_drop(CAP_SYS_ADMIN);
    resident_drop(CAP_SYS_RESOURCE);
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

static void become_resident(const struct resident *resident, int listener, const nearcall_resident_options *options)
{
    nearcall_resident_options own = options ? *options : (nearcall_resident_options)NEARCALL_RESIDENT_OPTIONS_INIT;
    char self[16];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(self, sizeof(self), "%d", (int)getpid());
    setenv("LISTEN_FDS", "1", 1);
    setenv("LISTEN_PID", self, 1);
    setenv("LISTEN_FDNAMES", "nearcall-resident", 1);
    setenv("NEARCALL_RESIDENT_LOCK", resident->lock, 1);
    int log = open(resident->log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    int none = open("/dev/null", O_RDWR);
    CHECK(log >= 0 && none >= 0);
    CHECK(dup2(listener, 3) == 3 && dup2(none, 0) == 0 && dup2(log, 1) == 1 && dup2(log, 2) == 2);
    for (int fd = 4; fd < 256; fd++)
        close(fd);
    umask(077);
    if (getenv("NCTEST_LIMIT"))
        lower_limit();
    if (getenv("NCTEST_FILES"))
        lower_files();
    CHECK(setsid() > 0 && chdir("/") == 0);
    CHECK_INT(nearcall_resident_started("--nearcall-resident"), 1);
    own.program = resident->program;
    supervise(&own);
}

void resident_start_as(struct resident *resident, const nearcall_resident_options *options, uint64_t identity)
{
    static int count;
    snprintf(resident->program, sizeof(resident->program), "%s/program%d", test_directory(), ++count);
    int file = open(resident->program, O_WRONLY | O_CREAT | O_TRUNC, 0700);
    CHECK(file >= 0);
    close(file);
    if (identity == 0)
        identity = nc_resident_identity(resident->program);
    char stem[90];
    snprintf(stem, sizeof(stem), "%s/program%d-%016llx", test_directory(), count, (unsigned long long)identity);
    snprintf(resident->path, sizeof(resident->path), "%s.sock", stem);
    snprintf(resident->lock, sizeof(resident->lock), "%s.lock", stem);
    snprintf(resident->log, sizeof(resident->log), "%s.log", stem);
    int lock = open(resident->lock, O_WRONLY | O_CREAT, 0600);
    CHECK(lock >= 0 && write(lock, "1", 1) == 1);
    close(lock);
    int listener = listen_at(resident->path);
    resident->pid = fork();
    CHECK(resident->pid >= 0);
    if (resident->pid == 0)
        become_resident(resident, listener, options);
    close(listener);
}

void resident_start(struct resident *resident, const nearcall_resident_options *options)
{
    resident_start_as(resident, options, 0);
}

int resident_wait(const struct resident *resident)
{
    int status;
    CHECK_INT(waitpid(resident->pid, &status, 0), resident->pid);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

void resident_stop(const struct resident *resident)
{
    kill(resident->pid, SIGTERM);
    CHECK_INT(resident_wait(resident), 0);
}

/* ---- A launcher ---- */

int resident_connect(const struct resident *resident)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", resident->path);
    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
    return fd;
}

static void put(uint8_t *to, uint32_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> 8 * i);
}

static size_t append(uint8_t *to, size_t used, size_t room, const char *text)
{
    size_t bytes = strlen(text) + 1;
    CHECK(used + bytes <= room);
    memcpy(to + used, text, bytes);
    return used + bytes;
}

size_t request_make(uint8_t *to, size_t room, uint32_t kind, uint32_t umask_value,
                    const char *const *arguments, char *const *environment)
{
    size_t used = NC_RESIDENT_HEADER_BYTES;
    uint32_t arguments_count = 0, environment_count = 0;
    memset(to, 0, used);
    memcpy(to, "\x8BNCR\r\n\x1A\n", 8);
    if (kind == NC_RESIDENT_RUN)
        used = append(to, used, room, "");
    for (; arguments && *arguments; arguments++, arguments_count++)
        used = append(to, used, room, *arguments);
    for (; environment && *environment; environment++, environment_count++)
        used = append(to, used, room, *environment);
    put(to + 8, (uint32_t)used, 4);
    put(to + 12, 1, 2);
    put(to + 14, kind, 2);
    put(to + 16, (uint32_t)getpid(), 4);
    put(to + 20, umask_value, 4);
    put(to + 24, 24, 2);
    put(to + 26, 80, 2);
    put(to + 28, arguments_count, 4);
    put(to + 32, environment_count, 4);
    put(to + 36, nc_resident_keyring(), 4);
    return used;
}

void request_send(int connection, const void *data, size_t bytes, const int *fds, int fds_count)
{
    union { struct cmsghdr header; char bytes[CMSG_SPACE(8 * sizeof(int))]; } control;
    struct iovec part = {(void *)(uintptr_t)data, bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fds_count > 0) {
        memset(&control, 0, sizeof(control));
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE((size_t)fds_count * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN((size_t)fds_count * sizeof(int));
        memcpy(CMSG_DATA(rights), fds, (size_t)fds_count * sizeof(int));
    }
    ssize_t sent = sendmsg(connection, &message, MSG_NOSIGNAL);
    CHECK(sent > 0);
    for (size_t done = (size_t)sent; done < bytes; done += (size_t)sent) {
        sent = send(connection, (const char *)data + done, bytes - done, MSG_NOSIGNAL);
        CHECK(sent > 0);
    }
}

void launch_in(struct launch *launch, const struct resident *resident, const char *directory,
               const char *first, const char *second)
{
    static uint8_t data[262144];
    const char *const arguments[] = {resident->program, first, second, NULL};
    int input[2], output[2], errors[2];
    CHECK(pipe2(input, O_CLOEXEC) == 0 && pipe2(output, O_CLOEXEC) == 0 && pipe2(errors, O_CLOEXEC) == 0);
    const int fds[] = {input[0], output[1], errors[1], open(directory, O_PATH | O_CLOEXEC)};
    CHECK(fds[3] >= 0);
    launch->connection = resident_connect(resident);
    size_t bytes = request_make(data, sizeof(data), NC_RESIDENT_RUN, 027, arguments, environ);
    request_send(launch->connection, data, bytes, fds, NC_RESIDENT_FDS);
    for (int i = 0; i < NC_RESIDENT_FDS; i++)
        close(fds[i]);
    launch->input = input[1];
    launch->output = output[0];
    launch->errors = errors[0];
}

void launch_start(struct launch *launch, const struct resident *resident, const char *first,
                  const char *second)
{
    launch_in(launch, resident, "/", first, second);
}

static size_t read_exactly(int fd, void *to, size_t bytes)
{
    size_t have = 0;
    while (have < bytes) {
        struct pollfd readable = {.fd = fd, .events = POLLIN};
        CHECK(poll(&readable, 1, PATIENCE_MS) == 1);
        ssize_t got = read(fd, (char *)to + have, bytes - have);
        if (got <= 0)
            break;
        have += (size_t)got;
    }
    return have;
}

static uint32_t get(const uint8_t *data)
{
    return data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
}

int frame_next(int connection, struct frame *frame)
{
    uint8_t header[NC_RESIDENT_FRAME_BYTES];
    size_t got = read_exactly(connection, header, sizeof(header));
    if (got == 0)
        return 0;
    CHECK_INT(got, sizeof(header));
    *frame = (struct frame){.type = get(header), .value = get(header + 4), .second = get(header + 8)};
    size_t bytes = get(header + 12);
    CHECK(bytes < sizeof(frame->text));
    CHECK_INT(read_exactly(connection, frame->text, bytes), bytes);
    return 1;
}

void frame_expect(int connection, uint32_t type, struct frame *ret_frame)
{
    CHECK(frame_next(connection, ret_frame));
    if (ret_frame->type != type && ret_frame->type == NC_RESIDENT_PLAINLY)
        fprintf(stderr, "PLAINLY: %s\n", ret_frame->text);
    CHECK_INT(ret_frame->type, type);
}

void launch_expect(struct launch *launch, uint32_t type, uint32_t value)
{
    struct frame frame;
    frame_expect(launch->connection, NC_RESIDENT_RUNNING, &frame);
    CHECK(frame.value > 0 && frame.value == frame.second);
    frame_expect(launch->connection, type, &frame);
    CHECK_INT(frame.value, value);
    CHECK_INT(frame_next(launch->connection, &frame), 0);
}

void read_all(int fd, char *to, size_t room)
{
    size_t got = read_exactly(fd, to, room - 1);
    to[got] = 0;
}

void read_line(int fd, const char *line)
{
    char got[64] = "";
    size_t bytes = strlen(line);
    CHECK(bytes < sizeof(got));
    CHECK_INT(read_exactly(fd, got, bytes), bytes);
    CHECK(strcmp(got, line) == 0);
}

void launch_close(struct launch *launch)
{
    close(launch->connection);
    close(launch->input);
    close(launch->output);
    close(launch->errors);
}

void resident_ask(const struct resident *resident, uint32_t kind, struct frame *ret_report)
{
    uint8_t data[NC_RESIDENT_HEADER_BYTES];
    int connection = resident_connect(resident);
    request_send(connection, data, request_make(data, sizeof(data), kind, 0, NULL, NULL), NULL, 0);
    frame_expect(connection, NC_RESIDENT_REPORT, ret_report);
    close(connection);
}

void resident_await(const struct resident *resident, const char *text)
{
    double end_ms = test_now_ms() + PATIENCE_MS;
    struct frame report = {0};
    while (!strstr(report.text, text)) {
        if (test_now_ms() > end_ms) {
            fprintf(stderr, "no %s in %s\n", text, report.text);
            CHECK(false);
        }
        poll(NULL, 0, 2);
        resident_ask(resident, NC_RESIDENT_STATUS, &report);
    }
}
