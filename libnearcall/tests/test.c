#include "test.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/errors_gen.h"

static char directory[64];
static pid_t owner;

void test_failed(const char *file, int line, const char *what)
{
    fprintf(stderr, "%s:%d: failed: %s\n", file, line, what);
    exit(1);
}

void test_check_int(const char *file, int line, const char *what, long long actual,
                    long long expected)
{
    if (actual == expected)
        return;
    fprintf(stderr, "%s:%d: %s is %lld, expected %lld\n", file, line, what, actual, expected);
    exit(1);
}

void test_check_call(const char *file, int line, const char *what, nearcall_client *client,
                     int actual, int expected)
{
    if (actual == expected)
        return;
    fprintf(stderr, "%s:%d: %s returned %d (%s), expected %d (%s)\n  outcome: %s\n  message: %s\n",
            file, line, what, actual, nc_code_name(actual), expected, nc_code_name(expected),
            nc_outcome_text(nearcall_error_outcome(client)), nearcall_error_message(client));
    exit(1);
}

void test_check_outcome(const char *file, int line, nearcall_client *client, int expected)
{
    int actual = nearcall_error_outcome(client);
    if (actual == expected)
        return;
    fprintf(stderr, "%s:%d: the outcome is %s, expected %s\n  message: %s\n", file, line,
            nc_outcome_text(actual), nc_outcome_text(expected), nearcall_error_message(client));
    exit(1);
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    return remove(path);
}

static void remove_directory(void)
{
    if (directory[0] && getpid() == owner)
        nftw(directory, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

void test_begin(void)
{
    alarm((unsigned)(300 * test_slowness()));
    owner = getpid();
    /* What nohup, or a shell that puts this into the background, had ignored is not
     * what is tested. */
    signal(SIGHUP, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    signal(SIGQUIT, SIG_DFL);
}

const char *test_directory(void)
{
    if (directory[0] == '\0') {
        strcpy(directory, "/tmp/nearcall-test-XXXXXX");
        CHECK(mkdtemp(directory) != NULL);
        atexit(remove_directory);
    }
    return directory;
}

double test_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

long test_parameter(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text && *text ? atol(text) : otherwise;
}

double test_slowness(void)
{
    return (double)test_parameter("NEARCALL_TEST_SLOWNESS", 1);
}

bool test_in_time(double took_ms, double timeout_ms)
{
    if (took_ms > timeout_ms + 50)
        fprintf(stderr, "a timeout of %.0f ms took %.1f ms\n", timeout_ms, took_ms);
    CHECK(took_ms >= timeout_ms);
    return took_ms <= timeout_ms + 50;
}

bool test_answered_in_time(nearcall_client *client, int expected)
{
    return expected == NEARCALL_OUTCOME_UNKNOWN || nearcall_error_outcome(client) != NEARCALL_OUTCOME_UNKNOWN;
}

int test_open_descriptors(void)
{
    int count = 0;
    DIR *open_now = opendir("/proc/self/fd");
    CHECK(open_now != NULL);
    while (readdir(open_now))
        count++;
    closedir(open_now);
    return count;
}

bool test_has_mapping(const char *name)
{
    char line[512];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL);
    while (fgets(line, sizeof(line), maps))
        found |= strstr(line, name) != NULL;
    fclose(maps);
    return found;
}

pid_t test_fork(void (*body)(void *), void *argument)
{
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid > 0)
        return pid;
    body(argument);
    exit(0);
}

void test_join(pid_t pid)
{
    int status;
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK_INT(status, 0);
}

int test_lingering(int *ret_peer)
{
    static char unsent[65536];
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct linger linger = {1, TEST_LINGER_S};
    socklen_t bytes = sizeof(at);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(listener >= 0 && fd >= 0 && bind(listener, (struct sockaddr *)&at, bytes) == 0);
    CHECK(listen(listener, 1) == 0 && getsockname(listener, (struct sockaddr *)&at, &bytes) == 0);
    CHECK(connect(fd, (struct sockaddr *)&at, bytes) == 0);
    *ret_peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    CHECK(*ret_peer >= 0);
    while (send(fd, unsent, sizeof(unsent), MSG_DONTWAIT) > 0)
        ;
    CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)) == 0);
    close(listener);
    return fd;
}

