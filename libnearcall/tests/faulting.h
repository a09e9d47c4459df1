/* A source of which the end is not there at first. Who copies it is interrupted in the middle of
 * the copy by a fault, and goes on when the handler of SIGSEGV has made the end appear. */
#ifndef NEARCALL_TESTS_FAULTING_H
#define NEARCALL_TESTS_FAULTING_H

#include <signal.h>
#include <sys/mman.h>

#include "test.h"

#ifndef BYTES
#define BYTES (256 * 1024)
#define MISSING (128 * 1024) /* from where on */
#endif

static uint8_t *source;
static volatile sig_atomic_t has_faulted;

static void make_source(void (*on_fault)(int signal_number))
{
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_NODEFER};
    source = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(source != MAP_FAILED);
    for (size_t i = 0; i < BYTES; i++)
        source[i] = (uint8_t)(i * 31 + i / 251);
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
}

static void hide_the_end(void)
{
    has_faulted = 0;
    CHECK(mprotect(source + MISSING, BYTES - MISSING, PROT_NONE) == 0);
}

/* In the handler. A second fault is none of the source's. */
static void begin_fault(void)
{
    CHECK(!has_faulted);
    has_faulted = 1;
}

static void show_the_end(void)
{
    CHECK(mprotect(source + MISSING, BYTES - MISSING, PROT_READ | PROT_WRITE) == 0);
}

#endif
