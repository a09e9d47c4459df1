/* Writers apart from a handle: the same bytes as puts write, requests that are put together beside each
 * other, a writer of one handle's function that is kept while the handle makes other calls, and what is
 * refused. */
#include <fcntl.h>
#include <unistd.h>

#include "test.h"

static nearcall_writer *new_writer(void)
{
    nearcall_writer *writer = NULL;
    CHECK_INT(nearcall_writer_new(&writer), NEARCALL_OK);
    return writer;
}

static void expect_data(const nearcall_writer *writer, const char *bytes, size_t count)
{
    const uint8_t *data;
    size_t data_bytes;
    CHECK_INT(nearcall_writer_data(writer, &data, &data_bytes), NEARCALL_OK);
    CHECK_INT(data_bytes, count);
    CHECK(memcmp(data, bytes, count) == 0);
}
#define EXPECT_DATA(writer, bytes) expect_data(writer, bytes, sizeof(bytes) - 1)

static void every_value(void)
{
    nearcall_writer *writer = new_writer();
    nearcall_write_array(writer, 11);
    nearcall_write_nil(writer);
    nearcall_write_bool(writer, 1);
    nearcall_write_int(writer, -33);
    nearcall_write_uint(writer, UINT64_MAX);
    nearcall_write_float(writer, 1.5f);
    nearcall_write_double(writer, -2);
    nearcall_write_string(writer, "text", 4);
    nearcall_write_bytes(writer, "\0\1", 2);
    nearcall_write_time(writer, 5, 0);
    nearcall_write_map(writer, 1);
    nearcall_write_string(writer, "k", 1);
    nearcall_write_int(writer, 7);
    nearcall_write_array(writer, 0);
    EXPECT_DATA(writer, "\x9b\xc0\xc3\xd0\xdf\xcf\xff\xff\xff\xff\xff\xff\xff\xff\xca\x3f\xc0\0\0"
                        "\xcb\xc0\0\0\0\0\0\0\0\xa4text\xc4\2\0\1\xd6\xff\0\0\0\5\x81\xa1k\7\x90");
    nearcall_writer_free(writer);
}

static void one_value_for_a_reply(void)
{
    nearcall_writer *writer = new_writer();
    nearcall_write_string(writer, "hello", 5);
    EXPECT_DATA(writer, "\xa5hello");
    CHECK_INT(nearcall_writer_begin(writer, NULL, NEARCALL_CODEC_RAW), NEARCALL_OK);
    char *room = nearcall_write_reserve(writer, 8);
    CHECK(room != NULL);
    memcpy(room, "bytes", 5);
    CHECK_INT(nearcall_write_commit(writer, 5), NEARCALL_OK);
    nearcall_write_raw(writer, "!", 1);
    EXPECT_DATA(writer, "bytes!");
    CHECK_INT(nearcall_writer_begin(writer, NULL, NEARCALL_CODEC_RAW), NEARCALL_OK);
    EXPECT_DATA(writer, "");
    nearcall_writer_free(writer);
}

/* Beyond what the request of a handle would have in shared memory. */
static void large(void)
{
    enum { BYTES = 3 << 20 };
    static uint8_t data[BYTES];
    const uint8_t *written;
    size_t bytes;
    nearcall_writer *writer = new_writer();
    memset(data, 'x', BYTES);
    nearcall_write_array(writer, 2);
    nearcall_write_bytes(writer, data, BYTES);
    nearcall_write_bytes(writer, data, BYTES);
    CHECK_INT(nearcall_writer_data(writer, &written, &bytes), NEARCALL_OK);
    CHECK_INT(bytes, 1 + 2 * (5 + BYTES));
    CHECK(memcmp(written + bytes - BYTES, data, BYTES) == 0);
    nearcall_writer_free(writer);
}

static void refused(nearcall_writer *writer, int code, const char *says)
{
    const char *problem = "";
    const uint8_t *data;
    size_t bytes;
    CHECK_INT(nearcall_writer_check(writer, &problem), code);
    CHECK(strstr(problem, says) != NULL);
    CHECK_INT(nearcall_writer_data(writer, &data, &bytes), code);
    CHECK_INT(nearcall_writer_begin(writer, NULL, NEARCALL_CODEC_MSGPACK), NEARCALL_OK);
    nearcall_write_nil(writer);
    EXPECT_DATA(writer, "\xc0"); /* it can be used again */
    CHECK_INT(nearcall_writer_begin(writer, NULL, NEARCALL_CODEC_MSGPACK), NEARCALL_OK);
}

