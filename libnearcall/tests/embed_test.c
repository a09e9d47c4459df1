#include "embed_test.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *library(void)
{
    const char *path = getenv("NEARCALL_TESTLIBRARY");
    return path ? path : "../build/libtestlibrary.so";
}

const char *embed_address(const char *parameters)
{
    static _Thread_local char address[512]; /* threads ask at once */
    snprintf(address, sizeof(address), "embed:%s%s", library(), parameters);
    return address;
}

const char *embed_copy(const char *name, long offset, const char *from, const char *to, size_t bytes)
{
    static char path[512];
    struct stat status;
    int source = open(library(), O_RDONLY | O_CLOEXEC);
    CHECK(source >= 0 && fstat(source, &status) == 0);
    size_t size = (size_t)status.st_size;
    char *content = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, source, 0);
    CHECK(content != MAP_FAILED);
    char *place = offset >= 0 ? content + offset : NULL;
    for (size_t from_start = 0; from && (place = memmem(content + from_start, size - from_start, from, bytes)) != NULL;
         from_start = (size_t)(place - content) + bytes)
        memcpy(place, to, bytes);
    if (!from)
        memcpy(content + offset, to, bytes);
    snprintf(path, sizeof(path), "%s/%s", test_directory(), name);
    int target = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
    CHECK(target >= 0 && write(target, content, size) == (ssize_t)size);
    close(target);
    close(source);
    munmap(content, size);
    return path;
}

const struct nearcall_embed_place *embed_place(void)
{
    nearcall_embed_library_function *function;
    *(void **)&function = dlsym(dlopen(library(), RTLD_NOW | RTLD_NOLOAD), NEARCALL_EMBED_SYMBOL);
    CHECK(function != NULL);
    return function()->place;
}

static int64_t call_int(nearcall_client *client)
{
    nearcall_reply reply;
    CHECK_CALL(client, nearcall_request_call(client, 10000, &reply), NEARCALL_OK);
    return test_read_int(&reply);
}

int64_t embed_call_int(nearcall_client *client, const char *name, int64_t argument)
{
    nearcall_function *function = test_find(client, name);
    test_request_int(client, function, argument);
    return call_int(client);
}

int64_t embed_call_none(nearcall_client *client, const char *name)
{
    nearcall_function *function = test_find(client, name);
    CHECK_CALL(client, nearcall_request(client, function, NEARCALL_CODEC_MSGPACK), NEARCALL_OK);
    nearcall_put_array(client, 0);
    return call_int(client);
}

void embed_echo(nearcall_client *client, size_t bytes)
{
    nearcall_reply reply;
    uint8_t *data = malloc(bytes + 1);
    CHECK(data != NULL);
    memset(data, (int)(bytes % 251), bytes);
    CHECK_CALL(client, nearcall_call(client, "echo", data, bytes, 10000, &reply), NEARCALL_OK);
    CHECK_INT(reply.bytes, bytes);
    CHECK(memcmp(reply.data, data, bytes) == 0);
    free(data);
}

void embed_expect_transport(const nearcall_client *client, const char *expected)
{
    if (strcmp(nearcall_transport(client), expected) != 0) {
        fprintf(stderr, "the calls travel over \"%s\", want \"%s\"\n", nearcall_transport(client), expected);
        CHECK(!"transport");
    }
}
