/* Who the server runs as is checked before a byte is sent to it. Runs as root,
 * because the server must be another user. */
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "script.h"

#define STRANGER 54321

static void listen_only(struct script *script)
{
    script_accept(script);
    CHECK(script_read_end(script)); /* not one byte came */
}

static void serve_one(struct script *script)
{
    script_greet(script);
    script_serve(script);
}

/* A socket's user is the one that called listen(). */
static void listen_as(struct script *script, uid_t user)
{
    int status;
    char path[160];
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        if (setuid(user) != 0 || listen(script->listener, 5) != 0)
            _exit(1);
        _exit(0);
    }
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK_INT(status, 0);
    snprintf(path, sizeof(path), "%s", script->address + 5);
    CHECK(chmod(path, 0777) == 0);
}

static void check(void (*play)(struct script *), uid_t directory_owner,
                  const nearcall_options *options, int expected)
{
    struct script script;
    nearcall_reply reply;
    script_start(&script, play, NULL);
    listen_as(&script, STRANGER);
    CHECK(chown(test_directory(), directory_owner, (gid_t)-1) == 0);
    nearcall_client *client = test_open_with(script.address, options);
    CHECK_CALL(client, nearcall_call(client, "f", "x", 1, 5000, &reply), expected);
    if (expected != NEARCALL_OK) {
        CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
        CHECK(strstr(nearcall_error_message(client), "54321") != NULL);
    }
    nearcall_close(client);
    script_end(&script);
}

int main(void)
{
    static const uint32_t listed[] = {7, STRANGER};
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    test_begin();
    if (geteuid() != 0)
        test_failed(__FILE__, __LINE__, "this test needs root, to be another user's server");
    check(listen_only, 0, &options, NEARCALL_E_PERMISSION_DENIED);
    check(serve_one, STRANGER, &options, NEARCALL_OK);
    options.flags = NEARCALL_ANY_SERVER_USER;
    check(serve_one, 0, &options, NEARCALL_OK);
    options.flags = 0;
    options.server_user_ids = listed;
    options.server_user_ids_count = 2;
    check(serve_one, 0, &options, NEARCALL_OK);
    options.server_user_ids_count = 1;
    check(listen_only, 0, &options, NEARCALL_E_PERMISSION_DENIED);
    return 0;
}