static void refusals(void)
{
    nearcall_writer *writer = new_writer();
    refused(writer, NEARCALL_E_MISUSE, "fewer elements");
    nearcall_write_array(writer, 2);
    nearcall_write_nil(writer);
    refused(writer, NEARCALL_E_MISUSE, "fewer elements");
    nearcall_write_nil(writer);
    nearcall_write_nil(writer);
    refused(writer, NEARCALL_E_MISUSE, "outside of it");
    nearcall_write_string(writer, NULL, 3);
    refused(writer, NEARCALL_E_MISUSE, "NULL");
    nearcall_write_time(writer, 0, 1000000000);
    refused(writer, NEARCALL_E_INVALID_ARGUMENT, "nanoseconds");
    for (int i = 0; i < 40; i++)
        nearcall_write_array(writer, 1);
    refused(writer, NEARCALL_E_INVALID_ARGUMENT, "deeper");
    CHECK(nearcall_write_reserve(writer, ((size_t)1 << 30) + 1) == NULL);
    refused(writer, NEARCALL_E_RESOURCE_EXHAUSTED, "larger");
    CHECK_INT(nearcall_write_commit(writer, 1), NEARCALL_E_MISUSE);
    refused(writer, NEARCALL_E_MISUSE, "commit");
    CHECK_INT(nearcall_writer_begin(writer, NULL, NEARCALL_CODEC_JSON), NEARCALL_OK);
    nearcall_write_nil(writer);
    refused(writer, NEARCALL_E_MISUSE, "not MessagePack");
    CHECK_INT(nearcall_writer_begin(writer, NULL, 3), NEARCALL_E_MISUSE);
    nearcall_writer_free(writer);
}

/* ---- Requests ---- */

static void write_sum(nearcall_writer *writer, nearcall_function *sum, int count)
{
    CHECK_INT(nearcall_writer_begin(writer, sum, NEARCALL_CODEC_MSGPACK), NEARCALL_OK);
    nearcall_write_array(writer, (uint32_t)count);
    for (int i = 1; i <= count; i++)
        nearcall_write_int(writer, i);
}

static void expect_sum(nearcall_client *client, nearcall_writer *writer, int64_t sum)
{
    nearcall_reply reply;
    CHECK_CALL(client, nearcall_request_written(client, writer), NEARCALL_OK);
    CHECK_CALL(client, nearcall_request_call(client, 0, &reply), NEARCALL_OK);
    CHECK_INT(test_read_int(&reply), sum);
}

/* Two are written by turns, while the handle makes calls of its own. */
static void beside_each_other(nearcall_client *client)
{
    nearcall_function *sum = test_find(client, "sum");
    nearcall_writer *one = new_writer(), *other = new_writer();
    nearcall_reply reply;
    for (int i = 0; i < 50; i++) { /* far enough for shared memory, and for several kinds of buffer */
        write_sum(one, sum, i % 2 ? 3 : 3000);
        test_request_int(client, sum, 5);
        write_sum(other, sum, i % 3 ? 4 : 20000);
        CHECK_CALL(client, nearcall_request_call(client, 0, &reply), NEARCALL_OK);
        CHECK_INT(test_read_int(&reply), 5);
        expect_sum(client, other, i % 3 ? 10 : 200010000);
        expect_sum(client, one, i % 2 ? 6 : 4501500);
    }
    nearcall_writer_free(one);
    nearcall_writer_free(other);
}

/* What was begun is dropped, and a failure that the writer kept is that of the call. */
static void takes_the_place(nearcall_client *client)
{
    nearcall_function *sum = test_find(client, "sum");
    nearcall_writer *writer = new_writer();
    nearcall_reply reply;
    test_request_int(client, sum, 7);
    write_sum(writer, sum, 2);
    expect_sum(client, writer, 3);
    CHECK_CALL(client, nearcall_request_written(client, writer), NEARCALL_E_MISUSE); /* it is empty */
    write_sum(writer, sum, 2);
    nearcall_write_nil(writer);
    CHECK_CALL(client, nearcall_request_written(client, writer), NEARCALL_OK);
    CHECK_CALL(client, nearcall_request_call(client, 0, &reply), NEARCALL_E_MISUSE);
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    CHECK_INT(nearcall_writer_begin(writer, NULL, NEARCALL_CODEC_MSGPACK), NEARCALL_OK);
    nearcall_write_nil(writer);
    CHECK_CALL(client, nearcall_request_written(client, writer), NEARCALL_E_MISUSE);
    CHECK(strstr(nearcall_error_message(client), "no function") != NULL);
    EXPECT_DATA(writer, "\xc0"); /* it stays as it was */
    nearcall_writer_free(writer);
}

