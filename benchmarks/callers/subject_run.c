/*
 * A whole run of a program: spawn, exec, what it prints, exit. Its output comes
 * through a pipe, which is read to its end, and its exit code is looked at.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "caller.h"

extern char **environ;

enum { arguments_max = 32, output_bytes_max = 1 << 16 };

struct run {
    char *arguments[arguments_max + 1];
    const char *expected; /* what it prints begins with it */
};

/* Reads to the end; returns how much of it was kept, or -1. */
static ssize_t read_all(int fd, char *output, size_t bytes_max)
{
    size_t have = 0;
    char rest[4096];

    for (;;) {
        ssize_t bytes = have < bytes_max ? read(fd, output + have, bytes_max - have) : read(fd, rest, sizeof rest);

        if (bytes == 0)
            return (ssize_t)have;
        if (bytes < 0 && errno != EINTR)
            return -1;
        if (bytes > 0 && have < bytes_max)
            have += (size_t)bytes;
    }
}

static int spawn(const struct run *run, int output, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);

    if (error != 0)
        return error;
    error = posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    if (error == 0)
        error = posix_spawn(pid, run->arguments[0], &actions, NULL, run->arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

static int is_good(const struct run *run, const char *output, ssize_t bytes, int status)
{
    size_t wanted = strlen(run->expected);

    if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && bytes >= (ssize_t)wanted && memcmp(output, run->expected, wanted) == 0)
        return 1;
    fprintf(stderr, "caller: %s: wait status %d, output %.*s\n", run->arguments[0], status, bytes > 0 ? (int)bytes : 0, output);
    return 0;
}

static int call(void *state)
{
    static char output[output_bytes_max];
    const struct run *run = state;
    int ends[2], error, status = 0;
    pid_t pid = 0;
    ssize_t bytes;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return subject_failed("pipe");
    error = spawn(run, ends[1], &pid);
    close(ends[1]);
    bytes = read_all(ends[0], output, sizeof output);
    close(ends[0]);
    if (error != 0) {
        fprintf(stderr, "caller: %s: %s\n", run->arguments[0], strerror(error));
        return -1;
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return is_good(run, output, bytes, status) ? 0 : -1;
}

/* Address: run:EXPECTED:PROGRAM ARGUMENT ..., separated by single spaces. */
static int parse(struct run *run, const char *address)
{
    char *words, *command, *rest;
    size_t count = 0;

    if (strncmp(address, "run:", strlen("run:")) != 0 || (words = strdup(address + strlen("run:"))) == NULL ||
        (command = strchr(words, ':')) == NULL)
        return -1;
    *command++ = '\0';
    run->expected = words;
    for (char *word = strtok_r(command, " ", &rest); word != NULL && count < arguments_max; word = strtok_r(NULL, " ", &rest))
        run->arguments[count++] = word;
    return count > 0 ? 0 : -1;
}

static int open_run(const struct subject *subject, void *state, const char *address, size_t payload_bytes)
{
    (void)subject;
    (void)payload_bytes;
    if (parse(state, address) == 0)
        return call(state);
    fprintf(stderr, "caller: %s: expected run:EXPECTED:PROGRAM ARGUMENT ...\n", address);
    return -1;
}

const struct subject run_subjects[] = {{.name = "run", .state_bytes = sizeof(struct run), .open = open_run, .call = call}, {0}};
