/* What the program wants to be told, and who tells it. */
#ifndef NC_HANDLE_HOOKS_H
#define NC_HANDLE_HOOKS_H

#include <stdbool.h>
#include <stddef.h>

#include "nearcall.h"

struct nc_hooks {
    void (*finished)(void *argument, nearcall_call_id call); /* NULL: nobody is told */
    void *finished_argument;
    bool telling; /* nearcall_process() is calling finished */
    bool closed; /* which has closed the handle meanwhile */
    void (*log)(void *argument, int level, const char *text); /* NULL: nobody is told */
    void *log_argument;
};

/* Only where there is a hook. */
void nc_log_write(const nearcall_client *client, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Arguments are not looked at when nobody is told. */
#define nc_log(client, ...)                                      \
    do {                                                         \
        if (__builtin_expect((client)->hooks.log != NULL, 0))    \
            nc_log_write(client, __VA_ARGS__);                   \
    } while (0)

#endif
