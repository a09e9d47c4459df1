/* Calls within the process, and from its children to it. */
#include "embed_test.h"

#include <sys/wait.h>
#include <unistd.h>

static nearcall_client *client;

static void answers(void)
{
    embed_expect_transport(client, "same process");
    for (size_t bytes = 0; bytes < 3000000; bytes = bytes * 3 + 1)
        embed_echo(client, bytes);
    CHECK_INT(embed_call_none(client, "one"), 1);
    CHECK_INT(embed_call_none(client, "goroutine"), 1);
    CHECK_INT(embed_call_none(client, "process_id"), getpid());
    for (int64_t depth = 1; depth < 200000; depth *= 7)
        CHECK_INT(embed_call_int(client, "deep", depth), depth);
    CHECK_INT(embed_call_none(client, "collect"), 1);
    nearcall_reply reply;
    CHECK_CALL(client, nearcall_call_codec(client, "deep", NEARCALL_CODEC_JSON, "[7]", 3, 0, &reply), NEARCALL_OK);
    CHECK(reply.codec == NEARCALL_CODEC_JSON && reply.bytes == 1 && reply.data[0] == '7');
}

/* A library takes blocks, and so does whatever serves the children of the process. */
static void blocks(void)
{
    static double values[1000], results[1000];
    size_t count = 0;
    nearcall_reply reply;
    values[999] = 1.5;
    CHECK_CALL(client, nearcall_request(client, test_find(client, "scale"), NEARCALL_CODEC_PACKED), NEARCALL_OK);
    nearcall_put_array(client, 2);
    nearcall_put_packed(client, NEARCALL_ELEMENT_FLOAT64, values, 1000);
    nearcall_put_int(client, 2);
    CHECK_CALL(client, nearcall_request_call(client, 0, &reply), NEARCALL_OK);
    CHECK_INT(reply.codec, NEARCALL_CODEC_PACKED);
    CHECK_INT(reply.bytes, 8 + sizeof(values));
    nearcall_reader reader = {reply.data, reply.data + reply.bytes};
    CHECK_INT(nearcall_read_numbers(&reader, NEARCALL_ELEMENT_FLOAT64, results, 1000, &count), NEARCALL_OK);
    CHECK(count == 1000 && results[0] == 0 && results[999] == 3);
}

static void errors(void)
{
    nearcall_reply reply;
    CHECK_CALL(client, nearcall_call(client, "panic", "\x91\xa1x", 3, 0, &reply), NEARCALL_E_INVALID_ARGUMENT);
    nearcall_function *panics = test_find(client, "panic");
    CHECK_CALL(client, nearcall_request(client, panics, NEARCALL_CODEC_MSGPACK), NEARCALL_OK);
    nearcall_put_array(client, 1);
    nearcall_put_string(client, "no", 2);
    CHECK_CALL(client, nearcall_request_call(client, 0, &reply), NEARCALL_E_INTERNAL);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_EXECUTED);
    CHECK_CALL(client, nearcall_call(client, "no such", "", 0, 0, &reply), NEARCALL_E_UNIMPLEMENTED);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    nearcall_function *fails = test_find(client, "fail");
    CHECK_CALL(client, nearcall_request(client, fails, NEARCALL_CODEC_MSGPACK), NEARCALL_OK);
    nearcall_put_array(client, 2);
    nearcall_put_int(client, 5);
    nearcall_put_string(client, "gone", 4);
    CHECK_CALL(client, nearcall_request_call(client, 0, &reply), NEARCALL_E_NOT_FOUND);
    CHECK(strcmp(nearcall_error_message(client), "gone") == 0);
    size_t details_bytes;
    CHECK(nearcall_error_details(client, &details_bytes) != NULL && details_bytes > 0);
}

static void replies_have_a_limit(void)
{
    nearcall_reply reply;
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    options.frame_bytes_max = 65536;
    nearcall_client *small = test_open_with(embed_address(""), &options);
    embed_echo(small, 65536);
    static uint8_t large[65537];
    CHECK_CALL(small, nearcall_call(small, "echo", large, sizeof(large), 0, &reply), NEARCALL_E_RESOURCE_EXHAUSTED);
    CHECK_OUTCOME(small, NEARCALL_OUTCOME_EXECUTED_RESULT_LOST);
    embed_echo(small, 100);
    nearcall_close(small);
}

/* The first call of a function that turns out to be slow lasts; the next ones end at
 * their deadlines. */
