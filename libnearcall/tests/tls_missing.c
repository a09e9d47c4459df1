/* Without OpenSSL, "tls:" says what is missing, and everything else works. Linked with --wrap. */
#include <dlfcn.h>

#include "test.h"

void *__wrap_dlopen(const char *file, int mode);
void *__wrap_dlopen(const char *file, int mode)
{
    (void)mode;
    CHECK(strcmp(file, "libssl.so.3") == 0);
    return NULL;
}

int main(void)
{
    struct server server;
    nearcall_reply reply;
    nearcall_client *client;
    test_begin();
    server_start(&server);
    int r = nearcall_open(&client, "tls:localhost:7000", NULL);
    CHECK_CALL(client, r, NEARCALL_E_INVALID_ARGUMENT);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK(strstr(nearcall_error_message(client), "libssl.so.3") != NULL);
    CHECK_CALL(client, nearcall_call(client, "echo", "x", 1, 0, &reply), NEARCALL_E_INVALID_ARGUMENT);
    nearcall_close(client);
    client = test_open(server.address, 0);
    CHECK_CALL(client, nearcall_call(client, "echo", "x", 1, 0, &reply), NEARCALL_OK);
    CHECK(!test_has_mapping("libssl"));
    nearcall_close(client);
    server_stop(&server);
    return 0;
}
