/* A signal's handler that uses the handle while its thread is inside a function that puts
 * is refused, and what is put is what the program gave. The moment is in the middle of the
 * copy: what is copied lies in memory that is not there at first, and the handler of that
 * fault uses the handle before it lets the copy go on. */
#include <unistd.h>

#include "faulting.h"

static nearcall_client *client;
static nearcall_function *echo;

static void use_the_handle(void)
{
    nearcall_reply reply;
    nearcall_call_id call;
    CHECK_INT(nearcall_call(client, "echo", "inner", 5, 20000, &reply), NEARCALL_E_MISUSE);
    CHECK_INT(nearcall_request(client, echo, NEARCALL_CODEC_RAW), NEARCALL_E_MISUSE);
    CHECK_INT(nearcall_request_send(client, 20000, &call), NEARCALL_E_MISUSE);
    CHECK_INT(nearcall_put_check(client), NEARCALL_E_MISUSE);
    CHECK_INT(nearcall_put_commit(client, 0), NEARCALL_E_MISUSE);
    CHECK(nearcall_put_reserve(client, 5 * BYTES) == NULL);
    nearcall_put_raw(client, "inner", 5);
    nearcall_put_nil(client);
    nearcall_put_file(client, STDIN_FILENO);
    nearcall_disconnect(client);
    nearcall_close(client);
}

static void on_fault(int signal_number)
{
    (void)signal_number;
    begin_fault();
    use_the_handle();
    show_the_end();
}

static void put_raw(void)
{
    nearcall_put_raw(client, source, BYTES);
}

static void put_bytes(void)
{
    nearcall_put_array(client, 1);
    nearcall_put_bytes(client, source, BYTES);
}

static void put_string(void)
{
    nearcall_put_array(client, 1);
    nearcall_put_string(client, (const char *)source, BYTES);
}

static void interrupted(void (*put)(void), int codec)
{
    nearcall_reply reply;
    CHECK_CALL(client, nearcall_request(client, echo, codec), NEARCALL_OK);
    hide_the_end();
    put();
    CHECK(has_faulted);
    CHECK_CALL(client, nearcall_put_check(client), NEARCALL_OK);
    if (codec != NEARCALL_CODEC_RAW)
        return; /* echo takes raw bytes; that the values are whole is enough */
    CHECK_CALL(client, nearcall_request_call(client, 20000, &reply), NEARCALL_OK);
    CHECK_INT(reply.bytes, BYTES);
    CHECK(memcmp(reply.data, source, BYTES) == 0);
}

static void all_of(const char *address, uint32_t flags)
{
    client = test_open(address, flags);
    echo = test_find(client, "echo");
    for (int i = 0; i < 3; i++) { /* in fresh memory, and where the last one was */
        interrupted(put_raw, NEARCALL_CODEC_RAW);
        interrupted(put_bytes, NEARCALL_CODEC_MSGPACK);
        interrupted(put_string, NEARCALL_CODEC_MSGPACK);
    }
    nearcall_close(client);
}

int main(void)
{
    struct server server;
    test_begin();
    make_source(on_fault);
    server_start(&server);
    all_of(server.address, NEARCALL_NO_SHARED_MEMORY);
    all_of(server.address, 0);
    server_stop(&server);
    return 0;
}
