/* Where the socket for children lies: where the environment says, if that is this
 * user's alone. The runtime reads it when the program begins, so each case is a program. */
#include "embed_test.h"

#include <grp.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

/* The program of a case. */
static int lies_in(const char *directory)
{
    char expected[PATH_MAX];
    nearcall_client *client = test_open(embed_address(""), 0);
    embed_echo(client, 1);
    snprintf(expected, sizeof(expected), "%s/", directory);
    if (strncmp(embed_place()->path, expected, strlen(expected)) != 0) {
        fprintf(stderr, "the socket is %s, not in %s\n", embed_place()->path, directory);
        return 1;
    }
    nearcall_close(client);
    return 0;
}

static void run(void *expected)
{
    execl("/proc/self/exe", "embed_place", expected, (char *)NULL);
    CHECK(!"execl");
}

static void check(const char *runtime, const char *expected)
{
    if (runtime)
        CHECK_INT(setenv("XDG_RUNTIME_DIR", runtime, 1), 0);
    else
        CHECK_INT(unsetenv("XDG_RUNTIME_DIR"), 0);
    test_join(test_fork(run, (void *)(uintptr_t)expected));
}

static void counts(void *client)
{
    embed_call_none(client, "count");
}

/* Who is not root may neither give files away nor enter what is root's. */
static void ordinary_user(void *address)
{
    if (geteuid() == 0)
        CHECK_INT(setgroups(0, NULL) | setgid(12345) | setuid(12345), 0);
    nearcall_client *client = test_open(address, 0);
    embed_echo(client, 1);
    test_join(test_fork(counts, client));
    CHECK_INT(embed_call_none(client, "count"), 2);
    nearcall_close(client);
}

static void check_ordinary_user(void)
{
    char address[300];
    snprintf(address, sizeof(address), "embed:%s", embed_copy("libordinary.so", 0, NULL, "\x7f", 1));
    CHECK_INT(chmod(address + strlen("embed:"), 0755), 0);
    CHECK_INT(chmod(test_directory(), 0755), 0);
    CHECK_INT(unsetenv("XDG_RUNTIME_DIR") | unsetenv("TMPDIR"), 0);
    test_join(test_fork(ordinary_user, address));
}

int main(int count, char **arguments)
{
    char runtime[200], inside[300], temporary[300];
    if (count == 2)
        return lies_in(arguments[1]);
    test_begin();
    snprintf(runtime, sizeof(runtime), "%s/run", test_directory());
    snprintf(inside, sizeof(inside), "%s/nearcall-embed", runtime);
    snprintf(temporary, sizeof(temporary), "%s/nearcall-embed-%d", test_directory(), (int)geteuid());
    CHECK_INT(setenv("TMPDIR", test_directory(), 1), 0);
    check(NULL, temporary);
    check("", temporary);
    check(runtime, temporary); /* there is none */
    CHECK_INT(mkdir(runtime, 0700), 0);
    check(runtime, inside);
    CHECK_INT(chmod(runtime, 0755), 0);
    check(runtime, temporary);
    CHECK_INT(chmod(runtime, 0700), 0);
    if (geteuid() == 0) { /* somebody became root and kept the environment */
        CHECK_INT(chown(runtime, 12345, 12345), 0);
        check(runtime, temporary);
    }
    check_ordinary_user();
    return 0;
}
