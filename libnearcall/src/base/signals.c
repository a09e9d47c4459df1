#include "base/signals.h"

#include <stddef.h>

void nc_block_signals(sigset_t *ret_former)
{
    static const int needed[] = {SIGURG, SIGPROF, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
    sigset_t all;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
        sigdelset(&all, needed[i]);
    pthread_sigmask(SIG_BLOCK, &all, ret_former);
}
