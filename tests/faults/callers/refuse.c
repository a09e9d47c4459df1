/*
 * Runs a command whose kernel refuses one system call with an error, as under a
 * seccomp profile; of calls with many meanings only those whose argument has the
 * given value in the bits of the mask.
 *
 *     refuse NUMBER ERRNO ARGUMENT MASK VALUE COMMAND...
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* The lower half of an argument; this is for little-endian machines. */
static unsigned argument_offset(unsigned argument)
{
    return (unsigned)offsetof(struct seccomp_data, args) + 8 * argument;
}

static int install(unsigned number, unsigned error, unsigned argument, unsigned mask, unsigned value)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument_offset(argument)),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int main(int argc, char **argv)
{
    unsigned numbers[5];
    if (argc < 7)
        return 2;
    for (int i = 0; i < 5; i++)
        numbers[i] = (unsigned)strtoul(argv[i + 1], NULL, 0);
    if (install(numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]) != 0) {
        fprintf(stderr, "refuse: %s\n", strerror(errno));
        return 2;
    }
    execv(argv[6], argv + 6);
    fprintf(stderr, "refuse: %s: %s\n", argv[6], strerror(errno));
    return 2;
}
