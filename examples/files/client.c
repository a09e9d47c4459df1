/*
 * The client in C; it leaves the compressed page in a file:
 *
 *     cc client.c -lnearcall -o client && ./client unix:/tmp/files/nearcall.sock page.gz
 */
#define _POSIX_C_SOURCE 200809L

#include <fcntl.h>
#include <nearcall.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static nearcall_client *go;

static void fail(void)
{
    fprintf(stderr, "%s\n", nearcall_error_message(go));
    exit(1);
}

/* Starts a call with so many arguments; nearcall_put_...() adds them. */
static void begin(const char *name, uint32_t arguments)
{
    nearcall_function *function;

    if (nearcall_find(go, name, strlen(name), 0, &function) != NEARCALL_OK ||
        nearcall_request(go, function, NEARCALL_CODEC_MSGPACK) != NEARCALL_OK)
        fail();
    nearcall_put_array(go, arguments);
}

/* Makes the call and reads its one result. */
static nearcall_value finish(void)
{
    nearcall_reply reply;
    nearcall_value result;

    if (nearcall_request_call(go, 0, &reply) != NEARCALL_OK)
        fail();
    nearcall_reader reader = {reply.data, reply.data + reply.bytes};
    if (nearcall_read(&reader, &result) != NEARCALL_OK)
        exit(1);
    return result;
}

/* A descriptor that is ours to close; not taken, it would be closed with the reply. */
static int open_page(const char *name)
{
    begin("open_page", 1);
    nearcall_put_string(go, name, strlen(name));
    return nearcall_take_file(go, finish().as.integer);
}

/* The request gets duplicates: both descriptors stay ours. */
static long long compress(int source, int target)
{
    begin("compress", 2);
    nearcall_put_file(go, source);
    nearcall_put_file(go, target);
    return finish().as.integer;
}

int main(int argc, char **argv)
{
    char text[100];

    if (argc != 3) {
        fprintf(stderr, "usage: client ADDRESS FILE\n");
        return 2;
    }
    if (nearcall_open(&go, argv[1], NULL) != NEARCALL_OK)
        fail();
    int page = open_page("hello.txt");
    ssize_t bytes = read(page, text, sizeof(text));
    printf("page: %.*s", (int)bytes, text);

    lseek(page, 0, SEEK_SET); /* both sides share the position in a file */
    int target = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    printf("compressed: %lld bytes\n", compress(page, target));
    close(page);
    close(target);
    nearcall_close(go);
    return 0;
}
