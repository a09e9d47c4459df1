/* What of a process is compared with its resident, and who it is. */
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "resident/resident.h"
#include "test.h"

static void check_group(const char *line, const char *compared)
{
    size_t bytes = nc_resident_group_bytes(line, strlen(line));
    CHECK_INT(bytes, strlen(compared));
    CHECK(strncmp(line, compared, bytes) == 0);
}

/* Windows and logins of a user are alike; what was started with limits of its own is not. */
static void check_groups(void)
{
    check_group("0::/", "0::/");
    check_group("0::/user.slice/user-1000.slice/session-3.scope", "0::/user.slice/user-1000.slice");
    check_group("0::/user.slice/user-1000.slice", "0::/user.slice/user-1000.slice");
    check_group("4:memory:/user.slice/user-1000.slice/user@1000.service/app.slice/app-org.gnome.Terminal.slice/vte-spawn-1.scope",
                "4:memory:/user.slice/user-1000.slice");
    const char *const alone[] = {
        "0::/system.slice/cron.service",
        "0::/user.slice/user-.slice/session-3.scope",
        "0::/user.slice/user-1000.slices/session-3.scope",
        "0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-r1.scope",
        "0::/user.slice/user-1000.slice/user@1000.service/app.slice/own.service",
        "0::/user.slice/user-1000.slice/user@.service/session-1.scope",
        "0::/user.slice/user-1000.slice/user@1000.services",
    };
    for (size_t i = 0; i < sizeof(alone) / sizeof(alone[0]); i++)
        check_group(alone[i], alone[i]);
}

static void read_own(struct nc_resident_standing *ret_standing)
{
    int directory = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    CHECK(directory >= 0);
    CHECK(nc_resident_standing_read(ret_standing, directory, 0, NULL));
    close(directory);
}

