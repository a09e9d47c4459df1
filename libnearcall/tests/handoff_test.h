/* What the tests of handoffs share: connections, givers beside the test, and a giver
 * that says byte for byte what it sends. */
#ifndef HANDOFF_TEST_H
#define HANDOFF_TEST_H

#include <pthread.h>

#include "handoff/frame.h"
#include "nearcall_handoff.h"
#include "test.h"

#define CHECK_HANDOFF(handoff, actual, expected)                                          \
    handoff_check(__FILE__, __LINE__, #actual, (handoff), (actual), (expected))

/* Longer than anything here takes. */
#define PATIENCE_MS 20000

void handoff_check(const char *file, int line, const char *what, const nearcall_handoff *handoff,
                   int actual, int expected);

/* An address in the test's directory, another one each time. */
const char *handoff_address(void);

nearcall_handoff *handoff_listen(const char *address, uint32_t flags);
/* Connects to a handle of this process, which answers meanwhile. */
nearcall_handoff *handoff_connect(const char *address, uint32_t flags, nearcall_handoff *taker);

/* Both ends of a TCP connection. */
void tcp_pair(int *ret_client, int *ret_served);

/* Whether bytes come from the descriptor, and nothing else before them. */
void expect_bytes(int fd, const char *bytes);
void expect_end(int fd);
void send_bytes(int fd, const char *bytes);

/* The Go program of handoffs, with an option; line is what it says behind "ready". */
pid_t testgiver_start(const char *option, const char *value, char *line, size_t line_bytes);
void testgiver_stop(pid_t pid);

/* A give in a thread of its own. */
struct giving {
    nearcall_handoff *handoff;
    uint64_t channel;
    nearcall_handoff_item item;
    int64_t timeout_ms;
    int result;
    pthread_t thread;
};

void giving_start(struct giving *giving, nearcall_handoff *handoff, int fd, int64_t timeout_ms);
int giving_end(struct giving *giving);

/* Connects to the address by hand, and says hello where that is wanted. */
int raw_connect(const char *address, bool greet);
void raw_send(int fd, const void *bytes, size_t count, const int *fds, unsigned fds_count);
/* A GIVE of a connection called "hostile"; its number of bytes. */
size_t raw_give(uint8_t *out, uint64_t id);
size_t raw_frame(uint8_t *out, const struct nc_handoff_frame *frame);
/* Reads the next frame and checks its type and reason. */
void raw_expect(int fd, int type, int reason);

#endif