/* Of a handle there are functions that another must not send by. */
static void of_another_handle(nearcall_client *client, const char *address)
{
    nearcall_client *other = test_open(address, 0);
    nearcall_function *sum = test_find(client, "sum");
    nearcall_writer *writer = new_writer();
    (void)test_find(other, "sum");
    write_sum(writer, sum, 3);
    CHECK_CALL(other, nearcall_request_written(other, writer), NEARCALL_E_MISUSE);
    CHECK(strstr(nearcall_error_message(other), "another handle") != NULL);
    (void)test_find(client, "divmod"); /* it is not the last that was found */
    expect_sum(client, writer, 6);
    nearcall_writer_free(writer);
    nearcall_close(other);
}

/* The writer that gave its request away is as a new one, whatever the handle's last request was. */
static void empty_afterwards(nearcall_client *client)
{
    nearcall_function *sum = test_find(client, "sum");
    nearcall_writer *writer = new_writer();
    nearcall_reply reply;
    for (int i = 0; i < 3; i++) {
        write_sum(writer, sum, 2);
        CHECK_CALL(client, nearcall_request(client, sum, i == 0 ? NEARCALL_CODEC_RAW : NEARCALL_CODEC_MSGPACK), NEARCALL_OK);
        if (i == 1)
            nearcall_put_time(client, 0, 1000000000); /* a failure that the handle keeps */
        else if (i == 2)
            nearcall_put_nil(client); /* a value, which no other may follow */
        CHECK_CALL(client, nearcall_request_written(client, writer), NEARCALL_OK);
        nearcall_write_nil(writer);
        EXPECT_DATA(writer, "\xc0");
        CHECK_CALL(client, nearcall_request_call(client, 0, &reply), NEARCALL_OK);
    }
    nearcall_writer_free(writer);
}

static void in_flight(nearcall_client *client)
{
    nearcall_function *sum = test_find(client, "sum");
    nearcall_call_id calls[20];
    nearcall_writer *writer = new_writer();
    nearcall_reply reply;
    for (int i = 0; i < 20; i++) {
        write_sum(writer, sum, i);
        CHECK_CALL(client, nearcall_request_written(client, writer), NEARCALL_OK);
        CHECK_CALL(client, nearcall_request_send(client, 0, &calls[i]), NEARCALL_OK);
    }
    for (int i = 19; i >= 0; i--) {
        CHECK_CALL(client, nearcall_wait(client, calls[i], &reply), NEARCALL_OK);
        CHECK_INT(test_read_int(&reply), i * (i + 1) / 2);
    }
    nearcall_writer_free(writer);
}

/* A child has a copy of what was written. */
static void in_a_child(void *argument)
{
    void **both = argument;
    expect_sum(both[0], both[1], 15);
    nearcall_writer_free(both[1]);
    nearcall_close(both[0]);
}

static void over_a_fork(nearcall_client *client)
{
    nearcall_writer *writer = new_writer();
    void *both[] = {client, writer};
    write_sum(writer, test_find(client, "sum"), 5);
    test_join(test_fork(in_a_child, both));
    expect_sum(client, writer, 15);
    nearcall_writer_free(writer);
}

static void files(void)
{
    struct server server;
    nearcall_reply reply;
    int descriptors = test_open_descriptors();
    server_start_with_files(&server);
    nearcall_client *client = test_open(server.address, 0);
    nearcall_writer *writer = new_writer();
    char path[200];
    snprintf(path, sizeof(path), "%s/written", test_directory());
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && write(fd, "lines\n", 6) == 6 && lseek(fd, 0, SEEK_SET) == 0);
    CHECK_INT(nearcall_writer_begin(writer, test_find(client, "file_read"), NEARCALL_CODEC_MSGPACK), NEARCALL_OK);
    nearcall_write_array(writer, 1);
    nearcall_write_file(writer, fd);
    CHECK_INT(close(fd), 0); /* the writer has a duplicate */
    CHECK_CALL(client, nearcall_request_written(client, writer), NEARCALL_OK);
    CHECK_CALL(client, nearcall_request_call(client, 0, &reply), NEARCALL_OK);
    CHECK(reply.bytes >= 6 && memcmp(reply.data + reply.bytes - 6, "lines\n", 6) == 0);
    nearcall_write_array(writer, 1);
    nearcall_write_file(writer, 0);
    nearcall_writer_free(writer); /* with a file that was never sent */
    nearcall_close(client);
    server_stop(&server);
    CHECK_INT(test_open_descriptors(), descriptors);
}

int main(void)
{
    struct server server;
    test_begin();
    every_value();
    one_value_for_a_reply();
    large();
    refusals();
    server_start(&server);
    nearcall_client *client = test_open(server.address, 0);
    beside_each_other(client);
    takes_the_place(client);
    of_another_handle(client, server.address);
    empty_afterwards(client);
    in_flight(client);
    over_a_fork(client);
    nearcall_close(client);
    server_stop(&server);
    files();
    return 0;
}
