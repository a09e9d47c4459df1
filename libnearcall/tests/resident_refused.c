/* Whoever would not get what he has himself runs the program himself; others get nothing. */
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "resident_test.h"

extern char **environ;

static const char *const once[] = {"NCTEST*", "NCONE", NULL};

struct attempt {
    const struct resident *resident;
    char *const *environment;
    int fds_count;
    const char *refusal; /* NULL: nothing is answered at all */
};

static void attempt(const struct attempt *attempt)
{
    uint8_t data[65536];
    struct frame frame;
    const char *const arguments[] = {attempt->resident->program, "exit", "1", NULL};
    const int fds[] = {0, 1, 2, open("/", O_PATH | O_CLOEXEC)};
    int connection = resident_connect(attempt->resident);
    size_t bytes = request_make(data, sizeof(data), NC_RESIDENT_RUN, 0, arguments, attempt->environment);
    /* A stranger's connection may have ended already. */
    if (!attempt->refusal)
        (void)send(connection, data, bytes, MSG_NOSIGNAL);
    if (attempt->refusal) {
        request_send(connection, data, bytes, fds, attempt->fds_count);
        frame_expect(connection, NC_RESIDENT_PLAINLY, &frame);
        if (!strstr(frame.text, attempt->refusal))
            fprintf(stderr, "%s, not %s\n", frame.text, attempt->refusal);
        CHECK(strstr(frame.text, attempt->refusal));
    }
    CHECK_INT(frame_next(connection, &frame), 0);
    close(connection);
    close(fds[3]);
}

/* They end at once: what a sanitizer looks for at the end needs /proc, and other rights. */
static void as_other_user(void *argument)
{
    CHECK(setgroups(0, NULL) == 0 && setgid(65534) == 0 && setuid(65534) == 0);
    attempt(argument);
    _exit(0);
}

static void with_other_groups(void *argument)
{
    const gid_t group = 12345;
    CHECK(setgroups(1, &group) == 0);
    attempt(argument);
    _exit(0);
}

static void with_other_group(void *argument)
{
    CHECK(setgid(12345) == 0);
    attempt(argument);
    _exit(0);
}

/* Who may not read the caller's limits has lost nothing by it. */
static void with_other_real_group(void *argument)
{
    CHECK(setresgid(12345, (gid_t)-1, (gid_t)-1) == 0);
    attempt(argument);
    _exit(0);
}

static void in_other_namespace(void *argument)
{
    CHECK(unshare(CLONE_NEWUTS) == 0);
    attempt(argument);
    _exit(0);
}

static void in_other_root(void *argument)
{
    struct attempt own = *(struct attempt *)argument;
    struct resident resident = *own.resident;
    CHECK(chroot(test_directory()) == 0 && chdir("/") == 0);
    snprintf(resident.path, sizeof(resident.path), "%s", strrchr(own.resident->path, '/'));
    own.resident = &resident;
    attempt(&own);
    _exit(0);
}

/* Who speaks for itself, and not by a launcher, is looked at all the same. */
static void with_no_new_privileges(void *argument)
{
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    attempt(argument);
    _exit(0);
}

static void with_smaller_bounding_set(void *argument)
{
    CHECK(prctl(PR_CAPBSET_DROP, CAP_NET_RAW, 0, 0, 0) == 0);
    attempt(argument);
    _exit(0);
}

static void with_other_nice(void *argument)
{
    CHECK(nice(1) != -1);
    attempt(argument);
    _exit(0);
}

static void with_session_keyring(void *argument)
{
    enum { ADD_KEY_TO_SESSION = -3, JOIN_SESSION = 1 };
    CHECK(syscall(SYS_keyctl, JOIN_SESSION, NULL) > 0);
    CHECK(syscall(SYS_add_key, "user", "nearcall-test", "1", (size_t)1, ADD_KEY_TO_SESSION) > 0);
    attempt(argument);
    _exit(0);
}

static void in_child(void (*body)(void *), struct attempt *what, const char *refusal)
{
    what->refusal = refusal;
    test_join(test_fork(body, what));
}

static void check_variables(struct attempt what)
{
    char *const more[] = {"NCTEST_TWO=2", NULL}, *const other[] = {"LD_PRELOAD=", NULL};
    char *const fine[] = {"NCTES=1", "NCONES=1", "PATH=/", NULL};
    struct frame report;
    what.refusal = "the variable NCTEST_TWO is";
    what.environment = more;
    attempt(&what);
    what.refusal = "the variable LD_PRELOAD is";
    what.environment = other;
    attempt(&what);
    resident_ask(what.resident, NC_RESIDENT_STATUS, &report);
    CHECK(strstr(report.text, "\"runs\":0"));
    uint8_t data[4096];
    struct frame frame;
    const char *const arguments[] = {what.resident->program, "exit", "1", NULL};
    const int fds[] = {0, 1, 2, open("/", O_PATH | O_CLOEXEC)};
    int connection = resident_connect(what.resident);
    request_send(connection, data, request_make(data, sizeof(data), NC_RESIDENT_RUN, 0, arguments, fine), fds, 4);
    frame_expect(connection, NC_RESIDENT_RUNNING, &frame);
    frame_expect(connection, NC_RESIDENT_EXITED, &frame);
    close(connection);
    close(fds[3]);
}

/* One that was started with a variable expects it of everybody. */
static void check_missing_variable(void)
{
    static char home[] = "PATH=";
    const char *const names[] = {"PATH", NULL};
    nearcall_resident_options options = NEARCALL_RESIDENT_OPTIONS_INIT;
    struct resident resident;
    char *const none[] = {home, NULL};
    options.environment = names;
    resident_start(&resident, &options);
    struct attempt what = {&resident, none, NC_RESIDENT_FDS, "the variable PATH is"};
    attempt(&what);
    what.environment = none + 1;
    attempt(&what);
    resident_stop(&resident);
}

