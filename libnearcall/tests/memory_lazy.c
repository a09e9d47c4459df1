/* A connection that only makes small calls holds at most 64 KiB of shared memory. */
#include "test.h"

#define SMALL_CALLS_BYTES_MAX 65536

/* What the kernel has given to the mappings of shared memory, both regions of it. */
static long held_bytes(void)
{
    char line[512];
    long total_kb = 0, kb;
    bool of_memory = false;
    FILE *maps = fopen("/proc/self/smaps", "r");
    CHECK(maps != NULL);
    while (fgets(line, sizeof(line), maps)) {
        if (strchr(line, '-') < strchr(line, ' ') && strchr(line, '-') != NULL)
            of_memory = strstr(line, "memfd:nearcall") != NULL;
        else if (of_memory && sscanf(line, "Rss: %ld kB", &kb) == 1)
            total_kb += kb;
    }
    fclose(maps);
    return total_kb * 1024;
}

static void echo(nearcall_client *client, size_t bytes)
{
    static const uint8_t data[1 << 20];
    nearcall_reply reply;
    CHECK_CALL(client, nearcall_call(client, "echo", data, bytes, 10000, &reply), NEARCALL_OK);
    CHECK_INT(reply.bytes, bytes);
}

int main(void)
{
    struct server server;
    test_begin();
    server_start(&server);
    nearcall_client *client = test_open(server.address, 0);
    for (size_t i = 0; i < 10000; i++)
        echo(client, i % 89);
    CHECK(strcmp(nearcall_transport(client), "shared memory") == 0);
    long small = held_bytes();
    CHECK(small > 0 && small <= SMALL_CALLS_BYTES_MAX);
    echo(client, 1 << 20);
    CHECK(held_bytes() > 1 << 20); /* so the measure sees what there is */
    nearcall_close(client);
    server_stop(&server);
    return 0;
}
