/* A handle takes no more than docs/guides/c.md says, and gives all of it back. */
#include "c_library.h"
#include "test.h"

/* What the guide says. */
#define OPENED_BYTES_MAX (32 << 10)
#define CALLING_BYTES_MAX (64 << 10)
#define OPENED_DESCRIPTORS_MAX 0
#define CALLING_DESCRIPTORS_MAX 1
#define AFTER_LARGE_CALLS_BYTES_MAX (192 << 10)

/* What was freed and the C library has at hand counts as allocated. */
#define AT_HAND_BYTES_MAX (8 << 10)

static size_t bytes_before;
static int descriptors_before;

static void expect_at_most(size_t bytes, int descriptors)
{
    CHECK(test_heap_bytes() <= bytes_before + bytes);
    CHECK(test_open_descriptors() - descriptors_before <= descriptors);
}

static void echo(nearcall_client *client, size_t bytes)
{
    static uint8_t data[3 << 20];
    nearcall_reply reply;
    CHECK_CALL(client, nearcall_call(client, "echo", data, bytes, 0, &reply), NEARCALL_OK);
}

static void use(const char *address, uint32_t flags)
{
    nearcall_client *client = test_open(address, flags);
    expect_at_most(OPENED_BYTES_MAX, OPENED_DESCRIPTORS_MAX);
    for (int i = 0; i < 1000; i++)
        echo(client, 64);
    expect_at_most(CALLING_BYTES_MAX, CALLING_DESCRIPTORS_MAX);
    echo(client, 3 << 20);
    for (int i = 0; i < 1000; i++)
        echo(client, 64);
    expect_at_most(AFTER_LARGE_CALLS_BYTES_MAX, CALLING_DESCRIPTORS_MAX);
    nearcall_close(client);
}

/* What the C library keeps is there from now on. */
static void warm_up(const char *address)
{
    nearcall_client *client = test_open(address, 0);
    echo(client, 64);
    (void)test_open_descriptors();
    nearcall_close(client);
}

int main(void)
{
    struct server server;
    test_begin();
    server_start(&server);
    warm_up(server.address);
    descriptors_before = test_open_descriptors();
    bytes_before = test_heap_bytes();
    use(server.address, 0);
    expect_at_most(AT_HAND_BYTES_MAX, 0);
    use(server.address, NEARCALL_NO_SHARED_MEMORY); /* with large frames in buffers of the handle */
    expect_at_most(AT_HAND_BYTES_MAX, 0);
    server_stop(&server);
    return 0;
}