static void check_unreadable_limits(void)
{
    nearcall_resident_options options = NEARCALL_RESIDENT_OPTIONS_INIT;
    struct resident resident;
    struct frame report;
    char text[4096] = "";
    char *const environment[] = {NULL};
    options.workers = 1;
    setenv("NCTEST_LIMIT", "1", 1);
    resident_start(&resident, &options);
    unsetenv("NCTEST_LIMIT");
    struct attempt what = {&resident, environment, NC_RESIDENT_FDS, NULL};
    in_child(with_other_real_group, &what, "Gid");
    resident_ask(&resident, NC_RESIDENT_STATUS, &report); /* by the same, or by who came after it */
    resident_stop(&resident);
    int log = open(resident.log, O_RDONLY | O_CLOEXEC);
    CHECK(log >= 0 && read(log, text, sizeof(text) - 1) > 0);
    CHECK(!strstr(text, "while it waited for a run"));
    close(log);
}

static void with_no_more_limits(void *argument)
{
    resident_drop(CAP_SYS_RESOURCE);
    attempt(argument);
    _exit(0);
}

/* Of higher limits there will be a resident when this one has left. */
static void check_limits(void)
{
    struct resident resident;
    struct rlimit ours;
    char name[] = "LC_ALL=C";
    char *const environment[] = {name, NULL};
    setenv("NCTEST_LIMIT", "1", 1);
    resident_start(&resident, NULL);
    unsetenv("NCTEST_LIMIT");
    CHECK(getrlimit(RLIMIT_CORE, &ours) == 0);
    CHECK(ours.rlim_max > 0);
    struct attempt what = {&resident, environment, NC_RESIDENT_FDS, NULL};
    in_child(with_no_more_limits, &what, "limits are higher");
    CHECK_INT(resident_wait(&resident), 0);
}

/* More descriptors of this user are on the way than a process with few may send. */
static void send_crowd(int socket)
{
    enum { AT_ONCE = 200 };
    union { struct cmsghdr header; char bytes[CMSG_SPACE(AT_ONCE * sizeof(int))]; } control;
    struct iovec part = {"x", 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    memset(&control, 0, sizeof(control));
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(AT_ONCE * sizeof(int));
    CHECK(sendmsg(socket, &message, MSG_NOSIGNAL) == 1);
}

/* A run of which the supervisor would not know is none. Its caller has few files too, but not
 * before it has sent its own. */
static void with_few_files(void *argument)
{
    const struct attempt *what = argument;
    const struct rlimit limit = {RESIDENT_TEST_FILES, RESIDENT_TEST_FILES};
    const char *const arguments[] = {what->resident->program, "exit", "1", NULL};
    const int fds[] = {0, 1, 2, open("/", O_PATH | O_CLOEXEC)};
    uint8_t data[4096];
    struct frame frame;
    int ends[2], connection = resident_connect(what->resident);
    size_t bytes = request_make(data, sizeof(data), NC_RESIDENT_RUN, 0, arguments, what->environment);
    request_send(connection, data, 1, fds, NC_RESIDENT_FDS);
    resident_drop(CAP_SYS_ADMIN);
    resident_drop(CAP_SYS_RESOURCE);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    send_crowd(ends[0]);
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(send(connection, data + 1, bytes - 1, MSG_NOSIGNAL) == (ssize_t)bytes - 1);
    frame_expect(connection, NC_RESIDENT_PLAINLY, &frame);
    if (!strstr(frame.text, what->refusal))
        fprintf(stderr, "%s, not %s\n", frame.text, what->refusal);
    CHECK(strstr(frame.text, what->refusal));
    _exit(0);
}

static void check_crowd(void)
{
    struct resident resident;
    char name[] = "LC_ALL=C";
    char *const environment[] = {name, NULL};
    setenv("NCTEST_FILES", "1", 1);
    resident_start(&resident, NULL);
    unsetenv("NCTEST_FILES");
    struct attempt what = {&resident, environment, NC_RESIDENT_FDS, NULL};
    in_child(with_few_files, &what, "too many descriptors");
    resident_await(&resident, "\"waiting\":2");
    resident_stop(&resident);
}

int main(void)
{
    nearcall_resident_options options = NEARCALL_RESIDENT_OPTIONS_INIT;
    struct resident resident;
    test_begin();
    options.environment = once;
    resident_start(&resident, &options);
    struct attempt what = {&resident, NULL, NC_RESIDENT_FDS, NULL};
    CHECK(chmod(test_directory(), 0711) == 0 && chmod(resident.path, 0777) == 0);
    in_child(as_other_user, &what, NULL);
    in_child(with_other_groups, &what, "groups");
    in_child(with_other_group, &what, "groups");
    in_child(in_other_namespace, &what, "namespace");
    in_child(in_other_root, &what, "root directory");
    in_child(with_no_new_privileges, &what, "NoNewPrivs");
    in_child(with_smaller_bounding_set, &what, "CapBnd");
    in_child(with_other_nice, &what, "nice");
    in_child(with_session_keyring, &what, "session keyring");
    what.fds_count = 3;
    what.refusal = "a descriptor did not arrive";
    attempt(&what);
    what.fds_count = NC_RESIDENT_FDS;
    check_variables(what);
    resident_stop(&resident);
    check_missing_variable();
    check_unreadable_limits();
    check_limits();
    check_crowd();
    return 0;
}
