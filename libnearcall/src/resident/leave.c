/* A resident leaves. */
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "resident/resident.h"

/* From here on nobody finds this resident; what is in the backlog is still done. */
void nc_resident_leave(nearcall_resident *resident, const char *why)
{
    if (resident->leaving)
        return;
    resident->leaving = true;
    fprintf(stderr, "nearcall: process %ld leaves: %s\n", (long)getpid(), why);
    nc_resident_place_remove(resident);
    /* Whoever waits takes what is there, or goes. */
    for (struct nc_resident_worker *worker = resident->workers; worker; worker = worker->next)
        if (worker->lease >= 0)
            shutdown(worker->lease, SHUT_WR);
}