/* ---- The real server ---- */

static void run_server(const char *address, const char *option, int output)
{
    const char *program = getenv("NEARCALL_TESTSERVER");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(output, STDOUT_FILENO);
    if (!program)
        program = "../build/testserver";
    execl(program, program, "-address", address, option, (char *)NULL);
    fprintf(stderr, "cannot run %s: %s; `make build` makes it\n", program, strerror(errno));
    _exit(127);
}

static void start(struct server *server, const char *address, const char *option)
{
    int output[2];
    char line[256];
    snprintf(server->address, sizeof(server->address), "%s", address);
    CHECK(pipe(output) == 0);
    server->pid = fork();
    CHECK(server->pid >= 0);
    if (server->pid == 0)
        run_server(address, option, output[1]);
    close(output[1]);
    FILE *lines = fdopen(output[0], "r");
    CHECK(lines != NULL);
    CHECK(fgets(line, sizeof(line), lines) != NULL);
    CHECK(strncmp(line, "ready ", 6) == 0);
    fclose(lines);
}

void server_start_at(struct server *server, const char *address)
{
    start(server, address, NULL);
}

static void start_anywhere(struct server *server, const char *option)
{
    static int count;
    char address[160];
    snprintf(address, sizeof(address), "unix:%s/server%d.sock", test_directory(), ++count);
    start(server, address, option);
}

void server_start(struct server *server)
{
    start_anywhere(server, NULL);
}

void server_start_generation(struct server *server, const char *generation)
{
    char option[32];
    snprintf(option, sizeof(option), "-generation=%s", generation);
    start_anywhere(server, option);
}

void server_replace(struct server *server, const char *generation)
{
    char address[sizeof(server->address)], option[32];
    snprintf(address, sizeof(address), "%s", server->address);
    snprintf(option, sizeof(option), "-generation=%s", generation);
    server_kill(server);
    start(server, address, option);
}

void server_start_with_files(struct server *server)
{
    start_anywhere(server, "-files");
}

void server_start_with_stores(struct server *server, size_t value_bytes_max)
{
    char option[64];
    snprintf(option, sizeof(option), "-value-bytes-max=%zu", value_bytes_max);
    start_anywhere(server, option);
}

static void end(struct server *server, int signal_number)
{
    int status;
    kill(server->pid, signal_number);
    kill(server->pid, SIGCONT);
    CHECK_INT(waitpid(server->pid, &status, 0), server->pid);
}

void server_stop(struct server *server)
{
    end(server, SIGTERM);
}

void server_kill(struct server *server)
{
    end(server, SIGKILL);
}

void server_pause(struct server *server)
{
    int status;
    kill(server->pid, SIGSTOP);
    CHECK_INT(waitpid(server->pid, &status, WUNTRACED), server->pid);
    CHECK(WIFSTOPPED(status));
}

void server_go_on(struct server *server)
{
    kill(server->pid, SIGCONT);
}

/* ---- Short ways ---- */

nearcall_client *test_open_with(const char *address, const nearcall_options *options)
{
    nearcall_client *client;
    CHECK_CALL(client, nearcall_open(&client, address, options), NEARCALL_OK);
    return client;
}

nearcall_client *test_open(const char *address, uint32_t flags)
{
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    options.flags = flags;
    return test_open_with(address, &options);
}

nearcall_function *test_find(nearcall_client *client, const char *name)
{
    nearcall_function *function = NULL;
    CHECK_CALL(client, nearcall_find(client, name, strlen(name), 0, &function), NEARCALL_OK);
    return function;
}

void test_request_int(nearcall_client *client, nearcall_function *function, int64_t value)
{
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_MSGPACK), NEARCALL_OK);
    nearcall_put_array(client, 1);
    nearcall_put_int(client, value);
}

int64_t test_read_int(const nearcall_reply *reply)
{
    nearcall_reader reader = {reply->data, reply->data + reply->bytes};
    nearcall_value value;
    CHECK_INT(nearcall_read(&reader, &value), NEARCALL_OK);
    CHECK_INT(value.type, NEARCALL_INT);
    return value.as.integer;
}
