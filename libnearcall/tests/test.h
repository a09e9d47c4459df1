/* What every test program uses: checks, a bound on its time, a private directory,
 * the real test server as a process. A failed check ends the program. */
#ifndef TEST_H
#define TEST_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "nearcall.h"

#define CHECK(condition)                                                                  \
    do {                                                                                  \
        if (!(condition))                                                                 \
            test_failed(__FILE__, __LINE__, #condition);                                  \
    } while (0)

#define CHECK_INT(actual, expected)                                                       \
    test_check_int(__FILE__, __LINE__, #actual, (long long)(actual), (long long)(expected))

/* The call's return value; on a mismatch the handle's message is shown. */
#define CHECK_CALL(client, actual, expected)                                              \
    test_check_call(__FILE__, __LINE__, #actual, (client), (actual), (expected))

#define CHECK_OUTCOME(client, expected)                                                   \
    test_check_outcome(__FILE__, __LINE__, (client), (expected))

void test_failed(const char *file, int line, const char *what) __attribute__((noreturn));
void test_check_int(const char *file, int line, const char *what, long long actual,
                    long long expected);
void test_check_call(const char *file, int line, const char *what, nearcall_client *client,
                     int actual, int expected);
void test_check_outcome(const char *file, int line, nearcall_client *client, int expected);

/* Starts the bound; called first. */
void test_begin(void);

/* A directory of this test, removed at its end. */
const char *test_directory(void);

double test_now_ms(void);

/* Lateness may be the machine's: what must end in time is tried this often, and one
 * that is in time is enough. Too early is wrong at once. */
#define TEST_TRIES 8

/* Whether took_ms is within 50 ms after timeout_ms; fails when it is before. */
bool test_in_time(double took_ms, double timeout_ms);

/* Whether a call that missed its deadline has the outcome that it is expected to have, as
 * far as the server is to tell it: false when there was no answer within the grace. */
bool test_answered_in_time(nearcall_client *client, int expected);

/* How much slower this run may be: 1, more under valgrind and sanitizers. */
double test_slowness(void);

/* A number given to the test as an environment variable. */
long test_parameter(const char *name, long otherwise);

/* The number of open descriptors of this process. */
int test_open_descriptors(void);

/* Whether a mapping with that in its name is in this process. */
bool test_has_mapping(const char *name);

/* A child that ends with 0 when its body passed. */
pid_t test_fork(void (*body)(void *), void *argument);
void test_join(pid_t pid);

/* A TCP socket whose closing waits for so long: it lingers over data that its peer, which
 * stays open, never reads. */
#define TEST_LINGER_S 15
int test_lingering(int *ret_peer);

/* ---- The real server ---- */

struct server {
    pid_t pid;
    char address[160];
};

void server_start(struct server *server);
void server_start_with_files(struct server *server); /* whose functions pass files */
void server_start_with_stores(struct server *server, size_t value_bytes_max); /* for values above the frame */
void server_start_at(struct server *server, const char *address);
/* One of "1", "2", "3": functions of which the second declares some otherwise. */
void server_start_generation(struct server *server, const char *generation);
/* Another one in its place, at the same address. */
void server_replace(struct server *server, const char *generation);
void server_stop(struct server *server);
void server_kill(struct server *server);
void server_pause(struct server *server); /* SIGSTOP, and waits until it stands */
void server_go_on(struct server *server);

/* ---- Short ways ---- */

nearcall_client *test_open(const char *address, uint32_t flags);
nearcall_client *test_open_with(const char *address, const nearcall_options *options);
nearcall_function *test_find(nearcall_client *client, const char *name);
/* Begins a request of one integer. */
void test_request_int(nearcall_client *client, nearcall_function *function, int64_t value);
int64_t test_read_int(const nearcall_reply *reply);

#endif
