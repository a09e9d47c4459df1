#include "functions.h"

#include <stdio.h>
#include <string.h>

#include "protocol.h"

struct known_function {
    const char *name;
    void (*put)(nearcall_client *client);
    int (*is_expected)(const nearcall_value *value);
};

static void put_nothing(nearcall_client *client)
{
    nearcall_put_array(client, 0);
}

static int is_one(const nearcall_value *value)
{
    return value->type == NEARCALL_INT && value->as.integer == 1;
}

static void put_ack(nearcall_client *client)
{
    nearcall_put_array(client, 2);
    nearcall_put_int(client, 3);
    nearcall_put_int(client, 4);
}

static int is_ack(const nearcall_value *value)
{
    return value->type == NEARCALL_INT && value->as.integer == 125;
}

static void put_md5(nearcall_client *client)
{
    static const char text[] = "hoge";

    nearcall_put_array(client, 1);
    nearcall_put_string(client, text, sizeof text - 1);
}

static int is_md5(const nearcall_value *value)
{
    static const char expected[] = "ea703e7aa1efda0064eaa507d9e8ab7e";

    return value->type == NEARCALL_STRING && value->count == sizeof expected - 1 &&
           memcmp(value->as.data, expected, sizeof expected - 1) == 0;
}

static const struct known_function all[] = {
    {"one", put_nothing, is_one}, {"ack", put_ack, is_ack}, {"md5", put_md5, is_md5}};

const struct known_function *known_function(const char *name)
{
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(all[i].name, name) == 0)
            return &all[i];
    }
    fprintf(stderr, "caller: %s: there are one, ack and md5\n", name);
    return NULL;
}

const char *known_function_name(const struct known_function *known)
{
    return known->name;
}

int known_function_call(const struct known_function *known, nearcall_client *client, nearcall_function *function,
                        nearcall_reply *reply)
{
    nearcall_reader reader;
    nearcall_value value;
    int r = nearcall_request(client, function, NEARCALL_CODEC_MSGPACK);

    if (r == NEARCALL_OK) {
        known->put(client);
        r = nearcall_request_call(client, 0, reply);
    }
    if (r != NEARCALL_OK) {
        fprintf(stderr, "caller: %s: %s\n", known->name, nearcall_error_message(client));
        return -1;
    }
    reader.next = reply->data;
    reader.end = reply->data + reply->bytes;
    if (nearcall_read(&reader, &value) != NEARCALL_OK || !known->is_expected(&value)) {
        fprintf(stderr, "caller: %s answered what it never does\n", known->name);
        return -1;
    }
    return 0;
}

int transport_of(const nearcall_client *client)
{
    const char *name = nearcall_transport(client);

    if (strcmp(name, "same process") == 0)
        return TRANSPORT_SAME_PROCESS;
    return strcmp(name, "shared memory") == 0 ? TRANSPORT_SHARED_MEMORY : TRANSPORT_SOCKET;
}
