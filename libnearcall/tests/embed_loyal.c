/* Children of a process that lives are not led to another one that has loaded the same
 * file, even when the way to their own is lost. */
#include "embed_test.h"

#include <signal.h>
#include <unistd.h>

static nearcall_client *client;

static void another_loader(int said)
{
    client = test_open(embed_address(""), 0);
    embed_echo(client, 1);
    CHECK_INT(write(said, "l", 1), 1);
    for (;;)
        pause();
}

static void child_has_lost_its_way(void *unused)
{
    (void)unused;
    nearcall_reply reply;
    for (int fd = 3; fd < 64; fd++)
        close(fd);
    CHECK_CALL(client, nearcall_call(client, "one", "", 0, 5000, &reply), NEARCALL_E_UNAVAILABLE);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK(strstr(nearcall_error_message(client), "removed the socket") != NULL);
}

int main(void)
{
    int go[2], said[2];
    char byte;
    test_begin();
    CHECK(pipe(go) == 0 && pipe(said) == 0);
    pid_t other = fork(); /* before there is Go in this process */
    if (other == 0) {
        CHECK_INT(read(go[0], &byte, 1), 1);
        another_loader(said[1]);
    }
    client = test_open(embed_address(""), 0);
    embed_echo(client, 1);
    CHECK_INT(unlink(embed_place()->path), 0);
    CHECK_INT(write(go[1], "g", 1), 1);
    CHECK_INT(read(said[0], &byte, 1), 1);
    test_join(test_fork(child_has_lost_its_way, NULL));
    CHECK_INT(kill(other, SIGKILL), 0);
    nearcall_close(client);
    return 0;
}
