/* The same protocol in another language: Go takes what is given here, hands it back, and
 * gives what is taken here. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "handoff_test.h"

static nearcall_handoff_item connection(const char *name, const char *prefix, int *ret_client)
{
    nearcall_handoff_item item = {.kind = NEARCALL_HANDOFF_CONNECTION, .name = name,
                                  .prefix = (const uint8_t *)prefix, .prefix_bytes = strlen(prefix)};
    tcp_pair(ret_client, &item.fd);
    return item;
}

static void go_takes(void)
{
    const char *address = handoff_address();
    nearcall_handoff_options options = NEARCALL_HANDOFF_OPTIONS_INIT;
    nearcall_handoff *giver;
    nearcall_handoff_item item;
    char line[160];
    int client;
    pid_t pid = testgiver_start("-take", address, line, sizeof(line));
    options.flags = NEARCALL_HANDOFF_TAKE_CONNECTIONS;
    CHECK_HANDOFF(giver, nearcall_handoff_connect(&giver, address, &options, PATIENCE_MS), NEARCALL_OK);
    for (int i = 0; i < 100; i++) {
        item = connection("shop", "GET", &client);
        CHECK_HANDOFF(giver, nearcall_handoff_give(giver, 0, &item, PATIENCE_MS), NEARCALL_OK);
        expect_bytes(client, "shop: GET");
        expect_end(client);
        close(client);
    }
    item = connection("back", "POST", &client);
    CHECK_HANDOFF(giver, nearcall_handoff_give(giver, 0, &item, PATIENCE_MS), NEARCALL_OK);
    CHECK_HANDOFF(giver, nearcall_handoff_accept(giver, PATIENCE_MS, &item), NEARCALL_OK);
    CHECK(item.prefix_bytes == 4 && memcmp(item.prefix, "POST", 4) == 0);
    send_bytes(item.fd, "here again");
    close(item.fd);
    expect_bytes(client, "here again");
    close(client);
    testgiver_stop(pid);
    item = connection("shop", "", &client);
    CHECK_HANDOFF(giver, nearcall_handoff_give(giver, 0, &item, PATIENCE_MS), NEARCALL_E_UNAVAILABLE);
    close(item.fd);
    close(client);
    nearcall_handoff_close(giver);
}

static int dial(const char *host_and_port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    to.sin_port = htons((uint16_t)atoi(strrchr(host_and_port, ':') + 1));
    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0);
    return fd;
}

static void go_gives(void)
{
    const char *address = handoff_address();
    nearcall_handoff *taker = handoff_listen(address, 0);
    nearcall_handoff_item item;
    char where[160];
    pid_t pid = testgiver_start("-address", address, where, sizeof(where));
    for (int i = 0; i < 100; i++) {
        int client = dial(where);
        CHECK_HANDOFF(taker, nearcall_handoff_accept(taker, PATIENCE_MS, &item), NEARCALL_OK);
        CHECK_INT(item.process_id, pid);
        CHECK(strcmp(item.name, "test") == 0 && strncmp(item.remote, "tcp:127.0.0.1:", 14) == 0);
        send_bytes(item.fd, "C");
        close(item.fd);
        expect_bytes(client, "C");
        expect_end(client);
        close(client);
    }
    int client = dial(where);
    CHECK_HANDOFF(taker, nearcall_handoff_accept(taker, PATIENCE_MS, &item), NEARCALL_OK);
    CHECK_HANDOFF(taker, nearcall_handoff_give(taker, item.channel, &item, PATIENCE_MS), NEARCALL_OK);
    expect_bytes(client, "HTTP/1.1 200 OK");
    close(client);
    testgiver_stop(pid);
    nearcall_handoff_close(taker);
}

int main(void)
{
    test_begin();
    go_takes();
    int descriptors = test_open_descriptors();
    go_gives();
    go_takes();
    CHECK_INT(test_open_descriptors(), descriptors);
    return 0;
}
