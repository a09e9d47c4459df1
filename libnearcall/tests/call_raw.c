/* Bytes to bytes: every size around the limits of buffers and frames, with the
 * real server. */
#include "test.h"

static uint8_t *bytes;

static void check_size(nearcall_client *client, size_t size)
{
    nearcall_reply reply;
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(i * 31 + size);
    CHECK_CALL(client, nearcall_call(client, "echo", bytes, size, 0, &reply), NEARCALL_OK);
    CHECK_INT(reply.bytes, size);
    CHECK_INT(reply.codec, NEARCALL_CODEC_RAW);
    CHECK(reply.data != NULL);
    CHECK(memcmp(reply.data, bytes, size) == 0);
    CHECK_INT(nearcall_error_code(client), 0);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NONE);
}

static void check_refusals(nearcall_client *client)
{
    nearcall_reply reply;
    char name[300];
    memset(name, 'x', sizeof(name));
    name[256] = '\0';
    CHECK_CALL(client, nearcall_call(client, "echo", bytes, (4 << 20) + 1, 0, &reply),
               NEARCALL_E_RESOURCE_EXHAUSTED);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK_CALL(client, nearcall_call(client, "echo", bytes, (16 << 20) + 1, 0, &reply),
               NEARCALL_E_RESOURCE_EXHAUSTED);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK(strcmp(nearcall_error_message(client),
                 "the request is larger than the 16777215 bytes that any frame may have (limit "
                 "frame_bytes_max); the option value_bytes_max lets larger ones travel in stores") == 0);
    CHECK_CALL(client, nearcall_call(client, name, NULL, 0, 0, &reply),
               NEARCALL_E_INVALID_ARGUMENT);
    CHECK_CALL(client, nearcall_call(client, "", NULL, 0, 0, &reply), NEARCALL_E_INVALID_ARGUMENT);
    CHECK_CALL(client, nearcall_call(client, NULL, NULL, 0, 0, &reply),
               NEARCALL_E_MISUSE);
    CHECK_CALL(client, nearcall_call(client, "echo", NULL, 1, 0, &reply), NEARCALL_E_MISUSE);
    CHECK(strstr(nearcall_error_message(client), "NULL") != NULL);
    CHECK_CALL(client, nearcall_call(client, "echo", NULL, 0, -2, &reply),
               NEARCALL_E_INVALID_ARGUMENT);
    CHECK_CALL(client, nearcall_call(client, "no such", NULL, 0, 0, &reply),
               NEARCALL_E_UNIMPLEMENTED);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK(strstr(nearcall_error_message(client), "no such") != NULL);
}

/* The largest frame is used to its last byte, and a long name counts as it is. */
static void check_largest(nearcall_client *client)
{
    static const size_t largest = 4 << 20;
    nearcall_reply reply;
    char name[256];
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    CHECK_CALL(client, nearcall_call(client, name, bytes, largest - 255, 0, &reply),
               NEARCALL_E_RESOURCE_EXHAUSTED);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK_CALL(client, nearcall_call(client, name, bytes, largest - 259, 0, &reply),
               NEARCALL_E_UNIMPLEMENTED);
    test_find(client, "echo"); /* from now on it needs no name */
    check_size(client, largest);
}

int main(void)
{
    static const size_t sizes[] = {0,     1,     63,    64,    4064,   4095,    4096,    16351,
                                   16352, 16353, 16384, 65503, 65504,  65505,   65536,   212992,
                                   1 << 20, (4 << 20) - 300};
    struct server server;
    test_begin();
    server_start(&server);
    bytes = calloc((16 << 20) + 1, 1);
    CHECK(bytes != NULL);
    nearcall_client *client = test_open(server.address, 0);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        check_size(client, sizes[i]);
    for (size_t size = 16200; size < 16500; size++)
        check_size(client, size);
    check_refusals(client);
    check_largest(client);
    check_size(client, 5);
    CHECK_INT(nearcall_server_process_id(client), server.pid);
    nearcall_close(client);
    free(bytes);
    server_stop(&server);
    return 0;
}
