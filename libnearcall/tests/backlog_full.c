/* A queue of connections that is full is waited for until the deadline. */
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "script.h"

static void *accept_later(void *argument)
{
    struct script *script = argument;
    script_await(script);
    for (int i = 0; i < 3; i++) /* the fillers, then the caller */
        script_accept(script);
    for (;;) {
        uint8_t byte;
        if (recv(script->fd, &byte, 1, MSG_PEEK) == 1)
            break;
        script_accept(script);
    }
    script_read_hello(script);
    script_welcome(script);
    script_serve(script);
    script_hang_up(script);
    return NULL;
}

static int connect_one(const struct sockaddr_un *at)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    CHECK(fd >= 0);
    if (connect(fd, (const struct sockaddr *)at, sizeof(*at)) == 0)
        return fd;
    close(fd);
    return -1;
}

static bool times_out(nearcall_client *client)
{
    nearcall_reply reply;
    double before_ms = test_now_ms();
    CHECK_CALL(client, nearcall_call(client, "f", NULL, 0, 100, &reply),
               NEARCALL_E_DEADLINE_EXCEEDED);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK(strstr(nearcall_error_message(client), "queue") != NULL);
    return test_in_time(test_now_ms() - before_ms, 100);
}

int main(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct script script = {.fd = -1, .features = 0, .calls_in_flight_max = 9, .server_instance = 99};
    nearcall_reply reply;
    int fillers[16], count = 0;
    test_begin();
    snprintf(at.sun_path, sizeof(at.sun_path), "%s/full.sock", test_directory());
    snprintf(script.address, sizeof(script.address), "unix:%s", at.sun_path);
    script.listener = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(bind(script.listener, (struct sockaddr *)&at, sizeof(at)) == 0);
    CHECK(listen(script.listener, 1) == 0);
    CHECK(sem_init(&script.signals, 0, 0) == 0);
    while (count < 16 && (fillers[count] = connect_one(&at)) >= 0)
        count++;
    CHECK(count < 16);
    nearcall_client *client = test_open(script.address, 0);
    for (int tries = 0; !times_out(client); tries++)
        CHECK(tries < TEST_TRIES);
    for (int i = 0; i < count; i++)
        close(fillers[i]);
    CHECK(pthread_create(&script.thread, NULL, accept_later, &script) == 0);
    script_signal(&script);
    CHECK_CALL(client, nearcall_call(client, "f", "late", 4, 10000, &reply), NEARCALL_OK);
    CHECK_INT(reply.bytes, 4);
    nearcall_close(client);
    CHECK(pthread_join(script.thread, NULL) == 0);
    close(script.listener);
    return 0;
}
