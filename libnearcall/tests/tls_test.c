#include "tls_test.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROOMS 16

static void run(const char *program, const char *const *arguments, int output)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(output, STDOUT_FILENO);
    execv(program, (char *const *)(uintptr_t)arguments);
    fprintf(stderr, "cannot run %s: %s; tests run in the folder libnearcall\n", program, strerror(errno));
    _exit(127);
}

static void make_certificates(const char *folder)
{
    static const char program[] = "../tests/programs/tls/certificates";
    const char *arguments[] = {program, folder, NULL};
    int status;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        freopen("/dev/null", "w", stderr);
        run(program, arguments, STDERR_FILENO);
    }
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK_INT(status, 0);
}

const char *tls_folder(void)
{
    static char folder[160];
    if (folder[0] == '\0') {
        snprintf(folder, sizeof(folder), "%s", test_directory());
        make_certificates(folder);
    }
    return folder;
}

const char *tls_file(const char *name)
{
    static char rooms[ROOMS][256];
    static int turn;
    char *room = rooms[turn++ % ROOMS];
    snprintf(room, sizeof(rooms[0]), "%s/%s", tls_folder(), name);
    return room;
}

/* A program that says where it listens. */
static pid_t start(const char *const *arguments, char *ret_address)
{
    int output[2];
    char line[128];
    CHECK(pipe(output) == 0);
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        run(arguments[0], arguments, output[1]);
    close(output[1]);
    FILE *lines = fdopen(output[0], "r");
    CHECK(lines != NULL && fgets(line, sizeof(line), lines) != NULL);
    CHECK_INT(sscanf(line, "ready %79s", ret_address), 1);
    fclose(lines);
    return pid;
}

void relay_start(struct relay *relay, const char *target, const char *option, const char *other)
{
    const char *arguments[] = {"../tests/programs/tls/relay", target, tls_folder(), option, option ? other : NULL, NULL};
    relay->pid = start(arguments, relay->address);
}

void relay_stop(struct relay *relay)
{
    int status;
    kill(relay->pid, SIGKILL);
    CHECK_INT(waitpid(relay->pid, &status, 0), relay->pid);
}

void tls_go_start(struct server *server)
{
    const char *program = getenv("NEARCALL_TESTSERVER");
    const char *arguments[] = {program ? program : "../build/testserver", "-address", "tls:127.0.0.1:0", "-tls-cert",
                               tls_file("server.pem"), "-tls-key", tls_file("server.key"), "-tls-client-ca",
                               tls_file("ca.pem"), NULL};
    server->pid = start(arguments, server->address);
}

void tls_server_start(struct tls_server *server)
{
    server_start(&server->server);
    relay_start(&server->relay, server->server.address, NULL, NULL);
}

void tls_server_stop(struct tls_server *server)
{
    relay_stop(&server->relay);
    server_stop(&server->server);
}

nearcall_options tls_options(uint32_t flags)
{
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    options.flags = flags;
    options.tls_authorities = tls_file("ca.pem");
    return options;
}

nearcall_client *tls_open(const char *address, uint32_t flags)
{
    nearcall_options options = tls_options(flags);
    return test_open_with(address, &options);
}
