/* The process that loaded the library is killed: its children learn that at once, and
 * find the one that comes after it by the same address. */
#include "embed_test.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the processes tell each other: where the first one served, and the lock beside a
 * socket that somebody is about to make. */
static struct {
    char first[108];
    char coming[120];
} *told;

static nearcall_client *client;

static void say(int fd, char what)
{
    CHECK_INT(write(fd, &what, 1), 1);
}

static void hear(int fd, char expected)
{
    char heard = 0;
    CHECK_INT(read(fd, &heard, 1), 1);
    CHECK_INT(heard, expected);
}

/* Waits in a call, which its parent's death has to end; then for a new parent. */
static void orphan(int said, int heard)
{
    nearcall_reply reply;
    nearcall_call_id call;
    for (int i = 0; i < 40; i++)
        embed_echo(client, 64);
    embed_expect_transport(client, "shared memory");
    test_request_int(client, test_find(client, "sleep"), 20000);
    CHECK_CALL(client, nearcall_request_send(client, 15000, &call), NEARCALL_OK);
    say(said, 'c');
    int r = nearcall_wait(client, call, &reply);
    say(said, 'e');
    CHECK_CALL(client, r, NEARCALL_E_UNAVAILABLE);
    CHECK(nearcall_error_outcome(client) == NEARCALL_OUTCOME_UNKNOWN ||
          nearcall_error_outcome(client) == NEARCALL_OUTCOME_NOT_EXECUTED);
    double begun = test_now_ms();
    CHECK_CALL(client, nearcall_call(client, "echo", "", 0, 5000, &reply), NEARCALL_E_UNAVAILABLE);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK(strstr(nearcall_error_message(client), "has ended") != NULL);
    CHECK(test_now_ms() - begun < 4000 * test_slowness());
    say(said, 'w');
    hear(heard, 'n'); /* there is a new one */
    embed_echo(client, 64);
    say(said, 'd');
    _exit(0);
}

/* A sibling that came later has inherited all that the loader had. */
static void loader(int said, int heard)
{
    client = test_open(embed_address(""), 0);
    embed_echo(client, 1);
    strcpy(told->first, embed_place()->path);
    snprintf(told->coming, sizeof(told->coming), "%s.test%d.lock", embed_place()->latest, getpid());
    CHECK(access(told->first, F_OK) == 0);
    if (fork() == 0)
        orphan(said, heard);
    for (int i = 0; i < 3; i++)
        if (fork() == 0) {
            alarm(120); /* longer than all else here */
            for (;;)
                pause();
        }
    say(said, 's');
    for (;;)
        pause();
}

/* What the first one left it removes, though children of the first one live, which have
 * inherited its descriptors; what a third one is about to take it leaves. */
static void successor(int said)
{
    char lock[sizeof(told->first) + sizeof(".lock")];
    int coming = open(told->coming, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(coming >= 0);
    close(coming);
    client = test_open(embed_address(""), 0);
    embed_echo(client, 1);
    snprintf(lock, sizeof(lock), "%s.lock", told->first);
    CHECK(access(told->first, F_OK) != 0 && access(lock, F_OK) != 0);
    CHECK_INT(unlink(told->coming), 0);
    say(said, 'r');
    for (;;)
        pause();
}

int main(void)
{
    int from[2], to[2];
    test_begin();
    CHECK(pipe(from) == 0 && pipe(to) == 0);
    told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(told != MAP_FAILED);
    pid_t first = fork();
    if (first == 0)
        loader(from[1], to[0]);
    char heard[2];
    CHECK_INT(read(from[0], &heard[0], 1), 1);
    CHECK_INT(read(from[0], &heard[1], 1), 1);
    CHECK((heard[0] == 'c' && heard[1] == 's') || (heard[0] == 's' && heard[1] == 'c'));
    double killed = test_now_ms();
    kill(first, SIGKILL);
    waitpid(first, NULL, 0);
    hear(from[0], 'e');
    CHECK(test_now_ms() - killed < 4000 * test_slowness());
    hear(from[0], 'w');
    pid_t second = fork();
    if (second == 0)
        successor(from[1]);
    hear(from[0], 'r');
    say(to[1], 'n');
    hear(from[0], 'd');
    kill(second, SIGKILL);
    waitpid(second, NULL, 0);
    return 0;
}
