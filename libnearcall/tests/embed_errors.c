/* What stands against loading a library says so, and what to do instead. */
#include "embed_test.h"

#include <elf.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

static void refused(const char *address, int code, const char *words)
{
    nearcall_client *client;
    int r = nearcall_open(&client, address, NULL);
    CHECK_CALL(client, r, code);
    if (strstr(nearcall_error_message(client), words) == NULL) {
        fprintf(stderr, "%s: %s\n", address, nearcall_error_message(client));
        CHECK(!"the words");
    }
    CHECK_OUTCOME(client, NEARCALL_OUTCOME_NOT_EXECUTED);
    nearcall_close(client);
}

static const char *address_of(const char *path)
{
    static char address[600];
    snprintf(address, sizeof(address), "embed:%s", path);
    return address;
}

static void addresses(void *unused)
{
    (void)unused;
    refused("embed:", NEARCALL_E_INVALID_ARGUMENT, "the path of a Go library");
    refused("embed:/x.so?children=all", NEARCALL_E_INVALID_ARGUMENT, "children=parent");
    refused("unix:/x?children=own", NEARCALL_E_INVALID_ARGUMENT, "the parameters are");
}

static void missing(void *unused)
{
    (void)unused;
    refused("embed:/no/such.so", NEARCALL_E_FAILED_PRECONDITION, "nearcall build");
}

static void another_architecture(void *unused)
{
    (void)unused;
    static const char machine[2] = {EM_S390, 0};
    static const char class[1] = {sizeof(void *) == 8 ? ELFCLASS32 : ELFCLASS64};
    const char *path = embed_copy("foreign.so", offsetof(Elf64_Ehdr, e_machine), NULL, machine, 2);
    refused(address_of(path), NEARCALL_E_FAILED_PRECONDITION, "another architecture");
    path = embed_copy("narrow.so", EI_CLASS, NULL, class, 1);
    refused(address_of(path), NEARCALL_E_FAILED_PRECONDITION, "another architecture");
}

static void no_library(void *unused)
{
    (void)unused;
    refused(address_of("/dev/zero"), NEARCALL_E_FAILED_PRECONDITION, "not a shared library");
    refused(address_of(test_directory()), NEARCALL_E_FAILED_PRECONDITION, "not a shared library");
    const char *path = embed_copy("part.so", 0, NULL, ELFMAG, SELFMAG);
    CHECK_INT(truncate(path, 100000), 0); /* as by a copy that is under way */
    refused(address_of(path), NEARCALL_E_FAILED_PRECONDITION, "incomplete or damaged");
    CHECK_INT(truncate(path, 10), 0);
    refused(address_of(path), NEARCALL_E_FAILED_PRECONDITION, "not a shared library");
    CHECK(unlink(path) == 0 && mkfifo(path, 0600) == 0);
    refused(address_of(path), NEARCALL_E_FAILED_PRECONDITION, "not a shared library");
}

/* It is refused unloaded, for no Go runtime can be unloaded. */
static void without_embed(void *unused)
{
    (void)unused;
    const char *path = embed_copy("bare.so", -1, "nearcall_embed_library", "nearcall_embed_libraby", 22);
    refused(address_of(path), NEARCALL_E_FAILED_PRECONDITION, "without Nearcall");
    CHECK(!test_has_mapping("bare.so"));
    nearcall_client *client = test_open(embed_address(""), 0); /* its runtime is the only one */
    embed_echo(client, 10);
    nearcall_close(client);
}

static void another_version(void *unused)
{
    (void)unused;
    char program[400], address[500];
    ssize_t bytes = readlink("/proc/self/exe", program, sizeof(program) - 1);
    CHECK(bytes > 0);
    program[bytes] = '\0';
    *strrchr(program, '/') = '\0';
    snprintf(address, sizeof(address), "embed:%s/libstranger.so", program);
    refused(address, NEARCALL_E_FAILED_PRECONDITION, "build both from the same release");
}

static void two_libraries(void *unused)
{
    (void)unused;
    nearcall_client *first = test_open(embed_address(""), 0);
    embed_echo(first, 10);
    refused(address_of(embed_copy("second.so", 0, NULL, ELFMAG, 4)), NEARCALL_E_FAILED_PRECONDITION,
            "Go code in this process already");
    embed_echo(first, 10);
    nearcall_client *again = test_open(embed_address(""), 0); /* the same one is none */
    embed_echo(again, 10);
    nearcall_close(again);
    nearcall_close(first);
}

static nearcall_client *own;

static void has_its_own(void *unused)
{
    (void)unused;
    embed_echo(own, 10);
    embed_expect_transport(own, "same process");
    CHECK_INT(embed_call_none(own, "count"), 1);
}

/* Opened before the fork, loaded after it. */
static void a_library_for_each(void *unused)
{
    (void)unused;
    own = test_open(embed_address("?children=own"), 0);
    for (int i = 0; i < 3; i++)
        test_join(test_fork(has_its_own, NULL));
    nearcall_close(own);
}

int main(void)
{
    static void (*const bodies[])(void *) = {addresses,       missing,       another_architecture, no_library, without_embed,
                                             another_version, two_libraries, a_library_for_each};
    test_begin();
    test_directory();
    /* Each in a process of its own: what a process has loaded stays there. */
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++)
        test_join(test_fork(bodies[i], NULL));
    return 0;
}