static void slow_functions_can_be_left(void)
{
    nearcall_reply reply;
    CHECK_INT(embed_call_int(client, "block", 100), 100);
    bool in_time = false;
    for (int i = 0; i < TEST_TRIES && !in_time; i++) {
        test_request_int(client, test_find(client, "block"), 2000);
        double begun = test_now_ms();
        CHECK_CALL(client, nearcall_request_call(client, 50, &reply), NEARCALL_E_DEADLINE_EXCEEDED);
        in_time = test_in_time(test_now_ms() - begun, 50);
    }
    CHECK(in_time);
    embed_expect_transport(client, "same process");
    embed_echo(client, 64);
}

static void pipelined(void)
{
    nearcall_call_id calls[16];
    nearcall_reply reply;
    nearcall_function *add = test_find(client, "block");
    for (int64_t i = 0; i < 16; i++) {
        test_request_int(client, add, i);
        CHECK_CALL(client, nearcall_request_send(client, 10000, &calls[i]), NEARCALL_OK);
    }
    for (int64_t i = 15; i >= 0; i--) {
        CHECK_CALL(client, nearcall_wait(client, calls[i], &reply), NEARCALL_OK);
        CHECK_INT(test_read_int(&reply), i);
    }
}

/* ---- Children ---- */

static void child_calls(void *unused)
{
    (void)unused;
    for (int i = 0; i < 100; i++)
        embed_echo(client, 64);
    embed_expect_transport(client, "shared memory");
    CHECK_INT(embed_call_none(client, "goroutine"), 1);
    CHECK_INT(embed_call_none(client, "process_id"), getppid());
    blocks();
    embed_call_none(client, "count");
}

static void child_opens_another(void *unused)
{
    client = test_open(embed_address(""), 0);
    child_calls(unused);
    nearcall_close(client);
}

static void grandchild(void *unused)
{
    (void)unused;
    embed_call_none(client, "count");
}

static void child_forks(void *unused)
{
    (void)unused;
    test_join(test_fork(grandchild, NULL));
    embed_call_none(client, "count");
}

/* It could not even enter the directory any more. */
static void child_is_somebody_else(void *unused)
{
    if (getuid() == 0)
        CHECK_INT(setgid(12345) | setuid(12345), 0);
    child_calls(unused);
}

static void state_is_shared(void)
{
    int64_t before = embed_call_none(client, "count");
    test_join(test_fork(child_calls, NULL));
    test_join(test_fork(child_opens_another, NULL));
    test_join(test_fork(child_forks, NULL));
    test_join(test_fork(child_is_somebody_else, NULL));
    CHECK_INT(embed_call_none(client, "count"), before + 6);
}

static void loads_too(void *said)
{
    int fd = *(int *)said;
    nearcall_client *another = test_open(embed_address(""), 0);
    embed_echo(another, 1);
    nearcall_close(another);
    CHECK_INT(write(fd, "l", 1), 1);
}

/* Who only has the path finds its own parent, whoever else has loaded the file. */
static void child_has_no_descriptors(void *unused)
{
    (void)unused;
    for (int fd = 3; fd < 64; fd++)
        close(fd);
    CHECK_INT(embed_call_none(client, "process_id"), getppid());
}

static void others_load_the_same(pid_t other, int go, int done)
{
    char byte;
    CHECK_INT(write(go, "g", 1), 1);
    CHECK_INT(read(done, &byte, 1), 1);
    test_join(other);
    test_join(test_fork(child_has_no_descriptors, NULL));
}

static void child_must_not(void *unused)
{
    (void)unused;
    nearcall_reply reply;
    nearcall_client *own = test_open(embed_address("?children=own"), 0);
    CHECK_CALL(own, nearcall_call(own, "one", "", 0, 0, &reply), NEARCALL_E_FAILED_PRECONDITION);
    CHECK_OUTCOME(own, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK(strstr(nearcall_error_message(own), "forked") != NULL);
    nearcall_close(own);
}

/* The runtime's handler would wait in a child for threads that are not there. */
static void a_crash_of_a_child_ends_it(void)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        raise(SIGSEGV);
        _exit(0);
    }
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

int main(void)
{
    test_begin();
    int go[2], done[2];
    CHECK(pipe(go) == 0 && pipe(done) == 0);
    pid_t other = fork(); /* before there is Go in this process */
    if (other == 0) {
        char byte;
        CHECK_INT(read(go[0], &byte, 1), 1);
        loads_too(&done[1]);
        exit(0);
    }
    client = test_open(embed_address(""), 0);
    answers();
    blocks();
    errors();
    replies_have_a_limit();
    slow_functions_can_be_left();
    pipelined();
    state_is_shared();
    others_load_the_same(other, go[1], done[0]);
    test_join(test_fork(child_must_not, NULL));
    a_crash_of_a_child_ends_it();
    nearcall_close(client);
    return 0;
}
