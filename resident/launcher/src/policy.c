#include "policy.h"

#include "footprint.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#ifndef NC_POLICY_FILE
#define NC_POLICY_FILE "/etc/nearcall/resident.policy"
#endif

enum { POLICY_BYTES = 65536, KIB_PER_MIB = 1024 };

struct policy {
    int forbids;
    int has_list;
    int is_listed;
    unsigned residents_max;  /* 0: any number */
    unsigned memory_mib_max; /* 0: any amount */
};

static const char blanks[] = " \t\r";

/* 0, or -1: the word is no number above 0. */
static int number_of(const char *word, unsigned *ret_number)
{
    unsigned number = 0;
    for (; *word >= '0' && *word <= '9' && number < 1000000; word++)
        number = number * 10 + (unsigned)(*word - '0');
    *ret_number = number;
    return *word == '\0' && number > 0 ? 0 : -1;
}

/* A star at the end stands for anything. */
static int matches(const char *pattern, const char *program)
{
    size_t length = strlen(pattern);
    if (length > 0 && pattern[length - 1] == '*')
        return strncmp(pattern, program, length - 1) == 0;
    return strcmp(pattern, program) == 0;
}

/* 0, or -1: it is not understood. */
static int read_line(struct policy *policy, char *line, const char *program)
{
    line += strspn(line, blanks);
    if (*line == '\0' || *line == '#')
        return 0;
    char *value = line + strcspn(line, blanks);
    if (*value != '\0')
        *value++ = '\0';
    value += strspn(value, blanks);
    for (size_t length = strlen(value); length > 0 && strchr(blanks, value[length - 1]) != NULL; length--)
        value[length - 1] = '\0';
    if (strcmp(line, "forbid") == 0) {
        policy->forbids = 1;
        return *value == '\0' ? 0 : -1;
    }
    if (strcmp(line, "residents") == 0)
        return number_of(value, &policy->residents_max);
    if (strcmp(line, "memory_mib") == 0)
        return number_of(value, &policy->memory_mib_max);
    if (strcmp(line, "allow") != 0 || *value != '/')
        return -1;
    policy->has_list = 1;
    policy->is_listed |= matches(value, program);
    return 0;
}

/* Reads the lines of the text. 0, or the number of the one that is not understood. */
static unsigned read_lines(struct policy *policy, char *text, const char *program)
{
    for (unsigned number = 1; *text != '\0'; number++) {
        char *end = text + strcspn(text, "\n");
        char *next = *end == '\0' ? end : end + 1;
        *end = '\0';
        if (read_line(policy, text, program) != 0)
            return number;
        text = next;
    }
    return 0;
}

/* The bytes of the file, 0 where there is none, or -1 with the reason. */
static ssize_t read_file(char text[POLICY_BYTES], struct reason *reason)
{
    size_t bytes = 0;
    ssize_t got = 1;
    text[0] = '\0';
    int fd = open(NC_POLICY_FILE, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : nc_because(reason, "the policy " NC_POLICY_FILE " cannot be read", errno);
    while (got > 0 && bytes < POLICY_BYTES - 1)
        if ((got = read(fd, text + bytes, POLICY_BYTES - 1 - bytes)) > 0)
            bytes += (size_t)got;
    int error = errno;
    close(fd);
    text[bytes] = '\0';
    if (got < 0)
        return nc_because(reason, "the policy " NC_POLICY_FILE " cannot be read", error);
    if (bytes == POLICY_BYTES - 1)
        return nc_because(reason, "the policy " NC_POLICY_FILE " is too long", 0);
    return (ssize_t)bytes;
}

/* 0, or -1 with the reason: there are more, or they take more, than a user may have. */
static int check_footprint(const struct policy *policy, const struct place *place, struct reason *reason)
{
    struct footprint is;
    char message[NC_REASON_BYTES], number[NC_NUMBER_BYTES];
    if (policy->residents_max == 0 && policy->memory_mib_max == 0)
        return 0;
    nc_footprint(place, &is);
    if (policy->residents_max != 0 && is.residents >= policy->residents_max)
        nc_join(message, sizeof(message), "the policy " NC_POLICY_FILE " allows no more than ",
                nc_number(number, policy->residents_max), " residents of a user");
    else if (policy->memory_mib_max != 0 && is.memory_kib / KIB_PER_MIB >= policy->memory_mib_max)
        nc_join(message, sizeof(message), "the policy " NC_POLICY_FILE " starts no more residents when those of a user take ",
                nc_number(number, policy->memory_mib_max), " MiB");
    else
        return 0;
    return nc_because(reason, message, 0);
}

int nc_policy_check(const struct place *place, const char *program, struct reason *reason)
{
    static char text[POLICY_BYTES];
    struct policy policy = {0};
    char message[NC_REASON_BYTES], number[NC_NUMBER_BYTES];
    ssize_t bytes = read_file(text, reason);
    if (bytes <= 0)
        return (int)bytes;
    unsigned wrong = read_lines(&policy, text, program);
    if (wrong != 0) {
        nc_join(message, sizeof(message), "line ", nc_number(number, wrong), " of the policy " NC_POLICY_FILE " is not understood");
        return nc_because(reason, message, 0);
    }
    if (policy.forbids)
        return nc_because(reason, "the policy " NC_POLICY_FILE " forbids residents", 0);
    if (policy.has_list && !policy.is_listed)
        return nc_because(reason, "the policy " NC_POLICY_FILE " does not list it", 0);
    return check_footprint(&policy, place, reason);
}
