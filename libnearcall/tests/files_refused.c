/* A user with too many descriptors on the way (ETOOMANYREFS): what is sent waits for
 * its deadline, and goes when there is room. The caller is a process of another user,
 * because root has no such limit. */
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "script.h"

#define OTHER_USER 12345
#define DESCRIPTORS_MAX 64 /* of the caller, open and on their way */
#define FILES 16 /* with each call */
#define CALLS_TAKEN 5 /* the kernel counts before it adds */

static int caller_is_ready[2];

static nearcall_call_id begin(nearcall_client *client, nearcall_function *function,
                              int64_t timeout_ms, int expected)
{
    nearcall_call_id call = 0;
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_MSGPACK), NEARCALL_OK);
    nearcall_put_array(client, FILES);
    for (int i = 0; i < FILES; i++)
        nearcall_put_file(client, STDERR_FILENO);
    CHECK_CALL(client, nearcall_request_send(client, timeout_ms, &call), expected);
    return call;
}

static void be_another_user(void)
{
    struct rlimit limit = {DESCRIPTORS_MAX, DESCRIPTORS_MAX};
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    if (geteuid() != 0)
        return;
    CHECK(setresgid(OTHER_USER, OTHER_USER, OTHER_USER) == 0);
    CHECK(setresuid(OTHER_USER, OTHER_USER, OTHER_USER) == 0);
}

static void run_caller(void *argument)
{
    const struct script *script = argument;
    nearcall_call_id calls[CALLS_TAKEN + 1];
    nearcall_reply reply;
    be_another_user();
    nearcall_client *client = test_open(script->address, NEARCALL_ANY_SERVER_USER);
    nearcall_function *function = test_find(client, "f");
    for (int i = 0; i < CALLS_TAKEN; i++)
        calls[i] = begin(client, function, 10000, NEARCALL_OK);
    double began_ms = test_now_ms();
    begin(client, function, 100, NEARCALL_E_DEADLINE_EXCEEDED);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK(test_now_ms() - began_ms >= 99);
    CHECK(write(caller_is_ready[1], "", 1) == 1);
    calls[CALLS_TAKEN] = begin(client, function, 10000, NEARCALL_OK);
    for (int i = 0; i <= CALLS_TAKEN; i++)
        CHECK_CALL(client, nearcall_wait(client, calls[i], &reply), NEARCALL_OK);
    nearcall_close(client);
    _exit(0); /* the search for leaks cannot look into another user's process */
}

static void play(struct script *script)
{
    struct nc_frame frame;
    char byte;
    script_greet(script);
    script_expect(script, NC_RESOLVE, &frame);
    script_reply(script, &frame, "\x80", 1);
    CHECK(read(caller_is_ready[0], &byte, 1) == 1);
    for (int i = 0; i < CALLS_TAKEN + 1; i++) {
        script_expect(script, NC_REQUEST, &frame);
        CHECK_INT(frame.descriptors, FILES);
        script_reply(script, &frame, "\xC0", 1);
    }
    CHECK(script_read_end(script));
}

int main(void)
{
    struct script script;
    test_begin();
    CHECK(pipe2(caller_is_ready, O_CLOEXEC) == 0);
    CHECK(chmod(test_directory(), 0755) == 0);
    script_start(&script, play, NULL);
    script.features |= NC_FEATURE_DESCRIPTORS;
    CHECK(chmod(script.address + strlen("unix:"), 0777) == 0);
    pid_t pid = test_fork(run_caller, &script);
    test_join(pid);
    script_end(&script);
    return 0;
}