/* A kernel that does not tell which signals a process ignores says that of none. */
static void check_untold(void)
{
    static struct nc_resident_standing standing;
    char path[] = "/tmp/nctest-XXXXXX";
    CHECK(mkdtemp(path));
    int directory = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int status = openat(directory, "status", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(dprintf(status, "Uid:\t0\t0\t0\t0\n") > 0);
    memset(&standing, 0xff, sizeof(standing));
    CHECK(nc_resident_standing_read(&standing, directory, 0, NULL));
    CHECK_INT(standing.ignored, 0);
    CHECK(unlinkat(directory, "status", 0) == 0 && rmdir(path) == 0);
    close(status);
    close(directory);
}

static void check_difference(void)
{
    static struct nc_resident_standing one, other;
    const char *name;
    read_own(&one);
    read_own(&other);
    CHECK_INT(nc_resident_standing_difference(&one, &other, &name), 0);
    CHECK(strstr(one.text, "\nNoNewPrivs:\t") && strstr(one.text, "\nSeccomp:\t") && strstr(one.text, "\nlogin user:"));
    strcat(other.text, "more:1\n");
    other.bytes = strlen(other.text);
    CHECK_INT(nc_resident_standing_difference(&one, &other, &name), 4);
    CHECK(strncmp(name, "more", 4) == 0);
    CHECK_INT(nc_resident_standing_difference(&other, &one, &name), 4);
    strstr(other.text, "NoNewPrivs:\t")[strlen("NoNewPrivs:\t")] = '1';
    CHECK(nc_resident_standing_difference(&one, &other, &name) == strlen("NoNewPrivs") && strncmp(name, "NoNewPrivs", 10) == 0);
    CHECK(strstr(nc_resident_standing_restriction(&other), "no_new_privs"));
}

/* What a process's directory in /proc says of it: the file, the line's name, "" where the file is the
 * value, and the name of the property. */
static const struct told {
    const char *file, *line, *value, *property;
} told[] = {
    {"status", "Uid", "1000\t1000\t1000\t1000", "Uid"},
    {"status", "Gid", "1000\t1000\t1000\t1000", "Gid"},
    {"status", "CapInh", "01", "CapInh"},
    {"status", "CapPrm", "02", "CapPrm"},
    {"status", "CapEff", "03", "CapEff"},
    {"status", "CapBnd", "04", "CapBnd"},
    {"status", "CapAmb", "05", "CapAmb"},
    {"status", "NoNewPrivs", "0", "NoNewPrivs"},
    {"status", "Seccomp", "0", "Seccomp"},
    {"status", "Seccomp_filters", "0", "Seccomp_filters"},
    {"status", "Speculation_Store_Bypass", "vulnerable", "Speculation_Store_Bypass"},
    {"status", "SpeculationIndirectBranch", "always enabled", "SpeculationIndirectBranch"},
    {"status", "Cpus_allowed", "3", "Cpus_allowed"},
    {"status", "Mems_allowed", "1", "Mems_allowed"},
    {"status", "TracerPid", "0", "TracerPid"},
    {"loginuid", "", "1000", "login user"},
    {"attr/current", "", "unconfined", "security label"},
    {"cgroup", "", "0::/own", "control group"},
};
enum { TOLD = sizeof(told) / sizeof(told[0]) };

/* Reads the standing of a process for which such files say that, except for one property. */
static void read_told(struct nc_resident_standing *ret_standing, const struct told *except)
{
    char path[] = "/tmp/nctest-XXXXXX";
    CHECK(mkdtemp(path));
    int directory = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    CHECK(mkdirat(directory, "attr", 0700) == 0);
    for (const struct told *each = told; each < told + TOLD; each++) {
        int file = openat(directory, each->file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
        const char *value = each == except ? "7" : each->value;
        CHECK(dprintf(file, "%s%s%s\n", each->line, *each->line ? ":\t" : "", value) > 0);
        close(file);
    }
    CHECK(nc_resident_standing_read(ret_standing, directory, 0, NULL));
    for (const struct told *each = told; each < told + TOLD; each++)
        unlinkat(directory, each->file, 0);
    CHECK(unlinkat(directory, "attr", AT_REMOVEDIR) == 0 && rmdir(path) == 0);
    close(directory);
}

/* Whatever is compared makes a difference by itself. */
static void check_each_property(void)
{
    static struct nc_resident_standing own, other;
    const char *name;
    read_told(&own, NULL);
    for (const struct told *each = told; each < told + TOLD; each++) {
        read_told(&other, each);
        CHECK_INT(nc_resident_standing_difference(&own, &other, &name), strlen(each->property));
        CHECK(strncmp(name, each->property, strlen(each->property)) == 0);
    }
}

/* More filters than the first process has, and none that nobody can count. */
static void check_filters(void)
{
    static struct nc_resident_standing filtered;
    filtered.bytes = (size_t)sprintf(filtered.text, "Uid:\t0\nNoNewPrivs:\t0\nSeccomp:\t2\nSeccomp_filters:\t77\n");
    CHECK(strstr(nc_resident_standing_restriction(&filtered), "seccomp"));
    strcpy(strstr(filtered.text, "Seccomp_filters"), "");
    CHECK(strstr(nc_resident_standing_restriction(&filtered), "seccomp"));
    strcpy(strstr(filtered.text, "2\n"), "0\n");
    CHECK(!nc_resident_standing_restriction(&filtered));
}

/* ---- Who it is ---- */

static void connect_to(void *argument)
{
    struct sockaddr_un address;
    socklen_t bytes = sizeof(address);
    int *listener = argument, connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(getsockname(*listener, (struct sockaddr *)&address, &bytes) == 0);
    CHECK(connect(connection, (struct sockaddr *)&address, bytes) == 0);
}

/* The number of a process that has ended may be another's. */
static void check_peer(void)
{
    const struct sockaddr_un any = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(listener, (const struct sockaddr *)&any, sizeof(any.sun_family)) == 0 && listen(listener, 2) == 0);
    connect_to(&listener);
    int own = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    CHECK(nc_resident_peer_is_there(own));
    test_join(test_fork(connect_to, &listener));
    int ended = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    CHECK(!nc_resident_peer_is_there(ended));
    int before = test_open_descriptors();
    CHECK(nc_resident_peer_is_there(own));
    CHECK_INT(test_open_descriptors(), before);
    close(own);
    close(ended);
    close(listener);
}

int main(void)
{
    test_begin();
    check_groups();
    check_untold();
    check_difference();
    check_each_property();
    check_filters();
    check_peer();
    return 0;
}
