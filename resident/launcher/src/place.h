/* Where a program's resident is: the directory, and the names in it. */
#ifndef NC_PLACE_H
#define NC_PLACE_H

#include "program.h"
#include "reason.h"

#include <limits.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { NC_PLACE_NAME_BYTES = 64 };

struct place {
    char directory[PATH_MAX - 128]; /* room for a name and what is added to it */
    char name[NC_PLACE_NAME_BYTES]; /* PROGRAM-IDENTITY */
    int directory_fd;               /* -1 unless the socket's path is too long for its address */
    struct sockaddr_un address;
};

/* Fills `place`, makes the directory if there is none, and refuses one that
 * others could reach. 0, or -1 with the reason. */
int nc_place_find(struct place *place, const struct program *program, struct reason *reason);

/* The path of the file with this ending, as ".lock". */
void nc_place_path(const struct place *place, const char *ending, char path[PATH_MAX]);

#endif
